"""Python text with its syntax tree: what stands where, and edits of that.

A text is read by Python's own parser, so a place is a node and never a match of
characters. Edits leave all else as it is written.
"""

from __future__ import annotations

import ast
import bisect
import functools
import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from untrace.parsing import children, parse

Span = tuple[int, int]
"""Where something begins and ends in a text, in characters."""


@dataclass(frozen=True, slots=True)
class Edit:
    """What stands in a place instead: text, and parts of what was there, edited as well."""

    span: Span
    pieces: tuple[str | Span, ...]


class Parsed:
    """A text of statements, or one expression.

    Attributes:
      nodes: Its nodes, in the order in which they stand there.

    Raises:
      SyntaxError: If it is no Python.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines = text.split("\n")
        starts = [0]
        for line in self._lines:
            starts.append(starts[-1] + len(line) + 1)
        self._starts = starts
        self._is_ascii = text.isascii()
        self._parents: dict[ast.AST, ast.AST] = {}
        self.nodes: list[ast.AST] = []
        self._add(parse(text))
        self.nodes.sort(key=operator.attrgetter("lineno", "col_offset"))

    def _add(self, tree: ast.AST) -> None:
        stack = [tree]
        while stack:
            node = stack.pop()
            inner = children(node)
            self._parents.update(dict.fromkeys(inner, node))
            stack += inner
            if "lineno" in node._attributes:
                self.nodes.append(node)

    def parent(self, node: ast.AST) -> ast.AST | None:
        """Return the node around one; None for the outermost."""
        return self._parents.get(node)

    def around(self, node: ast.AST) -> Iterator[ast.AST]:
        """Yield the nodes around one, the nearest first."""
        while (node := self._parents.get(node)) is not None:  # type: ignore[assignment]
            yield node

    def span(self, node: ast.AST) -> Span:
        """Return where a node stands."""
        line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        last, end = node.end_lineno, node.end_col_offset  # type: ignore[attr-defined]
        return self._offset(line, column), self._offset(last, end)

    def _offset(self, line: int, column: int) -> int:
        """Return the place of a line and column; Python counts the latter in bytes."""
        if not self._is_ascii:
            column = len(self._lines[line - 1].encode()[:column].decode())
        return self._starts[line - 1] + column

    def source(self, node: ast.AST) -> str:
        """Return the text of a node."""
        start, stop = self.span(node)
        return self.text[start:stop]

    def strings(self) -> Iterator[ast.Constant]:
        """Yield the strings, in order; those that are put together are left out."""
        for node in self.nodes:
            if not isinstance(node, ast.Constant) or type(node.value) is not str:
                continue
            if not isinstance(self.parent(node), ast.JoinedStr):
                yield node

    def numbers(self) -> list[ast.Constant]:
        """List the numbers, in order; signs are no part of them."""
        constants = [node for node in self.nodes if isinstance(node, ast.Constant)]
        return [one for one in constants if type(one.value) in NUMBERS]

    def names(self) -> Iterator[ast.Name]:
        """Yield the uses of variables, in order."""
        for node in self.nodes:
            if isinstance(node, ast.Name):
                yield node

    def variables(self) -> set[str]:
        """Return the names that are read or get a value."""
        return {n.id for n in self.names()} | set(self.bound())

    def words(self) -> set[str]:
        """Return all identifiers: variables, functions, attributes and keywords."""
        found = self.variables()
        found |= {n.attr for n in self.nodes if isinstance(n, ast.Attribute)}
        return found | {n.arg or "" for n in self.nodes if isinstance(n, ast.keyword)}

    def bound(self) -> Iterator[str]:
        """Yield the names that get a value: variables, functions, parameters of inner ones."""
        for node in self.nodes:
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                yield node.id
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                yield node.name
            elif isinstance(node, ast.arg):
                yield node.arg

    def edited(self, edits: Iterable[Edit]) -> str:
        """Return the text with other text in some places.

        Args:
          edits: Two of them are apart, or one of them is in a part of what the other keeps.
        """
        ordered = sorted(edits, key=lambda edit: (edit.span[0], -edit.span[1]))
        return self._rendered((0, len(self.text)), ordered)

    def _rendered(self, span: Span, edits: Sequence[Edit]) -> str:
        """Write a part of the text; of edits in one place the outer one comes first."""
        position, stop = span
        found: list[str] = []
        index = bisect.bisect_left(edits, position, key=lambda edit: edit.span[0])
        for number, edit in enumerate(edits[index:], index):
            start, end = edit.span
            if start >= stop:
                break
            if start < position or end > stop:
                continue  # it is in one that was done, or around all of this
            found.append(self.text[position:start])
            for piece in edit.pieces:
                is_text = isinstance(piece, str)
                later = edits[number + 1 :] if not is_text else ()
                found.append(piece if is_text else self._rendered(piece, later))
            position = end
        return "".join([*found, self.text[position:stop]])


NUMBERS = frozenset({int, float, bool})
"""The types of constants that are numbers; signs are no part of them."""


@functools.lru_cache(maxsize=2048)
def parsed(text: str) -> Parsed:
    """Read a text; what was read is kept for a while."""
    return Parsed(text)


def replaced(span: Span, text: str) -> Edit:
    """Write a text in a place."""
    return Edit(span, (text,))
