"""Run a program with a flag for every intermediate, and again up to one of its equations.

Calls are inlined; loops and branches are equations like others, which the search enters.
The body of a `shard_map` runs on all its devices.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.core

from ..evaluate import Evaluator, Handler, Place, Step
from ..sub_programs import body_param, inner_equations, solver
from .devices import (
    Devices,
    bind_alone,
    first_bad_device,
    is_on_several,
    own_context_alone,
    without_mesh,
)
from .grading import (
    INFINITE,
    badness,
    grade,
    groups,
    is_inexact,
    packed,
    same_badness,
    unpacked,
)
from .turns import compiled


class Row(NamedTuple):
    """An equation of a program whose calls are inlined.

    Attributes:
      path: The calls, turns and branches that it stands in.
      operands: The numbers of its operands.
      results: The numbers of its results.
    """

    equation: Any
    path: tuple[Place, ...]
    operands: tuple[int, ...]
    results: tuple[int, ...]


class Stretch(NamedTuple):
    """A program, or the turn of a loop or branch in it, and what is bad there.

    Attributes:
      jaxpr: The program.
      args: Its inputs.
      path: Where it stands.
      rows: Its equations.
      inputs: The numbers of its inputs.
      outputs: The numbers of its outputs.
      flags: How bad each value is, by number; those that are missing are finite.
      constants: The numbers of literals and constants.
      level: From which grade on flags tell values apart.
      devices: Those that it runs on, if it is the body of a `shard_map`.
      values: All values by number, if they were kept.
    """

    jaxpr: Any
    args: Sequence[Any]
    path: tuple[Place, ...]
    rows: list[Row]
    inputs: list[int]
    outputs: list[int]
    flags: dict[int, int]
    constants: frozenset[int]
    level: int
    devices: Devices | None = None
    values: Sequence[Any] | None = None

    def entered(self, index: int) -> Stretch:
        """Return the body of a row that is a `shard_map`, on all its devices."""
        row = self.rows[index]
        path, params = (*row.path, Place(row.equation)), row.equation.params
        if self.devices is None:
            args, devices = self.operands_of(index), Devices(params)
            return flagged(params["jaxpr"], args, self.level, path, devices)
        devices = Devices(
            params, self.devices, lambda *args: _reached(self, index, args)
        )
        given = [self.flags.get(n, 0) for n in row.operands]
        return flagged(params["jaxpr"], self.args, self.level, path, devices, given)

    def needs_devices(self, index: int) -> bool:
        """Return whether a row, of a `shard_map`, cannot be run on one device alone."""
        if self.devices is None:
            return False
        equation = self.rows[index].equation
        inside = inner_equations(equation)
        return bool(equation.effects) or any(
            inner.primitive.name == "shard_map" for inner in inside
        )

    def operands_of(self, index: int) -> list[Any]:
        """Return the operands that a row had."""
        return self.examined(index).operands

    def examined(self, index: int, graded: Collection[int] = ()) -> Examined:
        """Return what a row had, and how bad some values before it were."""
        return _examined(self, index, graded)


def flagged(
    jaxpr: Any,
    args: Sequence[Any],
    level: int = INFINITE,
    path: tuple[Place, ...] = (),
    devices: Devices | None = None,
    given: Sequence[int] | None = None,
) -> Stretch:
    """Run a program in one compilation, with a flag for every intermediate.

    Args:
      jaxpr: The program.
      args: Its inputs.
      level: What to look for: `NAN` alone, which is faster, or `INFINITE` and NaN.
      path: Where it stands.
      devices: Those that it runs on, if it is the body of a `shard_map`.
      given: How bad its inputs are, if that of another one is around that: `args` are
        those of the outermost.
    """
    is_split = _is_split(jaxpr, args, devices)
    seen: list[Recorded] = []
    sources: dict[int, int] = {}
    grouped: list[list[int]] = []

    def run(*args: Any) -> Any:
        seen[:] = [recorded(jaxpr, args, path, devices is None)]
        rows, values, _, outputs, constants = seen[0]
        sources.update(_sources(rows, values, constants, level))
        wanted = [n for n in _live(rows, outputs) if is_inexact(values[n])]
        grouped[:] = groups([n for n in wanted if n not in sources], values, level)
        return [
            packed([values[n] for n in group], level, is_split) for group in grouped
        ]

    words = _run(run, args, devices)
    rows, _, inputs, outputs, constants = seen[0]
    flags = unpacked(grouped, words, level)
    flags.update({n: int(badness(v)) for n, v in constants.items() if is_inexact(v)})
    if given is None:
        given = [int(badness(v)) if is_inexact(v) else 0 for v in args]
    flags.update(zip(inputs, given))
    for n, source in sources.items():  # in the order of the program
        flags[n] = flags.get(source, 0)
    return Stretch(
        jaxpr,
        args,
        path,
        rows,
        inputs,
        outputs,
        {n: flag for n, flag in flags.items() if flag},
        frozenset(constants),
        level,
        devices,
    )


class Examined(NamedTuple):
    """What an equation had when it was reached.

    Attributes:
      operands: What it was given; on several devices, on the first that made it bad.
      flags: How bad the values are that were asked for, by number.
      results: What it made there; None if it can be evaluated again by itself.
    """

    operands: list[Any]
    flags: dict[int, int]
    results: list[Any] | None


def _examined(stretch: Stretch, index: int, graded: Collection[int]) -> Examined:
    """Run a program up to a row, unless its values were kept."""
    if (kept := stretch.values) is not None:
        operands = [kept[n] for n in stretch.rows[index].operands]
        return Examined(operands, {n: grade(kept[n]) for n in graded}, None)
    is_split = _is_split(stretch.jaxpr, stretch.args, stretch.devices)
    known: list[Any] = []
    grouped: list[list[int]] = []

    def run(*args: Any) -> Any:
        values: dict[int, Any] = dict(zip(stretch.inputs, args))
        results: list[Any] = []
        counted = 0

        def stop(step: Step, operands: Sequence[Any]) -> None:
            if counted < index:
                return
            known[:] = operands
            if stretch.devices is not None:
                made = step.bind(*operands)
                results[:] = made if step.primitive.multiple_results else [made]
            raise _Reached

        def note(step: Step, operands: Sequence[Any], made: Sequence[Any]) -> None:
            nonlocal counted
            values.update(zip(stretch.rows[counted].results, made))
            counted += 1

        with contextlib.suppress(_Reached):
            _inlined(
                stretch.jaxpr, args, stretch.path, stretch.devices is None, stop, note
            )
        shown = [n for n in graded if n in values and is_inexact(values[n])]
        grouped[:] = groups(shown, values, INFINITE)
        words = [
            packed([values[n] for n in group], INFINITE, is_split) for group in grouped
        ]
        # Python numbers and literals stay as they are.
        return [x for x in known if isinstance(x, jax.core.Tracer)], words, results

    made, words, results = _run(run, stretch.args, stretch.devices)
    flags = unpacked(grouped, words, INFINITE)
    rest = iter(made)
    operands = [next(rest) if isinstance(x, jax.core.Tracer) else x for x in known]
    if stretch.devices is None:
        return Examined(operands, flags, None)
    device = first_bad_device(results, stretch.level)
    shared = [not isinstance(x, jax.core.Tracer) for x in known]
    operands = [x if is_same else x[device] for x, is_same in zip(operands, shared)]
    results = [result[device] for result in results]
    return Examined(
        [without_mesh(x) for x in operands], flags, [without_mesh(x) for x in results]
    )


def _reached(stretch: Stretch, index: int, args: Sequence[Any]) -> list[Any]:
    """Return the operands of a row, inside of the `shard_map` that it stands in."""
    known: list[Any] = []
    n_passed = 0

    def stop(step: Step, operands: Sequence[Any]) -> None:
        nonlocal n_passed
        if n_passed == index:
            known[:] = operands
            raise _Reached
        n_passed += 1

    with contextlib.suppress(_Reached):
        _inlined(stretch.jaxpr, args, stretch.path, False, stop)
    return known


def _is_split(jaxpr: Any, args: Sequence[Any], devices: Devices | None) -> bool:
    """Return whether values may lie on several devices where they are flagged."""
    if devices is None:
        return is_on_several(jaxpr, args)
    return devices.are_several or is_on_several(jaxpr, ())


class _Reached(Exception):
    """The row that is asked for was reached; what follows need not be traced."""


def _run(function: Any, args: Sequence[Any], devices: Devices | None) -> Any:
    return compiled(function if devices is None else devices.each(function), *args)


class Recorded(NamedTuple):
    """A program that was traced with its calls inlined, and its values numbered."""

    rows: list[Row]
    values: list[Any]
    inputs: list[int]
    outputs: list[int]
    constants: dict[int, Any]


def recorded(
    jaxpr: Any,
    args: Sequence[Any],
    path: tuple[Place, ...],
    is_alone: bool,
    bind: Handler | None = None,
) -> Recorded:
    """Evaluate or trace a program, and number its values."""
    rows: list[Row] = []
    values: list[Any] = []  # they stay alive, and so do their ids
    numbers: dict[int, int] = {}

    def number(value: Any) -> int:
        if id(value) not in numbers:
            numbers[id(value)] = len(values)
            values.append(value)
        return numbers[id(value)]

    inputs = [number(value) for value in args]

    def note(step: Step, operands: Sequence[Any], results: Sequence[Any]) -> None:
        given = tuple(map(number, operands))
        rows.append(Row(step.equation, step.path, given, tuple(map(number, results))))

    made = _inlined(jaxpr, args, path, is_alone, done=note, bind=bind)
    outputs = [number(value) for value in made]
    known = {n for row in rows for n in row.results}.union(inputs)
    constants = {
        n: value
        for n, value in enumerate(values)
        if n not in known and not isinstance(value, jax.core.Tracer)
    }
    return Recorded(rows, values, inputs, outputs, constants)


def _inlined(
    jaxpr: Any,
    args: Sequence[Any],
    path: tuple[Place, ...],
    is_alone: bool,
    before: Callable[[Step, Sequence[Any]], None] | None = None,
    done: Callable[[Step, Sequence[Any], Sequence[Any]], None] | None = None,
    bind: Handler | None = None,
) -> list[Any]:
    """Evaluate a program, its calls by their bodies and its loops as a whole.

    Args:
      jaxpr: The program.
      args: Its inputs.
      path: Where it stands.
      is_alone: Whether no `shard_map` is around it, even if it is a part of one.
      before: Called before each equation.
      done: Called after each equation.
      bind: Evaluates an equation; by default as JAX does.
    """
    bind = bind or (bind_alone if is_alone else Step.bind)

    def handler(step: Step, *operands: Any) -> Any:
        many = step.primitive.multiple_results
        body = _body(step, operands)
        if body is not None:
            made = step.run(*body)
            return made if many else made[0]
        if before is not None:
            before(step, operands)
        results = bind(step, *operands)
        if done is not None:
            done(step, operands, results if many else [results])
        return results

    around = own_context_alone if is_alone else None
    return Evaluator(handler, around).run(jaxpr, args, path)


def _body(step: Step, operands: Sequence[Any]) -> tuple[Any, Sequence[Any]] | None:
    key = body_param(step.equation)
    if key is not None:
        return step.params[key], operands
    if step.name == "custom_linear_solve":
        return solver(step.params, operands)
    return None


def _live(rows: Sequence[Row], outputs: Sequence[int]) -> list[int]:
    """List the results that outputs depend on."""
    needed, found = set(outputs), list[int]()
    for row in reversed(rows):
        if needed.intersection(row.results):
            needed.update(row.operands)
            found += row.results
    return found[::-1]


def _sources(
    rows: Sequence[Row],
    values: Sequence[Any],
    constants: Mapping[int, Any],
    level: int,
) -> dict[int, int]:
    """Find the results that are exactly as bad as an operand: they need no flag."""
    found: dict[int, int] = {}
    for row in rows:
        source = same_badness(row.equation, row.operands, values, constants, level)
        if source is not None:
            found[row.results[0]] = source
    return found
