"""Take loops apart: a scan to one of its steps, a while to one, a cond to one branch.

Which step of a loop fails is not known: the first, the last and, if there is one, the
step that first gives a number that is not finite are tried, with the carry that enters
it. Branches are tried in order. A loop that the failure needs stays; loops that stand in
it, or in a call, are opened at their first step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.ir import Equation
from untrace.reduction.applying import apply, program_from
from untrace.reduction.edits import Edits, Opening
from untrace.reduction.passes.cutting import Cutting
from untrace.reduction.passes.unwrapping import LOOPS
from untrace.reduction.program import Program, open_equations
from untrace.reduction.search import Search
from untrace.reduction.values import evaluate


def open_loops(search: Search) -> None:
    """Open one loop or branch after the other, outermost first."""
    is_found = True
    while is_found:
        is_found = search.first(_opened(search))


def _opened(search: Search) -> Iterator[Program | None]:
    base = search.best
    cutting = Cutting(search)
    for eqn in base.block.equations:
        for opening in _openings(eqn, cutting, search):
            yield apply(base, Edits(opened={eqn: opening}))


def open_inner_loops(search: Search) -> None:
    """Open one loop or branch that stands in a sub-program after the other."""
    while search.first(opened_inside(search.best)):
        pass


def opened_inside(program: Program) -> Iterator[Program | None]:
    """Open single loops and branches that stand in sub-programs."""
    outer = set(program.block.equations)
    for eqn in open_equations(program.block):
        if eqn.name in LOOPS and eqn not in outer:
            for branch in range(len(eqn.params.get("branches", (None,)))):
                yield apply(program, Edits(opened={eqn: Opening(branch=branch)}))


def _openings(eqn: Equation, cutting: Cutting, search: Search) -> Iterator[Opening]:
    if eqn.name == "cond":
        for branch in range(len(eqn.params["branches"])):
            yield Opening(branch=branch)
    elif eqn.name == "while":
        yield Opening()
        carry = _before_last(eqn, _operands(eqn, cutting), search)
        if carry is not None:
            others = _controls(eqn, cutting)
            control = None if others is None else _before_last(eqn, others, search)
            yield Opening(
                carry=tuple(carry),
                control=None if control is None else tuple(control),
            )
    elif eqn.name == "scan" and eqn.params["length"]:
        yield from _steps(eqn, cutting, search)


def _steps(eqn: Equation, cutting: Cutting, search: Search) -> Iterator[Opening]:
    length = eqn.params["length"]
    is_reversed = eqn.params["reverse"]
    first, last = (length - 1, 0) if is_reversed else (0, length - 1)
    yield Opening(step=first)
    if length == 1:
        return
    carries = _carries(eqn, _operands(eqn, cutting), search)
    if carries is None:
        return
    others = _controls(eqn, cutting)
    controls = None if others is None else _carries(eqn, others, search)
    steps = [last]
    broken = _first_broken(carries, is_reversed)
    if broken is not None:
        steps.insert(0, broken)
    for step in dict.fromkeys(steps):
        carry = tuple(carry[step] for carry in carries)
        control = None
        if controls is not None:
            control = tuple(carry[step] for carry in controls)
        rows = _rows(eqn, _operands(eqn, cutting), step)
        if rows:  # without what computes them
            other = _rows(eqn, others, step) if others is not None else rows
            known = None if control is None else (*control, *other)
            yield Opening(step=step, carry=(*carry, *rows), control=known)
        yield Opening(step=step, carry=carry, control=control)


def _rows(eqn: Equation, operands: Sequence[Any], step: int) -> tuple[Any, ...]:
    """Return what a scan takes of its inputs in a step."""
    n_consts, n_carry = jaxapi.scan_sizes(eqn.params)
    return tuple(rows[step] for rows in operands[n_consts + n_carry :])


def _first_broken(carries: Sequence[Any], is_reversed: bool) -> int | None:
    """Find the step after which the carry is not finite for the first time."""
    finite: Any = True
    for carry in carries:
        array = np.asarray(carry) if not jaxapi.is_key_array(carry) else np.zeros(0)
        if jaxapi.dtype_kind(array.dtype) not in ("bool", "integer"):
            rows = array.reshape(len(array), -1) if array.size else np.zeros((1, 1))
            finite = finite & np.isfinite(rows.astype(np.complex128)).all(axis=1)
    if finite is True or np.all(finite):
        return None
    broken = np.flatnonzero(~np.asarray(finite))
    step = int(broken.max() + 1) if is_reversed else int(broken.min() - 1)
    return step if 0 <= step < len(finite) else None


# ---- what enters a step ---------------------------------------------------------------


def _operands(eqn: Equation, cutting: Cutting) -> list[Any]:
    """Return the arrays that an equation gets in the program as it is."""
    inputs = dict(zip(cutting.base.block.inputs, cutting.base.values))
    return _known(eqn, {**inputs, **cutting.values})


def _controls(eqn: Equation, cutting: Cutting) -> list[Any] | None:
    """Return the arrays that an equation gets under the control inputs."""
    given = cutting.base.controls
    if given is None:
        return None
    inputs = dict(zip(cutting.base.block.inputs, given))
    return _known(eqn, {**inputs, **cutting.controls})


def _known(eqn: Equation, known: Mapping[Any, Any]) -> list[Any]:
    return [
        known[atom] if atom in known else getattr(atom, "value", None)
        for atom in eqn.operands
    ]


def _carries(
    eqn: Equation, operands: list[Any], search: Search
) -> Sequence[Any] | None:
    """Compute the carry before every step of a scan, stacked.

    The last step is not taken: it may be the one that raises or crashes.
    """
    n_consts, n_carry = jaxapi.scan_sizes(eqn.params)
    if not n_carry:
        return None
    body = jaxapi.as_function(eqn.params["jaxpr"].jaxpr)
    length, is_reversed = eqn.params["length"], eqn.params["reverse"]

    def loop(*operands: Any) -> Any:
        consts = operands[:n_consts]
        init = operands[n_consts : n_consts + n_carry]
        rows = operands[n_consts + n_carry :]
        xs = [row[1:] if is_reversed else row[:-1] for row in rows]

        def step(carry: Any, x: Any) -> Any:
            return tuple(body(*consts, *carry, *x)[:n_carry]), carry

        init = tuple(jnp.asarray(value) for value in init)
        last, stacked = jax.lax.scan(
            step, init, tuple(xs), length=length - 1, reverse=is_reversed
        )
        pairs = [(one[None], many) for one, many in zip(last, stacked)]
        return [
            jnp.concatenate((one, many) if is_reversed else (many, one))
            for one, many in pairs
        ]

    return _computed(loop, operands, search)


def _before_last(
    eqn: Equation, operands: list[Any], search: Search
) -> Sequence[Any] | None:
    """Compute the state of a while loop before its last step."""
    params = eqn.params
    cond = jaxapi.as_function(params["cond_jaxpr"].jaxpr)
    body = jaxapi.as_function(params["body_jaxpr"].jaxpr)
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]

    def loop(*operands: Any) -> Any:
        cond_consts = operands[:n_cond]
        body_consts = operands[n_cond : n_cond + n_body]
        init = tuple(jnp.asarray(value) for value in operands[n_cond + n_body :])
        before, _ = jax.lax.while_loop(
            lambda state: cond(*cond_consts, *state[1])[0],
            lambda state: (state[1], tuple(body(*body_consts, *state[1]))),
            (init, init),
        )
        return before

    return _computed(loop, operands, search)


def _computed(function: Any, operands: list[Any], search: Search) -> Any:
    if not search.judge.keep.needs_values:
        return None
    try:
        jaxpr = jax.make_jaxpr(function)(*operands)
    except Exception:  # not every loop can be carried out by itself
        return None
    if not jaxapi.split_jaxpr(jaxpr)[0].outvars:
        return None
    search.stats.recordings += 1
    names = [""] * len(operands)
    program = program_from(jaxpr, operands, names, "loop")
    return evaluate(program, search.judge)
