"""Read jaxprs into the internal form and write them back.

Both directions keep every equation, param, aval, effect and context; the round trip is
tested on the whole corpus. A jaxpr object that occurs twice becomes one `Block`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from untrace import jaxapi
from untrace.ir.program import Atom, Block, Equation, Literal, Value

# This module is run for every equation: what it looks at is looked up once.
_DropVar, _JaxprLiteral = jaxapi.DropVar, jaxapi.JaxprLiteral
_JAXPR_TYPES = frozenset(jaxapi.JAXPR_TYPES)
_PLAIN_TYPES = frozenset([type(None), bool, int, float, str])


def from_jaxpr(jaxpr: Any) -> Block:
    """Read a closed or open jaxpr."""
    return _Reader().block(jaxpr)


def to_jaxpr(block: Block) -> Any:
    """Rebuild the jaxpr that `block` was read from, with new variables."""
    return _Writer().jaxpr(block)


def params_of_jax(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of an equation as it was read, with jaxprs for sub-programs."""
    return {key: _param_of_jax(param) for key, param in params.items()}


def _param_of_jax(param: Any) -> Any:
    if isinstance(param, Block):
        return param.jaxpr
    if isinstance(param, tuple) and any(isinstance(item, Block) for item in param):
        return rebuilt(param, [_param_of_jax(item) for item in param])
    return param


class _Reader:
    def __init__(self) -> None:
        self.blocks: dict[int, Block] = {}

    def block(self, jaxpr: Any) -> Block:
        known = self.blocks.get(id(jaxpr))
        if known is None:
            known = self.blocks[id(jaxpr)] = self._read(jaxpr)
        return known

    def _read(self, jaxpr: Any) -> Block:
        body, consts = jaxapi.split_jaxpr(jaxpr)
        env: dict[Any, Value] = {}
        constvars = body.constvars
        known = consts if consts else [None] * len(constvars)
        constants = tuple((_define(env, v), c) for v, c in zip(constvars, known))
        inputs = tuple([_define(env, v) for v in body.invars])
        equations = tuple([self._equation(env, eqn) for eqn in body.eqns])
        outputs = tuple([_atom(env, v) for v in body.outvars])
        return Block(
            inputs,
            constants,
            equations,
            outputs,
            body.effects,
            jaxapi.is_closed(jaxpr),
            body.debug_info,
            jaxpr,
        )

    def _equation(self, env: dict[Any, Value], eqn: Any) -> Equation:
        results: list[Value | None] = []
        for var in eqn.outvars:
            if type(var) is _DropVar:
                results.append(None)
            else:
                value = env[var] = Value(var.aval)
                results.append(value)
        primitive, params = eqn.primitive, eqn.params
        return Equation(
            jaxapi.primitive_name(primitive),
            primitive,
            tuple(
                [
                    Literal(v.val, v.aval) if type(v) is _JaxprLiteral else env[v]
                    for v in eqn.invars
                ]
            ),
            tuple(results),
            self._params(params) if params else params,
            eqn.effects,
            eqn.ctx,
            eqn.source_info,
            tuple([var.aval for var in eqn.outvars]),
        )

    def _params(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        changed: dict[str, Any] | None = None
        for key, param in params.items():
            kind = type(param)
            if kind in _PLAIN_TYPES:
                continue
            if kind in _JAXPR_TYPES:
                block: Any = self.block(param)
            elif isinstance(param, tuple) and _holds_jaxpr(param):
                block = self._tuple(param)
            else:
                continue
            if changed is None:
                changed = dict(params)
            changed[key] = block
        return params if changed is None else changed

    def _tuple(self, param: tuple[Any, ...]) -> tuple[Any, ...]:
        items: list[Any] = [self.block(p) if jaxapi.is_jaxpr(p) else p for p in param]
        return rebuilt(param, items)


def rebuilt(param: Any, items: list[Any]) -> tuple[Any, ...]:
    """Return a tuple, or a named tuple of the same kind, of other items."""
    return type(param)(*items) if hasattr(param, "_fields") else tuple(items)


def _holds_jaxpr(param: tuple[Any, ...]) -> bool:
    for item in param:  # noqa: SIM110  # `any` of a generator costs twice as much
        if type(item) in _JAXPR_TYPES:
            return True
    return False


def _define(env: dict[Any, Value], var: Any) -> Value:
    value = env[var] = Value(var.aval)
    return value


def _atom(env: dict[Any, Value], atom: Any) -> Atom:
    if type(atom) is _JaxprLiteral:
        return Literal(atom.val, atom.aval)
    return env[atom]


class _Writer:
    def __init__(self) -> None:
        self.jaxprs: dict[Block, Any] = {}

    def jaxpr(self, block: Block) -> Any:
        known = self.jaxprs.get(block)
        if known is None:
            known = self.jaxprs[block] = self._write(block)
        return known

    def _write(self, block: Block) -> Any:
        env: dict[Value, Any] = {}

        def var(value: Value) -> Any:
            env[value] = made = jaxapi.new_var(value.aval)
            return made

        def atom(operand: Atom) -> Any:
            if isinstance(operand, Literal):
                return jaxapi.JaxprLiteral(operand.value, operand.aval)
            return env[operand]

        constvars = [var(value) for value, _ in block.constants]
        inputs = [var(value) for value in block.inputs]
        eqns = [
            jaxapi.new_eqn(
                [atom(operand) for operand in eqn.operands],
                [
                    jaxapi.DropVar(aval) if result is None else var(result)
                    for result, aval in zip(eqn.results, eqn.result_avals)
                ],
                eqn,
                self._params(eqn.params),
            )
            for eqn in block.equations
        ]
        outputs = [atom(output) for output in block.outputs]
        return jaxapi.new_jaxpr(
            constvars,
            [const for _, const in block.constants],
            inputs,
            outputs,
            eqns,
            block,
        )

    def _params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {key: self._param(param) for key, param in params.items()}

    def _param(self, param: Any) -> Any:
        if isinstance(param, Block):
            return self.jaxpr(param)
        if isinstance(param, tuple) and any(isinstance(p, Block) for p in param):
            return rebuilt(param, [self._param(p) for p in param])
        return param
