"""Find what somebody has replaced in JAX and NumPy.

`jax.nn.relu = mine`, `unittest.mock.patch` and libraries that patch JAX leave functions
in its modules and classes whose code lies elsewhere; text that calls `jax.nn.relu`, or
anything that calls it, means another program in a clean process. Where names of JAX are
given to other functions of JAX, what its files import is asked.

Rules in tables, and objects that are changed in place, are not looked at.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
import itertools
import operator
import os
import re
import sys
import sysconfig
import types
from collections.abc import Iterable, Iterator, Sequence, ValuesView
from typing import Any, NamedTuple

from untrace.parsing import parse

_PACKAGES = ("jax", "jaxlib", "numpy", "ml_dtypes", "opt_einsum")
_OWN_ROOTS = {*_PACKAGES, *sys.stdlib_module_names, "typing_extensions", "untrace"}
"""Whose classes may stand in those packages: Python's, and ours for the time being."""

_INNER = ("__wrapped__", "__func__", "func", "fget", "fun", "jvp", "fwd", "bwd")
"""Attributes under which wrappers of functions, and rules, hold others."""

_MAX_DEPTH = 5
_PLAIN = (types.ModuleType, str, int, float, complex, tuple, list, dict, type(None))

# What was found clean and its values, by its id. They are held, so that a new one cannot
# have the id of an old one. Going through all of JAX again would cost 50 ms.
_clean: dict[int, tuple[Any, ...]] = {}
_classes: dict[int, list[tuple[str, type]]] = {}


_END = object()


class _AllClean(NamedTuple):
    """When nothing was replaced: asking each owner by itself takes twice as long."""

    modules: list[types.ModuleType]
    namespaces: list[ValuesView[Any]]  # of modules and classes, as they are now
    values: list[Any]  # that they held, and an end

    def is_still_so(self) -> bool:
        """Whether all namespaces hold the values that they held, and there are no more."""
        if not _are_identical(self.modules, list(sys.modules.values())):
            return False
        held = itertools.chain.from_iterable(self.namespaces)
        try:
            return all(map(operator.is_, self.values, itertools.chain(held, (_END,))))
        except RuntimeError:  # another thread imports
            return False


_all_clean: list[_AllClean] = []


def replaced_functions() -> dict[str, str]:
    """Return the functions in JAX and NumPy that are not their own.

    Returns:
      Names such as "jax.nn.relu", the shortest first, with the file that defines what
      is found there.
    """
    if any(snapshot.is_still_so() for snapshot in _all_clean[:]):
        return {}
    found: dict[str, str] = {}
    owners: list[Any] = []
    modules = sys.modules.copy()  # other threads import
    for name, module in modules.items():
        if name.partition(".")[0] not in _PACKAGES:
            continue
        if not _is_known_as_clean(module):
            found |= _replaced_in(name, module)
            _classes[id(module)] = _classes_of(name, module)
        classes = _classes.get(id(module))
        if classes is None:  # another thread is about to note them
            classes = _classes_of(name, module)
        for label, cls in classes:
            if not _is_known_as_clean(cls):
                found |= _replaced_in(label, cls)
        owners += [module, *[cls for _, cls in classes]]
    if not found:
        _all_clean[:] = [_snapshot(list(modules.values()), owners)]
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), item[0])))


def exchanged_names(names: Iterable[str]) -> list[str]:
    """Return those of dotted names under which modules hold something else, or none.

    `jax.tree_map = jax.tree.map` is no name of JAX's elsewhere.

    Args:
      names: Such as "jax.numpy.sin".
    """
    return sorted({name for name in names if _is_exchanged(name)})


def _snapshot(modules: list[types.ModuleType], owners: list[Any]) -> _AllClean:
    known = [_clean[id(owner)] for owner in owners]
    namespaces = [vars(owner).values() for owner in owners]
    values = [value for _, *held in known for value in held]
    return _AllClean(modules, namespaces, [*values, _END])


def _is_known_as_clean(owner: Any) -> bool:
    """Whether a module or class holds what it held when it was found clean."""
    known = _clean.get(id(owner))
    return known is not None and _are_identical(known[1:], list(vars(owner).values()))


def _are_identical(known: Sequence[Any], held: Sequence[Any]) -> bool:
    """Whether two sequences hold the same objects; a proxy equals what it stands for."""
    return len(known) == len(held) and all(map(operator.is_, known, held))


def _replaced_in(name: str, owner: Any) -> dict[str, str]:
    """List the foreign functions of a module or class."""
    items = list(vars(owner).items())
    own, module = _own_folders(), sys.modules.get(name)
    found = {
        f"{name}.{attribute}": file
        for attribute, value in items
        if (file := _foreign_file(value, own))
        and not (owner is module and _is_taken(name, attribute, value))
    }
    if not found:
        _clean[id(owner)] = owner, *[value for _, value in items]
    return found


def _is_taken(module: str, attribute: str, value: Any) -> bool:
    """Whether the file of a module takes what it holds from another package."""
    source, name = _imported_names(module).get(attribute, ("", ""))
    if vars(sys.modules.get(source, types)).get(name) is value:
        return True
    held = {**sys.modules, **vars(sys.modules[module])}
    taken = _assigned_names(module).get(attribute, [])
    return any(getattr(held.get(root), name, None) is value for root, name in taken)


def _classes_of(name: str, module: types.ModuleType) -> list[tuple[str, type]]:
    return [
        (f"{name}.{attribute}", value)
        for attribute, value in list(vars(module).items())
        if isinstance(value, type) and value.__module__ == name
    ]


@functools.cache
def _own_folders() -> tuple[str, ...]:
    """Return where the code of these packages, and of what they are made of, lies."""
    packages = [sys.modules[name] for name in _PACKAGES if name in sys.modules]
    folders = [
        os.path.dirname(str(p.__file__)) + os.sep for p in packages if p.__file__
    ]
    return (*folders, sysconfig.get_path("stdlib") + os.sep)


_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _foreign_file(value: Any, own: tuple[str, ...]) -> str:
    """Return the file of the first function of a value that does not belong to JAX."""
    if type(value).__module__ == "unittest.mock":
        return "unittest.mock"
    if isinstance(value, type) and _is_foreign(value.__module__):
        return getattr(sys.modules[value.__module__], "__file__", None) or "a class"
    for function in _functions(value, 0):
        file = function.__code__.co_filename
        if file.startswith(_HERE):  # for the time being, in another thread
            continue
        if file.startswith("<"):  # of a dataclass, say, or typed in
            if _is_foreign(function.__globals__.get("__name__")):
                return file
            continue
        is_other = "site-packages" in file.removeprefix(own[-1])
        if not file.startswith(own[:-1]) and (is_other or not file.startswith(own)):
            return file
    return ""


def _is_foreign(module: Any) -> bool:
    """Whether a module is neither of these packages nor of Python."""
    root = module.partition(".")[0] if isinstance(module, str) else ""
    return module in sys.modules and root not in _OWN_ROOTS


def _functions(value: Any, depth: int) -> Iterator[types.FunctionType]:
    """Yield a function, and those that it wraps or has as rules; those of a class."""
    if type(value) in _PLAIN or depth > _MAX_DEPTH:
        return
    if isinstance(value, type):
        held = [
            one.__func__ if isinstance(one, (classmethod, staticmethod)) else one
            for one in vars(value).values()
        ]
        yield from (one for one in held if isinstance(one, types.FunctionType))
        return
    is_function = isinstance(value, types.FunctionType)
    called = value if is_function else getattr(type(value), "__call__", None)  # noqa: B004
    if isinstance(called, types.FunctionType):  # else of a class in C
        yield called
    for name in _INNER[:1] if is_function else _INNER:
        held = getattr(value, name, None)
        if callable(held) and not isinstance(held, type):
            yield from _functions(held, depth + 1)


def _is_exchanged(dotted: str) -> bool:
    home, name = _home(dotted)
    module = sys.modules.get(home)
    if module is None or not name or name not in vars(module):
        return False
    source = _imported_names(home).get(name)
    if source is None:
        return not is_own_name(home, name)
    origin = vars(sys.modules.get(source[0], module)).get(source[1])
    value = vars(module)[name]
    if origin is not None and origin is not value:
        return True
    return _is_other_function(value, *source)


def is_own_name(module: str, name: str) -> bool:
    """Whether the file of a module knows a name, which somebody has added otherwise.

    Those in its table of what is no longer there were added, too.
    """
    if name in vars(sys.modules[module]).get("_deprecations", ()):
        return False
    words = _words_of(module)
    is_pythons = name.startswith("__")  # such as `__builtins__`
    return not words or is_pythons or name in words or f"{module}.{name}" in sys.modules


@functools.cache
def _words_of(module: str) -> frozenset[str]:
    """Return the words in the file of a module; none if it cannot be read."""
    try:
        with open(str(sys.modules[module].__file__), encoding="utf-8") as file:
            return frozenset(re.findall(r"\w+", file.read()))
    except (OSError, ValueError):
        return frozenset()


def _home(dotted: str) -> tuple[str, str]:
    """Split a dotted name into a module and the name that is looked up in it."""
    parts = dotted.split(".")
    if parts[0] not in _PACKAGES:
        return "", ""
    for length in range(len(parts) - 1, 0, -1):
        home = ".".join(parts[:length])
        if home in sys.modules:
            return home, parts[length]
    return "", ""


def _is_other_function(value: Any, module: str, name: str) -> bool:
    """Whether a function of this module was defined there under another name."""
    while hasattr(value, "__wrapped__"):
        value = value.__wrapped__
    if not isinstance(value, types.FunctionType):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    code = value.__code__
    if code.co_filename != file or code.co_qualname == name:
        return False
    if "<locals>" in code.co_qualname:  # a decorator made it
        return False
    return name in _defined_names(module)


@functools.cache
def _imported_names(module: str) -> dict[str, tuple[str, str]]:
    """Return the modules and names that the file of a module imports its names from."""
    found: dict[str, tuple[str, str]] = {}
    package = module if _is_package(module) else module.rpartition(".")[0]
    for node in _tree(module).body:
        for name in _rebound(node):
            found.pop(name, None)
        if isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            source = importlib.util.resolve_name(relative, package)
            for alias in node.names:
                found[alias.asname or alias.name] = source, alias.name
    return found


@functools.cache
def _assigned_names(module: str) -> dict[str, list[tuple[str, str]]]:
    """Return what a file gives its names to, `FLAGS = flags.FLAGS`, on any condition.

    Returns:
      The local name, or the module that it is imported from on a condition, and the name
      that is looked up there.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    nodes: list[Any] = [*_tree(module).body]
    for node in nodes:
        match node:
            case ast.If() | ast.Try():
                handlers = [
                    one for each in getattr(node, "handlers", ()) for one in each.body
                ]
                nodes += [*node.body, *node.orelse, *handlers]
            case ast.Assign([ast.Name(name)], ast.Attribute(ast.Name(root), attribute)):
                found.setdefault(name, []).append((root, attribute))
            case ast.Assign([ast.Tuple(names)], ast.Tuple(values)):
                nodes += [ast.Assign([n], v) for n, v in zip(names, values)]
            case ast.ImportFrom(str(source), aliases, 0):
                for one in aliases:
                    found.setdefault(one.asname or one.name, []).append(
                        (source, one.name)
                    )
            case _:
                pass
    return found


def _rebound(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement gives to something else than an import."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        yield node.name
    elif isinstance(node, (ast.Assign, ast.Delete)):
        names = (n for target in node.targets for n in ast.walk(target))
        yield from (n.id for n in names if isinstance(n, ast.Name))


@functools.cache
def _defined_names(module: str) -> frozenset[str]:
    body = _tree(module).body
    return frozenset(node.name for node in body if isinstance(node, ast.FunctionDef))


def _is_package(module: str) -> bool:
    return hasattr(sys.modules[module], "__path__")


def _tree(module: str) -> ast.Module:
    """Parse the file of a module; one that has none is empty."""
    try:
        with open(str(sys.modules[module].__file__), encoding="utf-8") as file:
            return parse(file.read())
    except (OSError, SyntaxError, ValueError):
        return ast.Module([], [])
