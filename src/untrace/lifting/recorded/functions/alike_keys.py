"""Functions that read other keys of what they are given are given the parts themselves.

A framework with flat names reads `state["norm_1/mean"]` in one layer and
`state["norm_2/mean"]` in the next: both are one function of `mean`, or, where they read many
parts, of the layer's name: `state[f"{name}/mean"]`. As in `merging.py`, this works on
the finished text. The functions stay apart here; those with one text are merged there.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from untrace.lifting.printing import Function
from untrace.lifting.recorded.functions.argument_sizes import is_assigned
from untrace.lifting.recorded.functions.plain_calls import PlainCalls, split
from untrace.syntax.names import identifier
from untrace.syntax.text import STRING, quote

MAX_PARTS = 3
_KEY = re.compile(r"""(?<![\w.\]"'])(?P<holder>\w+)\["(?P<key>[^"\\{}]+)"\]""")
_STRING = re.compile(STRING)
_KEY_OR_STRING = re.compile(rf"{_KEY.pattern}|{STRING}")
_SIMPLE = re.compile(r"""\w+(\.\w+|\[("[^"]*"|\d+|\w+)\])*""")
_NUMBER = re.compile(r"(?<![\w.])\d[\w.]*")


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a parameter: its keys, one for each of the functions."""

    holder: str
    keys: tuple[str, ...]


def alike_but_for_keys(functions: Sequence[Function]) -> list[list[Function]]:
    """List functions that are alike but for keys, and for numbers."""
    groups: dict[object, list[Function]] = {}
    for function in functions:
        if not (function.after or re.search("[*=]", function.parameters)):
            groups.setdefault(_likeness(function), []).append(function)
    return [group for group in groups.values() if len(group) > 1]


def _likeness(function: Function) -> object:
    text = "\n".join(function.lines)
    keys = [match["key"] for match in _KEY.finditer(text)]

    def blanked(match: re.Match[str]) -> str:
        if match["holder"]:
            return f'{match["holder"]}["#"]'
        is_name = any(match[0][1:-1] in re.split(r"\W+", key) for key in keys)
        return '"#"' if is_name else match[0]

    blank = _NUMBER.sub("0", _KEY_OR_STRING.sub(blanked, text))
    stem = re.sub(r"_\d+$", "", function.name)
    return stem, function.parameters, tuple(function.decorators), blank


def give_parts(
    group: Sequence[Function], functions: Sequence[Function], makes_keys: bool
) -> bool:
    """Give functions that are alike the parts, or the names of the parts, that they read.

    Args:
      group: The functions.
      functions: All functions of the module.
      makes_keys: Whether keys may be made of the names.

    Returns:
      Whether that can be done.
    """
    parameters = split(group[0].parameters)
    texts = ["\n".join(function.lines) for function in group]
    rows = [[m for m in _KEY.finditer(t) if m["holder"] in parameters] for t in texts]
    keys = [
        _Part(column[0]["holder"], tuple(m["key"] for m in column))
        for column in zip(*rows, strict=True)
    ]
    parts = [p for p in dict.fromkeys(keys) if len(set(p.keys)) > 1]
    if not parts:
        return False
    columns = list(zip(*[_strings(text, parameters) for text in texts], strict=True))
    differing = [i for i, column in enumerate(columns) if len(set(column)) > 1]
    bare = [_STRING.sub("", text) for text in texts]
    words = {word for text in bare for word in re.findall(r"\w+", text)}
    words |= {*parameters}
    if len(parts) <= MAX_PARTS and not differing:
        if any(is_assigned(f.lines, p.holder) for f in group for p in parts):
            return False
        change = _Parts(parameters, parts, keys, texts[0], words)
    else:
        change = _Names.of(parts, words, differing) if makes_keys else None
        if change is None or any(not change.is_name(columns[i]) for i in differing):
            return False
    calls = PlainCalls([function.name for function in group])
    others = [function for function in functions if function not in group]
    for function in functions:
        lines = [*function.decorators, *function.after]
        if calls.mentions(lines) or (
            function in group and calls.mentions(function.lines)
        ):
            return False
    positions = {function.name: i for i, function in enumerate(group)}

    def passing(name: str, arguments: list[str]) -> tuple[str, list[str]] | None:
        passed = change.arguments(arguments, positions[name])
        return None if passed is None else (name, passed)

    rewritten = [[calls.rewrite(line, passing) for line in f.lines] for f in others]
    if calls.is_refused:
        return False
    for function, lines in zip(others, rewritten):
        function.lines = lines
    for function, text in zip(group, texts):
        function.lines = change.text(text, parameters, keys).split("\n")
        function.parameters = ", ".join(change.parameters(parameters))
        function.comment = function.signature = ""
    return True


class _Parts:
    """Passes the parts: `norm(state["norm_1/mean"])`."""

    def __init__(
        self,
        parameters: Sequence[str],
        parts: Sequence[_Part],
        keys: Sequence[_Part],
        text: str,
        words: set[str],
    ) -> None:
        self._parts = parts
        self._names = {
            part: _fresh(_last_word(part.keys) or part.holder, words) for part in parts
        }
        left = self.text(text, parameters, keys)
        self._kept = [p for p in parameters if re.search(rf"(?<![\w.]){p}\b", left)]
        self._all = parameters

    def text(self, text: str, parameters: Sequence[str], keys: Sequence[_Part]) -> str:
        """Write the names of the parts into a function."""
        return _with_keys(text, parameters, keys, self._names)

    def parameters(self, parameters: Sequence[str]) -> list[str]:
        """Return the parameters that the functions have now."""
        return [name for name, _ in self._slots(parameters)]

    def arguments(self, arguments: Sequence[str], position: int) -> list[str] | None:
        """Return what a call passes to the function at a position."""
        if len(arguments) != len(self._all):
            return None
        given = dict(zip(self._all, arguments))
        holders = {part.holder for part in self._parts}
        if not all(_SIMPLE.fullmatch(given[holder]) for holder in holders):
            return None
        return [
            given[name]
            if part is None
            else f"{given[part.holder]}[{quote(part.keys[position])}]"
            for name, part in self._slots(self._all)
        ]

    def _slots(self, parameters: Sequence[str]) -> list[tuple[str, _Part | None]]:
        slots: list[tuple[str, _Part | None]] = []
        for name in parameters:
            if name in self._kept:
                slots.append((name, None))
            slots += [(self._names[p], p) for p in self._parts if p.holder == name]
        return slots


class _Names:
    """Passes what the keys differ in: `norm(state, "norm_1")`.

    Functions that are called may be given that, too; their strings are `places`.
    """

    def __init__(
        self,
        names: Sequence[str],
        texts: dict[_Part, str],
        new: str,
        places: Sequence[int],
    ) -> None:
        self._names = names
        self._texts = texts
        self._new = new
        self._places = places

    @classmethod
    def of(
        cls, parts: Sequence[_Part], words: set[str], places: Sequence[int]
    ) -> _Names | None:
        """Find the words that all keys of a function share and another one has not."""
        new = _fresh("name", set(words))
        found: set[tuple[str, ...]] = set()
        texts: dict[_Part, str] = {}
        for part in parts:
            front, names, back = _differing(part.keys)
            found.add(names)
            key = f'f"{front}{{{new}}}{back}"' if front or back else new
            texts[part] = f"{part.holder}[{key}]"
        return cls(found.pop(), texts, new, places) if len(found) == 1 else None

    def is_name(self, strings: Sequence[str]) -> bool:
        """Whether strings, one of each function, are what the keys differ in."""
        return [string[1:-1] for string in strings] == [*self._names]

    def text(self, text: str, parameters: Sequence[str], keys: Sequence[_Part]) -> str:
        """Write the name, and keys that are made of it, into a function."""
        strings = dict.fromkeys(self._places, self._new)
        text = _with_strings(text, parameters, strings)
        return _with_keys(text, parameters, keys, self._texts)

    def parameters(self, parameters: Sequence[str]) -> list[str]:
        """Return the parameters that the functions have now."""
        return [*parameters, self._new]

    def arguments(self, arguments: Sequence[str], position: int) -> list[str] | None:
        """Return what a call passes to the function at a position."""
        return [*arguments, quote(self._names[position])]


def _strings(text: str, parameters: Sequence[str]) -> list[str]:
    """List the strings of a function that are no keys of parameters."""
    found = _KEY_OR_STRING.finditer(text)
    return [m[0] for m in found if m["holder"] not in parameters]


def _with_strings(
    text: str, parameters: Sequence[str], written: Mapping[int, str]
) -> str:
    """Write something else for some of the strings that are no keys of parameters."""
    numbers = itertools.count()

    def other(match: re.Match[str]) -> str:
        if match["holder"] in parameters:
            return match[0]
        return written.get(next(numbers), match[0])

    return _KEY_OR_STRING.sub(other, text)


def _with_keys(
    text: str,
    parameters: Sequence[str],
    keys: Sequence[_Part],
    texts: Mapping[_Part, str],
) -> str:
    """Write parts of parameters, which are given in order, in another way."""
    rest = iter(keys)

    def written(match: re.Match[str]) -> str:
        is_part = match["holder"] in parameters
        return texts.get(next(rest), match[0]) if is_part else match[0]

    return _KEY.sub(written, text)


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

    Numbers are left out in which they differ.
    """
    words = {re.split(r"\W+", key)[-1] for key in keys}
    if len(words) > 1:
        words = {re.sub(r"_?\d+$", "", word) for word in words}
    return identifier(words.pop()) if len(words) == 1 and "" not in words else ""


def _fresh(hint: str, taken: set[str]) -> str:
    """Return a name that nothing has, and take it."""
    name, count = hint, 2
    while name in taken:
        name, count = f"{hint}_{count}", count + 1
    taken.add(name)
    return name
