"""Functions that read other keys of what they are given are given the parts themselves.

A framework with flat names reads `state["norm_1/mean"]` in one layer and
`state["norm_2/mean"]` in the next: both are one function of `mean`, or, where they read many
parts, of the layer's name: `state[f"{name}/mean"]`. The functions stay apart here; those that
differ in words of keys and in numbers are merged by `numbers.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from untrace.lifting.heads import plain_head
from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.alike import Likeness, alike_but_for, grouped
from untrace.lifting.recorded.unify.calls import Argument, is_mentioned, rewrite_calls
from untrace.lifting.recorded.unify.names import (
    body_of,
    fresh,
    has_special,
    names_of_parameters,
)
from untrace.lifting.recorded.unify.places import is_word, numbers_in
from untrace.parsing import parse
from untrace.syntax.names import identifier
from untrace.syntax.parsed import Parsed, Span, replaced
from untrace.syntax.text import quote

MAX_PARTS = 3
_BRACES = frozenset("{}")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a parameter: its keys, one for each of the functions."""

    holder: str
    keys: tuple[str, ...]


class _Read(NamedTuple):
    """A part of a parameter where it is read: `params["w"]`."""

    node: ast.AST
    holder: str
    key: ast.Constant


@dataclass(frozen=True, slots=True)
class _Strings:
    """The strings of a function.

    Attributes:
      read: Parts of its parameters, in order.
      others: The strings that are no keys of these, in order.
      handed_on: Those of them that functions of the module are given.
    """

    read: Sequence[_Read]
    others: Sequence[ast.Constant]
    handed_on: Sequence[ast.Constant]


def _strings(function: Function) -> _Strings:
    body, parameters = body_of(function), names_of_parameters(function)
    read: list[_Read] = []
    handed_on: list[ast.Constant] = []
    for node in body.nodes:
        match node:
            case ast.Subscript(ast.Name(name), ast.Constant(str(text)) as key):
                if name in parameters and _BRACES.isdisjoint(text):
                    read.append(_Read(node, name, key))
            case ast.Call(ast.Name(), arguments):
                texts = [one for one in arguments if isinstance(one, ast.Constant)]
                handed_on += [one for one in texts if type(one.value) is str]
            case _:
                pass
    keys = {one.key for one in read}
    others = [one for one in body.strings() if one not in keys]
    return _Strings(read, others, [one for one in others if one in handed_on])


def alike_but_for_keys(functions: Sequence[Function]) -> Iterator[list[Function]]:
    """Yield functions that are alike but for keys, and for numbers.

    First come those whose other strings are the same, then those that may be given, by
    other names, what their keys differ in.
    """
    plain = [one for one in functions if not has_special(one)]
    known: list[list[Function]] = []
    for blanks_strings in (False, True):
        groups = grouped(
            plain, lambda one, blanks=blanks_strings: _likeness(one, blanks)
        )
        new = [group for group in groups if group not in known]
        known += new
        yield from new


def alike(one: Function, other: Function) -> bool:
    """Whether functions are alike but for keys, and for numbers."""
    return _likeness(one, False) == _likeness(other, False)


def _likeness(function: Function, blanks_strings: bool) -> Likeness:
    body, strings = body_of(function), _strings(function)
    blank = [one.key for one in strings.read]
    if blanks_strings:
        words = {word for key in blank for word in _words(str(key.value))}
        blank += [one for one in strings.others if one.value in words]
        blank += [one for one in strings.handed_on if one not in blank]
    blank += body.numbers()
    return alike_but_for(function, [replaced(body.span(node), "0") for node in blank])


def _words(key: str) -> list[str]:
    return re.split(r"\W+", key)


def give_parts(
    group: Sequence[Function], functions: Sequence[Function], makes_keys: bool
) -> bool:
    """Give functions that are alike the parts that they read, or let them be given words.

    Args:
      functions: All functions of the module.
      makes_keys: Whether keys may be made of words.

    Returns:
      Whether that can be done; nothing is changed if not. Words are numbers of the
      functions then, which differ in nothing else.
    """
    strings = [_strings(function) for function in group]
    rows = zip(*[one.read for one in strings], strict=True)
    keys = [_Part(row[0].holder, _values([one.key for one in row])) for row in rows]
    columns = list(zip(*[one.others for one in strings], strict=True))
    differing = {c[0]: _values(c) for c in columns if len({*_values(c)}) > 1}
    parts = [part for part in dict.fromkeys(keys) if len(set(part.keys)) > 1]
    if parts and len(parts) <= MAX_PARTS and not differing:
        return _pass_parts(group, functions, keys, parts)
    handed_on = list(zip(*[one.handed_on for one in strings], strict=True))
    made = [*[part.keys for part in keys], *map(_values, handed_on)]
    rest = [differing[one] for one in differing if one not in strings[0].handed_on]
    return makes_keys and _tell_words(group, made, rest, bool(parts))


def _values(strings: Sequence[ast.Constant]) -> tuple[str, ...]:
    return tuple([str(one.value) for one in strings])


def _tell_words(
    group: Sequence[Function],
    keys: Sequence[tuple[str, ...]],
    strings: Sequence[tuple[str, ...]],
    are_read: bool,
) -> bool:
    """Let functions tell the words that all their keys differ in, as if these were given.

    Other strings that differ have to be these words. Words that no key is read by have to
    be parts of others: they may be modes, or the like.
    """
    split = {column: _differing(column) for column in keys if len(set(column)) > 1}
    found = {words for _, words, _ in split.values()}
    if len(found) != 1 or not found.issuperset(strings):
        return False
    (words,) = found
    if not (are_read or split.keys() - found):
        return False
    if not all(is_word(word) or word in numbers_in(word) for word in words):
        return False
    for i, (function, word) in enumerate(zip(group, words)):
        places = {
            column[i]: ((len(split[column][0]), word),) if column in split else ()
            for column in keys
        }
        function.key_parts = function.key_parts | places
        function.in_keys |= {word}
        function.numbers = {**function.numbers, word: "name"}
    return True


def _pass_parts(
    group: Sequence[Function],
    functions: Sequence[Function],
    keys: Sequence[_Part],
    parts: Sequence[_Part],
) -> bool:
    """Let functions be given the parts that they read: `norm(state["norm_1/mean"])`."""
    bodies = [body_of(function) for function in group]
    if any(part.holder in body.bound() for part in parts for body in bodies):
        return False
    names = frozenset(function.name for function in group)
    if any(is_mentioned(function, names) for function in group):
        return False
    given = names_of_parameters(group[0])
    used = [node.id for node in bodies[0].names()]
    gone = [part.holder for part in keys if part in parts]
    kept = {name for name in given if used.count(name) > gone.count(name)}
    taken = {*given, *[word for body in bodies for word in body.words()]}
    taken -= {*gone} - kept
    texts = {part: fresh(_last_word(part.keys) or part.holder, taken) for part in parts}
    positions = {function.name: i for i, function in enumerate(group)}

    def passing(
        name: str, arguments: Sequence[Span], text: Parsed
    ) -> tuple[str, Sequence[Argument]] | None:
        if len(arguments) != len(given):
            return None
        passed: list[Argument] = []
        for own, argument in zip(given, arguments):
            passed += [argument] if own in kept else []
            read = [part for part in parts if part.holder == own]
            holder = text.text[slice(*argument)]
            if read and not is_path(holder):
                return None
            passed += [f"{holder}[{quote(p.keys[positions[name]])}]" for p in read]
        return name, passed

    users = [function for function in functions if function not in group]
    if not rewrite_calls(users, names, passing):
        return False
    head: list[str] = []
    for own in given:
        head += [own] if own in kept else []
        head += [text for part, text in texts.items() if part.holder == own]
    for function, body in zip(group, bodies):
        read = zip(_strings(function).read, keys)
        edits = [replaced(body.span(r.node), texts[k]) for r, k in read if k in texts]
        function.lines = body.edited(edits).split("\n")
        function.parameters = plain_head(*head)
        function.comment = function.signature = ""
    return True


def is_path(text: str) -> bool:
    """Whether an expression is a variable, or a part of what one holds.

    >>> is_path('state.params["w"][0]'), is_path("f(x)")
    (True, False)
    """
    node = parse(text, "eval").body
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner):
                node = inner
            case ast.Subscript(value=inner, slice=ast.Constant() | ast.Name()):
                node = inner
            case _:
                return False
    return True


def _differing(keys: Sequence[str]) -> tuple[str, tuple[str, ...], str]:
    """Split keys into what they begin with, what they differ in, and what they end with.

    >>> _differing(["net/a_1/w", "net/a_2/w"])
    ('net/', ('a_1', 'a_2'), '/w')
    """
    rows = [re.split(r"(\W+)", key) for key in keys]
    shortest = min(map(len, rows))
    front = 0
    while front < shortest - 1 and len({row[front] for row in rows}) == 1:
        front += 1
    back = 0
    while back < shortest - 1 - front and len({row[-1 - back] for row in rows}) == 1:
        back += 1
    first = rows[0]
    names = tuple("".join(row[front : len(row) - back]) for row in rows)
    return "".join(first[:front]), names, "".join(first[len(first) - back :])


def _last_word(keys: Sequence[str]) -> str:
    """Return the word that keys end with; "" if there are several.

    Numbers are left out in which they differ, and what stands before an underscore.

    >>> _last_word(["net_1/w", "net_2/w"]), _last_word(["w1", "w2"])
    ('w', 'w')
    >>> _last_word(["encoder_w", "decoder_w"]), _last_word(["mean", "scale"])
    ('w', '')
    """
    words = {_words(key)[-1] for key in keys}
    if len(words) > 1:
        words = {word.rstrip("0123456789").rstrip("_") for word in words}
    if len(words) > 1 and all("_" in word for word in words):
        words = {word.rpartition("_")[2] for word in words}
    return identifier(words.pop()) if len(words) == 1 and "" not in words else ""
