"""Loops: `scan`, backwards or forwards.

The turns of a loop are equations like any other, so a loop is solved by solving one turn
for what it does not know, in one of two orders:

- backwards: what a turn hands on is known, and it is solved for what it was handed;
- forwards: what a turn is handed is known, as an autoregressive model knows the elements
  before the one that it makes, and it is solved for its rows.

What depends on nothing unknown, such as a counter, is computed beforehand in both cases.
Which carried values take part is the largest choice that holds from turn to turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from untrace.interpreters.inverting.body import (
    Solved,
    bundled,
    planned,
    solve_body,
    unbundled,
)
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.network import Network
from untrace.interpreters.inverting.step import TWO, WAITS, NotInvertible, Step
from untrace.interpreters.sub_programs import scan_sizes, split
from untrace.recovery.classifying import recorded


class _Turn(NamedTuple):
    """How a turn is solved.

    Attributes:
      carried: The numbers of the carried values that are known where it starts.
      solved: What then becomes known.
      rows: The numbers of the rows that become known.
      stacked: The numbers of the stacked results that become known.
    """

    carried: list[int]
    solved: Solved
    rows: list[int]
    stacked: list[int]


class _Scan:
    """A `scan` that is solved.

    The operands of its body are constants, what is carried, and rows; its results are
    what is carried on, and rows that are stacked.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.network: Network = step.network
        self.params = step.params
        self.body = step.params["jaxpr"]
        self.n_consts, self.n_carry = scan_sizes(step.params)
        n = self.n_consts + self.n_carry
        operands = [cell.whole for cell in step.operands]
        results = [cell.whole for cell in step.results]
        self.consts = operands[: self.n_consts]
        self.inits = operands[self.n_consts : n]
        self.rows = operands[n:]
        self.finals = results[: self.n_carry]
        self.stacked = results[self.n_carry :]

    def plan(
        self, carried: Sequence[int], handed_on: Sequence[int], shows: bool
    ) -> Solved:
        """Find out what a turn tells.

        Args:
          carried: Which carried values are known at its start.
          handed_on: Which are known at its end.
          shows: Whether the stacked results are used.
        """
        n = range(self.n_carry)
        stacked = [shows and each is not None for each in self.stacked]
        return planned(
            self.network,
            self.body,
            [
                *self.consts,
                *[k in carried for k in n],
                *[each is not None for each in self.rows],
            ],
            [*[k in handed_on for k in n], *stacked],
        )

    # ---- choices -------------------------------------------------------------------

    def own(self) -> list[int]:
        """Return the carried values that depend on nothing unknown, such as counters."""
        carried = [k for k, each in enumerate(self.inits) if each is not None]
        while True:
            found = self.plan(carried, (), False)
            kept = [k for k in carried if found.outputs[k] is not None]
            if kept == carried:
                return carried
            carried = kept

    def forwards(self) -> _Turn:
        """Return the turn that starts with what it is handed."""
        carried = [k for k, each in enumerate(self.inits) if each is not None]
        while True:
            solved = self.plan(carried, (), True)
            kept = [k for k in carried if solved.outputs[k] is not None]
            if kept == carried:
                return self.turn(carried, solved)
            carried = kept

    def backwards(self, own: Sequence[int]) -> _Turn:
        """Return the turn that starts with what it hands on."""
        carried = [
            k for k, each in enumerate(self.finals) if each is not None and k not in own
        ]
        while True:
            solved = self.plan(own, carried, True)
            at_start = solved.inputs[self.n_consts :]
            kept = [k for k in carried if at_start[k] is not None]
            if kept == carried:
                return self.turn(carried, solved)
            carried = kept

    def turn(self, carried: list[int], solved: Solved) -> _Turn:
        rows = solved.inputs[self.n_consts + self.n_carry :]
        stacked = solved.outputs[self.n_carry :]
        return _Turn(
            carried,
            solved,
            _gained(self.rows, rows),
            _gained(self.stacked, stacked),
        )

    # ---- running it ----------------------------------------------------------------

    def run_forwards(self, turn: _Turn, shows: bool) -> Lazy:
        """Return final values, rows, stacked results, what was carried, log |det|."""
        inits = [each for k in turn.carried if (each := self.inits[k]) is not None]
        return self._run(turn, inits, (), shows, self.params["reverse"])

    def run_backwards(self, turn: _Turn, own: Sequence[int], before: Lazy) -> Lazy:
        """Return initial values, rows, stacked results, what was carried, log |det|."""
        finals = [each for k in turn.carried if (each := self.finals[k]) is not None]
        needs = [*finals]
        trajectories = [_trajectory(self, k, before, i) for i, k in enumerate(own)]
        return self._run(
            turn,
            needs,
            list(zip(own, trajectories)),
            True,
            not self.params["reverse"],
            True,
        )

    def _run(
        self,
        turn: _Turn,
        starts: Sequence[Lazy],
        own: Sequence[tuple[int, Lazy]],
        shows: bool,
        reverse: bool,
        is_back: bool = False,
    ) -> Lazy:
        consts = [each for each in self.consts if each is not None]
        rows = [each for each in self.rows if each is not None]
        stacked = [each for each in self.stacked if each is not None and shows]
        own_rows = [lazy for _, lazy in own]
        own_numbers = [k for k, _ in own]
        sizes = [len(rows), len(own_rows), len(stacked)]
        n = range(self.n_carry)
        has_term = (
            bool(turn.solved.network.log_dets) and not turn.solved.without_formula()
        )
        made_sizes = [
            len(turn.rows),
            len(turn.stacked),
            0 if shows else len(starts),
            int(has_term),
        ]

        def run(*values: Any) -> Any:
            given, starts_here, rows_here = split_values(
                values, [len(consts), len(starts), sum(sizes)]
            )

            @recorded
            def inverse_turn(carry: Any, row: Any) -> Any:
                carried = unbundled(carry, len(starts))
                known, own_row, shown = split_values(unbundled(row, sum(sizes)), sizes)
                here = dict(zip(turn.carried, carried))
                owned = dict(zip(own_numbers, own_row))
                at_start = owned if is_back else here
                at_end = here if is_back else {}
                shows_rows = iter(shown)
                solved = solve_body(
                    self.network,
                    self.body,
                    [
                        *placed_like(self.consts, given),
                        *[Lazy.of(at_start[k]) if k in at_start else None for k in n],
                        *placed_like(self.rows, known, static=False),
                    ],
                    [
                        *[Lazy.of(at_end[k]) if k in at_end else None for k in n],
                        *[
                            None
                            if each is None or not shows
                            else Lazy.of(next(shows_rows))
                            for each in self.stacked
                        ],
                    ],
                )
                ends = (
                    solved.inputs[self.n_consts :]
                    if is_back
                    else solved.outputs[: len(n)]
                )
                all_rows = solved.inputs[self.n_consts + self.n_carry :]
                all_stacked = solved.outputs[self.n_carry :]
                made = [each.value for k in turn.carried if (each := ends[k])]
                found = [each.value for k in turn.rows if (each := all_rows[k])]
                found += [each.value for k in turn.stacked if (each := all_stacked[k])]
                found += [] if shows else carried
                found += [solved.log_det()] if has_term else []
                return bundled(made), bundled(found)

            ends, found = jax.lax.scan(
                inverse_turn,
                bundled(starts_here),
                bundled(rows_here),
                self.params["length"],
                reverse,
            )
            *parts, terms = split_values(unbundled(found, sum(made_sizes)), made_sizes)
            total = [jnp.sum(each) for each in terms]
            return unbundled(ends, len(starts)), *parts, total

        return Lazy(run, [*consts, *starts, *rows, *own_rows, *stacked], False)


def solve_scan(step: Step) -> None:
    """Solve a `scan`: compute what depends on nothing unknown, then run one way."""
    scan = _Scan(step)
    own = scan.own()
    before = scan.turn(own, scan.plan(own, (), False))
    first = scan.run_forwards(before, False)
    n_results = scan.n_carry
    for i, k in enumerate(own):
        step.make(k, part_of(first, 0, i))
    for i, k in enumerate(before.stacked):
        step.make(n_results + k, part_of(first, 2, i))
    ahead, back = scan.forwards(), scan.backwards(own)
    new_carried = [k for k in back.carried if scan.inits[k] is None]
    gain_ahead = len(ahead.rows)
    gain_back = len(back.rows) + len(new_carried)
    if not gain_ahead and not gain_back:
        is_known = any(each is not None for each in (*scan.finals, *scan.stacked))
        raise NotInvertible(
            "a turn of the loop cannot be solved" + why_stuck(back.solved)
            if is_known
            else WAITS
        )
    if "solved" in step.network.memory.get(("scan", id(step.node)), ()):
        step.network.log_dets.append((step.node, None))
    step.network.memory["scan", id(step.node)] = ("solved",)
    is_back = gain_back > gain_ahead
    turn = back if is_back else ahead
    whole = (
        scan.run_backwards(back, own, first)
        if is_back
        else scan.run_forwards(ahead, True)
    )
    _learn(step, scan, turn, whole, is_back)


def _learn(step: Step, scan: _Scan, turn: _Turn, whole: Lazy, is_back: bool) -> None:
    first_row = scan.n_consts + scan.n_carry
    for i, k in enumerate(turn.carried):
        end = part_of(whole, 0, i)
        if is_back:
            step.network.learn(step.operands[scan.n_consts + k], end)
        else:
            step.make(k, end)
    for i, k in enumerate(turn.rows):
        step.network.learn(step.operands[first_row + k], part_of(whole, 1, i))
    for i, k in enumerate(turn.stacked):
        step.make(scan.n_carry + k, part_of(whole, 2, i))
    missing = turn.solved.without_formula()
    step.network.log_dets += [(node, None) for node in missing]
    if turn.solved.network.log_dets and not missing:
        step.network.log_dets.append((step.node, part_of(whole, 4, 0)))


def why_stuck(solved: Solved) -> str:
    """Return why the last equation of a turn that was told something was not solved."""
    for node in reversed(solved.network.nodes):
        if node.refusal and node.refusal not in (WAITS, "") and not node.is_spent:
            return f": `{node.name}`, {node.refusal}"
    return f": {TWO}"


def _gained(known: Sequence[Lazy | None], found: Sequence[Lazy | None]) -> list[int]:
    return [
        k
        for k, (one, other) in enumerate(zip(known, found, strict=True))
        if one is None and other is not None
    ]


def part_of(whole: Lazy, part: int, i: int) -> Lazy:
    return Lazy(lambda values: values[part][i], [whole])


def split_values(values: Sequence[Any], sizes: Sequence[int]) -> list[list[Any]]:
    parts: list[list[Any]] = []
    rest = list(values)
    for size in sizes:
        parts.append(rest[:size])
        rest = rest[size:]
    return parts


def placed_like(
    lazies: Sequence[Lazy | None], values: Sequence[Any], static: bool = True
) -> list[Lazy | None]:
    """Put values in the places of those that are known, inside of a traced body."""
    rest = iter(values)
    return [
        None
        if each is None
        else Lazy.like(next(rest), each)
        if static
        else Lazy.of(next(rest))
        for each in lazies
    ]


def _trajectory(scan: _Scan, k: int, before: Lazy, i: int) -> Lazy:
    """Return what a carried value that depends on nothing unknown is in each turn."""
    step_size = _counter_step(scan.body, scan.n_consts + k, k)
    init = scan.inits[k]
    if step_size is None or init is None:
        return part_of(before, 3, i)
    length, reverse = scan.params["length"], scan.params["reverse"]

    first = init.concrete()
    if first is not None:
        turns = range(int(first), int(first) + length * step_size, step_size or 1)
        if len(turns) == length:
            turns = turns[::-1] if reverse else turns
            dtype = scan.step.operands[scan.n_consts + k].aval.dtype
            return Lazy(lambda: _arange(turns, dtype))

    def count(start: Any) -> Any:
        numbers = jnp.arange(length, dtype=jnp.asarray(start).dtype)
        turns = numbers[::-1] if reverse else numbers
        return start + turns * step_size if step_size != 1 else start + turns

    return Lazy(count, [init])


def _arange(turns: range, dtype: Any) -> Any:
    if (turns.start, turns.step) == (0, 1):
        return jnp.arange(len(turns), dtype=dtype)
    return jnp.arange(turns.start, turns.stop, turns.step, dtype=dtype)


def _counter_step(jaxpr: Any, i: int, k: int) -> int | None:
    """Return by what a carried value is counted up in each turn, if it is a counter."""
    body, _ = split(jaxpr)
    var = body.invars[i]
    for eqn in body.eqns:
        if eqn.primitive.name == "add" and body.outvars[k] in eqn.outvars:
            one, other = eqn.invars
            if one is var and hasattr(other, "val") and np.ndim(other.val) == 0:
                return int(other.val) if float(other.val).is_integer() else None
    return None
