"""Find which values must have had weak types, which JAX does not print.

JAX converts a value to the type that it has only to make it strong: what is converted so
was weak, and so was what it was computed from.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from untrace.readers.jaxprs.bodies import bodies
from untrace.readers.jaxprs.syntax import Block, Equation, Name
from untrace.readers.jaxprs.types import dtype_named


class Needs(NamedTuple):
    """What of a jaxpr must be weak: variables by name, and inputs by position."""

    names: frozenset[str]
    inputs: tuple[bool, ...]


class WeakTypes:
    """What must be weak in the jaxprs of a text."""

    def __init__(self, shared: dict[str, Block]) -> None:
        self._shared = shared
        self._known: dict[tuple[int, frozenset[int]], Needs] = {}
        self._dtypes: dict[str, Any] = {}

    def of(self, block: Block, results: Iterable[int] = ()) -> Needs:
        """Return what must be weak if some results must be, by position."""
        key = id(block), frozenset(results)
        found = self._known.get(key)
        if found is None:
            # A jaxpr that is used in its own definition is refused when it is made.
            self._known[key] = Needs(frozenset(), (False,) * len(block.invars))
            found = self._known[key] = self._find(block, key[1])
        return found

    def _find(self, block: Block, results: frozenset[int]) -> Needs:
        types = {b.name: b.type for b in (*block.invars, *block.constvars)}
        for eqn in block.equations:
            types.update((b.name, b.type) for b in eqn.binders)
        weak = {
            atom.text
            for i, atom in enumerate(block.outvars)
            if i in results and isinstance(atom, Name)
        }
        for eqn in reversed(block.equations):
            weak.update(self._operands(eqn, weak, types))
        inputs = tuple([b.name in weak for b in block.invars])
        return Needs(frozenset(weak), inputs)

    def _operands(
        self, eqn: Equation, weak: set[str], types: dict[str, str]
    ) -> Iterable[str]:
        """Yield the operands of an equation that must be weak."""
        needed = [i for i, b in enumerate(eqn.binders) if b.name in weak]
        if eqn.primitive == "convert_element_type":
            return self._converted(eqn, types)
        inner = bodies(eqn, self._shared)
        if inner:
            atoms = eqn.operands
            return [
                atoms[operand].text
                for body in inner
                for operand, is_weak in zip(
                    body.operands, self.of(body.block, body.results(needed)).inputs
                )
                if is_weak and isinstance(atoms[operand], Name)
            ]
        if not needed:
            return ()
        kind = self._dtype(eqn.binders[needed[0]].type)
        return [
            atom.text
            for atom in _data_operands(eqn)
            if isinstance(atom, Name) and self._dtype(types.get(atom.text, "")) == kind
        ]

    def _converted(self, eqn: Equation, types: dict[str, str]) -> Iterable[str]:
        operand, kind = eqn.operands[:1], eqn.params.get("new_dtype")
        if (
            not operand
            or not isinstance(operand[0], Name)
            or not isinstance(kind, Name)
        ):
            return ()
        if eqn.params.get("weak_type") is not False:
            return ()
        name = operand[0].text
        is_same = self._dtype(types.get(name, "")) == dtype_named(kind.text)
        return (name,) if is_same else ()

    def _dtype(self, text: str) -> Any:
        """Return the dtype of a type as it is written."""
        found = self._dtypes.get(text)
        if found is None and text:
            found = self._dtypes[text] = dtype_named(text.partition("[")[0].strip("~"))
        return found


_ONLY_FIRST = (
    "gather",
    "dynamic_slice",
    "reduce_precision",
    "reshape",
)


def _data_operands(eqn: Equation) -> Sequence[Any]:
    """Return the operands that a result has its weak type from."""
    if eqn.primitive in _ONLY_FIRST:
        return eqn.operands[:1]
    if eqn.primitive == "select_n":
        return eqn.operands[1:]
    return eqn.operands
