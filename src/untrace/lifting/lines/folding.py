"""Write values that are used once where they are used, as in the user's own statement.

Comes in: the lines of one function, and for each name what is known of it. A line that
defines a name which nobody gave, used once by a line that comes from the same statement
of the user's file, is folded into that line. What is computed keeps its order: folded
lines are the last ones before the line that reads them, in the order in which it does.
Reads of arguments (`params["w"]`) compute nothing and go wherever they are needed.

Lines of nested functions, comments and blocks are left as they are.
"""

from __future__ import annotations

import ast
import collections
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from untrace.lifting.lines.function_lines import (
    LINE,
    WORD,
    Made,
    is_delayed,
    line_head,
    names_in,
    parsed,
    renumbered,
    words_in,
    words_of_others,
)
from untrace.optional import optional, unchanged
from untrace.parsing import parse
from untrace.syntax.precedence import ATOM, level_at, level_of

MAX_COLS = 76
"""Columns of a line that others were folded into."""
LONGEST = 1 << 30
MAX_COLS_UNPLACED = 40
"""The same, where nothing tells which statement it comes from."""
MAX_FOREIGN = 56
"""Characters of an expression that is folded although a library named it."""
MAX_PENDING = 16
"""Definitions that are kept back; no line of this width has room for more."""
MAX_READS = 2
"""Uses up to which the read of an argument is repeated."""


@dataclass(frozen=True, slots=True)
class _Pending:
    """A definition that may yet be folded."""

    name: str
    text: str
    place: Any


@optional(unchanged)
def folded(lines: Sequence[str], made: Mapping[str, Made]) -> list[str]:
    """Fold definitions into the lines that use them.

    Args:
      lines: The body of a function, unindented.
      made: The names that its lines define.

    Returns:
      The lines, fewer of them.
    """
    words = collections.Counter(words_in("\n".join(lines)))
    folding = _Folding(_without_reads(lines, made, words), made, words)
    return renumbered(folding.lines(), made)


def in_one_line(statements: Sequence[tuple[str, str]]) -> str | None:
    """Write the last of several statements with those before it in the places of names.

    Returns:
      The expression; None if what is evaluated would not keep its order.
    """
    names = [name for name, _ in statements[:-1]]
    lines = [f"{name} = {text}" for name, text in statements[:-1]]
    lines.append(f"return {statements[-1][1]}")
    made = {name: Made() for name in names}
    found = _Folding(lines, made, dict.fromkeys(names, 2), LONGEST).lines()
    return found[0].removeprefix("return ") if len(found) == 1 else None


class _Folding:
    """The lines of one function on their way."""

    def __init__(
        self,
        lines: Sequence[str],
        made: Mapping[str, Made],
        words: Mapping[str, int],
        max_cols: int = MAX_COLS,
    ) -> None:
        self.given, self.made, self.words = lines, made, words
        self.max_cols = max_cols
        self.pending: list[_Pending] = []
        self.done: list[str] = []

    def lines(self) -> list[str]:
        """Return what is left."""
        for line in self.given:
            found = LINE.fullmatch(line)
            tree = None if found is None else parsed(found["text"])
            if found is None or tree is None:
                self._flush()
                self.done.append(line)
            else:
                self._statement(found, tree)
        self._flush()
        return self.done

    def _statement(self, found: re.Match[str], tree: ast.Expression) -> None:
        head = line_head(found)
        place = None if found["end"] else self._place(head)
        taken = self._taken(tree, place, bool(found["end"]), len(head))
        text = found["text"]
        if taken:
            del self.pending[-len(taken) :]
            text = replaced(text, tree, {item.name: item.text for item in taken})
        if found["name"] and self._is_foldable(found["name"], text):
            self.pending.append(_Pending(found["name"], text, place))
            self._flush(MAX_PENDING)
            return
        self._flush()
        self.done.append(head + text)

    def _place(self, head: str) -> Any:
        names = WORD.findall(head)
        return next((self.made[n].place for n in names if n in self.made), None)

    def _is_foldable(self, name: str, text: str) -> bool:
        known = self.made.get(name)
        if known is None or self.words[name] != 2:
            return False  # once where it is defined, and once where it is used
        return not known.is_named or (known.is_foreign and len(text) <= MAX_FOREIGN)

    def _taken(
        self, tree: ast.Expression, place: Any, is_return: bool, start: int
    ) -> list[_Pending]:
        """Choose the last pending definitions, which the expression reads in their order."""
        read = [node.id for node in names_in(tree)]
        by_name = {item.name: item for item in self.pending}
        used = [by_name[name] for name in read if name in by_name]
        if is_delayed(tree):
            return []
        length = start + tree.body.end_col_offset if tree.body.end_col_offset else start
        if is_return and isinstance(tree.body, ast.Name) and used == self.pending[-1:]:
            return used
        for n in range(len(used), 0, -1):
            taken = self.pending[-n:]
            size = length + sum(len(i.text) - len(i.name) for i in taken)
            if [item for item in used if item in taken] != taken:
                continue
            if not is_return and any(item.place != place for item in taken):
                continue
            is_wide = is_return or place is not None
            limit = self.max_cols if is_wide else MAX_COLS_UNPLACED
            if size <= limit:
                return taken
        return []

    def _flush(self, n_kept: int = 0) -> None:
        """Write what was not folded, all but the last definitions."""
        n = max(len(self.pending) - n_kept, 0)
        self.done += [f"{item.name} = {item.text}" for item in self.pending[:n]]
        del self.pending[:n]


# ---- reads of arguments ------------------------------------------------------------


def _without_reads(
    lines: Sequence[str], made: Mapping[str, Made], words: Mapping[str, int]
) -> list[str]:
    """Put what is read from arguments where it is needed."""
    reads: dict[str, str] = {}
    outside = collections.Counter(words_of_others(lines))
    for line in lines:
        found = LINE.fullmatch(line)
        if found is None or not found["name"]:
            continue
        name = found["name"]
        is_read = name in made and made[name].is_read
        if is_read and words[name] - 1 <= MAX_READS and not outside[name]:
            reads[name] = found["text"]
    kept: list[str] = []
    for line in lines:
        found = LINE.fullmatch(line)
        if found is not None and found["name"] in reads:
            continue
        tree = parsed(found["text"]) if found is not None and reads else None
        if found is None or tree is None:  # then it reads nothing that was taken out
            kept.append(line)
        else:
            kept.append(line_head(found) + replaced(found["text"], tree, reads))
    return kept


# ---- expressions -------------------------------------------------------------------


def replaced(text: str, tree: ast.Expression, texts: Mapping[str, str]) -> str:
    """Write expressions in the places of names, in brackets where they need them."""
    taken = [node for node in names_in(tree) if node.id in texts]
    parents = {
        id(child): parent
        for parent in (ast.walk(tree) if taken else ())
        for child in ast.iter_child_nodes(parent)
    }
    for node in reversed(taken):
        inner = texts[node.id]
        if _level(inner) < level_at(node, parents[id(node)]):
            inner = f"({inner})"
        text = text[: node.col_offset] + inner + text[node.end_col_offset :]
    return text


def _level(text: str) -> int:
    """Return how tightly an expression binds; a tuple in parentheses is an atom."""
    tree = parsed(text)
    body = (parse(text, "eval") if tree is None else tree).body
    is_closed = isinstance(body, ast.Tuple) and text.startswith("(")
    return ATOM if is_closed else level_of(body)
