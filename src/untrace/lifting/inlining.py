"""Put the equations of jitted functions in the places of their calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value


def without_jit(block: Block) -> Block:
    """Open the jitted functions that a block calls, and those of its sub-programs.

    Functions that are jitted with options, such as shardings, stay.
    """
    return _Inliner({}).block(block)


class _Inliner:
    def __init__(self, blocks: dict[int, tuple[Block, Block]]) -> None:
        self._blocks = blocks

    def block(self, block: Block) -> Block:
        """Open the calls of a block, once."""
        known = self._blocks.get(id(block))
        if known is None:
            env: dict[Atom, Atom] = {}
            constants = dict(block.constants)
            equations = tuple(self._equations(block, env, constants))
            outputs = tuple([env.get(atom, atom) for atom in block.outputs])
            made = replace(
                block,
                constants=tuple(constants.items()),
                equations=equations,
                outputs=outputs,
            )
            known = self._blocks[id(block)] = block, made
        return known[1]

    def _equations(
        self, block: Block, env: dict[Atom, Atom], constants: dict[Value, Any]
    ) -> Iterator[Equation]:
        """Yield equations, reading and adding to what stands for each value."""
        for eqn in block.equations:
            operands = tuple([env.get(atom, atom) for atom in eqn.operands])
            if not _is_plain_call(eqn):
                params = {key: self._param(p) for key, p in eqn.params.items()}
                yield replace(eqn, operands=operands, params=params)
                continue
            inner = _renamed(self.block(eqn.params["jaxpr"]))
            constants.update(inner.constants)
            passed: dict[Atom, Atom] = dict(zip(inner.inputs, operands))
            for made in inner.equations:
                read = tuple([passed.get(atom, atom) for atom in made.operands])
                yield replace(made, operands=read)
            for result, atom in zip(eqn.results, inner.outputs):
                if result is not None:
                    env[result] = passed.get(atom, atom)

    def _param(self, param: Any) -> Any:
        if isinstance(param, Block):
            return self.block(param)
        if type(param) is tuple and any(isinstance(p, Block) for p in param):  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
            return tuple([self._param(item) for item in param])  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
        return param


def _is_plain_call(eqn: Equation) -> bool:
    """Tell whether an equation calls a function that is jitted without options."""
    params = eqn.params
    if eqn.name != "jit" or not isinstance(params.get("jaxpr"), Block):
        return False
    shardings = (*params["in_shardings"], *params["out_shardings"])
    return not any(params["donated_invars"]) and all(
        map(jaxapi.is_unspecified, shardings)
    )


def _renamed(block: Block) -> Block:
    """Give the values of a block new identities: a function may be called twice."""
    env: dict[Atom | None, Any] = {}
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
