"""Find the calls of functions that become one, and write what they pass."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import NamedTuple

from untrace.lifting.printing import Function
from untrace.syntax.parsed import Edit, Parsed, Span, parsed


class Named(NamedTuple):
    """An argument that a call has, which is passed by name then."""

    name: str
    span: Span


Argument = str | Span | Named
"""Text, or an argument that a call has, by its place."""

Change = Callable[[str, Sequence[Span], Parsed], tuple[str, Sequence[Argument]] | None]
"""Gives a call of one function, with these arguments, another and others; None refuses it."""


def mentions(text: str, names: frozenset[str]) -> bool:
    """Whether a text refers to one of some functions."""
    if not any(name in text for name in names):
        return False
    return any(node.id in names for node in parsed(text).names())


def rewritten(text: str, names: frozenset[str], change: Change) -> str | None:
    """Change the calls of functions in a text, which pass arguments by position.

    Returns:
      The text; None if a function is used otherwise, or `change` refuses a call.
    """
    if not mentions(text, names):
        return text
    read, edits = parsed(text), list[Edit]()
    for node in read.names():
        if node.id not in names:
            continue
        call = read.parent(node)
        if not isinstance(call, ast.Call) or call.func is not node or call.keywords:
            return None
        if any(isinstance(argument, ast.Starred) for argument in call.args):
            return None
        changed = change(node.id, [read.span(one) for one in call.args], read)
        if changed is None:
            return None
        name, arguments = changed
        pieces: list[str | Span] = []
        for one in arguments:
            is_named = isinstance(one, Named)
            pieces += [", ", f"{one.name}=", one.span] if is_named else [", ", one]
        edits.append(Edit(read.span(call), (f"{name}(", *pieces[1:], ")")))
    return read.edited(edits)


def rewrite_calls(
    users: Sequence[Function], names: frozenset[str], change: Change
) -> bool:
    """Change the calls of functions in others.

    Returns:
      Whether that was possible: no function is used in any other way. Nothing is changed
      if not.
    """
    new: dict[str, str] = {}
    for user in users:
        for text in user.texts():
            changed = rewritten(text, names, change)
            if changed is None:
                return False
            new[text] = changed
    for user in users:
        user.rewrite(new.__getitem__)
    return True


def is_mentioned(function: Function, names: frozenset[str]) -> bool:
    """Whether a function refers to one of some functions anywhere."""
    return any(mentions(text, names) for text in function.texts())
