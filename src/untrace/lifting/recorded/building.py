"""Expressions are put together: calls, displays, operators, and their items.

Parentheses are placed here, where what is put into a place does not bind tightly enough.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeVar

from untrace.capture.dict_keys import quoted
from untrace.lifting.recorded.terms import (
    BARE,
    CALL,
    DICT,
    INDEX,
    KEY,
    KEYWORD,
    LIST,
    PARENS,
    STARS,
    TUPLE_OF,
    Group,
    Lead,
    Literal,
    Term,
    placed,
)
from untrace.syntax.precedence import (
    ATOM,
    COMPARE,
    COMPARED,
    LAMBDA,
    LEVELS,
    POWER,
    TUPLE,
    UNARY,
)


def text_term(text: str) -> Term:
    """Make a term of text that is an atom, or a number with its sign."""
    return Term([text], UNARY if text.startswith("-") else ATOM)


def literal_of(value: Any, text: str = "") -> Literal | None:
    """Return a number or a string as what stands by itself; None for anything else."""
    kind: type[Any] = type(value)
    if kind not in (int, float, str) or (kind is float and not math.isfinite(value)):
        return None
    return Literal(text or quoted(value), value)


def literal_term(value: Any, text: str = "") -> Term:
    """Write a number or a string, which may have another text than that of a key."""
    literal = literal_of(value, text)
    if literal is None:
        return text_term(text or quoted(value))
    return Term([literal], UNARY if literal.text.startswith("-") else ATOM)


def enclosed(term: Term, level: int) -> Term:
    """Return a term that stands in parentheses if it binds as `level` does, or less."""
    made = Term(placed(term, level + 1), term.level)
    group = made.group
    is_enclosed = group is not None and group.kind == PARENS
    return Term(made.parts) if is_enclosed else made


def _item(term: Term, lead: Lead | None, level: int = LAMBDA) -> Term:
    """Return a term for a place in a group."""
    bound = term.level if term.level >= level else ATOM
    return Term(placed(term, level), bound, lead)


def items_of(terms: Iterable[Term]) -> list[Term]:
    """Return terms as the items of a group."""
    return [_item(term, term.lead) for term in terms]


def joined(terms: Iterable[Term]) -> Term:
    """Write several terms with commas between."""
    items = items_of(terms)
    return items[0] if len(items) == 1 else Term([Group(BARE, items)], TUPLE)


def call(function: Term, arguments: Iterable[Term]) -> Term:
    """Write a call."""
    return Term([*placed(function, ATOM), Group(CALL, items_of(arguments))])


def attribute(owner: Term, name: str) -> Term:
    """Write `owner.name`."""
    return Term([*placed(owner, ATOM), f".{name}"])


def indexed(owner: Term, index: Iterable[Term]) -> Term:
    """Write `owner[index]`."""
    return Term([*placed(owner, ATOM), Group(INDEX, items_of(index))])


def starred(term: Term) -> Term:
    """Write `*term`, an item that stands for several."""
    return _item(term, Lead(STARS, "*"), ATOM)


def keyword(name: str, term: Term) -> Term:
    """Write a keyword argument."""
    return _item(term, Lead(KEYWORD, name))


def entry(key: Any, term: Term) -> Term:
    """Write an entry of a dict."""
    return _item(term, Lead(KEY, key))


def without_lead(item: Term) -> Term:
    """Return an item alone."""
    return Term(item.parts, item.level)


def binary(left: Term, operator: str, right: Term) -> Term:
    """Write a binary operation that groups to the left; a power, to the right."""
    level = LEVELS[operator]
    first, second = (level + 1, UNARY) if level == POWER else (level, level + 1)
    if level == COMPARE:  # a row of comparisons is another thing
        first = second = COMPARED
    sign = f" {operator} "
    return Term([*placed(left, first), sign, *placed(right, second)], level)


_AnyPart = TypeVar("_AnyPart")


def merged(parts: Iterable[_AnyPart]) -> list[_AnyPart]:
    """Return parts with text that follows text as one."""
    found: list[Any] = []
    for part in parts:
        if found and isinstance(part, str) and isinstance(found[-1], str):
            found[-1] += part
        elif part != "":
            found.append(part)
    return found


def display(brackets: str, terms: Iterable[Term]) -> Term:
    """Write a tuple or list."""
    return Term([Group(TUPLE_OF if brackets == "()" else LIST, items_of(terms))])


def dict_term(items: Iterable[tuple[Any, Term]], bases: Iterable[Term] = ()) -> Term:
    """Write a dict, `{**base, "key": value}`."""
    given = [_item(base, Lead(STARS, "**"), ATOM) for base in bases]
    return dict_of([*given, *[entry(key, term) for key, term in items]])


def dict_of(entries: Iterable[Term]) -> Term:
    """Write a dict of entries."""
    return Term([Group(DICT, items_of(entries))])
