"""Simplify types and params: shorter axes, fewer axes, plain dtypes, default params.

Axes are shrunk jointly through the whole program: everything that must have the same
size changes with it. Thresholds are real (a crash from 4,096 elements on, say), so an
axis that cannot be 1 is halved as long as that works, at either end, and then bisected.
It may become shorter by one or two once other axes have changed; that is tried first.
Axes of the same size tend to have the same threshold: the second is not bisected.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from operator import itemgetter
from typing import Any

from untrace.reduction.applying import apply
from untrace.reduction.axes import (
    Axes,
    Axis,
    all_removed,
    all_resized,
    find_axes,
    resized,
    without_axis,
)
from untrace.reduction.edits import Edits
from untrace.reduction.passes.outliers import outlying_places
from untrace.reduction.program import Program, open_equations
from untrace.reduction.search import Edit, Search
from untrace.reduction.simpler_params import simpler_params
from untrace.reduction.simpler_types import dtype_changes, retyped

JOINT_SIZES = (1, 2)


def shrink_axes(search: Search) -> None:
    """Make axes as short as the failure allows: all together, then one by one."""
    shrink_together(search)
    tried: set[object] = set()
    while (axis := _next(search.best, tried)) is not None:
        tried.add(_key(search.best, axis))
        if ("axis", _places(search.best, axis), axis.size) in search.settled:
            _nibble(search, axis)
        elif ("size", axis.size) in search.settled:
            _shrink_as_others(search, axis)
        else:
            _shrink(search, axis)


def shrink_together(search: Search) -> None:
    """Make all axes as short as can be at once: to an element unlike the others first."""
    search.simplify(partial(_joint, with_outliers=search.judge.keep.needs_values))


def _joint(program: Program, with_outliers: bool) -> Iterator[Edit]:
    axes = find_axes(program.block)
    for i, place in enumerate(outlying_places(program, axes) if with_outliers else ()):
        yield ("outlier", i), partial(_resized_around, program, axes, place)
    for size in JOINT_SIZES:
        yield ("all", size), partial(_all_resized, program, size)


def _resized_around(
    program: Program, axes: Axes, place: dict[Axis, int]
) -> Program | None:
    edits = all_resized(program, axes, 1, place)
    return None if edits is None else apply(program, edits)


def shrink_inputs(search: Search) -> None:
    """Shrink or drop axes of single inputs, for equations whose axes nobody knows."""
    while search.first(_smaller_inputs(search.best)):
        pass


def drop_axes(search: Search) -> None:
    """Remove axes of size 1, all together, then one by one."""
    if drop_together(search):
        return
    while search.first(_dropped(search.best)):
        pass


def drop_together(search: Search) -> bool:
    """Remove all axes of size 1 at once; say whether that was done."""
    return search.first(iter([_all_dropped(search.best)]))


def simplify_dtypes(search: Search) -> None:
    """Use ordinary dtypes throughout, as long as that helps."""
    while search.first(_retyped(search.best)):
        pass


def simplify_params(search: Search) -> None:
    """Set params to what is simplest: all together, then one by one."""
    if search.first(iter([_all_plain(search.best)])):
        return
    while search.first(_plainer(search.best)):
        pass


# ---- axes -----------------------------------------------------------------------------


def _places(program: Program, axis: Axis) -> frozenset[tuple[int, int]]:
    """Name an axis by the inputs where it shows."""
    index = {value: i for i, value in enumerate(program.block.inputs)}
    return frozenset((index[v], n) for v, n in axis.places if v in index)


def _key(program: Program, axis: Axis) -> object:
    """Name an axis of a certain size in the program as it is."""
    return _places(program, axis), axis.size, axis.n_elements


def _next(program: Program, tried: set[object]) -> Axis | None:
    for axis in find_axes(program.block).groups:
        if axis.size > 1 and _key(program, axis) not in tried:
            return axis
    return None


def _made(program: Program, axis: Axis, size: int, start: int = 0) -> Program | None:
    edits = resized(program, axis, size, start)
    return None if edits is None else apply(program, edits)


def _shrink(search: Search, axis: Axis) -> None:
    """Shrink one axis; programs that are accepted on the way have other axes objects."""
    base, size, start = search.best, axis.size, 0
    around = _outlying(search, axis)
    ends = dict.fromkeys((*around, 0, size - 1))
    if search.first(_made(base, axis, 1, at) for at in ends):
        return
    while size > 2:
        half = size // 2
        halves = (start, start + size - half)
        if around and around[0] >= halves[1]:
            halves = halves[::-1]
        for at in halves:
            if search.first(iter([_made(base, axis, half, at)])):
                size, start = half, at
                break
        else:
            break
    size = search.smallest(size // 2, size, lambda n: _made(base, axis, n, start))
    search.settled |= {("axis", _places(base, axis), size), ("size", size)}


def _outlying(search: Search, axis: Axis) -> list[int]:
    """List where elements unlike the others are along an axis, if values matter."""
    if not search.judge.keep.needs_values:
        return []
    places = outlying_places(search.best, Axes([axis]))
    return [place[axis] for place in places if axis in place]


def _shrink_as_others(search: Search, axis: Axis) -> None:
    """Shrink an axis as long as one that could be no shorter: it rarely can, either."""
    base, size = search.best, axis.size
    sizes = dict.fromkeys((1, size // 2, size - 1))
    search.first(_made(base, axis, n, start) for n in sizes for start in (0, size - n))


def _nibble(search: Search, axis: Axis) -> None:
    """Make an axis shorter by one, at either end."""
    base, size = search.best, axis.size - 1
    search.first(_made(base, axis, size, start) for start in (0, 1))


def _all_resized(program: Program, size: int) -> Program | None:
    """Shrink every axis: in one edit, or else each that can be by itself."""
    edits = all_resized(program, find_axes(program.block), size)
    together = None if edits is None else apply(program, edits)
    return together or _each_resized(program, size)


def _each_resized(program: Program, size: int) -> Program | None:
    tried: set[object] = set()
    found = program
    while True:
        axes = find_axes(found.block).groups
        keys = [(axis, _key(found, axis)) for axis in axes if axis.size > size]
        axis, key = next(((a, k) for a, k in keys if k not in tried), (None, None))
        if axis is None:
            return found if found is not program else None
        tried.add(key)
        found = _made(found, axis, size) or found


def _dropped(program: Program) -> Iterator[Program | None]:
    for axis in find_axes(program.block).groups:
        if axis.size == 1:
            edits = without_axis(program, axis)
            yield None if edits is None else apply(program, edits)


def _all_dropped(program: Program) -> Program | None:
    """Remove every axis of size 1: in one edit, or else each that can be by itself."""
    edits = all_removed(program, find_axes(program.block))
    found = (None if edits is None else apply(program, edits)) or program
    while (smaller := next(filter(None, _dropped(found)), None)) is not None:
        found = smaller
    return found if found is not program else None


def _smaller_inputs(program: Program) -> Iterator[Program | None]:
    axes = find_axes(program.block).groups
    known = {place for axis in axes if axis.size > 1 for place in axis.places}
    for value in program.block.inputs:
        shape = getattr(value.aval, "shape", ())
        if shape.count(1) > 1:
            ones = tuple(0 if size == 1 else slice(None) for size in shape)
            yield apply(program, Edits(inputs={value: itemgetter(ones)}))
        for number, size in enumerate(shape):
            if (value, number) in known:  # it changes with others, in `shrink_axes`
                continue
            for part in _parts(number, size):
                yield apply(program, Edits(inputs={value: itemgetter(part)}))


def _parts(number: int, size: int) -> Iterator[tuple[Any, ...]]:
    """List parts of arrays: without the axis, of size 1, by half, by one."""
    before = (slice(None),) * number
    if size:
        yield (*before, 0)
    for n in dict.fromkeys((1, size // 2, size - 1)):
        if 0 < n < size:
            yield (*before, slice(n))


# ---- dtypes and params ----------------------------------------------------------------


def _retyped(program: Program) -> Iterator[Program | None]:
    for mapping in dtype_changes(program):
        edits = retyped(program, mapping)
        yield None if edits is None else apply(program, edits)


def _all_plain(program: Program) -> Program | None:
    """Set to what is simplest every param that can be by itself."""
    changes: Edits | None = None
    for eqn in open_equations(program.block):
        chosen: dict[str, object] = {}
        for params in simpler_params(eqn):
            if apply(program, Edits(params={eqn: {**chosen, **params}})) is not None:
                chosen |= params
        if chosen:
            edits = Edits(params={eqn: chosen})
            changes = edits if changes is None else changes | edits
    return None if changes is None else apply(program, changes)


def _plainer(program: Program) -> Iterator[Program | None]:
    for eqn in open_equations(program.block):
        for params in simpler_params(eqn):
            yield apply(program, Edits(params={eqn: params}))
