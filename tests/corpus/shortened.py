"""Programs whose loops end early: op by op, the loops of some take hours.

Every equation stays, in its place. A `while` also ends after a number of turns; a `scan`
does that many and repeats the last of its rows, so that all shapes are what they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.interpreters.evaluate import Step, evaluate
from untrace.interpreters.sub_programs import is_traced, scan_sizes


def shortened(jaxpr: Any, args: Sequence[Any], turns: int) -> Any:
    """Return a program with its loops, of any depth, ended after some turns.

    Args:
      jaxpr: A closed jaxpr.
      args: Its arguments: shapes and types are read.
      turns: How many turns each loop has at most.
    """

    def handle(step: Step, *operands: Any) -> Any:
        known = operands if is_traced(operands) else _traced(step, operands)
        if step.name == "scan":
            return _scan(step, known, turns)
        if step.name == "while":
            return _while(step, known, turns)
        return step(*operands)

    return jax.make_jaxpr(lambda *xs: evaluate(jaxpr, xs, handle))(*args)


def _traced(step: Step, operands: Sequence[Any]) -> Sequence[Any]:
    """Return operands that nothing runs with while the program is traced."""
    if step.name not in ("scan", "while"):
        return operands
    return jax.lax.optimization_barrier(list(operands))


def _scan(step: Step, operands: Sequence[Any], turns: int) -> list[Any]:
    params = step.params
    length, reverse = params["length"], params["reverse"]
    n = min(length, turns)
    n_consts, n_carry = scan_sizes(params)
    consts, carry = operands[:n_consts], operands[n_consts : n_consts + n_carry]
    first = length - n if reverse else 0
    rows = [x[first : first + n] for x in operands[n_consts + n_carry :]]
    body = step.body(params["jaxpr"])

    def turn(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        made = body(*consts, *carry, *row)
        return made[:n_carry], made[n_carry:]

    carry, made = jax.lax.scan(turn, list(carry), rows, n, reverse=reverse)
    return [*carry, *[_lengthened(x, length, reverse) for x in made]]


def _lengthened(rows: Any, length: int, reverse: bool) -> Any:
    missing = length - rows.shape[0]
    if not missing:
        return rows
    last = rows[:1] if reverse else rows[-1:]
    more = jnp.broadcast_to(last, (missing, *rows.shape[1:]))
    return jnp.concatenate([more, rows] if reverse else [rows, more])


def _while(step: Step, operands: Sequence[Any], turns: int) -> Any:
    """Count turns: one count for each element of a batch, whose loops end apart."""
    params = step.params
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    consts, carry = operands[: n_cond + n_body], operands[n_cond + n_body :]
    holds, turn = step.body(params["cond_jaxpr"]), step.body(params["body_jaxpr"])
    count = jnp.zeros(params["cond_jaxpr"].out_avals[0].shape, jnp.int32)

    def goes_on(*xs: Any) -> Any:
        return holds(*xs[:n_cond], *xs[n_cond + 1 :])[0] & (xs[n_cond] < turns)

    def counted(*xs: Any) -> list[Any]:
        return [xs[n_body] + 1, *turn(*xs[:n_body], *xs[n_body + 1 :])]

    of_cond, of_body = consts[:n_cond], consts[n_cond:]
    new = {
        "cond_jaxpr": jax.make_jaxpr(goes_on)(*of_cond, count, *carry),
        "body_jaxpr": jax.make_jaxpr(counted)(*of_body, count, *carry),
    }
    return step.primitive.bind(*consts, count, *carry, **{**params, **new})[1:]
