"""Name the dimensions of a recorded computation, and write its numbers with them.

Names are those of the user's variables that took the size (`batch, length = x.shape`),
else of a library's, else of the argument and its axis: `X_ROWS`, `IMAGES_AXIS_2`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.capture.dict_keys import spelled
from untrace.capture.trees import Node, leaf_paths, leaves
from untrace.lifting.recorded.naming.paths import last_word, words_of
from untrace.lifting.recorded.numbers.alignment import (
    aligned,
    merged,
    named_shapes,
    named_sizes,
)
from untrace.lifting.sizes import Dimension, Dimensions, solved
from untrace.syntax.names import identifier
from untrace.syntax.steps import Attribute, Path

Axis = tuple[int, int]


def written_with(
    samples: Sequence[Captured], classes: Sequence[Sequence[Axis]], anonymous: bool
) -> Captured:
    """Return the computation with expressions of dimensions in place of numbers.

    Args:
      samples: It at the sizes at hand, with each dimension changed alone, and with all
        of them changed.
      classes: The axes of inputs that change with a dimension, for each; the first has
        its size.
      anonymous: Take no names from the original.
    """
    captured = samples[0]
    sizes = [shapes(sample) for sample in samples]
    best = [_best(captured, axes) for axes in classes]
    columns = [tuple([rows[i][axis] for rows in sizes]) for i, axis in best]
    if anonymous:
        named = [
            Dimension(f"SIZE_{i}" if i > 1 else "SIZE", column, "")
            for i, column in enumerate(columns, 1)
        ]
    else:
        named = _named(samples, columns, best)

    def solve(values: Sequence[Any]) -> Any:
        return solved(values, named)

    rows = tuple([merged(row, solve) for row in zip(*sizes)])
    others = tuple([replace(s, recording=None, variant=None) for s in samples[1:]])
    recordings = [sample.recording for sample in samples]
    arrays = tuple(named_shapes(recordings, solve))
    return replace(
        captured,
        variant=None,
        recording=aligned(recordings, solve),
        dimensions=Dimensions(tuple(named), rows, others, arrays),
    )


def shapes(captured: Captured) -> list[tuple[int, ...]]:
    """List the shapes of the inputs."""
    avals = jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals
    return [tuple(getattr(aval, "shape", ())) for aval in avals]


def place(captured: Captured, axis: Axis) -> tuple[int, Axis]:
    """Order axes: those of arrays first, then those of containers of few arrays."""
    for parameter in captured.parameters:
        found = list(leaves(parameter.tree))
        if axis[0] in found:
            return len(found) if isinstance(parameter.tree, Node) else 0, axis
    return 0, axis


def _best(captured: Captured, axes: Sequence[Axis]) -> Axis:
    """Choose the axis that a dimension is said to come from."""
    sizes = shapes(captured)
    size = sizes[axes[0][0]][axes[0][1]]
    whole = [axis for axis in axes if sizes[axis[0]][axis[1]] == size]
    return min(whole, key=lambda axis: place(captured, axis))


def _named(
    samples: Sequence[Captured],
    columns: Sequence[tuple[int, ...]],
    best: Sequence[Axis],
) -> list[Dimension]:
    """Name dimensions, each by the first name that no other has.

    A variable may hold a size and a number more or less: `time` is one less than the
    length of `tokens`. If none holds the size itself, the dimension is what it holds.
    """
    votes = list(named_sizes([sample.recording for sample in samples]))
    votes.sort(key=lambda vote: "site-packages" in vote[2].code.co_filename)
    origins = [_origin(samples[0], axis) for axis in best]
    made: dict[int, Dimension] = {}
    for is_shifted in (False, True):
        for hint, sizes, _ in votes:
            name = identifier(hint.strip("_").upper(), "SIZE")
            shifts = [_shift(column, sizes) for column in columns]
            found = [i for i, shift in enumerate(shifts) if shift is not None]
            if not found or any(d.name == name for d in made.values()):
                continue
            shift = shifts[found[0]] or 0
            if bool(shift) == is_shifted:
                sign = f" {'-' if shift < 0 else '+'} {abs(shift)}" if shift else ""
                dimension = Dimension(name, sizes, origins[found[0]] + sign)
                made.setdefault(found[0], dimension)
    for i, axis in enumerate(best):
        if i not in made:
            name = _argument_name(samples[0], axis, [d.name for d in made.values()])
            made[i] = Dimension(name, columns[i], origins[i])
    return [made[i] for i in range(len(columns))]


def _shift(column: Sequence[int], sizes: Sequence[int]) -> int | None:
    """Return what sizes are more than those of a dimension, if it is always the same."""
    shifts = {size - own for own, size in zip(column, sizes)}
    return shifts.pop() if len(shifts) == 1 else None


def _argument_name(captured: Captured, axis: Axis, taken: Sequence[str]) -> str:
    """Name an axis after its argument; after the whole path, if others have the name."""
    rank = len(shapes(captured)[axis[0]])
    words = {1: ("LENGTH",), 2: ("ROWS", "COLUMNS")}.get(rank)
    word = words[axis[1]] if words else f"AXIS_{axis[1]}"
    root, path = _access(captured, axis[0])
    is_in_box = path[-1:] == (Attribute("value"),)
    way = path[:-1] if is_in_box else path
    short = last_word(words_of(way)) if way else root
    owners = short, root + spelled(path)
    found = [identifier(f"{owner}_{word}".upper()) for owner in owners]
    return next((name for name in found if name not in taken), f"{found[1]}_{axis[0]}")


def _origin(captured: Captured, axis: Axis) -> str:
    root, path = _access(captured, axis[0])
    return f"{root}{spelled(path)}.shape[{axis[1]}]"


def _access(captured: Captured, position: int) -> tuple[str, Path]:
    """Return the parameter that an input is a part of, and the path to it."""
    for parameter in captured.parameters:
        for index, path in leaf_paths(parameter.tree):
            if index == position:
                return parameter.name, path
    return "input", ()
