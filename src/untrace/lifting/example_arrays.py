"""Draw arrays like one that was passed: of its shape, dtype and kind of content.

What a program needs of its inputs is kept as far as it shows in the values: constants,
signs (a root of a variance), ranges (labels and indices), order (points in time), the
scale of weights. The values themselves are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.lifting.example_kinds import (
    FAR,
    N_ORDERED,
    Request,
    floats_of_kind,
    integers_of_kind,
    number,
    one_digit,
)
from untrace.lifting.lifter import Lifter
from untrace.lifting.spelling.numbers import read_number
from untrace.optional import optional

Array = np.ndarray[Any, np.dtype[Any]]

MOST_EVEN = 2.0
"""Root mean squares that even numbers stay within, and normal ones do not."""

FAR_FROM_ENDS = 10
"""Of a range, numbers that are so much nearer to others than it is wide stay near."""

MAX_INTEGER = 2**31
"""Floats beyond it are integers because they have no more digits."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An input that all elements of another one are below, or above.

    Attributes:
      text: Its name.
      values: What it was.
      ends: What examples of it are between; None if they have no ends.
    """

    text: str
    values: Array
    ends: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The inputs between which another one is.

    Attributes:
      below: Those below it.
      above: Those above it. All that are below it are drawn to be below these.
      ends: The ends of its range, if they are known.
    """

    below: Sequence[Bound] = ()
    above: Sequence[Bound] = ()
    ends: tuple[float, float] | None = None


def zeros(
    value: object, shape: tuple[Any, ...], aval: Any, lifter: Lifter, *_: object
) -> str:
    """Write an expression that gives zeros, whatever the array was."""
    lifter.imports.module("numpy")
    request = Request(shape, aval.dtype, lifter)
    return f"np.zeros({request.text()}, dtype={request.dtype_text()})"


@optional(zeros)
def draw(
    value: Array | None,
    shape: tuple[Any, ...],
    aval: Any,
    lifter: Lifter,
    bounds: Bounds = Bounds(),
) -> str:
    """Write an expression that gives an array like another one.

    Args:
      value: The array; None if only its type is known.
      shape: Its shape; sizes in it may have names.
      aval: Its type.
      lifter: Spells shapes and dtypes.
      bounds: What it is between. Floats that are not of a kind or whole are kept there.

    Returns:
      The expression; it may draw from a generator called `rng`.
    """
    lifter.imports.module("numpy")
    request = Request(shape, aval.dtype, lifter)
    kind = jaxapi.dtype_kind(aval.dtype)
    if kind == "float0":
        return zeros(value, shape, aval, lifter)
    if value is None:
        value = np.zeros(0, aval.dtype)
    constant = _constant(value, request)
    if constant is not None:
        return constant
    if kind == "bool":
        return f"rng.integers(0, 2, size={request.text()}).astype(bool)"
    of_kind = _of_kind(value, kind, request) if value.size else None
    if of_kind is not None:
        return of_kind
    if kind == "complex":
        parts = request.text((2,))  # real and imaginary
        drawn = f"rng.normal({_scale(_finite(np.abs(value)))}size={parts})"
        return f"np.array({drawn}.view(complex)[..., 0], dtype={request.dtype_text()})"
    if kind == "integer":
        ends = (int(value.min()), int(value.max())) if value.size else (0, 1)
        return in_order(_integers(*ends, request), value, request)
    return _floats(value, request, bounds)


def in_order(drawn: str, value: Array, request: Request) -> str:
    """Sort what was drawn, if the original is in order along an axis."""
    if not value.size or len(request.shape) not in (1, 2):
        return drawn
    alike = value.reshape(-1, *map(int, request.shape)).astype(np.float64)
    is_matrix = len(request.shape) == 2
    options = {-1: ("", "[:, ::-1]" if is_matrix else "[::-1]")}
    if is_matrix:
        options[1] = (", axis=0", "[::-1]")
    for axis, (option, turned) in options.items():
        n_items = alike.shape[axis]
        # How unlikely an order is by chance.
        n_digits = math.lgamma(n_items + 1) * (alike.size // n_items)
        if n_digits < math.lgamma(N_ORDERED + 1):
            continue
        steps = np.diff(alike, axis=axis)
        if np.all(steps >= 0):
            return f"np.sort({drawn}{option})"
        if np.all(steps <= 0):
            return f"np.sort({drawn}{option}){turned}"
    return drawn


def _of_kind(value: Array, kind: str, request: Request) -> str | None:
    """Write an array of a kind that a program may need."""
    alike = value.reshape(-1, *map(int, request.shape))
    if kind == "integer":
        of_kind = integers_of_kind(alike, request)
        return None if of_kind is None else in_order(of_kind, value, request)
    return floats_of_kind(alike, request)


def _constant(value: Array, request: Request) -> str | None:
    """Write an array whose elements are all the same."""
    if not value.size or not np.all(value == value.reshape(-1)[0]):
        return None
    first = value.reshape(-1)[0]
    if request.is_hidden:
        first = np.sign(first) if first.dtype.kind in "iuf" else np.ones_like(first)
    shape, dtype = request.text(), request.dtype_text()
    for name, known in (("zeros", 0), ("ones", 1)):
        if first == known:
            return f"np.{name}({shape}, dtype={dtype})"
    return f"np.full({shape}, {read_number(first).spell('np')}, dtype={dtype})"


def _integers(low: int, high: int, request: Request) -> str:
    size, dtype = request.text(), request.dtype_text()
    if request.is_hidden:
        low, high = one_digit(low), one_digit(high)
    if high > np.iinfo(np.int64).max:
        given = f"{low}, {high}, {size}, {dtype}, endpoint=True"
        return f"rng.integers({given})"
    if high == np.iinfo(np.int64).max:
        return f"rng.integers({low}, {high}, {size}, endpoint=True).astype({dtype})"
    return f"rng.integers({low}, {high + 1}, size={size}).astype({dtype})"


def _floats(value: Array, request: Request, bounds: Bounds) -> str:
    """Write floats of the same range, sign or scale."""
    held = _finite(value)
    size, dtype = request.text(), request.dtype_text()
    if not held.size:
        return f"rng.normal(size={size}).astype({dtype})"
    low, high = float(held.min()), float(held.max())
    if len(request.shape) == 1 and held.size == value.size and _is_even(held):
        n_digits = 1 if request.is_hidden else 6
        ends = [float(f"{held[i]:.{n_digits}g}") for i in (0, -1)]
        first, last = map(number, ends)
        count = request.lifter.spell(request.shape[0])
        return f"np.linspace({first}, {last}, {count}, dtype={dtype})"
    if max(-low, high) < MAX_INTEGER and np.array_equal(held, np.trunc(held)):
        return in_order(_integers(int(low), int(high), request), value, request)
    ends = bounds.ends or range_of(held, value.dtype, request.is_hidden)
    if bounds.below or bounds.above:
        drawn = _between(value, ends, bounds, request)
    elif ends is None:
        drawn = f"rng.normal({_scale(held)}size={size}).astype({dtype})"
    else:
        given = "" if ends == (0, 1) else f"{number(ends[0])}, {number(ends[1])}, "
        drawn = f"rng.uniform({given}size={size}).astype({dtype})"
    return in_order(drawn, value, request)


def range_of(
    held: Array, dtype: Any, is_hidden: bool = False
) -> tuple[float, float] | None:
    """Return the ends of the range of finite numbers, rounded outwards.

    If the numbers must not show, each end has one digit. The range is None if they are of
    both signs, of which normal numbers are drawn.
    """
    low, high = float(held.min()), float(held.max())
    if low >= 0:
        return _ends(low, high, dtype, is_hidden)
    if high <= 0:
        bottom, top = _ends(-high, -low, dtype, is_hidden)
        return -top, 0 - bottom
    if _is_within_one(held):
        top = _ends(0.0, float(np.abs(held).max()), dtype)[1]
        return -top, top
    return None


def _between(
    value: Array, ends: tuple[float, float] | None, bounds: Bounds, request: Request
) -> str:
    """Write floats between others, within their own range and as near to the others.

    NumPy refuses a range that ends before it begins, so nothing is left to rounding.
    """
    others = [*bounds.below, *bounds.above]
    below, above = [x.text for x in bounds.below], [x.text for x in bounds.above]
    width = ends[1] - ends[0] if ends else math.inf
    dtype = request.dtype
    may_begin = ends and all(_after(x, ends[0], dtype) for x in bounds.above)
    may_end = ends and all(_before(x, ends[1], dtype) for x in bounds.below)
    if not (below and above):
        exact = value.astype(np.float64)
        distances = [np.abs(exact - one.values) for one in others]
        farthest = float(np.stack(distances).min(0).max())
        is_near = farthest * FAR_FROM_ENDS < width
        if is_near or not (may_end if below else may_begin):
            step = _rounded(farthest, _place(farthest), ROUND_CEILING)
            if below:
                above = [f"{extreme('maximum', below)} + {number(step)}"]
            else:
                below = [f"{extreme('minimum', above)} - {number(step)}"]
    # The own ends are left out where those of the others are no further out.
    if may_begin and ends and not any(_begins_at(x, ends, width) for x in bounds.below):
        below.append(number(ends[0]))
    if (
        may_end
        and ends
        and not any(x.ends and x.ends[1] <= ends[1] for x in bounds.above)
    ):
        above.append(number(ends[1]))
    given = f"{extreme('maximum', below)}, {extreme('minimum', above)}"
    if all(np.shape(one.values) != value.shape for one in others):
        given += f", size={request.text()}"
    return f"rng.uniform({given}).astype({request.dtype_text()})"


def _after(one: Bound, number: float, dtype: Any) -> bool:
    """Whether no example of an input, as it is rounded, is below a number."""
    return one.ends is not None and float(np.asarray(one.ends[0], dtype)) >= number


def _before(one: Bound, number: float, dtype: Any) -> bool:
    """Whether no example of an input, as it is rounded, is above a number."""
    return one.ends is not None and float(np.asarray(one.ends[1], dtype)) <= number


def _begins_at(one: Bound, ends: tuple[float, float], width: float) -> bool:
    """Whether what is above an input is above about the beginning of a range, too."""
    if one.ends is None:
        return False
    is_near = one.ends[0] >= 0 and ends[0] - one.ends[0] < width / FAR_FROM_ENDS
    return is_near or one.ends[0] >= ends[0]


def extreme(which: str, texts: Sequence[str]) -> str:
    """Write the maximum or minimum of numbers and arrays."""
    made = texts[0]
    for text in texts[1:]:
        made = f"np.{which}({made}, {text})"
    return made


def _is_within_one(held: Array) -> bool:
    """Whether numbers of both signs stay within 1 where normal ones would not.

    They may be cosines or correlations, of which `jnp.arccos` or `jnp.arctanh` is taken.
    """
    largest = float(np.abs(held).max())
    if not 1 / FAR < largest <= 1:
        return False
    return largest < MOST_EVEN * math.sqrt(float(np.square(held).mean()))


def _ends(
    low: float, high: float, dtype: Any, is_hidden: bool = False
) -> tuple[float, float]:
    """Round the ends of a range of positive numbers outwards, to one digit if hidden."""
    low = 0.0 if low < high / 10 else low
    place = min(_place(x) for x in (high - low, low, high) if x)
    places = (_place(low), _place(high)) if is_hidden else (place, place)
    top = min(_rounded(high, places[1], ROUND_CEILING), float(jnp.finfo(dtype).max))
    return _rounded(low, places[0], ROUND_FLOOR), top


def _place(number: float) -> int:
    """Return the power of ten of the first digit of a number."""
    return int(f"{number:.6e}".split("e")[1])


def _rounded(number: float, place: int, how: str) -> float:
    # Seven digits are those of a float32: 0.1 is not just above 0.1.
    digits = Decimal(f"{number:.6e}")
    return float(digits.quantize(Decimal(1).scaleb(place), how))


def _scale(held: Array) -> str:
    """Write the scale of some numbers, if it is far from 1."""
    # The numbers of a normal distribution of scale 1 are 0.8 in size on average.
    scale = float(np.abs(held).mean() / 0.8) if held.size else 1.0
    if 1 / FAR < scale < FAR or not math.isfinite(scale):
        return ""
    return f"scale={number(float(f'{scale:.0e}'))}, "


def _finite(value: Array) -> Array:
    held = value.astype(np.float64)
    return held[np.isfinite(held)]


def _is_even(held: Array) -> bool:
    """Whether numbers rise or fall in even steps."""
    steps = np.diff(held)
    return held.size >= N_ORDERED and np.allclose(steps, steps[0], rtol=1e-3, atol=0)
