"""Functions of JAX behind operations: each is proved by lowering it again.

A candidate is a function of values of the module. It is lowered for their types, and the
values of what comes out are numbered in the module's own numbering: where a number is
one that the module has, that value *is* what the candidate gives, and may be written so.
Nothing has to be known of how JAX lowers a function, in this release or another.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
from jax import lax
from jax.sharding import PartitionSpec

from untrace import jaxapi
from untrace.jaxapi.module_types import Block, Module, TensorType
from untrace.jaxapi.modules import lowered_module
from untrace.readers.stablehlo.candidates import candidates
from untrace.readers.stablehlo.collectives import Mesh, abstract_mesh, meshes_of
from untrace.readers.stablehlo.frames import Frame, Idiom
from untrace.readers.stablehlo.loops import scan_candidate
from untrace.readers.stablehlo.numbering import (
    NO_EFFECT,
    Constant,
    Numbering,
    TooLargeError,
)
from untrace.readers.stablehlo.random import draws
from untrace.readers.stablehlo.shapes import is_wide, struct
from untrace.readers.stablehlo.sizes import is_dynamic
from untrace.readers.stablehlo.tokens import without_tokens
from untrace.readers.stablehlo.variables import used_values


class Idioms:
    """Looks for idioms; lowers each candidate once for each types of operands."""

    def __init__(self, numbering: Numbering, is_artefact: bool) -> None:
        """Take the numbers of the module, and whether it was exported."""
        self.numbering = numbering
        self.is_artefact = is_artefact
        self._lowered: dict[Any, Module | None] = {}
        self._on_axes: dict[Module, dict[int, str]] = {}

    def find(self, frame: Frame, block: Block, depth: int) -> list[Idiom]:
        """Return the idioms that give values of a block, inner ones first."""
        return [*self._found(frame, block, depth)]

    def _found(self, frame: Frame, block: Block, depth: int) -> Iterator[Idiom]:
        axes = self.axis_indices(frame.module)
        known: dict[tuple[int, ...], tuple[int, ...]] = {}
        for operation in block.operations:
            made = tuple(frame.numbers[value] for value in operation.results)
            if not made:
                continue
            is_again = made in known  # then what the first was made of is at hand
            operands = tuple(frame.variables.of[value] for value in operation.operands)
            operands = known.setdefault(made, operands)
            for number in made:
                if number in axes:
                    yield Idiom(_index_along(axes[number]), (), {number: 0})
            if operation.name == "stablehlo.while":
                loop = None if is_again else scan_candidate(frame, operation, depth)
                if loop is not None:
                    found = self.proved(loop.function, loop.operands, depth, None)
                    wanted = {frame.numbers[operation.results[i]] for i in loop.results}
                    if found is not None and wanted <= found.results.keys():
                        yield found
                continue
            listed = [(*one, operands) for one in candidates(operation, block)]
            for key, function, given in (
                *listed,
                *draws(self.numbering, operation, operands),
            ):
                found = self.proved(function, given, depth, key)
                if found is not None:
                    yield found

    def axis_indices(self, module: Module) -> dict[int, str]:
        """Return the numbers of the places of a device along the axes of the meshes."""
        if module not in self._on_axes:
            found: dict[int, str] = {}
            for mesh in meshes_of(module):
                for name, _ in mesh:
                    number = self._axis_index(mesh, name)
                    if number is not None and not self._is_plain(number):
                        found[number] = name
            self._on_axes[module] = found
        return self._on_axes[module]

    def _axis_index(self, mesh: Mesh, name: str) -> int | None:
        """Number what `lax.axis_index` is lowered to for each device of a mesh."""
        mapped = jax.shard_map(
            _index_along(name),
            mesh=abstract_mesh(mesh),
            in_specs=(),
            out_specs=[PartitionSpec()],
            check_vma=False,
        )
        module = self._of(mapped, [])
        for one in module.operations() if module is not None else ():
            if module is not None and one.name == "sdy.manual_computation":
                ((number,), _) = self.numbering.inlined(
                    module, one.regions[0], [], {}, 0, NO_EFFECT
                )
                return number
        return None

    def proved(
        self,
        function: Callable[..., Sequence[Any]],
        operands: tuple[int, ...],
        depth: int,
        key: Any,
    ) -> Idiom | None:
        """Return an idiom if some of what a candidate gives are values of the module."""
        numbers = tuple(map(self.numbering.first, operands))
        types = [self.numbering.type(number) for number in numbers]
        if not all(isinstance(kind, TensorType) for kind in types):
            return None
        if any(map(is_dynamic, types)):
            return None
        if any(map(is_wide, types)) and not jaxapi.is_wide():
            return None
        known = len(self.numbering.keys)
        module = self._lower(function, types, key)
        if module is None:
            return None
        try:
            results, _ = self.numbering.function(
                module, module.main, numbers, {}, depth
            )
        except TooLargeError:
            return None
        found = {
            number: index
            for index, number in reversed([*enumerate(results)])
            if number < known and number not in numbers and not self._is_plain(number)
        }
        used, _ = used_values(module.main.block)
        kept = [
            number if argument in used else None
            for number, argument in zip(operands, module.main.block.arguments)
        ]
        return Idiom(function, tuple(kept), found) if found else None

    def _is_plain(self, number: int) -> bool:
        """Whether a value is a constant or handed in, and so nothing that is computed."""
        key = self.numbering.keys[number]
        return isinstance(key, Constant) or not hasattr(key, "made")

    def _lower(self, function: Any, types: list[Any], key: Any) -> Module | None:
        which = None if key is None else (key, *types)
        if which is None or which not in self._lowered:
            module = self._of(function, types)
            if which is None:
                return module
            self._lowered[which] = module
        return self._lowered[which]

    def _of(self, function: Any, types: list[Any]) -> Module | None:
        given = [struct(kind) for kind in types]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return without_tokens(
                    lowered_module(function, given, is_artefact=self.is_artefact)
                )
        except Exception:  # a candidate that JAX does not take for these types is none
            return None


def _index_along(axis: str) -> Callable[[], list[Any]]:
    return lambda: [lax.axis_index(axis)]
