"""Which parameters of the user's functions have numbers as their defaults."""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Iterator, Mapping
from typing import Any

from untrace.recovery.expressions import source_tree
from untrace.recovery.functions import innermost

_NONE: Mapping[str, float] = types.MappingProxyType({})


def defined_as(frame: types.FrameType) -> types.FunctionType | None:
    """Return the function that a frame runs, if it is found.

    It is looked for where its qualified name says, in the module or in a class there;
    functions that are made inside of others are not found.
    """
    function = _found(frame.f_code.co_qualname, frame)
    is_it = function is not None and function.__code__ is frame.f_code
    return function if is_it else None


def _found(qualified_name: str, frame: types.FrameType) -> types.FunctionType | None:
    first, *rest = qualified_name.split(".")
    found = frame.f_globals.get(first)
    for name in rest:
        found = inspect.getattr_static(found, name, None)
    return innermost(getattr(found, "__func__", found))


def nested_defaults(frame: types.FrameType) -> Mapping[str, float]:
    """Return the numbers that a function inside of another has as defaults.

    The source tells which they are, and the code around holds the very objects. (The
    function itself is not known: each call of the one around makes another.)
    """
    code = frame.f_code
    outer_name, is_nested, _ = code.co_qualname.partition(".<locals>.")
    outer = _found(outer_name, frame) if is_nested else None
    around = None if outer is None else _around(code, outer.__code__)
    if around is None:
        return _NONE
    held = {repr(one): one for one in _constants(around.co_consts)}
    written = _written_defaults(code.co_filename)
    found = written.get((code.co_name, code.co_firstlineno), {})
    return {name: held[text] for name, text in found.items() if text in held}


def _around(code: types.CodeType, outer: types.CodeType) -> types.CodeType | None:
    """Return the code inside of which a function is made."""
    for one in outer.co_consts:
        if isinstance(one, types.CodeType):
            found = outer if one is code else _around(code, one)
            if found is not None:
                return found
    return None


def _constants(held: tuple[Any, ...]) -> Iterator[float]:
    for one in held:
        if type(one) in (int, float):
            yield one
        elif type(one) is tuple:
            yield from _constants(one)


@functools.lru_cache(maxsize=256)
def _written_defaults(filename: str) -> dict[tuple[str, int], dict[str, str]]:
    """Return the numbers that stand as defaults in a file, by name and line of functions."""
    found: dict[tuple[str, int], dict[str, str]] = {}
    for node in ast.walk(source_tree(filename) or ast.Module([], [])):
        if not isinstance(node, ast.FunctionDef):
            continue
        args = node.args
        named = [*args.posonlyargs, *args.args][-len(args.defaults) or None :]
        pairs = [*zip(named, args.defaults), *zip(args.kwonlyargs, args.kw_defaults)]
        line = min([node.lineno, *(one.lineno for one in node.decorator_list)])
        found[node.name, line] = {
            name.arg: repr(value.value)
            for name, value in pairs
            if isinstance(value, ast.Constant) and type(value.value) in (int, float)
        }
    return found


def number_defaults(function: types.FunctionType | None) -> Mapping[str, float]:
    """Return the numbers that parameters of a function hold by default, if it is known."""
    if function is None:
        return _NONE
    values = all_defaults(function)
    return {
        name: value for name, value in values.items() if type(value) in (int, float)
    }


def all_defaults(function: types.FunctionType) -> dict[str, Any]:
    """Return what the parameters of a function hold by default."""
    code, values = function.__code__, function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    return {**dict(zip(names, values)), **(function.__kwdefaults__ or {})}
