"""Find the turn of a loop that made one of its results bad, in one more run of it.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from ..evaluate import evaluate
from ..sub_programs import rows_where, scan_sizes
from .devices import bind_alone, own_context_alone

Badness = Callable[[Any], Any]


def compiled(function: Callable[..., Any], *args: Any) -> Any:
    """Compile a function for arguments, and run it."""
    return jax.jit(function).trace(*args).lower().compile()(*args)


class Turn(NamedTuple):
    """A turn of a loop, and what it was given.

    Attributes:
      number: How many turns were before it.
      part: The index of its row in what is scanned, or the number of the turn.
      jaxpr: The body.
      args: Its operands.
      ends: The positions of its results that are bad.
      carried: The positions of carried values among its operands.
    """

    number: int
    part: int
    jaxpr: Any
    args: list[Any]
    ends: list[int]
    carried: list[int]


class _Loop(NamedTuple):
    """A `scan` or a `while` in one form.

    Attributes:
      jaxpr: The body.
      consts: What all turns are given.
      carry: What the first turn is given.
      row: The row of what is scanned that a turn is given.
      goes_on: Whether there is a turn with that number, for carried values.
      order: The index of a turn's row.
      kept: What is carried on, of what a turn was given and what it made.
    """

    jaxpr: Any
    consts: list[Any]
    carry: list[Any]
    row: Callable[[Any], list[Any]]
    goes_on: Callable[[Any, list[Any]], Any]
    order: Callable[[Any], Any]
    kept: Callable[[list[Any], list[Any]], list[Any]]


def first_bad_turn(
    equation: Any,
    operands: Sequence[Any],
    bad: Sequence[int],
    badness: Badness,
    level: int,
    limit: int | None = None,
) -> Turn | None:
    """Return the turn after which a result of a loop stays bad.

    Args:
      equation: A `scan` or `while`.
      operands: What it was given.
      bad: The positions of its bad results. If scanned results are among them, the first
        turn with a bad row counts, otherwise what is carried.
      badness: Grades a value.
      level: From which grade on it is bad.
      limit: Look at so many turns only.

    Returns:
      The turn, or None if the values were bad before the first.
    """
    loop = (_of_scan if equation.primitive.name == "scan" else _of_while)(
        equation.params, list(operands)
    )
    n_carry = len(loop.carry)
    rows = [i for i in bad if i >= n_carry]
    number, carry, flags = compiled(
        lambda consts, carry: _run(
            loop._replace(consts=consts, carry=carry), rows, bad, badness, level, limit
        ),
        loop.consts,
        loop.carry,
    )
    number = int(number)
    if number < 0:
        return None
    ends = [i for i, flag in enumerate(flags.tolist()) if i in bad and flag >= level]
    args = [*loop.consts, *carry, *loop.row(number)]
    n_consts = len(loop.consts)
    carried = list(range(n_consts, n_consts + n_carry))
    return Turn(number, int(loop.order(number)), loop.jaxpr, args, ends, carried)


def _run(
    loop: _Loop,
    rows: Sequence[int],
    bad: Sequence[int],
    badness: Badness,
    level: int,
    limit: int | None,
) -> tuple[Any, list[Any], Any]:
    """Return the number of the turn, what it was given, and grades of its results."""
    n_carry = len(loop.carry)

    def graded(values: Sequence[Any]) -> Any:
        return jnp.stack([jnp.asarray(badness(v), jnp.uint8) for v in values])

    def is_bad(flags: Any, positions: Sequence[int]) -> Any:
        return (flags[jnp.array(positions, int)] >= level).any()

    def goes_on(state: Any) -> Any:
        turn, carry, flags, _ = state
        more = loop.goes_on(turn, carry)
        if limit is not None:
            more &= turn < limit
        return more & ~is_bad(flags, rows) if rows else more

    def step(state: Any) -> Any:
        turn, carry, flags, kept = state
        results = _bound(loop.jaxpr, [*loop.consts, *carry, *loop.row(turn)])
        results[:n_carry] = loop.kept(carry, results[:n_carry])
        results_flags = graded(results)
        # Rows: the turn in which the search ends; carried: the last with good operands.
        is_good = True if rows else ~is_bad(flags, bad)
        now = (turn, carry, results_flags)
        kept = jax.tree.map(lambda new, old: jnp.where(is_good, new, old), now, kept)
        return turn + 1, results[:n_carry], results_flags, kept

    n_results = len(loop.jaxpr.out_avals)
    start = [jnp.asarray(value) for value in loop.carry]
    flags = jnp.zeros(n_results, jnp.uint8)
    if n_carry:
        flags = flags.at[:n_carry].set(graded(start))
    state = (jnp.int32(0), start, flags, (jnp.int32(-1), start, flags))
    if rows:
        state = (*state[:2], jnp.zeros_like(flags), state[3])
    return jax.lax.while_loop(goes_on, step, state)[3]


def _bound(jaxpr: Any, args: Sequence[Any]) -> list[Any]:
    return evaluate(jaxpr, args, bind_alone, own_context_alone)


def _of_scan(params: Any, operands: list[Any]) -> _Loop:
    n_consts, n_carry = scan_sizes(params)
    scanned, length = operands[n_consts + n_carry :], params["length"]

    def order(turn: Any) -> Any:
        return length - 1 - turn if params["reverse"] else turn

    return _Loop(
        params["jaxpr"],
        operands[:n_consts],
        operands[n_consts : n_consts + n_carry],
        lambda turn: [rows[order(turn)] for rows in scanned],
        lambda turn, _: turn < length,
        order,
        lambda _, made: made,
    )


def _of_while(params: Any, operands: list[Any]) -> _Loop:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    of_cond = operands[:n_cond]

    def holds(carry: list[Any]) -> Any:
        return _bound(params["cond_jaxpr"], [*of_cond, *carry])[0]

    def kept(carry: list[Any], made: list[Any]) -> list[Any]:
        if not params["cond_jaxpr"].out_avals[0].shape:
            return made
        return rows_where(holds(carry), made, carry)

    return _Loop(
        params["body_jaxpr"],
        operands[n_cond : n_cond + n_body],
        operands[n_cond + n_body :],
        lambda _: [],
        lambda _, carry: jnp.any(holds(carry)),
        lambda turn: turn,
        kept,
    )
