"""Run a program op by op and keep what it computes, in order.

What an equation does may be replaced: it is computed in another type, or on another
device. Calls are looked into, and only loops and branches have values of their own, so
that no value is there twice.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from untrace import jaxapi
from untrace.interpreters.called import Call
from untrace.interpreters.diverging.distances import Array, as_array
from untrace.interpreters.diverging.moments import (
    BRANCH,
    TURNS,
    Moment,
    around_of,
    is_turn,
    site,
    turns_of,
)
from untrace.interpreters.diverging.store import Kept, Nowhere, Store
from untrace.interpreters.evaluate import Place, Step, evaluate
from untrace.interpreters.sub_programs import body_param, is_entered, is_traced

Compute = Callable[..., Any]
"""Takes a `Step` that has nothing inside, and its operands; returns the results."""


class Entry(NamedTuple):
    """A value that was computed.

    Attributes:
      moment: Which one it is.
      equation: The equation that computed it.
      path: Where that stands.
      kept: The value.
      number: How many values of the run were before.
    """

    moment: Moment
    equation: Any
    path: tuple[Place, ...]
    kept: Kept
    number: int

    @property
    def value(self) -> Array:
        """The value."""
        return self.kept.array


class Values(Protocol):
    """What another run computed."""

    outputs: Sequence[Any]

    def at(self, moment: Moment, occurrence: int) -> Any:
        """Return the value at a moment, and its number if it has one; None if there is none.

        The condition of a `while` is evaluated several times at one moment.
        """


class Recording:
    """The values of a run, op by op.

    Args:
      store: Where they are kept.

    Attributes:
      entries: The values, in the order in which they were computed.
      outputs: What the program returned, flat.
    """

    def __init__(self, store: Store) -> None:
        self.entries: list[Entry] = []
        self.outputs: Sequence[Any] = ()
        self._at: dict[Moment, list[int]] = defaultdict(list)
        self._store = store

    def add(self, moment: Moment, step: Step, value: Any) -> None:
        """Keep a value, unless it has no elements at all."""
        array = as_array(value)
        if array is None:
            return
        number = len(self.entries)
        kept = self._store.keep(array)
        self.entries.append(Entry(moment, step.equation, step.path, kept, number))
        self._at[moment].append(number)

    def at(self, moment: Moment, occurrence: int) -> Entry | None:
        """Return the value at a moment; see `Values`."""
        numbers = self._at.get(moment, [])
        return self.entries[numbers[occurrence]] if occurrence < len(numbers) else None


class _Reached(Exception):
    """The value that is asked for is about to be computed."""


def record(
    call: Call,
    compute: Compute | None = None,
    context: contextlib.AbstractContextManager[Any] | None = None,
) -> Recording:
    """Run a program op by op.

    Args:
      call: The program and its inputs.
      compute: How equations are computed that have no sub-programs; by default as JAX
        does.
      context: What it is run in.
    """
    made = Recording(Store())
    handler = _handler(made, compute or _computed)
    with context or contextlib.nullcontext():
        made.outputs = evaluate(
            call.jaxpr, call.inputs, handler, jaxapi.equation_context
        )
    return made


def operands_at(
    call: Call,
    number: int,
    compute: Compute | None = None,
    context: contextlib.AbstractContextManager[Any] | None = None,
) -> list[Any]:
    """Run a program again, up to the equation of one of its values.

    Returns:
      The operands of that equation.
    """
    made = Recording(Nowhere())
    last: list[Any] = []
    handler = _handler(made, compute or _computed)

    def stopping(step: Step, *operands: Any) -> Any:
        before = len(made.entries)
        results = handler(step, *operands)
        if before <= number < len(made.entries):
            last[:] = operands
            raise _Reached
        return results

    with context or contextlib.nullcontext(), contextlib.suppress(_Reached):
        evaluate(call.jaxpr, call.inputs, stopping, jaxapi.equation_context)
    return last


def _computed(step: Step, *operands: Any) -> Any:
    return step.bind(*operands)


def _handler(made: Recording, compute: Compute) -> Callable[..., Any]:
    counted: dict[tuple[Any, ...], int] = {}

    def handler(step: Step, *operands: Any) -> Any:
        if step.path and is_turn(step.path[-1]):
            _count_turn(counted, step.path)
        if is_traced(operands):
            return (
                step(*operands)
                if is_entered(step.equation)
                else compute(step, *operands)
            )
        turns = turns_of(step.path)
        if step.name == "cond":
            n_branches = len(step.params["branches"])
            chosen = max(0, min(int(operands[0]), n_branches - 1))
            made.add(Moment(site(step, BRANCH), turns), step, chosen)
        loop = (id(step.equation), around_of(step.path), turns)
        counted.pop(loop, None)
        results = (
            step(*operands) if is_entered(step.equation) else compute(step, *operands)
        )
        if step.name == "while":
            n_turns = counted.pop(loop, 0)
            made.add(Moment(site(step, TURNS), turns), step, n_turns)
        if body_param(step.equation) is None:
            each = results if step.primitive.multiple_results else [results]
            for position, value in enumerate(each):
                if not is_traced([value]):
                    made.add(Moment(site(step, position), turns), step, value)
        return results

    return handler


def _count_turn(counted: dict[tuple[Any, ...], int], path: tuple[Place, ...]) -> None:
    last, before = path[-1], path[:-1]
    if isinstance(last.part, int):
        loop = (id(last.equation), around_of(before), turns_of(before))
        counted[loop] = last.part + 1
