"""Write primitives of libraries as what they compute.

Equinox has primitives such as `nonbatchable`, which returns what it is given and refuses
to be batched. A file that binds them needs the library. Their implementations are
traced instead: the equations of JAX's own primitives that compute the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value, from_jaxpr
from untrace.lifting.blocks.inlining import renamed
from untrace.lifting.lifter import Lifter

OPENED = "Written as what they compute"


class Opener:
    """Puts what primitives of libraries compute in the places of their equations.

    Args:
      keep: Leave them as they are.

    Attributes:
      opened: The primitives that were.
    """

    def __init__(self, keep: bool = False) -> None:
        self._keep = keep
        self.opened: dict[Any, None] = {}
        self._blocks: dict[int, tuple[Block, Block]] = {}

    def block(self, block: Block) -> Block:
        """Open the equations of a block and of its sub-programs, once."""
        if self._keep:
            return block
        known = self._blocks.get(id(block))
        if known is None:
            known = self._blocks[id(block)] = block, self._open(block)
        return known[1]

    def note(self, lifter: Lifter) -> None:
        """Let the module and its header know the primitives that were opened."""
        if not self.opened:
            return
        lifter.opened = frozenset(self.opened)
        names = sorted({f"`{primitive.name}`" for primitive in self.opened})
        owners = sorted({jaxapi.library_of(primitive) for primitive in self.opened})
        lifter.note(
            f"{OPENED}: {', '.join(names)} of {', '.join(owners)}. "
            "Their rules for `vmap` and `grad` are not kept."
        )

    def _open(self, block: Block) -> Block:
        env: dict[Atom, Atom] = {}
        constants = dict(block.constants)
        equations = tuple(self._equations(block, env, constants))
        if equations == block.equations:
            return block
        return replace(
            block,
            constants=tuple(constants.items()),
            equations=equations,
            outputs=tuple([env.get(atom, atom) for atom in block.outputs]),
        )

    def _equations(
        self, block: Block, env: dict[Atom, Atom], constants: dict[Value, Any]
    ) -> Iterator[Equation]:
        for eqn in block.equations:
            operands = tuple([env.get(atom, atom) for atom in eqn.operands])
            made = self._implementation(eqn)
            if made is None:
                yield self._with_parts(eqn, operands)
                continue
            made = renamed(made, dict(zip(made.inputs, operands)))
            constants.update(made.constants)
            for inner in made.equations:
                yield replace(inner, source_info=eqn.source_info)
            for result, atom in zip(eqn.results, made.outputs):
                if result is not None:
                    env[result] = atom

    def _with_parts(self, eqn: Equation, operands: tuple[Atom, ...]) -> Equation:
        params = {key: self._param(param) for key, param in eqn.params.items()}
        same = all(params[key] is param for key, param in eqn.params.items())
        if same and operands == eqn.operands:
            return eqn
        return replace(eqn, operands=operands, params=eqn.params if same else params)

    def _param(self, param: Any) -> Any:
        if isinstance(param, Block):
            return self.block(param)
        if type(param) is tuple and any(isinstance(p, Block) for p in param):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            return tuple([self._param(item) for item in param])  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        return param

    def _implementation(self, eqn: Equation) -> Block | None:
        """Return what an equation computes, if its primitive is a library's."""
        if not jaxapi.library_of(eqn.primitive):
            return None
        avals = [atom.aval for atom in eqn.operands]
        jaxpr = jaxapi.implementation(
            eqn.primitive, eqn.params, avals, eqn.result_avals
        )
        if jaxpr is None:
            return None
        self.opened[eqn.primitive] = None
        return self.block(from_jaxpr(jaxpr))
