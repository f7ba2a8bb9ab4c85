"""Symbolic dimensions: what they are called, and where functions read them.

A dimension belongs to the scope in which `jax.export.symbolic_shape` made it, so the
text cannot make it anew: every function reads it from the shape of an argument.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from untrace import jaxapi
from untrace.ir import Block, Value
from untrace.syntax.names import Scope, identifier

EXAMPLE_SIZE = 4
_OPERATORS = frozenset(["floordiv", "mod", "max", "min"])
_WORD = re.compile(r"[A-Za-z_]\w*")
_MULTIPLE = re.compile(r"(?:(\d+)\*)?([A-Za-z_]\w*)")


def name_dimensions(block: Block, scope: Scope) -> dict[str, str]:
    """Give every symbolic dimension of a program's inputs an identifier."""
    names: dict[str, str] = {}
    for value in block.inputs:
        for size in _symbolic_sizes(value.aval):
            for word in _WORD.findall(str(size)):
                if word not in _OPERATORS and word not in names:
                    names[word] = scope.fresh_global(identifier(word, "size"))
    return names


def readings(
    values: Iterable[Value], env: Mapping[Value, str], dims: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield identifier and statement for each dimension that an argument's shape holds."""
    found: dict[str, str] = {}
    for value in values:
        shape: tuple[Any, ...] = getattr(value.aval, "shape", ())
        for axis, size in enumerate(shape):
            if not isinstance(size, jaxapi.SymbolicDim):
                continue
            match = _MULTIPLE.fullmatch(str(size))
            if match is None or match[2] not in dims:
                continue
            name, read = dims[match[2]], f"{env[value]}.shape[{axis}]"
            if match[1] is None:
                found[name] = f"{name} = {read}"
            else:
                found.setdefault(name, f"{name} = {read} // {match[1]}")
    yield from found.items()


def is_symbolic(aval: Any) -> bool:
    """Tell whether an aval has a symbolic dimension."""
    return any(True for _ in _symbolic_sizes(aval))


def mentions(lines: Iterable[str], name: str) -> bool:
    """Tell whether a name occurs in some lines."""
    pattern = re.compile(rf"\b{re.escape(name)}\b")
    return any(pattern.search(line) for line in lines)


def _symbolic_sizes(aval: Any) -> Iterator[Any]:
    for size in getattr(aval, "shape", ()):
        if isinstance(size, jaxapi.SymbolicDim):
            yield size
