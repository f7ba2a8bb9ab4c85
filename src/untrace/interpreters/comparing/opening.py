"""Open calls that one of two programs makes and the other does without."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, from_jaxpr, to_jaxpr
from untrace.ir.convert import params_of_jax
from untrace.lifting.blocks.inlining import Inliner, renamed


def with_opened(block: Block, calls: Collection[Equation]) -> Block:
    """Put what some equations call in their places."""
    opener = _Opener(calls)
    made = opener.opened_block(block)
    # The checker reads jaxprs; sub-programs stay those that they are.
    equations = tuple(
        [replace(eqn, params=params_of_jax(eqn.params)) for eqn in made.equations]
    )
    return from_jaxpr(to_jaxpr(replace(made, equations=equations)))


def may_be_opened(block: Block) -> bool:
    """Whether calls in a block can be opened: effects must not name variables of JAX."""
    return not any(
        isinstance(effect, jaxapi.JaxprInputEffect)
        and not isinstance(effect.input, int)
        for eqn in block.equations
        for effect in eqn.effects
    )


def called(eqn: Equation) -> Block | None:
    """The block that an equation calls."""
    found = [param for param in eqn.params.values() if isinstance(param, Block)]
    return found[0] if len(found) == 1 else None


class _Opener(Inliner):
    def __init__(self, calls: Collection[Equation]) -> None:
        super().__init__()
        self._calls = set(map(id, calls))

    def opened_block(self, block: Block) -> Block:
        return self._open(block)

    def block(self, block: Block) -> Block:
        return block  # what is inside is compared by itself

    def opened(self, eqn: Equation, operands: Sequence[Atom]) -> Block | None:
        if id(eqn) not in self._calls:
            return None
        block = called(eqn)
        if block is None or not may_be_opened(block):
            return None
        if len(block.inputs) != len(operands):
            return None
        return renamed(block, dict(zip(block.inputs, operands)))
