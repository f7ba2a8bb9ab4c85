"""Functions that read other keys of what they are given are given the parts themselves.

A framework with flat names reads `state["norm_1/mean"]` in one layer and
`state["norm_2/mean"]` in the next: both are one function of `mean`, or, where they read many
parts, of the layer's name: `state[f"{name}/mean"]`. The functions stay apart here; those with
one text are merged by `numbers.py`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from untrace.lifting.heads import plain_head
from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.calls import is_mentioned, rewrite_calls
from untrace.lifting.recorded.unify.names import (
    body_of,
    fresh,
    has_special,
    names_of_parameters,
    stem_of,
)
from untrace.parsing import parse
from untrace.syntax.names import identifier
from untrace.syntax.parsed import NUMBERS, Edit, Parsed, Span
from untrace.syntax.text import is_comment, quote

MAX_PARTS = 3
_BRACES = frozenset("{}")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a parameter: its keys, one for each of the functions."""

    holder: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Strings:
    """The strings of a function.

    Attributes:
      keys: Parts of its parameters, `params["w"]`, in order.
      others: All that are none, in order.
    """

    keys: tuple[ast.Subscript, ...]
    others: tuple[ast.Constant, ...]


def _strings(function: Function) -> _Strings:
    body, parameters = body_of(function), frozenset(names_of_parameters(function))
    keys = [n for n in body.nodes if isinstance(n, ast.Subscript) and _is_key(n)]
    keys = [key for key in keys if _holder(key) in parameters]
    taken = {key.slice for key in keys}
    return _Strings(tuple(keys), tuple(s for s in body.strings() if s not in taken))


def _is_key(node: ast.Subscript) -> bool:
    """Whether a subscript takes a part of a variable by a string without braces."""
    is_read = isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Constant)
    return is_read and type(_key(node)) is str and _BRACES.isdisjoint(_key(node))


def _holder(node: ast.Subscript) -> str:
    assert isinstance(node.value, ast.Name)
    return node.value.id


def _key(node: ast.Subscript) -> str:
    assert isinstance(node.slice, ast.Constant)
    key = node.slice.value
    return key  # type: ignore[return-value]


def alike_but_for_keys(functions: Sequence[Function]) -> Iterator[list[Function]]:
    """Yield functions that are alike but for keys, and for numbers.

    First come those whose other strings are the same, then those that may be given, by
    other names, what their keys differ in.
    """
    stems = [stem_of(function.name) for function in functions]
    able = [f for f, stem in zip(functions, stems) if stems.count(stem) > 1]
    able = [f for f in able if not (f.after or has_special(f))]
    known: list[list[Function]] = []
    for blanks_strings in (False, True):
        groups: dict[object, list[Function]] = {}
        for one in able:
            groups.setdefault(_likeness(one, blanks_strings), []).append(one)
        new = [g for g in groups.values() if len(g) > 1 and g not in known]
        known += new
        yield from new


def alike(one: Function, other: Function) -> bool:
    """Whether functions are alike but for keys, and for numbers."""
    return _likeness(one, False) == _likeness(other, False)


def _likeness(function: Function, blanks_strings: bool) -> object:
    body, strings = body_of(function), _strings(function)
    blank: list[ast.expr] = [key.slice for key in strings.keys]
    if blanks_strings:
        words = {word for key in strings.keys for word in _words(_key(key))}
        blank += [one for one in strings.others if one.value in words]
    numbers = [
        n
        for n in body.nodes
        if isinstance(n, ast.Constant) and type(n.value) in NUMBERS
    ]
    edits = [Edit(body.span(node), ("0",)) for node in (*blank, *numbers)]
    lines = body.edited(edits).split("\n")
    lines = [line for line in lines if not is_comment(line)]
    head = function.parameters, tuple(function.decorators)
    return stem_of(function.name), head, tuple(lines)


def _words(key: str) -> list[str]:
    return re.split(r"\W+", key)


def give_parts(
    group: Sequence[Function], functions: Sequence[Function], makes_keys: bool
) -> bool:
    """Give functions that are alike the parts, or the names of the parts, that they read.

    Args:
      group: The functions.
      functions: All functions of the module.
      makes_keys: Whether keys may be made of the names.

    Returns:
      Whether that can be done; nothing is changed if not.
    """
    bodies = [body_of(function) for function in group]
    strings = [_strings(function) for function in group]
    rows = [[(_holder(key), _key(key)) for key in one.keys] for one in strings]
    keys = [
        _Part(column[0][0], tuple([key for _, key in column]))
        for column in zip(*rows, strict=True)
    ]
    parts = [part for part in dict.fromkeys(keys) if len(set(part.keys)) > 1]
    columns = list(zip(*[one.others for one in strings], strict=True))
    others = [[str(one.value) for one in column] for column in columns]
    differing = [i for i, column in enumerate(others) if len(set(column)) > 1]
    if not parts:
        return False
    words = {word for body in bodies for word in body.words()}
    words |= {*names_of_parameters(group[0])}
    if len(parts) <= MAX_PARTS and not differing:
        changed = {name for body in bodies for name in body.bound()}
        if any(part.holder in changed for part in parts):
            return False
        change: _Parts | _Names | None = _Parts.of(group[0], parts, keys, words)
    else:
        change = _Names.of(parts, words, group[0]) if makes_keys else None
        if change is None or any([*change.names] != others[i] for i in differing):
            return False
    names = frozenset(function.name for function in group)
    if any(is_mentioned(function, names) for function in group):
        return False
    positions = {function.name: i for i, function in enumerate(group)}

    def passing(
        name: str, arguments: Sequence[Span], text: Parsed
    ) -> tuple[str, Sequence[str | Span]] | None:
        passed = change.arguments(arguments, positions[name], text)
        return None if passed is None else (name, passed)

    users = [function for function in functions if function not in group]
    if not rewrite_calls(users, names, passing):
        return False
    for function, body, one in zip(group, bodies, strings):
        written: dict[ast.expr, str] = {
            key: change.texts[part]
            for key, part in zip(one.keys, keys)
            if part in change.texts
        }
        written |= {one.others[i]: change.string for i in differing}
        edits = [Edit(body.span(node), (text,)) for node, text in written.items()]
        function.lines = body.edited(edits).split("\n")
        function.parameters = plain_head(*change.parameters)
        function.comment = function.signature = ""
    return True


@dataclass(frozen=True, slots=True)
class _Parts:
    """Passes the parts: `norm(state["norm_1/mean"])`.

    Attributes:
      texts: What is written for each part.
      slots: The parameters, with the part that each takes; None for one as it was.
      given: The parameters that the functions had.
      string: What is written for other strings: there are none.
    """

    texts: Mapping[_Part, str]
    slots: Sequence[tuple[str, _Part | None]]
    given: Sequence[str]
    string: str = ""

    @classmethod
    def of(
        cls,
        first: Function,
        parts: Sequence[_Part],
        keys: Sequence[_Part],
        words: set[str],
    ) -> _Parts:
        """Name parts after the words that their keys end with, or after what held them."""
        body, given = body_of(first), names_of_parameters(first)
        used = [node.id for node in body.names()]
        gone = [part.holder for part in keys if part in parts]
        kept = {name for name in given if used.count(name) > gone.count(name)}
        words -= {name for name in gone if name not in kept}
        texts = {
            part: fresh(_last_word(part.keys) or part.holder, words) for part in parts
        }
        slots: list[tuple[str, _Part | None]] = []
        for name in given:
            if name in kept:
                slots.append((name, None))
            slots += [(texts[part], part) for part in parts if part.holder == name]
        return cls(texts, slots, given)

    @property
    def parameters(self) -> list[str]:
        """The parameters that the functions have now."""
        return [name for name, _ in self.slots]

    def arguments(
        self, arguments: Sequence[Span], position: int, text: Parsed
    ) -> Sequence[str | Span] | None:
        """Return what a call passes to the function at a position."""
        if len(arguments) != len(self.given):
            return None
        places = dict(zip(self.given, arguments))
        passed: list[str | Span] = []
        for name, part in self.slots:
            if part is None:
                passed.append(places[name])
                continue
            start, stop = places[part.holder]
            holder = text.text[start:stop]
            if not is_path(holder):
                return None
            passed.append(f"{holder}[{quote(part.keys[position])}]")
        return passed


@dataclass(frozen=True, slots=True)
class _Names:
    """Passes what the keys differ in: `norm(state, "norm_1")`.

    Attributes:
      names: That, for each of the functions.
      texts: What is written for each part.
      string: What is written for other strings, which functions that are called are given.
      parameters: The parameters that the functions have now.
    """

    names: Sequence[str]
    texts: Mapping[_Part, str]
    string: str
    parameters: Sequence[str]

    @classmethod
    def of(
        cls, parts: Sequence[_Part], words: set[str], first: Function
    ) -> _Names | None:
        """Find the words that all keys of a function share and another one has not."""
        new = fresh("name", set(words))
        found: set[tuple[str, ...]] = set()
        texts: dict[_Part, str] = {}
        for part in parts:
            front, names, back = _differing(part.keys)
            found.add(names)
            key = f"f{quote(f'{front}{{{new}}}{back}')}" if front or back else new
            texts[part] = f"{part.holder}[{key}]"
        if len(found) != 1:
            return None
        return cls(found.pop(), texts, new, [*names_of_parameters(first), new])

    def arguments(
        self, arguments: Sequence[Span], position: int, _: Parsed
    ) -> Sequence[str | Span]:
        """Return what a call passes to the function at a position."""
        return [*arguments, quote(self.names[position])]


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
