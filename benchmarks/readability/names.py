"""What the user called things, by running the tracer and watching; and what came back.

The user's names are observed, not parsed: while the program is traced, a profiler notes
each function of the program's own file that returns, its arguments and its locals, as
far as these hold arrays. Names that hold configuration are not asked for.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax

from benchmarks.readability.corpus import Program
from benchmarks.readability.tokens import functions

JAX = str(Path(jax.__file__).parent)
LAX_CALL = re.compile(r"\blax\.(?:linalg\.)?(\w+)")


@dataclass
class Observed:
    """Names of the user's code that ran.

    Attributes:
      functions: Names of functions; methods such as `__call__` and lambdas have none.
      arguments: Pairs of a function and an argument that holds arrays.
      local_names: Pairs of a function and a local variable that holds arrays.
      parameters: Keys and attributes on the paths to the arguments that are used.
      spelled: Every name that the program's file binds, also where nothing is looked at,
        such as the arguments of lambdas.
      signatures: The arguments of the functions of libraries that ran.
      lax_names: Functions of `jax.lax` that the user's or a framework's code names.
    """

    functions: set[str] = field(default_factory=set)
    arguments: set[tuple[str, str]] = field(default_factory=set)
    local_names: set[tuple[str, str]] = field(default_factory=set)
    parameters: set[str] = field(default_factory=set)
    spelled: set[str] = field(default_factory=set)
    signatures: set[tuple[str, ...]] = field(default_factory=set)
    lax_names: set[str] = field(default_factory=set)


def observe(program: Program) -> Observed:
    """Trace a program and note the names of the user's code."""
    observed = Observed()
    files: set[str] = set()
    own = str(program.path)

    def profile(frame: Any, event: str, _: Any) -> None:
        code = frame.f_code
        files.add(code.co_filename)
        if not code.co_filename.startswith(JAX):
            observed.signatures.add(code.co_varnames[: code.co_argcount])
        if event == "return" and code.co_filename == own:
            _note(observed, frame)

    jax.clear_caches()
    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        jaxpr = _traced(program)
    finally:
        sys.setprofile(before)
    observed.parameters = set(_used_keys(jaxpr, program.args))
    observed.spelled = set(_bound(ast.parse(program.path.read_text())))
    observed.lax_names = _lax_names(files)
    return observed


def _traced(program: Program) -> Any:
    """Trace a program; leaves of its arguments that are no arrays are fixed."""
    leaves, tree = jax.tree.flatten(program.args)

    def function(*arrays: Any) -> Any:
        given = iter(arrays)
        filled = [next(given) if _is_array(leaf) else leaf for leaf in leaves]
        out = program.function(*jax.tree.unflatten(tree, filled))
        return list(filter(_is_array, jax.tree.leaves(out)))

    return jax.make_jaxpr(function)(*filter(_is_array, leaves))


def _note(observed: Observed, frame: Any) -> None:
    code = frame.f_code
    function = code.co_name
    if function.startswith("<"):
        return
    if not function.startswith("__"):
        observed.functions.add(function)
    n_arguments = code.co_argcount + code.co_kwonlyargcount
    arguments = code.co_varnames[:n_arguments]
    for name, value in dict(frame.f_locals).items():
        if name.startswith("_") or name == "self" or name in code.co_freevars:
            continue
        if name in arguments and any(map(_is_array, jax.tree.leaves(value))):
            observed.arguments.add((function, name))
        elif name not in arguments and _holds_arrays(value):
            observed.local_names.add((function, name))


def _is_array(value: Any) -> bool:
    return isinstance(value, jax.Array)


def _holds_arrays(value: Any) -> bool:
    """Tell whether a local is an array or a plain container of arrays.

    Objects of libraries are not asked for: their layers vanish, and so do they.
    """
    if type(value) is dict:
        return any(map(_holds_arrays, value.values()))
    if type(value) in (tuple, list) or _is_namedtuple(value):
        return any(map(_holds_arrays, value))
    return _is_array(value)


def _is_namedtuple(value: Any) -> bool:
    """Tell whether a value is an instance of a NamedTuple class."""
    return isinstance(value, tuple) and hasattr(value, "_fields")


def _used_keys(jaxpr: Any, args: tuple[Any, ...]) -> Iterator[str]:
    """List the keys and attributes on the paths to arguments that are used."""
    inner = jaxpr.jaxpr
    used = {id(v) for eqn in inner.eqns for v in eqn.invars}
    used |= {id(v) for v in inner.outvars}
    leaves = jax.tree_util.tree_leaves_with_path(args)
    paths = [path for path, leaf in leaves if _is_array(leaf)]
    for value, path in zip(inner.invars, paths, strict=True):
        if id(value) not in used:
            continue
        for entry in path:
            name = getattr(entry, "key", getattr(entry, "name", None))
            if isinstance(name, str):
                yield name


def _lax_names(files: set[str]) -> set[str]:
    """List what the code that ran, JAX's own excepted, takes from `jax.lax`."""
    found: set[str] = set()
    for file in files:
        if not file.startswith(JAX) and Path(file).is_file():
            found |= set(LAX_CALL.findall(Path(file).read_text(errors="ignore")))
    return found


@dataclass
class Written:
    """Names in a generated computation.

    Attributes:
      functions: Names of its functions and classes.
      bound: For each function, its arguments and variables.
      keys: Strings that index, attributes and keyword names.
      lambdas: The arguments of its lambdas.
    """

    functions: set[str]
    bound: dict[str, set[str]]
    keys: set[str]
    lambdas: set[tuple[str, ...]]

    def has(self, function: str, name: str) -> bool:
        """Tell whether a name of a user's function came back.

        It must be in the function of the same name; where that was dissolved into its
        caller, anywhere.
        """
        if function in self.bound and name in self.bound[function]:
            return True
        if function in self.bound:
            return False
        return any(name in names for names in self.bound.values())


def written(module: ast.Module) -> Written:
    """Collect the names of a generated computation."""
    bound: dict[str, set[str]] = {}
    for function in functions(module):
        bound.setdefault(function.name, set()).update(_bound(function))
    classes = {n.name for n in ast.walk(module) if isinstance(n, ast.ClassDef)}
    lambdas = {
        tuple([argument.arg for argument in node.args.args])
        for node in ast.walk(module)
        if isinstance(node, ast.Lambda)
    }
    return Written(set(bound) | classes, bound, set(_keys(module)), lambdas)


def _bound(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def _keys(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.arg):
            yield node.arg


def letters(written_names: Written, observed: Observed) -> set[str]:
    """List names of one letter in the user's functions that nobody chose.

    A library chose those of a lambda that has the arguments of its function.
    """
    bound: set[str] = set()
    for function in observed.functions:
        bound |= written_names.bound.get(function, set())
    chosen = observed.spelled.union(*written_names.lambdas & observed.signatures)
    return {name for name in bound if len(name) == 1} - chosen - {"_"}
