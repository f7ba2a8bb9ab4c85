"""Narrow the loops that the failure needs: fewer carried values, fewer stacked inputs.

A carried value that goes keeps what it has when it enters the loop; if it was what is
left of the outputs, the program may return one that stays. A stacked input that goes has
its first row in every step. Constants that nothing reads are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.ir import Block, Equation, from_jaxpr
from untrace.jaxapi import evaluation
from untrace.reduction.applying import apply, check_loop
from untrace.reduction.delta import minimize
from untrace.reduction.edits import Edits, Rewriting
from untrace.reduction.program import Program, open_equations
from untrace.reduction.search import Search


def narrow_loops(search: Search) -> None:
    """Narrow one loop after the other."""
    n_loops = len(_loops(search))
    for index in range(n_loops):
        loops = _loops(search)
        if index < len(loops):
            _narrow(search, loops[index])


def _loops(search: Search) -> list[Equation]:
    everything = open_equations(search.best.block)
    return [eqn for eqn in everything if eqn.name in ("while", "scan")]


def _narrow(search: Search, eqn: Equation) -> None:
    base = search.best
    n = len(_moving(eqn))

    def suffices(kept: list[int]) -> bool:
        ways = [_while(eqn, kept) if eqn.name == "while" else _scan(eqn, kept)]
        if eqn.name == "while" and kept and _returns_only(base, eqn, kept):
            ways.append(_while(eqn, kept, is_returned=True))
        return search.first(apply(base, Edits(rewritten={eqn: way})) for way in ways)

    everything = list(range(n))
    if n > 1 or eqn.name == "scan":
        suffices(everything)  # the loop made anew may be smaller by itself
    if n > 1:
        minimize(everything, suffices)


def _moving(eqn: Equation) -> Sequence[Any]:
    """Return the operands that change from step to step: carries, then stacked ones."""
    if eqn.name == "while":
        return eqn.operands[eqn.params["cond_nconsts"] + eqn.params["body_nconsts"] :]
    n_consts, _ = jaxapi.scan_sizes(eqn.params)
    return eqn.operands[n_consts:]


def _returns_only(program: Program, eqn: Equation, kept: Collection[int]) -> bool:
    """Whether a program returns nothing but what a loop carries and is not kept."""
    gone = {value for i, value in enumerate(eqn.results) if i not in kept}
    return gone.issuperset(program.block.outputs)


def _while(
    eqn: Equation, kept: Collection[int], is_returned: bool = False
) -> Rewriting:
    params = eqn.params
    cond = jaxapi.as_function(params["cond_jaxpr"].jaxpr)
    body = jaxapi.as_function(params["body_jaxpr"].jaxpr)
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond_name, body_name = _name(params["cond_jaxpr"]), _name(params["body_jaxpr"])

    def rewritten(operands: list[Any]) -> Sequence[Any]:
        of_cond, of_body = operands[:n_cond], operands[n_cond : n_cond + n_body]
        init = operands[n_cond + n_body :]
        chosen = [i for i in range(len(init)) if i in kept]
        gone = [i for i in range(len(init)) if i not in kept]
        moving = [init[i] for i in chosen]

        def full(others: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
            known = {**dict(zip(gone, others)), **dict(zip(chosen, carry))}
            return [known[i] for i in range(len(init))]

        def still(consts: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
            return cond(*consts[:n_cond], *full(consts[n_cond:], carry))

        def step(consts: Sequence[Any], carry: Sequence[Any]) -> list[Any]:
            found = body(*consts[:n_body], *full(consts[n_body:], carry))
            return [found[i] for i in chosen]

        held = [init[i] for i in gone]
        cond_jaxpr, cond_consts = _closed(cond_name, still, [*of_cond, *held], moving)
        body_jaxpr, body_consts = _closed(body_name, step, [*of_body, *held], moving)
        made = {
            **params,
            "cond_jaxpr": cond_jaxpr,
            "body_jaxpr": body_jaxpr,
            "cond_nconsts": len(cond_consts),
            "body_nconsts": len(body_consts),
        }
        check_loop(eqn, made)
        found = evaluation.bind(eqn, made, [*cond_consts, *body_consts, *moving])
        return full([found[0] for _ in gone] if is_returned else held, found)

    return rewritten


Body = Callable[[Sequence[Any], Sequence[Any]], list[Any]]


def _name(block: Block) -> str:
    return getattr(block.debug_info, "func_name", None) or "body"


def _closed(
    name: str, function: Body, consts: list[Any], moving: list[Any]
) -> tuple[Any, list[Any]]:
    """Trace the body of a loop over the constants that it reads, and return these.

    `jax.lax.while_loop` would do this, but takes the loop away whose result does not
    change, and the failure with it.
    """
    n = len(consts)
    avals = [evaluation.aval(value) for value in (*consts, *moving)]
    whole = jaxapi.trace_flat(lambda *v: function(v[:n], v[n:]), avals)
    block = from_jaxpr(whole)
    read = {atom for eqn in block.equations for atom in eqn.operands}
    read.update(block.outputs)
    used = [i for i in range(n) if block.inputs[i] in read]

    def of_used(*carry: Any) -> list[Any]:
        given: list[Any] = [np.zeros(aval.shape, np.float32) for aval in avals[:n]]
        for i, value in zip(used, carry):
            given[i] = value
        return function(given, carry[len(used) :])

    types = [*(avals[i] for i in used), *avals[n:]]
    return jaxapi.trace_flat(of_used, types, name), [consts[i] for i in used]


def _scan(eqn: Equation, kept: Collection[int]) -> Rewriting:
    params = eqn.params
    body = jaxapi.as_function(params["jaxpr"].jaxpr)
    n_consts, n_carry = jaxapi.scan_sizes(params)

    def rewritten(operands: list[Any]) -> Sequence[Any]:
        consts, moving = operands[:n_consts], operands[n_consts:]
        init, rows = moving[:n_carry], moving[n_carry:]
        carried = [i for i in range(n_carry) if i in kept]
        stacked = [i for i in range(len(rows)) if n_carry + i in kept]

        def step(carry: Sequence[Any], xs: Sequence[Any]) -> tuple[Any, Any]:
            first = [row[0] if i not in stacked else row for i, row in enumerate(rows)]
            given = _merged(init, dict(zip(carried, carry)))
            found = body(*consts, *given, *_merged(first, dict(zip(stacked, xs))))
            return tuple(found[i] for i in carried), tuple(found[n_carry:])

        last, ys = jax.lax.scan(
            step,
            tuple(init[i] for i in carried),
            tuple(rows[i] for i in stacked),
            length=params["length"],
            reverse=params["reverse"],
            unroll=params["unroll"],
        )
        given = [jnp.asarray(value) for value in init]
        return [*_merged(given, dict(zip(carried, last))), *ys]

    return rewritten


def _merged(values: Sequence[Any], others: dict[int, Any]) -> list[Any]:
    return [others.get(i, value) for i, value in enumerate(values)]
