"""`anonymous=True`: source that tells nothing of the names of the original.

The finished text is renamed (`syntax.renaming`), whoever wrote it: calls, idioms or
equations. Then it is executed, traced and compared again, with renamed dict keys. Jit
names take no part in the data flow, so "equivalent" is what it can reach where they
occur. Strings that JAX itself reads stay: specs of einsum, axis names, formats.
"""

from __future__ import annotations

import ast
import collections.abc
import re
import sys
import warnings
from collections.abc import Iterator, Set
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured, Leaf, Node, Tree
from untrace.capture.outline import renamed as renamed_outline
from untrace.checking import check_module
from untrace.errors import LiftingError, UnverifiedWarning
from untrace.jaxapi.helpers import HELPERS
from untrace.lifting.blocks.opened import OPENED
from untrace.lifting.recorded.listing import NOT_EXPANDED
from untrace.lifting.recorded.naming.hints import HINTS
from untrace.lifting.rules import NAMES
from untrace.optional import left_out_notes, without_spoilers, writing
from untrace.options import Options
from untrace.parsing import parse
from untrace.pipeline import Progress, untrace_captured
from untrace.result import Source
from untrace.symbolic import is_same_everywhere, untrace_calls
from untrace.syntax.formatting import format_source
from untrace.syntax.names import identifier
from untrace.syntax.renaming import Renamed, rename
from untrace.syntax.text import quote
from untrace.verification.report import Report

NOUNS = {**NAMES, **HINTS, "add_jaxvals": "cotangent", "vmap": "mapped"}
ORIGIN = "an anonymous function"
LEFT = "Strings that are left"
FUNCTION = "function"
"""What functions and kernels are called whose names JAX knows."""
REGION = "is written from its equations"
PUBLIC = frozenset({"jax", "jaxlib", "numpy", "ml_dtypes", "scipy", "jaxtyping"})
OWN_NAMES = ("example_args", "tracing_context", "load_arrays", "CONSTANTS")
_CONSTANT = re.compile(r"\b(?:(?:CONST|REF)_\d+|SIZE(?:_\d+)?)\b")
_QUOTED = re.compile(r"`[^`]*`")


def untrace_anonymous(
    captured: Captured, options: Options, progress: Progress | None = None
) -> Source:
    """Turn a computation into verified source without the names of the original.

    Raises:
      LiftingError: If the file needs a function or class that can only be named.
    """
    captured = replace(captured, result=_without_classes(captured.result))
    options = replace(options, anonymous=True)
    made = writing(lambda: _written(captured, options, progress))
    if options.verify and not made.report.is_verified:
        warnings.warn(
            f"`{made.module.name}`: {made.report}", UnverifiedWarning, stacklevel=3
        )
    return made


def _written(captured: Captured, options: Options, progress: Progress | None) -> Source:
    if captured.recording is not None:
        source = untrace_calls(captured, options, progress)
        try:
            made = _proved(source, options)
        except LiftingError:  # perhaps the equations need no foreign names
            made = None
        if made is not None and (made.report.is_verified or not options.verify):
            return made
        note = "Written from its equations, not from the calls that were made."
        captured = replace(captured, recording=None, notes=(*captured.notes, note))
    return _proved(untrace_captured(captured, options, progress), options)


def _proved(source: Source, options: Options) -> Source:
    return without_spoilers(
        lambda: _anonymous(source, options),
        lambda made: made.report.is_verified or not options.verify,
    )


def _anonymous(source: Source, options: Options) -> Source:
    """Rename everything in a finished file, and verify it again."""
    captured, module = source.captured, source.module
    trees = [p.name for p in captured.parameters if isinstance(p.tree, Node)]
    renamed = rename(
        module.body,
        module.name,
        {*HELPERS, *OWN_NAMES, *_CONSTANT.findall(module.body)},
        set(_keys_of(captured)),
        trees,
        NOUNS,
        identifier(options.name or "function", "function"),
    )
    _check_imports(renamed.text)
    body = format_source(renamed.text, join_lines=True)
    classes = {key: renamed.names[name] for key, name in module.classes.items()}
    name = renamed.names[module.name]
    module = replace(module, body=body, name=name, classes=classes)
    captured = _renamed(captured, renamed, name)
    notes = tuple(_notes((*source.report.notes, *left_out_notes())))
    notes = (*notes, *_left_strings(body, {*renamed.keys.values(), FUNCTION}))
    report = Report("unverified", notes=notes)
    is_rolled = source.report.strength == "rerolled"  # only values tell about its scans
    if options.verify:
        with jaxapi.deep_recursion():
            report = check_module(module, captured, notes, compares_values=is_rolled)
        if is_rolled and report.strength == "numeric":
            report = replace(report, strength="rerolled")
        unproved = tuple(map(_nameless, report.unproved))
        told = tuple(
            f"{one.partition(':')[0].rstrip('.')}." for one in report.differences
        )
        report = replace(
            report, difference=None, line="", unproved=unproved, differences=told
        )
    if captured.dimensions and not is_same_everywhere(module, captured, is_rolled):
        raise LiftingError("it is another program at other sizes when it is renamed")
    report = replace(report, n_equations=source.report.n_equations)
    return Source(module, report, captured, source.program, options)


def _left_strings(body: str, keys: Set[str]) -> tuple[str, ...]:
    """Say which strings of the program a file still holds, but for renamed keys."""
    own = {*OWN_NAMES, *HELPERS}
    found: dict[str, None] = {}
    for statement in parse(body).body:
        is_own = getattr(statement, "name", "") in own or isinstance(statement, ast.If)
        if is_own and getattr(statement, "name", "") != "example_args":
            continue
        if isinstance(statement, ast.Assign) and "CONSTANTS" in ast.unparse(statement):
            continue  # names in the sidecar, which are made here
        for node in ast.walk(statement):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.setdefault(node.value)
    shown = [quote(text) for text in found if text not in keys]
    return (f"{LEFT}: {', '.join(shown)}.",) if shown else ()


def strings_left(report: Report) -> tuple[str, ...]:
    """Return what a report says of the strings that are left, if there are any."""
    return tuple([note for note in report.notes if note.startswith(f"{LEFT}:")])


def _check_imports(text: str) -> None:
    """Refuse a file that imports what is neither JAX's nor Python's."""
    for node in ast.walk(parse(text)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        elif isinstance(node, ast.Attribute) and node.attr == "__untrace_stand_in__":
            raise _refused("a function of the host, which has no other description")
        for module in modules:
            base = module.partition(".")[0]
            if base not in PUBLIC and base not in sys.stdlib_module_names:
                raise _refused(f"what it imports from `{module}`")


def _refused(what: str) -> LiftingError:
    return LiftingError(
        f"the file cannot be anonymous: it needs {what}. Leave that out, or do not pass "
        "anonymous=True."
    )


def _renamed(captured: Captured, renamed: Renamed, name: str) -> Captured:
    """Describe a computation as the renamed file does."""
    parameters = tuple(
        replace(
            p,
            name=renamed.parameters.get(p.name, p.name),
            tree=_with_keys(p.tree, renamed.keys),
        )
        for p in captured.parameters
    )
    dimensions = captured.dimensions
    if dimensions:
        others = [_renamed(sample, renamed, name) for sample in dimensions.samples]
        dimensions = replace(dimensions, samples=tuple(others))
    return replace(
        captured,
        jaxpr=jaxapi.with_kernel_names(captured.jaxpr, FUNCTION),
        name=name,
        origin=ORIGIN,
        dimensions=dimensions,
        parameters=parameters,
        result=_with_keys(captured.result, renamed.keys),
        outline=captured.outline and renamed_outline(captured.outline, renamed.keys),
        notes=(),
    )


def _with_keys(tree: Tree, keys: dict[str, str]) -> Tree:
    """Rename the keys of dicts."""
    if isinstance(tree, Leaf):
        return tree
    children = tuple([_with_keys(child, keys) for child in tree.children])
    if tree.kind not in ("dict", "items"):
        return replace(tree, children=children)
    return replace(
        tree, keys=tuple([_new_key(k, keys) for k in tree.keys]), children=children
    )


def _new_key(key: Any, keys: dict[str, str]) -> Any:
    if isinstance(key, tuple):
        return tuple([_new_key(part, keys) for part in key])  # pyright: ignore[reportUnknownVariableType]
    return keys.get(key, key) if isinstance(key, str) else key


def _keys_of(captured: Captured) -> Iterator[str]:
    """Yield the string keys of arguments and results."""
    trees: list[Tree] = [captured.result, *(p.tree for p in captured.parameters)]
    while trees:
        tree = trees.pop()
        if isinstance(tree, Leaf):
            continue
        trees += tree.children
        if tree.kind in ("dict", "items"):
            for key in tree.keys:
                yield from _strings(key)


def _strings(key: Any) -> Iterator[str]:
    if isinstance(key, str):
        yield key
    elif isinstance(key, tuple):
        for part in key:  # pyright: ignore[reportUnknownVariableType]
            yield from _strings(part)


def _without_classes(tree: Tree) -> Tree:
    """Describe instances of the user's and libraries' classes as NamedTuples."""
    if isinstance(tree, Leaf):
        return tree
    children = tuple([_without_classes(child) for child in tree.children])
    tree = replace(tree, children=children)
    if tree.kind == "fields" and issubclass(tree.cls, collections.abc.Mapping):
        tree = replace(tree, kind="items")  # keys are renamed, keywords are not
    base = str(getattr(tree.cls, "__module__", "")).partition(".")[0]
    if tree.cls is None or base in PUBLIC or base in sys.stdlib_module_names:
        return tree
    if tree.kind not in ("fields", "items"):
        return tree
    keys = tuple([f"field_{i}" for i in range(len(children))])
    return replace(tree, kind="replaced", keys=keys, settings=())


def _notes(notes: tuple[str, ...]) -> Iterator[str]:
    """Keep what notes say, but for names."""
    for note in notes:
        if " stands for " in note or REGION in note:
            continue
        if note.startswith(OPENED):
            yield "Primitives of libraries are written as what they compute."
            continue
        is_list = note.startswith(
            ("Written ", "Leaves that are not arrays", NOT_EXPANDED)
        )
        text = note.partition(":")[0].rstrip(".") + "." if is_list else note
        yield _QUOTED.sub("a function", text)
    if any(REGION in note for note in notes):
        yield "Some calls are written from their equations."


def _nameless(text: str) -> str:
    """Say what was not compared without naming it."""
    text = _QUOTED.sub("a function", text)
    name, colon, rest = text.partition(": ")
    text = f"a function: {rest}" if colon and " " not in name else text
    return re.sub(r"of type .* that", "that", text)
