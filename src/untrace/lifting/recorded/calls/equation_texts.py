"""The text of an equation, as level "lax" writes it, as an expression with operands.

The rules for equations give text. It is read by Python's parser, so operands, calls and
displays are what they are for the parser.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from untrace.lifting.recorded.building import literal_of, merged
from untrace.lifting.recorded.terms import (
    CALL,
    INDEX,
    KEYWORD,
    LIST,
    STARS,
    TUPLE_OF,
    Global,
    Group,
    Lead,
    Part,
    Term,
    placed,
)
from untrace.parsing import children
from untrace.syntax.parsed import Parsed
from untrace.syntax.precedence import ATOM, LAMBDA, level_of


def term_of(
    text: str, operands: Mapping[str, Term], functions: Collection[str]
) -> Term:
    """Return the expression that a text is; each operand was counted as used once.

    Args:
      operands: What stands for names in it.
      functions: Those of the module, which locals must not hide.
    """
    read = Parsed(text)
    n_uses = Counter(node.id for node in read.names())
    for name, operand in operands.items():
        for ref in operand.refs():
            ref.name.uses += n_uses[name] - 1
    (statement,) = [n for n in read.nodes if isinstance(n, ast.Expr)]
    made = _Reader(read, operands, functions)
    return Term(made.parts(statement.value, ATOM), level_of(statement.value))


class _Reader:
    """Reads one text."""

    def __init__(
        self, read: Parsed, operands: Mapping[str, Term], functions: Collection[str]
    ) -> None:
        self._read = read
        self._operands, self._functions = operands, functions

    def parts(self, node: ast.AST, level: int) -> list[Part]:
        """Return the parts of an expression for a place that binds so tightly."""
        match node:
            case ast.Name(id=name) if name in self._operands:
                return placed(self._operands[name], level)
            case ast.Name(id=name) if name in self._functions:
                return [Global(name)]
            case ast.Constant(value=value):
                return [self._literal(node, value)]
            case ast.UnaryOp(
                op=ast.USub(), operand=ast.Constant(value=int() | float() as value)
            ):
                return [self._literal(node, -value)]
            case ast.Call(func=owner, args=args, keywords=keywords):
                made = self._group(CALL, [*args, *keywords], node, owner)
            case ast.Subscript(value=owner, slice=ast.Tuple(elts=items)):
                made = self._group(INDEX, items, node, owner)
            case ast.Subscript(value=owner, slice=item):
                made = self._group(INDEX, [item], node, owner)
            case ast.Tuple(elts=items):
                made = self._group(TUPLE_OF, items, node)
            case ast.List(elts=items):
                made = self._group(LIST, items, node)
            case _:
                made = None
        return self._generic(node) if made is None else made

    def _group(
        self,
        kind: int,
        items: Sequence[ast.AST],
        node: ast.AST,
        owner: ast.AST | None = None,
    ) -> list[Part] | None:
        """Return what stands before brackets, and these; None if more is in them."""
        (start, stop), text = self._read.span(node), self._read.text
        start = self._read.span(owner)[1] if owner is not None else start
        spans = sorted([(*self._read.span(item), n) for n, item in enumerate(items)])
        firsts, lasts = [first for first, *_ in spans], [last for _, last, _ in spans]
        gaps = zip([start, *lasts], [*firsts, stop])
        between = [text[begin:end] for begin, end in gaps]
        brackets = "[]" if kind in (INDEX, LIST) else "()"
        comma = "," if kind == TUPLE_OF and len(items) == 1 else ""
        if items:
            separators = [", "] * (len(items) - 1)
            expected = [brackets[0], *separators, comma + brackets[1]]
        else:
            expected = [brackets]
        if between != expected:
            return None
        group = Group(kind, [self._item(items[n], kind) for _, _, n in spans])
        return [*(self.parts(owner, ATOM) if owner is not None else []), group]

    def _item(self, node: ast.AST, kind: int) -> Term:
        lead: Lead | None = None
        level = LAMBDA if kind in (CALL, TUPLE_OF) else ATOM
        if isinstance(node, ast.keyword):
            lead = Lead(KEYWORD, node.arg) if node.arg else Lead(STARS, "**")
            node, level = node.value, ATOM
        elif isinstance(node, ast.Starred):
            lead, node, level = Lead(STARS, "*"), node.value, ATOM
        bound = level_of(node) if isinstance(node, ast.expr) else ATOM
        return Term(self.parts(node, level), max(bound, LAMBDA), lead)

    def _literal(self, node: ast.AST, value: Any) -> Part:
        start, stop = self._read.span(node)
        text = self._read.text[start:stop]
        return literal_of(value, text) or text

    def _generic(self, node: ast.AST) -> list[Part]:
        """Return the text of an expression, with what is in it in its place."""
        position, stop = self._read.span(node)
        found: list[Part] = []
        inner = [] if isinstance(node, ast.JoinedStr) else [*_placed_in(node)]
        for child in sorted(inner, key=self._read.span):
            start, end = self._read.span(child)
            found += [self._read.text[position:start], *self.parts(child, ATOM)]
            position = end
        return merged([*found, self._read.text[position:stop]])


def _placed_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the outermost nodes in another one that have a place in the text."""
    for child in children(node):
        if "lineno" in child._attributes:
            yield child
        else:
            yield from _placed_in(child)
