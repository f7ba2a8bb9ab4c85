"""Put the equations of jitted functions in the places of their calls."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Literal, Value


def without_jit(block: Block) -> Block:
    """Open the jitted functions of the user in a block and its sub-programs.

    What stays: JAX's own, those that are jitted with options, such as shardings, and
    those of which an equation would have constants alone, which may then be folded.
    """
    return _JitInliner().block(block)


class Inliner(abc.ABC):
    """Puts the equations that some equations stand for in their places."""

    def __init__(self) -> None:
        self._blocks: dict[int, tuple[Block, Block]] = {}

    @abc.abstractmethod
    def opened(self, eqn: Equation, operands: Sequence[Atom]) -> Block | None:
        """Return what an equation stands for, at its operands; None if it stays."""

    def block(self, block: Block) -> Block:
        """Open the equations of a block and of its sub-programs, once."""
        known = self._blocks.get(id(block))
        if known is None:
            known = self._blocks[id(block)] = block, self._open(block)
        return known[1]

    def _open(self, block: Block) -> Block:
        env: dict[Atom, Atom] = {}
        constants = dict(block.constants)
        equations = tuple(self._equations(block, env, constants))
        if len(equations) == len(block.equations) and all(
            made is eqn for made, eqn in zip(equations, block.equations)
        ):
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
        """Yield equations, reading and adding to what stands for each value."""
        for eqn in block.equations:
            operands = tuple([env.get(atom, atom) for atom in eqn.operands])
            made = self.opened(eqn, operands)
            if made is None:
                yield self._with_parts(eqn, operands)
                continue
            constants.update(made.constants)
            yield from made.equations
            for result, atom in zip(eqn.results, made.outputs):
                if result is not None:
                    env[result] = atom

    def _with_parts(self, eqn: Equation, operands: tuple[Atom, ...]) -> Equation:
        params = {key: self._param(param) for key, param in eqn.params.items()}
        is_same = all(params[key] is param for key, param in eqn.params.items())
        if is_same and operands == eqn.operands:
            return eqn
        return replace(eqn, operands=operands, params=eqn.params if is_same else params)

    def _param(self, param: Any) -> Any:
        if isinstance(param, Block):
            return self.block(param)
        if type(param) is tuple and any(isinstance(p, Block) for p in param):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            made = tuple([self._param(item) for item in param])  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            is_same = all(one is item for one, item in zip(made, param))  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            return param if is_same else made  # pyright: ignore[reportUnknownVariableType]
        return param


class _JitInliner(Inliner):
    def opened(self, eqn: Equation, operands: Sequence[Atom]) -> Block | None:
        if not _is_plain_call(eqn):
            return None
        block = self.block(eqn.params["jaxpr"])
        made = renamed(block, dict(zip(block.inputs, operands)))
        for before, after in zip(block.equations, made.equations):
            if _is_constant(after) and not _is_constant(before):
                return None
        return made


def _is_plain_call(eqn: Equation) -> bool:
    """Whether an equation calls a function that the user has jitted plainly."""
    params = eqn.params
    if eqn.name != "jit" or not isinstance(params.get("jaxpr"), Block):
        return False
    shardings = (*params["in_shardings"], *params["out_shardings"])
    is_plain = not any(params["donated_invars"]) and all(
        map(jaxapi.is_unspecified, shardings)
    )
    block: Block = params["jaxpr"]
    if block.original is not None:
        return False
    return is_plain and not jaxapi.is_made_by_jax(block.debug_info)


def _is_constant(eqn: Equation) -> bool:
    """Whether an equation takes constants alone."""
    return all(type(atom) is Literal for atom in eqn.operands)


def renamed(block: Block, env: dict[Any, Any]) -> Block:
    """Write a block over other inputs, with values of its own: it may be called twice."""
    for value, _ in block.constants:
        env[value] = Value(value.aval)
    equations: list[Equation] = []
    for eqn in block.equations:
        operands = tuple([env.get(atom, atom) for atom in eqn.operands])
        for value in eqn.results:
            if value is not None:
                env[value] = Value(value.aval)
        results = tuple([env.get(value, value) for value in eqn.results])
        equations.append(replace(eqn, operands=operands, results=results))
    return replace(
        block,
        constants=tuple([(env[value], const) for value, const in block.constants]),
        equations=tuple(equations),
        outputs=tuple([env.get(atom, atom) for atom in block.outputs]),
    )
