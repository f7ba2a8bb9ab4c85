"""Symbolic dimensions: what they are called, and where functions read them.

A dimension belongs to the scope in which `jax.export.symbolic_shape` made it, so the
text cannot make it anew: every function reads it from the shape of an argument.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Block, Value
from untrace.parsing import parse
from untrace.syntax.names import Scope, identifier
from untrace.syntax.text import occurs

EXAMPLE_SIZE = 4
_OPERATORS = frozenset(["floordiv", "mod", "max", "min"])
_WORD = re.compile(r"[A-Za-z_]\w*")


def name_dimensions(block: Block, scope: Scope) -> dict[str, str]:
    """Give every symbolic dimension of a program's inputs an identifier.

    So has a size such as `a*b` if its dimensions follow from no shapes.
    """
    names: dict[str, str] = {}
    sizes = [size for value in block.inputs for size in _symbolic_sizes(value.aval)]
    for size in sizes:
        for word in _WORD.findall(str(size)):
            if word not in _OPERATORS and word not in names:
                names[word] = scope.fresh_global(identifier(word, "size"))
    known = {name for name, _, _ in _solved(sizes)}
    for size in sizes:
        if not known.issuperset(size.get_vars()):
            names[str(size)] = names.get(str(size)) or scope.fresh_global("size")
    return names


def _solved(
    sizes: Sequence[Any],
) -> Iterator[tuple[str, int, tuple[Any, Any]]]:
    """Yield the dimensions that follow from sizes, each after those that it needs.

    Yields:
      Name, position of the size, and `c` and `r` where that is `c * name + r`.
    """
    found: set[str] = set()
    n_found = -1
    while n_found < len(found):
        n_found = len(found)
        for position, size in enumerate(sizes):
            left = size.get_vars() - found
            linear = jaxapi.linear_in(size, *left) if len(left) == 1 else None
            if linear is not None:
                yield (*left, position, linear)
                found |= left


def readings(
    values: Iterable[Value],
    env: Mapping[Value, str],
    dims: Mapping[str, str],
    spell: Callable[[Any], str],
) -> Iterator[tuple[str, str]]:
    """Yield identifier and statement for each dimension that an argument's shape holds."""
    sizes = [
        (size, f"{env[value]}.shape[{axis}]")
        for value in values
        for axis, size in enumerate(_shape(value.aval))
        if isinstance(size, jaxapi.SymbolicDim)
    ]
    sizes.sort(key=lambda item: len(str(item[0])))  # what stands alone is read first
    solved: set[str] = set()
    for name, position, (factor, rest) in _solved([size for size, _ in sizes]):
        solved.add(name)
        text = sizes[position][1]
        if rest != 0:
            text = f"({text} - ({spell(rest)}))"
        if factor != 1:
            text = f"{text} // ({spell(factor)})"
        if name in dims:
            yield dims[name], f"{dims[name]} = {ast.unparse(parse(text, 'eval'))}"
    for size, read in sizes:
        if str(size) in dims and str(size) not in solved:
            yield dims[str(size)], f"{dims[str(size)]} = {read}"


def is_symbolic(aval: Any) -> bool:
    """Whether an aval has a symbolic dimension."""
    return any(True for _ in _symbolic_sizes(aval))


def mentions(lines: Iterable[str], name: str) -> bool:
    """Whether a name occurs in some lines."""
    return any(occurs(name, line) for line in lines)


def _symbolic_sizes(aval: Any) -> Iterator[Any]:
    for size in _shape(aval):
        if isinstance(size, jaxapi.SymbolicDim):
            yield size


def _shape(aval: Any) -> tuple[Any, ...]:
    return getattr(aval, "shape", ())
