"""Find the first value in which two runs of a program, or two programs, part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.errors import CallError
from untrace.extension import load_entry_points
from untrace.interpreters.called import Call, tool
from untrace.interpreters.diverging.coarseness import Coarseness
from untrace.interpreters.diverging.distances import Tolerance
from untrace.interpreters.diverging.moments import CONDITION, Moment
from untrace.interpreters.diverging.operands import operands_of
from untrace.interpreters.diverging.recording import Entry
from untrace.interpreters.diverging.result import Divergence, Operand
from untrace.interpreters.diverging.rows import (
    Compared,
    Names,
    Row,
    compared,
    result_rows,
)
from untrace.interpreters.diverging.runs import (
    Runs,
    in_another_type,
    jitted,
    of_two_programs,
    on_two_devices,
    type_name,
)
from untrace.interpreters.places import origin_of
from untrace.interpreters.sub_programs import is_traced

MAX_NAMED = 4
"""Values without a counterpart that a note names."""


@dataclass(frozen=True)
class Options:
    """How two runs differ, and what is tolerated.

    Attributes:
      dtype: The type that the second run computes in, or None.
      devices: The devices of the two runs, or None.
      tolerance: What is no difference.
    """

    dtype: str | None
    devices: tuple[Any, Any] | None
    tolerance: Tolerance


def divergence(
    function: Any,
    other: Any = None,
    *,
    dtype: Any = None,
    devices: Sequence[Any] | None = None,
    rtol: float | None = None,
    atol: float = 0.0,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Divergence]:
    """Find the first value in which two runs part, and how the error grows from there.

    Without options, what is jitted is compared with the same op by op. Values are
    compared in the order in which the first run computes them, in all turns of loops and
    in the branches that are taken. NaN is the same as NaN; integers, booleans and keys
    have to be equal; so have the branches that are taken and the turns of loops.

    Args:
      function: A callable, a jaxpr, also a printed one, a `jax.stages.Traced` or a `Source`; for a backward
        pass, `jax.grad(loss)` or a whole training step.
      other: Another program for the same arguments, whose values are matched with those
        of the first by the data flow, as by `untrace.diff`. Both run op by op.
      dtype: The floating-point type that the second run computes in, "float64" for
        instance: the same equations, with the same integers and random bits.
      devices: Two devices, or names of platforms such as "cpu" and "gpu:1", on which the
        program runs, op by op.
      rtol: What is tolerated, relative to the larger element or to the root mean square
        of the array; by default 64 units of the last place of the coarser type, 4 if
        that has 16 bits or less.
      atol: What is tolerated besides.
      static_argnums: As in `jax.jit`.
      static_argnames: As in `jax.jit`.

    Returns:
      A function of the arguments of `function` that returns a `Divergence`: it prints as
      a report with a table, and draws itself in notebooks and by `.plot(path)`.

    Raises:
      ValueError: If options contradict each other, or there is no such type.
      CallError: If an argument is traced, or a device is not there.
      CaptureError: If the arguments cannot be traced.

    >>> import jax.numpy as jnp
    >>> def variance(x):
    ...     return jnp.mean(x * x) - jnp.mean(x) ** 2
    >>> found = divergence(variance, dtype="float64")(1000.0 + jnp.arange(8.0) / 3)
    >>> found.first.name, found.first.words
    ('difference', '0.5 against 0.5833307905122638')
    """
    options = options_of(other, dtype, devices, rtol, atol)
    static = static_argnums, static_argnames

    def find(*args: Any, **kwargs: Any) -> Divergence:
        calls = [
            tool(each, lambda call: call, *static)(*args, **kwargs)
            for each in (function, *([] if other is None else [other]))
        ]
        return diverge(calls[0], calls[1] if len(calls) > 1 else None, options)

    return find


def options_of(
    other: Any,
    dtype: Any,
    devices: Sequence[Any] | None,
    rtol: float | None,
    atol: float,
) -> Options:
    """Check what is asked for.

    Args:
      other: A second program, or None.
      dtype: See `divergence`.
      devices: See `divergence`.
      rtol: See `divergence`.
      atol: See `divergence`.

    Raises:
      ValueError: If options contradict each other, or there is no such type.
    """
    given = {"a second program": other, "dtype": dtype, "devices": devices}
    chosen = [name for name, value in given.items() if value is not None]
    if len(chosen) > 1:
        raise ValueError(
            f"{' and '.join(chosen)} cannot be asked for at once: choose in what the two "
            "runs differ."
        )
    if devices is not None and (isinstance(devices, str) or len(devices) != 2):
        raise ValueError(f'give two devices, such as ("cpu", "gpu"), not {devices!r}.')
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value is not None and not value >= 0:
            raise ValueError(f"{name} is {value!r}; it has to be 0 or more.")
    return Options(
        None if dtype is None else type_name(dtype),
        None if devices is None else (devices[0], devices[1]),
        Tolerance(rtol, atol),
    )


def diverge(call: Call, other: Call | None, options: Options) -> Divergence:
    """Compare two runs of a program, or of two (see `divergence`).

    Args:
      call: The program and its inputs.
      other: Another one, or None.
      options: How the runs differ, and what is tolerated.
    """
    load_entry_points()
    for each in (call, *([] if other is None else [other])):
        if is_traced(each.inputs):
            raise CallError(
                "divergence needs values; it cannot be called while JAX traces."
            )
        if any(value is None for value in each.inputs):
            raise CallError(
                "divergence needs values; it is called with types alone. Call it with arrays."
            )
    with jaxapi.quiet_callbacks():
        runs = _run(call, other, options)
        return _found(call, runs, options.tolerance)


def _run(call: Call, other: Call | None, options: Options) -> Runs:
    if other is not None:
        return of_two_programs(call, other)
    if options.dtype is not None:
        return in_another_type(call, options.dtype)
    if options.devices is not None:
        return on_two_devices(call, options.devices)
    return jitted(call)


def _found(call: Call, runs: Runs, tolerance: Tolerance) -> Divergence:
    names = Names(call)
    coarse = Coarseness(call.jaxpr)
    made = compared(runs.recording, runs.values, runs.sites, names, tolerance, coarse)
    rows = tuple([pair.row for pair in made.pairs])
    outputs = runs.recording.outputs, runs.values.outputs
    results = tuple(result_rows(call, *outputs, tolerance, coarse))
    parting = next((pair for pair in made.pairs if pair.row.is_beyond), None)
    operands: tuple[Operand, ...] = ()
    first, other_line = None, ""
    if parting is not None:
        first = parting.row
        operands = _operands(runs, parting.entry, parting.other, first, names)
        if runs.sites is not None:
            places = _place_of(parting.entry), _place_of(parting.other)
            other_line = places[1] if places[0] != places[1] else ""
    else:
        first = next((row for row in results if row.is_beyond), None)
    limits = dict.fromkeys(r.distance.limit for r in rows if r.distance.limit)
    return Divergence(
        runs.sides,
        first,
        operands,
        other_line,
        rows,
        results,
        (*_notes(made, names, runs), *runs.notes),
        tuple([limit for limit in limits if limit]),
    )


def _operands(
    runs: Runs, entry: Entry, other: Any, row: Row, names: Names
) -> tuple[Operand, ...]:
    others: list[Any] = []
    if runs.again_other is not None and isinstance(other, Entry):
        others = runs.again_other(other.number)
    elif runs.sites is None:
        others = _seen_operands(runs, entry)
    mine = runs.again(entry.number)
    place = row.distance.index, entry.value.shape
    return operands_of(entry.equation, *place, mine, others, names)


def _seen_operands(runs: Runs, entry: Entry) -> list[Any]:
    """Return the operands of an equation that were seen in the other run, or None each."""
    makers: dict[Any, Moment] = {}
    for each in runs.recording.entries:
        site, turns = each.moment
        is_beside = (
            turns == entry.moment.turns and site.around == entry.moment.site.around
        )
        if is_beside and isinstance(site.part, int):
            makers[each.equation.outvars[site.part]] = each.moment
    found: list[Any] = []
    for atom in entry.equation.invars:
        if type(atom) is jaxapi.JaxprLiteral:
            found.append(atom.val)
            continue
        seen = runs.values.at(makers[atom], 0) if atom in makers else None
        found.append(None if seen is None else seen.value)
    return found


def _place_of(entry: Entry) -> str:
    origin = origin_of(entry.equation, entry.path)
    return f"{origin}" + (f": {origin.text}" if origin.text else "")


def _notes(made: Compared, names: Names, runs: Runs) -> list[str]:
    """Say what was not compared."""
    notes: list[str] = []
    n_outputs, n_others = len(runs.recording.outputs), len(runs.values.outputs)
    alone = [entry for entry in made.alone if not _is_condition(entry)]
    if alone:
        shown = [_named(entry, names) for entry in alone[:MAX_NAMED]]
        more = ", …" if len(alone) > MAX_NAMED else ""
        n = len(alone)
        said = runs.lost.format(have="have" if n != 1 else "has")
        notes.append(f"{n:,} value{'s' * (n != 1)} {said}: {', '.join(shown)}{more}.")
    if len(alone) < len(made.alone) and runs.sites is None:
        notes.append(
            "of the conditions of `while` loops only the numbers of turns were compared."
        )
    if made.n_not_reached:
        notes.append(
            f"{made.n_not_reached:,} values of the first run are of turns or branches that "
            "the other did not come to."
        )
    if n_outputs != n_others:
        notes.append(
            f"the first program returns {n_outputs} arrays, the other {n_others}."
        )
    return notes


def _is_condition(entry: Entry) -> bool:
    return any(part == CONDITION for _, part in entry.moment.site.around)


def _named(entry: Entry, names: Names) -> str:
    part = entry.moment.site.part
    name = names.of(entry.equation.outvars[part])[0] if isinstance(part, int) else part
    place = origin_of(entry.equation, entry.path).place
    return f"`{name or entry.equation.primitive.name}` ({place})"
