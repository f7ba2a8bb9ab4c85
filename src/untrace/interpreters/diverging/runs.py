"""The two runs that are compared, for each way in which they may differ."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.errors import CallError
from untrace.interpreters.called import Call
from untrace.interpreters.diverging.compiled import Compiled
from untrace.interpreters.diverging.corresponding import corresponding_sites
from untrace.interpreters.diverging.moments import Site
from untrace.interpreters.diverging.on_device import OnDevice, device_of
from untrace.interpreters.diverging.precision import NAMES, Precision
from untrace.interpreters.diverging.recording import (
    Recording,
    Values,
    operands_at,
    record,
)

Again = Callable[[int], list[Any]]
"""Runs a program again, up to a value, and returns the operands of its equation."""


@dataclass(frozen=True)
class Runs:
    """Two runs.

    Attributes:
      sides: What they are called.
      recording: The first, op by op.
      values: The other.
      sites: The places of the other program for those of the first; None if it is the
        same program.
      again: Finds operands in the first run.
      again_other: Finds operands in the other run; None if that cannot be done.
      lost: What to say of values that the other run does not have.
      notes: What was not as it was asked for.
    """

    sides: tuple[str, str]
    recording: Recording
    values: Values
    sites: Mapping[Site, Site] | None
    again: Again
    again_other: Again | None
    lost: str = "of the first run {have} no counterpart in the other"
    notes: tuple[str, ...] = ()


def jitted(call: Call) -> Runs:
    """Run a program op by op, and jitted."""
    with unchanged(call):
        recording = record(call)
    compiled = Compiled(call, recording, lambda: unchanged(call))
    sides = "op by op", "jitted"
    lost = (
        "of the jitted program could not be seen without a change of what it computes"
    )
    return Runs(sides, recording, compiled, None, _again(call), None, lost)


def in_another_type(call: Call, name: str) -> Runs:
    """Run a program as it is, and computing in another floating-point type."""
    precision = Precision(name)
    with unchanged(call):
        recording = record(call)
    other = replace(call, inputs=precision.inputs(call))
    with unchanged(call):
        values = record(other, precision, precision.context())
    if not precision.is_other:
        raise CallError(
            f"all of its numbers with a fraction are of type {name} already; ask for "
            f"another one of {', '.join(NAMES)}."
        )
    notes: tuple[str, ...] = ()
    if precision.kept:
        kept = ", ".join(f"`{each}`" for each in precision.kept)
        notes = (f"computed in the types of the program: {kept}.",)
    own = sorted(precision.own)
    sides = own[0] if len(own) == 1 else "its own types", name

    def again_other(number: int) -> list[Any]:
        with unchanged(call):
            return operands_at(other, number, precision, precision.context())

    return Runs(sides, recording, values, None, _again(call), again_other, notes=notes)


def on_two_devices(call: Call, names: tuple[Any, Any]) -> Runs:
    """Run a program on two devices, op by op."""
    one, other = (OnDevice(device_of(name)) for name in names)
    recordings: list[Recording] = []
    for device in (one, other):
        with unchanged(call):
            recordings.append(record(call, device, device.context()))

    def again(device: OnDevice) -> Again:
        def run(number: int) -> list[Any]:
            with unchanged(call):
                return operands_at(call, number, device, device.context())

        return run

    sides = one.label, other.label
    return Runs(sides, recordings[0], recordings[1], None, again(one), again(other))


def of_two_programs(call: Call, other: Call) -> Runs:
    """Run two programs op by op."""
    sites = corresponding_sites(call.captured, other.captured)
    recordings: list[Recording] = []
    for each in (call, other):
        with unchanged(each):
            recordings.append(record(each))
    names = call.captured.name, other.captured.name
    sides = names if names[0] != names[1] else ("the first", "the second")
    one, two = recordings
    return Runs(sides, one, two, sites, _again(call), _again(other))


def type_name(dtype: Any) -> str:
    """Return the name of a floating-point type to compute in.

    Raises:
      ValueError: If there is none such.
    """
    try:
        name = np.dtype(dtype).name if not isinstance(dtype, str) else dtype
    except TypeError:
        name = ""
    if name not in NAMES:
        raise ValueError(
            f"there is no dtype {dtype!r} to compute in: {', '.join(NAMES)}."
        )
    return name


@contextlib.contextmanager
def unchanged(call: Call) -> Generator[None, None, None]:
    """Give mutable arrays back what they hold, after a run."""
    refs = [value for value in (*call.inputs, *_consts(call)) if jaxapi.is_ref(value)]
    contents = [jnp.array(jaxapi.ref_content(ref)) for ref in refs]
    try:
        yield
    finally:
        for ref, content in zip(refs, contents):
            ref[...] = content


def _consts(call: Call) -> list[Any]:
    return list(jaxapi.split_jaxpr(call.jaxpr)[1])


def _again(call: Call) -> Again:
    def run(number: int) -> list[Any]:
        with unchanged(call):
            return operands_at(call, number)

    return run
