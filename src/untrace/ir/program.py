"""The internal form: jaxprs as small frozen values, with sub-programs in one place.

A `Program` is a `Block` with a signature. A `Block` is the body of a jaxpr. Values are
compared by identity, as JAX compares its `Var`s. Avals and params are JAX's own
objects: shapes and dtypes are never inferred here. A param that holds a jaxpr, or a
tuple of jaxprs, holds `Block`s instead.

The three classes of which a program holds many are frozen for the type checker alone: a
frozen `__init__` sets every field by a call, which took half the time of reading a jaxpr.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any


@dataclass(frozen=TYPE_CHECKING, slots=True, eq=False)
class Value:
    """A variable: an input, a constant or a result of one equation."""

    aval: Any


@dataclass(frozen=TYPE_CHECKING, slots=True, eq=False)
class Literal:
    """A scalar that stands in an operand's place."""

    value: Any
    aval: Any


Atom = Value | Literal


@dataclass(frozen=TYPE_CHECKING, slots=True, eq=False)
class Equation:
    """One application of a primitive.

    `results` holds None where the result was dropped. `context` is JAX's equation
    context (mesh, compute type, metadata), `source_info` its traceback and name stack.
    """

    name: str
    primitive: Any
    operands: tuple[Atom, ...]
    results: tuple[Value | None, ...]
    params: Mapping[str, Any]
    effects: Any
    context: Any
    source_info: Any
    result_avals: tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The body of a jaxpr.

    `constants` pairs each constvar with its value (None where it is not known).
    `is_closed` tells how the jaxpr stood in its param. `debug_info` names arguments
    and results, as far as JAX kept names. `original` is the function of a library that
    the block is in the place of, where that may be transformed in another way.
    """

    inputs: tuple[Value, ...]
    constants: tuple[tuple[Value, Any], ...]
    equations: tuple[Equation, ...]
    outputs: tuple[Atom, ...]
    effects: Any
    is_closed: bool
    debug_info: Any
    jaxpr: Any
    original: Callable[..., Any] | None = None
