"""What a template is given besides its operands: an operation that is being stated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from jax import lax

from untrace.errors import LoadError
from untrace.jaxapi.module_types import Block, Operation, Place, TensorType

Function = Callable[..., list[Any]]


class Call:
    """An operation that is stated anew.

    Attributes that no template asked for are not understood; `check` refuses them, and so
    no row of a table has to list what it does not know.
    """

    def __init__(
        self,
        operation: Operation,
        function: str,
        region: Callable[[Block], Function],
        constants: Sequence[Any] = (),
        blocks: Mapping[str, Block] | None = None,
    ) -> None:
        """Take an operation, the function that it is in, and what makes a region run.

        `constants` are the operands that are known, and None for each other one; `blocks`
        those of the functions that the operation names.
        """
        self.blocks = blocks or {}
        self.operation = operation
        self.name = operation.name
        self._constants = constants
        self._function = function
        self._region = region
        self._asked: set[str] = set()
        self._shape: tuple[Any, ...] | None = None

    def __getitem__(self, name: str) -> Any:
        """Return an attribute; an operation without it is refused."""
        self._asked.add(name)
        if name not in self.operation.attributes:
            raise self.refused(f"has no attribute `{name}`")
        return self.operation.attributes[name]

    def get(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or what stands for it where it is left out."""
        self._asked.add(name)
        return self.operation.attributes.get(name, default)

    def constant(self, index: int) -> list[Any]:
        """Return the numbers in an operand that has to be known."""
        known = self._constants[index]
        if known is None:
            raise self.refused(
                "has a shape that is computed when it runs",
                "Lower or export the function for shapes that are known.",
            )
        return known.tolist()

    def shaped(self, index: int) -> Call:
        """Return the call with the shape of its result, which an operand says."""
        (value,) = self.operation.results
        kind = self.checked(value.type)
        if None in kind.shape:
            sizes = tuple(self.constant(index))
            self._shape = sizes
        return self

    def ignore(self, *names: str) -> None:
        """Let attributes pass that say nothing about values."""
        self._asked.update(names)

    @property
    def types(self) -> list[TensorType]:
        """The types of the results."""
        return [self.checked(value.type) for value in self.operation.results]

    @property
    def type(self) -> TensorType:
        """The type of the first result."""
        return self.types[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the first result."""
        return self.type.shape if self._shape is None else self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the first result."""
        return self.type.dtype

    def region(self, index: int = 0) -> Function:
        """Return a region as a function of its arguments."""
        return self._region(self.operation.regions[index])

    def n_regions(self) -> int:
        """Return the number of regions."""
        return len(self.operation.regions)

    def computation(self, index: int = 0) -> Callable[..., Any]:
        """Return a region over scalars as JAX takes it: `lax.add` if it does only that."""
        known = self.monoid(self.operation.regions[index])
        if known is not None:
            return known
        function = self.region(index)

        def computed(one: Any, other: Any) -> Any:
            if isinstance(one, tuple | list):
                return tuple(function(*one, *other))
            return function(one, other)[0]

        return computed

    def monoid(self, block: Block) -> Callable[[Any, Any], Any] | None:
        """Return the function of JAX that a block of two scalars is, if it is one."""
        only = _only_operation(block)
        if only is None or only.operands != block.arguments or only.attributes:
            return None
        kind = self.checked(block.arguments[0].type).dtype
        return (MONOIDS_OF_BOOLS if kind.kind == "b" else MONOIDS).get(only.name)

    def checked(self, kind: Any) -> TensorType:
        """Return the type of an array, and refuse all others."""
        if not isinstance(kind, TensorType):
            raise self.refused(f"is of type {kind}, which JAX cannot express")
        return kind

    def check(self) -> None:
        """Refuse the operation if it has attributes that nobody asked for."""
        unknown = set(self.operation.attributes) - self._asked - _SAYING_NOTHING
        if unknown:
            listed = ", ".join(f"`{name}`" for name in sorted(unknown))
            raise self.refused(f"has attributes that are not understood: {listed}")

    def refused(self, why: str, then: str = "") -> LoadError:
        """Return the error that says where an operation stands and why it is not read."""
        where = where_from(self.operation.place)
        return LoadError(
            f"cannot read `{self.name}` in `{self._function}`{where}: it {why}. "
            + (then or f"Replace it by operations that JAX has; {SEE}")
        )


def _only_operation(block: Block) -> Operation | None:
    """Return the operation that a block returns if it does nothing else."""
    only, *others = block.operations or (None,)
    if only is None or any(one.name != "sdy.sharding_constraint" for one in others):
        return None
    last = others[-1] if others else only  # each constrains what stands before it
    return only if last.results == block.returned else None


SEE = "docs/stablehlo.md lists what is read."

MONOIDS: dict[str, Callable[[Any, Any], Any]] = {
    "stablehlo.add": lax.add,
    "stablehlo.multiply": lax.mul,
    "stablehlo.maximum": lax.max,
    "stablehlo.minimum": lax.min,
    "stablehlo.and": lax.bitwise_and,
    "stablehlo.or": lax.bitwise_or,
    "stablehlo.xor": lax.bitwise_xor,
}
MONOIDS_OF_BOOLS = {
    **MONOIDS,
    "stablehlo.add": lax.bitwise_or,
    "stablehlo.multiply": lax.bitwise_and,
}

_SAYING_NOTHING = {
    *("sdy.sharding", "sdy.sharding_rule", "mhlo.sharding", "mhlo.frontend_attributes"),
    *("xla_shape", "mhlo.layout_mode"),
}


def where_from(place: Place) -> str:
    """Return where an operation comes from, as it stands in a message."""
    if place.file:
        return f" ({place.file.rpartition('/')[2]}:{place.line})"
    return f" (line {place.line}, column {place.column})" if place.line else ""


def pairs(flat: Sequence[Any]) -> list[tuple[int, int]]:
    """Return the rows of a table of two columns as pairs."""
    return [(int(low), int(high)) for low, high in flat]
