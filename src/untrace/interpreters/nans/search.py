"""Find the equation that first makes values bad: NaN, or not finite.

The program is compiled once with a flag for every intermediate, calls inlined. From a bad
output the search goes back through bad operands to the equation that has none; a second
run gives the operands that it had. Of a loop the turn is found that made its result bad,
of a `cond` the branch that was taken, of a `shard_map` the body on all devices, and the
search goes on inside.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import jax.numpy as jnp

from ..evaluate import Place
from .flagging import Stretch, flagged
from .grading import NAN, badness
from .turns import first_bad_turn


class Found(NamedTuple):
    """Where a value becomes bad.

    Attributes:
      stretch: The innermost part of the program that it is in.
      row: The number of the equation there; None if an input is bad.
      input: The number of the input that is bad.
    """

    stretch: Stretch
    row: int | None
    input: int | None = None


def search(stretch: Stretch, level: int, ends: Iterable[int] | None = None) -> Found:
    """Go back from bad outputs to what first made a value so bad.

    Args:
      stretch: The program, with flags.
      level: What is bad: `NAN`, or `INFINITE` and worse.
      ends: Positions among the outputs to begin with; by default all.

    Returns:
      Where it becomes bad; `row` and `input` are None if nothing is bad, or if a bad
      value is written in the program.
    """
    makers = origins(stretch, level)
    outputs = stretch.outputs
    ends = range(len(outputs)) if ends is None else ends
    made = _first([outputs[i] for i in ends], stretch.flags, makers)
    if made is None:
        return Found(stretch, None)
    if made < 0:
        return Found(stretch, None, ~made)
    return enter(stretch, made, level)


def origins(stretch: Stretch, level: int) -> dict[int, int]:
    """Return by number of each bad value the row that it comes from, or `~input`."""
    flags = stretch.flags
    makers = {n: ~i for i, n in enumerate(stretch.inputs) if flags.get(n, 0) >= level}
    for index, row in enumerate(stretch.rows):
        if not any(flags.get(n, 0) >= level for n in row.results):
            continue
        bad = [n for n in row.operands if flags.get(n, 0) >= level]
        if row.equation.primitive.name == "select_n" and len(set(bad)) > 1:
            bad = _selected(stretch, index, level)
        before = _first(bad, flags, makers)
        # A NaN that is written in the program comes from where it is used.
        graded = [n for n in bad if level < NAN or n not in stretch.constants]
        worst = max((flags[n] for n in graded), default=0)
        for result in row.results:
            flag = flags.get(result, 0)
            if flag < level:
                continue
            if before is not None:
                makers[result] = before
            elif flag > worst:
                makers[result] = index
    return makers


def _selected(stretch: Stretch, index: int, level: int) -> list[int]:
    """List the operands of a selection that are bad where they are selected."""
    which, *cases = stretch.operands_of(index)
    return [
        n
        for i, (n, case) in enumerate(zip(stretch.rows[index].operands[1:], cases))
        if int(badness(jnp.where(which == i, case, 0))) >= level
    ]


def _first(
    values: Iterable[int], flags: dict[int, int], makers: dict[int, int]
) -> int | None:
    """Return the first origin of the worst of some values."""
    known = [n for n in values if n in makers]
    worst = max((flags[n] for n in known), default=0)
    return min((makers[n] for n in known if flags[n] == worst), default=None)


def enter(stretch: Stretch, index: int, level: int) -> Found:
    """Look into the branch or turn of a row that made its results bad."""
    here = Found(stretch, index)
    row = stretch.rows[index]
    equation, name = row.equation, row.equation.primitive.name
    bad = [i for i, n in enumerate(row.results) if stretch.flags.get(n, 0) >= level]
    if name == "shard_map":
        found = search(stretch.entered(index), level, bad)
        return here if found.row is None else found
    if name not in ("cond", "scan", "while"):
        return here
    if stretch.needs_devices(index):
        return here
    operands = stretch.operands_of(index)
    if name == "cond":
        branches = equation.params["branches"]
        chosen = max(0, min(int(operands[0]), len(branches) - 1))
        place = Place(equation, chosen)
        inner = flagged(branches[chosen], operands[1:], level, (*row.path, place))
        found = search(inner, level, bad)
        return here if found.row is None else found
    limit: int | None = None
    while True:  # from a turn back to the one that made what it was given
        turn = first_bad_turn(equation, operands, bad, badness, level, limit)
        if turn is None:
            return here
        place = Place(equation, turn.part)
        inner = flagged(turn.jaxpr, turn.args, level, (*row.path, place))
        found = search(inner, level, turn.ends)
        is_inside = found.stretch is not inner or found.input is None
        if is_inside or found.input not in turn.carried or not turn.number:
            return here if found.row is None else found
        bad, limit = [turn.carried.index(found.input)], turn.number
