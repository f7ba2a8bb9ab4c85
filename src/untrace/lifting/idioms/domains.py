"""Domains of params: the texts that a region suggests for an axis, a shape, a literal."""

from __future__ import annotations

import itertools
import string
from collections.abc import Iterator
from typing import Any

import numpy as np

from untrace.ir import Equation, Literal
from untrace.lifting.idioms.regions import Region, called
from untrace.lifting.idioms.table import Domain
from untrace.lifting.idioms.texts import literal_texts, number_text

AXIS_PARAMS = ("axes", "axis", "dimension", "dimensions", "permutation")


def _unique(texts: Iterator[str]) -> Iterator[str]:
    return iter(dict.fromkeys(texts))


# ---- axes --------------------------------------------------------------------------


def _rank(region: Region) -> int:
    ranks = [len(value.aval.shape) for value in region.inputs if _is_array(value)]
    return max(ranks, default=len(region.root.result_avals[0].shape))


def _is_array(value: Any) -> bool:
    return hasattr(value.aval, "shape")


def _axis_params(region: Region) -> Iterator[Any]:
    for eqn in region.flat():
        for key in AXIS_PARAMS:
            axes = eqn.params.get(key)
            if axes is not None and np.asarray(axes).dtype.kind not in "OU":  # no names
                yield axes


def _one_axis(region: Region) -> Iterator[str]:
    rank = _rank(region)
    suggested: list[int] = []
    for found in _axis_params(region):
        suggested += [int(i) for i in np.atleast_1d(found)]
    for axis in [*suggested, *range(rank - 1, -1, -1)]:
        if 0 <= axis < rank:
            yield "-1" if axis == rank - 1 and rank > 1 else str(axis)
    yield str(rank)


def _many_axes(region: Region) -> Iterator[str]:
    for found in _axis_params(region):
        if isinstance(found, tuple) and len(found) > 1:  # pyright: ignore[reportUnknownArgumentType]
            yield f"({', '.join(str(int(i)) for i in found)})"  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


AXIS = Domain(lambda region: _unique(_one_axis(region)), "-1")
AXES = Domain(lambda region: _unique(_many_axes(region)), "(0, 1)")


# ---- literals ----------------------------------------------------------------------


def region_literals(region: Region) -> list[Literal]:
    """List the literals that stand in the operands of a region's equations."""
    passed = [eqn for eqn in region.equations if called(eqn)]
    return [
        atom
        for eqn in (*passed, *region.flat())
        for atom in eqn.operands
        if isinstance(atom, Literal)
    ]


def _literals(region: Region) -> Iterator[str]:
    for literal in region_literals(region):
        yield from literal_texts(literal)


def _integers(region: Region) -> Iterator[str]:
    return (text for text in _literals(region) if text.lstrip("-").isdigit())


def _diagonals(region: Region) -> Iterator[str]:
    """List the integers, and those after them: `triu` is made of `tri` and not."""
    for text in _integers(region):
        yield text
        yield str(int(text) + 1)


def _fills(region: Region) -> Iterator[str]:
    """List what is read outside of an array."""
    for eqn in region.flat():
        if eqn.params.get("fill_value") is not None:
            yield number_text(eqn.params["fill_value"])


FILL = Domain(_fills, "0")
DIAGONAL = Domain(lambda region: _unique(_diagonals(region)), "1")
LITERAL = Domain(lambda region: _unique(_literals(region)), "0.5")
INTEGER = Domain(lambda region: _unique(_integers(region)), "1")


# ---- shapes and dtypes -------------------------------------------------------------


def _result(region: Region) -> Any:
    results = zip(region.root.results, region.root.result_avals)
    return next(aval for value, aval in results if value is not None)


def shape_text(shape: Any) -> str:
    """Write a shape."""
    return repr(tuple(int(size) for size in shape))


def _shape(region: Region) -> Iterator[str]:
    yield shape_text(_result(region).shape)


def _parts(region: Region) -> Iterator[str]:
    yield str(len(region.root.results))


def _sizes(region: Region) -> Iterator[str]:
    sizes = [*_result(region).shape]
    for value in region.inputs:
        sizes += value.aval.shape
    yield from (str(int(size)) for size in sizes)


def _dtype(region: Region) -> Iterator[str]:
    yield dtype_text(_result(region))


def dtype_text(aval: Any) -> str:
    """Write the dtype of a type."""
    name = str(aval.dtype)
    return "bool" if name == "bool" else f"jnp.{name}"


def _offsets(region: Region) -> Iterator[str]:
    """List how far the parts of a rolled array were moved: the lengths of slices."""
    lengths: set[int] = set()
    for eqn in region.flat():
        if eqn.name == "slice":
            sizes = zip(eqn.params["limit_indices"], eqn.params["start_indices"])
            lengths.update(int(stop) - int(start) for stop, start in sizes)
    for size in sorted(lengths):
        yield str(size)
        yield str(-size)


def _ratios(region: Region) -> tuple[int, ...]:
    """Tell how many times larger each axis of the result is than that of the input."""
    if len(region.inputs) != 1 or not _is_array(region.inputs[0]):
        return ()
    old, new = region.inputs[0].aval.shape, _result(region).shape
    old = (*(1 for _ in range(len(new) - len(old))), *old)
    if len(old) != len(new) or 0 in old:
        return ()
    return tuple(int(n) // int(o) for o, n in zip(old, new))


def _sections(region: Region) -> Iterator[str]:
    """List where an array is split, if not into equal parts."""
    for eqn in region.flat():
        if eqn.name == "split":
            ends = itertools.accumulate(int(size) for size in eqn.params["sizes"])
            yield repr([*ends][:-1])


def _bounds(region: Region) -> Iterator[str]:
    """List start, stop and step of numbers at equal distances."""
    shape = _result(region).shape
    if len(shape) != 1:
        return
    (size,) = shape
    numbers = dict.fromkeys(_literals(region))
    plain = [t for t in numbers if t.lstrip("-").replace(".", "", 1).isdecimal()]
    for start, step in itertools.permutations(plain, 2):
        stop = _number(start) + int(size) * _number(step)
        yield f"{start}, {stop!r}, {step}"


def _number(text: str) -> int | float:
    return float(text) if "." in text else int(text)


def _paddings(region: Region) -> Iterator[str]:
    """List how many elements were added to both ends of each axis."""
    for eqn in region.flat():
        if eqn.name == "pad":
            low_high = [(int(a), int(b)) for a, b, _ in eqn.params["padding_config"]]
            yield _padding_text(low_high)
    grown = _growths(region)
    yield _padding_text([(n // 2, n - n // 2) for n in grown])
    yield _padding_text([(n, 0) for n in grown])
    yield _padding_text([(0, n) for n in grown])


def _growths(region: Region) -> list[int]:
    shapes = [value.aval.shape for value in region.inputs if _is_array(value)]
    sizes = zip(_result(region).shape, max(shapes, key=len, default=()))
    return [int(new) - int(old) for new, old in sizes]


def _padding_text(pairs: list[tuple[int, int]]) -> str:
    """Write pairs of widths: one number if all are the same."""
    numbers = {n for pair in pairs for n in pair}
    return str(*numbers) if len(numbers) == 1 else repr(tuple(pairs))


SECTIONS = Domain(_sections, "[1, 3]")
BOUNDS = Domain(lambda region: _unique(_bounds(region)), "2, 8, 3")
PADDING = Domain(lambda region: _unique(_paddings(region)), "((1, 2), (0, 1))")
TIMES = Domain(lambda r: _unique(str(n) for n in _ratios(r) if n > 1), "2")
REPS = Domain(lambda region: [repr(_ratios(region))], "(2, 1)")
SHAPE = Domain(_shape, "(2, 3)")
PARTS = Domain(_parts, "3")
SIZE = Domain(lambda region: _unique(_sizes(region)), "3")
DTYPE = Domain(_dtype, "jnp.float32")
OFFSET = Domain(lambda region: _unique(_offsets(region)), "1")


# ---- sums of products --------------------------------------------------------------


def _subscripts(region: Region) -> Iterator[str]:
    """Write `einsum` subscripts for a `dot_general`, perhaps transposed, both ways round."""
    found = [eqn for eqn in region.flat() if eqn.name == "dot_general"]
    if len(found) != 1:
        return
    eqn = found[0]
    left, right, result = _labels(eqn)
    flat = list(region.flat())
    for later in flat[flat.index(eqn) + 1 :]:
        permutation: Any = later.params.get("permutation")
        if later.name == "transpose" and len(permutation) == len(result):
            result = "".join(result[int(i)] for i in permutation)
    (summed, _), _ = eqn.params["dimension_numbers"]
    in_order = "".join(left[int(i)] for i in summed)
    # JAX sums over axes in the order of their letters.
    for order in dict.fromkeys((left + right, in_order + left + right)):
        names = dict(zip(dict.fromkeys(order), string.ascii_lowercase[8:]))
        a, b, c = ("".join(names[n] for n in text) for text in (left, right, result))
        yield f'"{a},{b}->{c}"'
        yield f'"{b},{a}->{c}"'


def _labels(eqn: Equation) -> tuple[str, str, str]:
    """Give the axes of both operands and of the result one letter each."""
    (left_sum, right_sum), (left_batch, right_batch) = eqn.params["dimension_numbers"]
    ranks = [len(atom.aval.shape) for atom in eqn.operands]
    letters = iter(string.ascii_letters)
    left = [next(letters) for _ in range(ranks[0])]
    right = [""] * ranks[1]
    for i, j in itertools.chain(zip(left_sum, right_sum), zip(left_batch, right_batch)):
        right[j] = left[i]
    right = [label or next(letters) for label in right]
    batch = [left[i] for i in left_batch]
    free_left = [c for i, c in enumerate(left) if i not in (*left_sum, *left_batch)]
    free_right = [c for i, c in enumerate(right) if i not in (*right_sum, *right_batch)]
    return "".join(left), "".join(right), "".join([*batch, *free_left, *free_right])


SUBSCRIPTS = Domain(_subscripts, '"ij,jk->ik"')
