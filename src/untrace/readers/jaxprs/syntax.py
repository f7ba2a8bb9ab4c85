"""The tree of a printed jaxpr: what is written, before anything is known of primitives.

Every node says where it begins in the text.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Name(NamedTuple):
    """A variable, or a word that may be the name of anything."""

    text: str
    at: int


class Literal(NamedTuple):
    """A number, or a constant that is not printed, with its type if it has one.

    Attributes:
      value: The number as Python has it; `...` for a constant that is not printed.
      type: As it is written; "" if it is not.
    """

    value: Any
    type: str
    at: int


class Binder(NamedTuple):
    """A variable where it is bound, with its type if it is written."""

    name: str
    type: str
    at: int


class Call(NamedTuple):
    """A value that is written like a call, such as `GatherDimensionNumbers(...)`."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    at: int


class Raw(NamedTuple):
    """A value that is no structure that is known, as it is written."""

    text: str
    at: int


class Slice(NamedTuple):
    """A slice in an index: start, stop and step, None where nothing is written."""

    parts: tuple[Any, ...]
    at: int


class Equation(NamedTuple):
    """An equation.

    Attributes:
      binders: What it binds.
      primitive: The name of its primitive.
      params: Values by name: what Python has of numbers, texts, tuples, lists and
        dictionaries, with nodes in them.
      operands: Names and literals.
      at: Where the name of its primitive stands.
      written: The params as they are written.
    """

    binders: list[Binder]
    primitive: str
    params: dict[str, Any]
    operands: list[Any]
    at: int
    written: str = ""


class Block(NamedTuple):
    """A jaxpr: `{ lambda constvars ; invars. let equations in (outvars) }`."""

    constvars: list[Binder]
    invars: list[Binder]
    equations: list[Equation]
    outvars: list[Any]
    at: int


class Blocks(NamedTuple):
    """Several jaxprs in parentheses; names stand for those that are shared."""

    items: tuple[Any, ...]
    at: int


class Printed(NamedTuple):
    """A whole text.

    Attributes:
      shared: Jaxprs that are used several times, by name.
      block: The jaxpr itself.
      at: Where it begins.
      has_constants: Whether jaxprs in it have constants.
    """

    shared: dict[str, Block]
    block: Block
    at: int
    has_constants: bool = False
