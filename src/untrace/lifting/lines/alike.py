"""Statements that are alike but for the values they take: a loop, or a list.

Comes in: the lines of one function. `b = f(a)`, `c = f(b)`, `d = f(c)`, ... become a loop
that calls `f` in each turn. `b = f(x, y)`, `d = f(x, z)`, ... become one list,
`b, d, ... = [f(x, value) for value in (y, z, ...)]`; each of its expressions may have
been written in a few statements. Names that the user chose are left alone, and what is
evaluated keeps its order.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from untrace.lifting.lines.folding import in_one_line
from untrace.lifting.lines.function_lines import (
    LINE,
    Made,
    filled,
    parts_of_name,
    skeleton,
    words_in,
)
from untrace.lifting.printing import INDENT
from untrace.optional import optional, unchanged

MIN_TURNS = 4
MAX_PERIOD = 4
"""Statements of one turn."""
ITEMS = ("value", "other", "third")
"""What the items of a list are made of."""


COPY, COPY_OF_LITERAL = "jnp.copy", "copy_p.bind"
_COPY = re.compile(rf"(?:{COPY}|{COPY_OF_LITERAL})\(([^()]+(?:\([^()]*\))?)\)")


@dataclass(frozen=True, slots=True)
class _Line:
    """A statement that gives one name a value."""

    name: str
    text: str
    words: list[str]
    kind: tuple[str, str]


@optional(unchanged)
def without_repetition(
    lines: Sequence[str],
    made: Mapping[str, Made],
    locals_: Collection[str],
    fresh: Callable[[str], str],
) -> list[str]:
    """Write statements that are alike as loops and lists.

    Args:
      lines: The body of a function, unindented.
      made: The names that its lines define.
      locals_: All names of values.
      fresh: Makes a new name like one.
    """
    literals: dict[str, str] = {}
    read = [_line(line, made, literals) for line in lines]
    lengths = [_lengths(read, period) for period in range(1, MAX_PERIOD + 1)]
    if not any(max(row, default=0) >= MIN_TURNS - 1 for row in lengths):
        return list(lines)
    words = words_in("\n".join(lines))
    rewriting = _Rewriting(read, {*locals_, *literals}, fresh, words, literals)
    done: list[str] = []
    position = 0
    while position < len(lines):
        n_taken, written = rewriting.at(position, lengths)
        done += written if n_taken else [lines[position]]
        position += n_taken or 1
    return done


def _line(
    line: str, made: Mapping[str, Made], literals: dict[str, str]
) -> _Line | None:
    """Read a line; copies of literals as if they had names, which go to `literals`."""
    found = LINE.fullmatch(line)
    known = made.get(found["name"] or "") if found is not None else None
    if found is None or known is None or (known.is_named and not known.is_foreign):
        return None
    name, text = found["name"], found["text"]
    copied = _COPY.fullmatch(text)
    if copied is not None:
        value = copied[1]
        if not value.isidentifier():
            value = f"_literal_{len(literals)}"
            literals[value] = copied[1]
        text = f"{COPY}({value})"
    form, words = skeleton(text)
    return _Line(name, text, words, (parts_of_name(name)[0], form))


def _lengths(lines: Sequence[_Line | None], period: int) -> list[int]:
    """Say for each line how many in a row are alike the one a period later."""
    lengths = [0] * len(lines)
    for position in range(len(lines) - period - 1, -1, -1):
        line, later = lines[position], lines[position + period]
        if line is None or later is None or line.kind[1] != later.kind[1]:
            continue
        if period == 1 or line.kind[0] == later.kind[0]:
            lengths[position] = lengths[position + 1] + 1
    return lengths


def _n_before_others(start: int, n_turns: int, lengths: Sequence[Sequence[int]]) -> int:
    """Leave out statements that begin turns of several statements, which go on."""
    end = start + n_turns
    for period, row in enumerate(lengths, 2):
        for position in range(max(start + 1, end - period), end):
            n_alike = row[position]
            is_turn = n_alike // period + 1 >= MIN_TURNS
            if is_turn and position + n_alike + period > end:
                return position - start
    return n_turns


class _Rewriting:
    """The lines of one function that are written anew."""

    def __init__(
        self,
        lines: Sequence[_Line | None],
        locals_: Collection[str],
        fresh: Callable[[str], str],
        words: Sequence[str],
        literals: Mapping[str, str],
    ) -> None:
        self.lines, self.locals, self.literals = lines, locals_, literals
        self.words = collections.Counter(words)
        # Up to which line statements of a period were tried to no avail, how often: a
        # turn may begin with any of them.
        self.tried = [(0, 0)] * MAX_PERIOD
        self.items = [n if n not in self.words else fresh(n) for n in ITEMS]

    def at(self, start: int, lengths: Sequence[Sequence[int]]) -> tuple[int, list[str]]:
        """Write the statements from one line on; return how many lines they were."""
        for period, row in enumerate(lengths, 1):
            n_turns = row[start] // period + 1
            if period == 1:
                n_turns = _n_before_others(start, n_turns, lengths[1:])
            end, n_tries = self.tried[period - 1]
            if n_turns < MIN_TURNS or (start < end and n_tries == period):
                continue
            lines = [
                line
                for line in self.lines[start : start + n_turns * period]
                if line is not None
            ]
            if period == 1:
                after = self.lines[start + n_turns : start + n_turns + 1]
                chain = [*lines, *[line for line in after if line is not None]]
                chain = chain[: self._n_chained(chain)]
                if len(chain) >= MIN_TURNS:
                    return len(chain), self._loop(chain)
            turns = [lines[i : i + period] for i in range(0, len(lines), period)]
            written = self._list(turns)
            if written is not None:
                return len(lines), [written]
            n_tries = n_tries + 1 if start < end else 1
            self.tried[period - 1] = start + row[start], n_tries
        return 0, []

    # ---- loops -------------------------------------------------------------------------

    def _n_chained(self, lines: Sequence[_Line]) -> int:
        """Count the statements each of which takes what the one before it made."""
        for n, (line, later) in enumerate(itertools.pairwise(lines), 1):
            pairs = zip(line.words, later.words)
            passed = [line.name if a != b else b for a, b in pairs]
            is_next = passed == later.words and line.name in passed
            is_next = is_next and line.kind[1] == later.kind[1]
            if not is_next or self.words[line.name] != 1 + later.words.count(line.name):
                return n
            if n > 1 and passed.index(line.name) != lines[n - 1].words.index(
                lines[n - 2].name
            ):
                return n
        return len(lines)

    def _loop(self, lines: Sequence[_Line]) -> list[str]:
        first, second, last = lines[0], lines[1], lines[-1]
        position = second.words.index(first.name)
        start, taken = first.words[position], last.words[position]
        words = [last.name if word == taken else word for word in last.words]
        text = filled(last.kind[1], words)
        return [
            f"{last.name} = {start}",
            f"for _ in range({len(lines)}):",
            f"{INDENT}{last.name} = {text}",
        ]

    # ---- lists -------------------------------------------------------------------------

    def _list(self, turns: Sequence[Sequence[_Line]]) -> str | None:
        """Write statements of several turns as one list; None if it would differ."""
        inner = {line.name for turn in turns for line in turn[:-1]}
        names = [turn[-1].name for turn in turns]
        read = {word for turn in turns for line in turn for word in line.words}
        if any(self.words[name] != 2 for name in inner) or read.intersection(names):
            return None
        made = [in_one_line([(line.name, line.text) for line in t]) for t in turns]
        forms = [skeleton(text) for text in made if text is not None]
        if len(forms) < len(made) or len({form for form, _ in forms}) > 1:
            return None
        columns = list(zip(*[words for _, words in forms]))
        varying = list(dict.fromkeys(c for c in columns if len(set(c)) > 1))
        if not 0 < len(varying) <= len(ITEMS):
            return None
        if any(word not in self.locals for column in varying for word in column):
            return None
        items = dict(zip(varying, self.items))
        words = [items.get(column) or column[0] for column in columns]
        item = filled(forms[0][0], words)
        if any(word in self.literals for column in columns for word in column):
            item = item.replace(f"{COPY}(", f"{COPY_OF_LITERAL}(")
        texts = [[self.literals.get(word, word) for word in c] for c in varying]
        over = [f"({', '.join(column)})" for column in texts]
        source = over[0] if len(over) == 1 else f"zip({', '.join(over)})"
        target = ", ".join(items.values())
        return f"{', '.join(names)} = [{item} for {target} in {source}]"
