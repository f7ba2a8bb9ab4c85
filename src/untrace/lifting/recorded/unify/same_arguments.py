"""Functions that are given one value twice, `vdot(a, a)`, are those that take two, too.

Where both arguments are one array, a function may only have one of the parameters.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence

from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.calls import Argument, rewrite_calls
from untrace.lifting.recorded.unify.names import (
    body_of,
    by_stem,
    has_special,
    names_of_parameters,
    rename,
    renaming,
    text_of,
)
from untrace.syntax.parsed import Parsed, Span, parsed

COMPUTES = (ast.Call, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp)


def give_twice(
    functions: list[Function], main: Function, may_merge: Callable[[str], bool]
) -> set[str]:
    """Let calls give functions with another parameter one argument twice.

    Args:
      functions: The functions of the module.
      main: The main function.
      may_merge: Tells by their names without numbers which of them may be merged.

    Returns:
      Those names of the functions that are left out.
    """
    merged: set[str] = set()
    for stem, group in by_stem(functions).items():
        if not may_merge(stem):
            continue
        plain = [one for one in group if not (one.after or has_special(one))]
        pairs = [(a, b) for a in plain for b in plain if _lacks_one(a, b)]
        for short, long in pairs:
            given = _given_twice(short, long)
            if given is not None and short in functions:
                users = [one for one in [*functions, main] if one is not short]
                if _pass_twice(short, long, given, users):
                    _leave_out(short, long, functions, main)
                    merged.add(stem)
    return merged


def _leave_out(
    short: Function, long: Function, functions: list[Function], main: Function
) -> None:
    """Leave the short function out; what comes first of both has its place and name."""
    long.agree(short)
    place = functions.index(short)
    if place < functions.index(long):
        functions.remove(long)
        functions[place] = long
        rename([*functions, main], long.name, short.name)
        long.name = short.name
    else:
        functions.remove(short)


def _lacks_one(short: Function, long: Function) -> bool:
    """Whether a function has all parameters of another one but for one."""
    names, more = names_of_parameters(short), names_of_parameters(long)
    rest = [name for name in more if name in names]
    is_one_more = len(more) == len(names) + 1 and rest == names
    return is_one_more and short.decorators == long.decorators


def _given_twice(short: Function, long: Function) -> tuple[int, int] | None:
    """Return the parameter that is another one in the short function, and which."""
    names, more = names_of_parameters(short), names_of_parameters(long)
    (extra,) = set(more) - set(names)
    body, wanted = body_of(long), text_of(short)
    assigned = {*body.bound()}
    for position, name in enumerate(names):
        edits = renaming(body, frozenset({extra}), name)
        if {name, extra}.isdisjoint(assigned) and body.edited(edits) == wanted:
            return position, more.index(extra)
    return None


def _pass_twice(
    short: Function, long: Function, given: tuple[int, int], users: Sequence[Function]
) -> bool:
    """Call the longer function in the place of the short one, if arguments are names."""
    position, place = given

    def change(
        _: str, arguments: Sequence[Span], read: Parsed
    ) -> tuple[str, Sequence[Argument]] | None:
        text = read.text[slice(*arguments[position])]
        if any(isinstance(node, COMPUTES) for node in parsed(text).nodes):
            return None  # it would be computed twice
        return long.name, [*arguments[:place], text, *arguments[place:]]

    return rewrite_calls(users, frozenset({short.name}), change)
