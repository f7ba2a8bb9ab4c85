"""Control inputs: others, with which the program does not fail.

A failure of values that no longer depends on the inputs is not the one that was meant:
every program could be cut down to `0 / 0`. So a candidate has to fail with its inputs
and be fine with the control inputs; what is cut holds under them what it had under them.
They are found before anything is cut, by trying changes of the inputs in turn, small
ones first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.reduction.keeping import Keep
from untrace.reduction.program import Program
from untrace.reduction.trials import Judge, control_jobs
from untrace.reduction.wording import counted
from untrace.reduction.writing import written_names

MAX_SHOWN = 4
"""Elements of a control input that are written out."""


_DIGITS: Any = {"float_kind": lambda number: f"{number:.3g}"}


@dataclass(frozen=True)
class Change:
    """A change of the inputs.

    Attributes:
      name: What it does, for people.
      floats: What becomes of an array of real numbers, given a source of randomness.
      integers: What becomes of integers, Booleans and keys; they stay if None.
    """

    name: str
    floats: Callable[[Any, np.random.Generator], Any]
    integers: Callable[[Any], Any] | None = None


def _jittered(x: Any, rng: np.random.Generator) -> Any:
    return np.where(
        np.isfinite(x),
        x * (1 + 0.1 * rng.uniform(size=x.shape)) + 0.01 * rng.uniform(size=x.shape),
        x,
    )


def _positive(x: Any, rng: np.random.Generator) -> Any:
    return rng.uniform(0.5, 1.5, x.shape)


def _above(x: Any, rng: np.random.Generator) -> Any:
    return rng.uniform(2.0, 4.0, x.shape)


def _halved(x: Any) -> Any:
    return (
        jax.random.fold_in(x, 1) if jaxapi.is_key_array(x) and not x.shape else x // 2
    )


CHANGES = (
    Change("shifted a little", _jittered),
    Change("drawn from [0.5, 1.5]", _positive),
    Change("drawn from N(0, 1)", lambda x, rng: rng.normal(size=x.shape)),
    Change("drawn from [2, 4]", _above),
    Change(
        "a hundredth of them", lambda x, rng: np.where(np.isfinite(x), x / 100, 0.0)
    ),
    Change("drawn from [-1.5, -0.5]", lambda x, rng: -rng.uniform(0.5, 1.5, x.shape)),
    Change("ten thousand times them", lambda x, rng: x * 1e4),
    Change("set to 0", lambda x, rng: np.zeros(x.shape)),
    Change(
        "ten thousand times them, integers 0", lambda x, _: x * 1e4, lambda x: x - x
    ),
    Change("drawn from [0.5, 1.5], integers halved", _positive, _halved),
    Change("drawn from [0.5, 1.5], integers 0", _positive, lambda x: x - x),
)
"""Tried in turn, with the same seed each time."""


def with_control(program: Program, keep: Keep, judge: Judge) -> tuple[Program, str]:
    """Look for control inputs.

    Args:
      program: The whole program, which fails.
      keep: The predicate, pinned.
      judge: Runs programs.

    Returns:
      The program with its control inputs, and a sentence about them; the program as it
      is and "" if the failure is none of values, or why there are none.
    """
    if not keep.depends_on_values or not program.values:
        return program, ""
    for change, values in _candidates(program):
        if _is_fine(program.with_values(values), keep, judge):
            sentence = f"It is fine with other inputs: floats {change.name}."
            return replace(program, controls=values), sentence
    return program, (
        "No other inputs were found with which it is fine, so the result may fail "
        "whatever the inputs are."
    )


def shown_control(program: Program, is_anonymous: bool = False) -> str:
    """Say with which inputs a reduced program is fine, if they can be written.

    Their names and values, which are made of the real ones, are left out of what is to
    be anonymous.
    """
    rows = zip(program.block.inputs, program.values, program.controls or ())
    changed = [
        (name, control)
        for name, (_, value, control) in zip(written_names(program.names), rows)
        if not jaxapi.is_key_array(value) and not np.array_equal(value, control)
    ]
    if not changed:
        return ""
    is_short = all(np.size(control) <= MAX_SHOWN for _, control in changed)
    if is_short and not is_anonymous:
        words = " and ".join(
            f"{name} = {np.array2string(np.asarray(control), formatter=_DIGITS)}"
            for name, control in changed
        )
        return f"With {words} it is fine."
    return f"It is fine with other values of {counted(len(changed), 'input')}."


def _is_fine(program: Program, keep: Keep, judge: Judge) -> bool:
    jobs = control_jobs(program, keep)
    if jobs is None:
        return False
    outcomes = tuple(judge.run(job) for job in jobs)
    return keep.is_fine(outcomes, program)


def _candidates(program: Program) -> Iterator[tuple[Change, tuple[Any, ...]]]:
    """List changes of the named inputs, then of all, constants included."""
    named = [bool(name) for name in program.names]
    chosen = [named] if any(named) else []
    if not all(named):
        chosen.append([True] * len(named))
    seen: set[bytes] = set()
    for is_chosen in chosen:
        for change in CHANGES:
            values = tuple(
                _changed(change, value, i) if is_one else value
                for i, (value, is_one) in enumerate(zip(program.values, is_chosen))
            )
            if any(a is not b for a, b in zip(values, program.values)):
                key = b"".join(
                    np.asarray(v).tobytes()
                    for v in values
                    if not jaxapi.is_key_array(v)
                )
                if key not in seen:
                    seen.add(key)
                    yield change, values


def _changed(change: Change, value: Any, number: int) -> Any:
    """Change what one input holds; it keeps its type.

    Inputs are drawn apart by their numbers: two that are equal may be what fails.
    """
    if jaxapi.is_key_array(value):
        return value if change.integers is None else change.integers(value)
    array = np.asarray(value)
    kind = jaxapi.dtype_kind(array.dtype)
    if kind == "float0":
        return value
    if kind == "bool":
        return value if change.integers is None else ~array
    if kind == "integer":
        return (
            value if change.integers is None else _cast(change.integers(array), array)
        )
    rng = np.random.default_rng(number)
    if kind == "complex":
        parts = (np.real(array), np.imag(array))
        real, imaginary = (change.floats(x.astype(np.float64), rng) for x in parts)
        return _cast(real + 1j * imaginary, array)
    return _cast(change.floats(array.astype(np.float64), rng), array)


def _cast(made: Any, array: Any) -> Any:
    return np.asarray(made).astype(array.dtype)
