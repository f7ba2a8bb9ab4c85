"""Compare the values of two runs, in the order of the first."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from untrace import jaxapi
from untrace.interpreters.called import Call
from untrace.interpreters.diverging.coarseness import Coarseness
from untrace.interpreters.diverging.distances import (
    Array,
    Distance,
    Tolerance,
    as_array,
    distance,
)
from untrace.interpreters.diverging.moments import (
    BRANCH,
    CONDITION,
    TURNS,
    Moment,
    Site,
    is_turn,
)
from untrace.interpreters.diverging.recording import Entry, Recording, Values
from untrace.interpreters.evaluate import Place
from untrace.interpreters.places import Origin, origin_of
from untrace.lifting.value_names import value_names

RESULT, VALUE = "result", "value"


@dataclass(frozen=True)
class Row:
    """A value in both runs.

    Attributes:
      kind: "value"; "branch" or "turns", what a `cond` or `while` decides; or "result",
        what the program returns.
      name: What the recovered source, at level "lax", calls it.
      variable: What the user's code calls it, or "".
      type: Its type, as JAX writes it.
      other_type: Its type in the other run.
      distance: How far the two are apart.
      equation: The equation that computes it; None of a result.
      path: Where that stands.
      occurrence: How often it was computed before in the same turns of the loops: in the
        condition of a `while`.
    """

    kind: str
    name: str
    variable: str
    type: str
    other_type: str
    distance: Distance
    equation: Any = field(repr=False)
    path: tuple[Place, ...] = field(repr=False)
    occurrence: int = 0

    @functools.cached_property
    def origin(self) -> Origin | None:
        """The user's line that it comes from; None of a result."""
        return None if self.equation is None else origin_of(self.equation, self.path)

    @property
    def turn(self) -> str:
        """The loops and branches that it is in, with their turns."""
        return "/".join(text for p, text in self._places() if p.part is not None)

    @property
    def inside(self) -> str:
        """The calls, loops and branches that it is in."""
        return " / ".join(text for _, text in self._places())

    def _places(self) -> Iterator[tuple[Place, str]]:
        """The condition of a `while` with how often it was evaluated before."""
        for place in self.path:
            is_condition = place.part == CONDITION
            numbered = place._replace(part=f"{CONDITION} {self.occurrence}")
            yield place, str(numbered if is_condition else place)

    @property
    def turns(self) -> tuple[int, ...]:
        """The turns of the loops that it is in, the outermost first."""
        return tuple([p.part for p in self.path if is_turn(p)])  # pyright: ignore[reportReturnType]

    @property
    def is_beyond(self) -> bool:
        """Whether it differs by more than the tolerance."""
        return self.distance.is_beyond

    @property
    def words(self) -> str:
        """What the two are, where the difference is the largest."""
        d = self.distance
        if d.what:
            return f"{self.type} against {self.other_type}"
        if self.kind == BRANCH:
            return f"takes branch {d.value!s} against {d.other!s}"
        if self.kind == TURNS:
            return f"{d.value!s} turns against {d.other!s}"
        return f"{d.value!s} against {d.other!s}"


class Names:
    """What the values of a program are called.

    Args:
      call: The program.
    """

    def __init__(self, call: Call) -> None:
        self._written, self._variables = value_names(call.captured)
        inputs = jaxapi.split_jaxpr(call.jaxpr)[0].invars
        self._inputs = dict(zip(inputs, call.input_names))

    def of(self, atom: Any) -> tuple[str, str]:
        """Return the name that the source gives a value, and that of the user's variable."""
        if type(atom) is jaxapi.JaxprLiteral:
            return "", ""
        known = self._written.get(atom) or self._inputs.get(atom, "")
        return known, self._variables.get(atom, "")


class Pair(NamedTuple):
    """A row, and the values that it compares."""

    row: Row
    entry: Entry
    other: Any


@dataclass(frozen=True)
class Compared:
    """The values of two runs.

    Attributes:
      pairs: Those that both have, in the order of the first run.
      alone: The first of each place of the first program that has no value in the other.
      n_not_reached: How many the other has at that place, but not at that turn or branch.
    """

    pairs: tuple[Pair, ...]
    alone: tuple[Entry, ...]
    n_not_reached: int


def compared(
    recording: Recording,
    values: Values,
    sites: Mapping[Site, Site] | None,
    names: Names,
    tolerance: Tolerance,
    coarseness: Coarseness,
) -> Compared:
    """Compare the values of a run with those of another.

    Args:
      recording: The first run.
      values: The other.
      sites: The places of the other program for those of the first; None if it is the
        same program.
      names: What the values are called.
      tolerance: What is no difference.
      coarseness: How coarse the values of the first program are.
    """
    pairs: list[Pair] = []
    alone: dict[Site, Entry] = {}
    met: set[Site] = set()
    lost: list[Site] = []
    occurrences: dict[Moment, int] = {}
    for entry in recording.entries:
        moment = entry.moment
        occurrence = occurrences[moment] = occurrences.get(moment, -1) + 1
        place = moment.site if sites is None else sites.get(moment.site)
        other = None
        if place is not None:
            other = values.at(Moment(place, moment.turns), occurrence)
        if other is not None:
            met.add(moment.site)
            row = _row(entry, other.value, occurrence, names, tolerance, coarseness)
            pairs.append(Pair(row, entry, other))
        elif place is not None:
            lost.append(moment.site)
            alone.setdefault(moment.site, entry)
        else:
            alone.setdefault(moment.site, entry)
    return Compared(
        tuple(pairs),
        tuple([entry for place, entry in alone.items() if place not in met]),
        sum(place in met for place in lost),
    )


def result_rows(
    call: Call,
    outputs: Sequence[Any],
    others: Sequence[Any],
    tolerance: Tolerance,
    coarseness: Coarseness,
) -> list[Row]:
    """Compare what two programs return, by position."""
    debug = jaxapi.split_jaxpr(call.jaxpr)[0].debug_info
    paths = getattr(debug, "result_paths", None) or ()
    rows: list[Row] = []
    for k, (one, other) in enumerate(zip(outputs, others)):
        mine, theirs = as_array(one), as_array(other)
        if mine is None or theirs is None:
            continue
        name = str(paths[k]) if k < len(paths) else f"result[{k}]"
        types = _type_of(mine), _type_of(theirs)
        far = distance(mine, theirs, tolerance, coarseness.outputs[k])
        rows.append(Row(RESULT, name or "result", "", *types, far, None, ()))
    return rows


def _row(
    entry: Entry,
    other: Array,
    occurrence: int,
    names: Names,
    tolerance: Tolerance,
    coarseness: Coarseness,
) -> Row:
    part = entry.moment.site.part
    kind, name, variable = VALUE, "", ""
    coarsest = None
    if isinstance(part, int):
        name, variable = names.of(entry.equation.outvars[part])
        name = name or entry.equation.primitive.name
        coarsest = coarseness.of(entry.equation, part)
    else:
        kind, name = part, f"{part} of {entry.equation.primitive.name}"
    types = _type_of(entry.value), _type_of(other)
    far = distance(entry.value, other, tolerance, coarsest)
    return Row(
        kind, name, variable, *types, far, entry.equation, entry.path, occurrence
    )


def _type_of(array: Array) -> str:
    return _short_type(array.shape, array.dtype)


@functools.cache
def _short_type(shape: tuple[int, ...], dtype: np.dtype[Any]) -> str:
    with jax.enable_x64(True):  # types of 64 bits are what they are
        return jaxapi.short_type(jaxapi.ShapedArray(shape, dtype))
