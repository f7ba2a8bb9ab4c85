"""Which value of a run is meant: the equation, the calls and branches, and the turns.

A place is a static part of the program: the equations around with the branches that are
taken there, then the equation itself and one of its results, or what it decides. A moment
is a place and the turns of the loops around it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from untrace.interpreters.evaluate import Place

LOOPS = ("scan", "while")
BRANCH, TURNS = "branch", "turns"
"""What a `cond` and a `while` decide, in the place of a result."""
TURN, CONDITION = "turn", "cond"
"""Which part of a loop it is: the body, in whatever turn, or the condition of a `while`."""

Around = tuple[tuple[int, int | str | None], ...]
"""The equations around, by `id`, and which part of each: the number of a branch, `TURN` or
`CONDITION`; None if there is only one."""


class Site(NamedTuple):
    """A place of a program.

    Attributes:
      around: The sub-programs that it is in.
      equation: The `id` of its equation.
      part: The position of a result, `BRANCH` or `TURNS`.
    """

    around: Around
    equation: int
    part: int | str


class Moment(NamedTuple):
    """A value of a run.

    Attributes:
      site: The place of the program.
      turns: The turns of the loops around, the outermost first.
    """

    site: Site
    turns: tuple[int, ...]


def is_turn(place: Place) -> bool:
    """Whether the part of a place counts turns, and is no branch."""
    return place.equation.primitive.name in LOOPS and isinstance(place.part, int)


def around_of(path: Sequence[Place]) -> Around:
    """Return the static part of a path."""
    return tuple(
        [(id(place.equation), TURN if is_turn(place) else place.part) for place in path]
    )


def turns_of(path: Sequence[Place]) -> tuple[int, ...]:
    """Return the turns of the loops in a path, the outermost first."""
    return tuple(_turns(path))


def _turns(path: Sequence[Place]) -> Iterator[int]:
    for place in path:
        if is_turn(place) and isinstance(place.part, int):
            yield place.part


def site(step: Any, part: int | str) -> Site:
    """Return the place of a step (`evaluate.Step`) and one of its results."""
    return Site(around_of(step.path), id(step.equation), part)
