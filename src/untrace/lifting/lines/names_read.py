"""Where the lines of a function read names: alone, or in a row of other such names.

A name that a function inside gives a value of its own is another one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from untrace.parsing import children, walk

_WORD = re.compile(r"\w+")
_ITERATING = (" for ", "zip(", "map(")
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


@dataclass(frozen=True, slots=True)
class Reading:
    """Names that are read one after the other.

    Attributes:
      nodes: Where they are read.
      display: The tuple that they stand in; None in the arguments of a call.
      is_iterated: The tuple is only iterated over: a list does as well.
    """

    names: list[str]
    nodes: list[ast.Name]
    display: ast.Tuple | None = None
    is_iterated: bool = False


def names_read(
    tree: ast.Module, names: Mapping[str, object], lines: Sequence[str]
) -> list[Reading]:
    """List all places that read some names.

    Args:
      tree: The lines of a function.
      names: The names, and what they belong to: those of one thing that are next to each
        other in a tuple, or in the arguments of a call, are listed together.
      lines: The lines. Rules in rules are deep, and each is looked through with all that
        is in it: statements and functions whose lines have none of the names are skipped.
    """
    found: list[Reading] = []
    for node in _relevant(tree.body, names, lines):
        found += _in_node(node, names, frozenset())
    is_any = any(mark in line for line in lines for mark in _ITERATING)
    if not is_any or all(reading.display is None for reading in found):
        return found
    iterated = set(map(id, _iterated(tree)))
    return [
        replace(reading, is_iterated=True)
        if id(reading.display) in iterated
        else reading
        for reading in found
    ]


def _relevant(
    body: Sequence[ast.stmt], names: Mapping[str, object], lines: Sequence[str]
) -> Iterator[ast.stmt]:
    """Yield the statements but for those that cannot read any of the names."""
    for node in body:
        decorators = node.decorator_list if isinstance(node, ast.FunctionDef) else ()
        first = min([each.lineno for each in [node, *decorators]])
        text = "\n".join(lines[first - 1 : node.end_lineno])
        mentioned = names.keys() & _WORD.findall(text)
        if isinstance(node, ast.FunctionDef):
            mentioned -= set(_names_bound(node)) if mentioned else set()
        if mentioned:
            yield node


def _iterated(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield the expressions that a comprehension, `zip` or `map` iterates over."""
    for node in walk(tree):
        if isinstance(node, ast.comprehension):
            yield node.iter
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("zip", "map")
        ):
            yield from node.args


def _in_node(
    node: ast.AST, names: Mapping[str, object], hidden: frozenset[str]
) -> Iterator[Reading]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and _is_meant(node, names, hidden):
            yield Reading([node.id], [node])
        return
    if isinstance(node, (ast.FunctionDef, ast.Lambda)):
        hidden = hidden | frozenset(_names_bound(node))
    elif isinstance(node, _COMPREHENSIONS):
        stored = [n for g in node.generators for n in walk(g.target)]
        hidden = hidden | {n.id for n in stored if isinstance(n, ast.Name)}
    display = node if isinstance(node, ast.Tuple) else None
    rows: Sequence[ast.expr] = ()
    if display is not None and isinstance(display.ctx, ast.Load):
        rows = display.elts
    elif isinstance(node, ast.Call):
        rows = node.args
    in_rows = {id(item) for item in rows}
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple):
        # An index is no list of values.
        yield from _in_node(node.value, names, hidden)
        for item in node.slice.elts:
            yield from _in_node(item, names, hidden)
        return
    yield from _in_row(rows, display, names, hidden)
    for child in children(node):
        if id(child) not in in_rows:
            yield from _in_node(child, names, hidden)


def _in_row(
    rows: Sequence[ast.expr],
    display: ast.Tuple | None,
    names: Mapping[str, object],
    hidden: frozenset[str],
) -> Iterator[Reading]:
    nodes: list[ast.Name] = []
    for item in [*rows, None]:
        known = item if isinstance(item, ast.Name) else None
        if known is not None and not _is_meant(known, names, hidden):
            known = None
        if nodes and (known is None or names[known.id] is not names[nodes[0].id]):
            yield Reading([node.id for node in nodes], nodes, display)
            nodes = []
        if known is not None:
            nodes.append(known)
        elif item is not None:
            yield from _in_node(item, names, hidden)


def _is_meant(
    node: ast.Name, names: Mapping[str, object], hidden: frozenset[str]
) -> bool:
    return node.id in names and node.id not in hidden


def _names_bound(function: ast.FunctionDef | ast.Lambda) -> Iterator[str]:
    """Yield the parameters of a function and the names that it gives values."""
    arguments = function.args
    for arg in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
        yield arg.arg
    for star in (arguments.vararg, arguments.kwarg):
        if star is not None:
            yield star.arg
    if isinstance(function, ast.FunctionDef):
        yield from own_names(function.body)


def own_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the names that statements give values, but not those of functions in them."""
    stack: list[ast.AST] = [*body]
    while stack:
        node = stack.pop()
        if isinstance(node, ast.FunctionDef):
            yield node.name
        elif isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                yield node.id
        elif not isinstance(node, (ast.Lambda, *_COMPREHENSIONS)):
            stack += children(node)
