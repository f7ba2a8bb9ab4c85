"""Draw example inputs such that what was below another input stays below it.

Inputs are drawn one after another, each between those that have been drawn before, or that
are written exactly: `hi = rng.uniform(lo, 2)`. Others refer to them by a variable, so these
are written first.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.capture.trees import Leaf, Tree, accessors
from untrace.ir import Block
from untrace.lifting.alike_inputs import Input
from untrace.lifting.example_arrays import Bound, Bounds, draw, extreme, range_of
from untrace.lifting.example_integers import Integers
from untrace.lifting.example_kinds import Request, number
from untrace.lifting.input_orders import all_below, compared_inputs
from untrace.lifting.input_sums import Sum, positive_sums
from untrace.lifting.lifter import Lifter
from untrace.optional import makes, optional
from untrace.syntax.names import identifier

Array = np.ndarray[Any, np.dtype[Any]]

Orders = Mapping[int, frozenset[int]]
"""For each input those below it."""

Ends = tuple[float, float] | None

DRAWS = "rng."
"""What is in the text of an input that is drawn."""

ROUNDING = 4.0
"""How many times the last digit of its terms a sum may be wrong."""

ROOM = 0.02
"""How far apart sums of several operations are to be, by their size."""

MAX_WHOLE = 2**24
"""Whole numbers below it are exact in floats, too."""


@optional(makes(dict))
def keep_orders(
    trees: Mapping[str, Tree], inputs: Sequence[Input], block: Block, lifter: Lifter
) -> dict[str, int]:
    """Let inputs that are drawn be between those that they were between.

    Args:
      trees: The arguments whose inputs may be changed, by their names.
      inputs: All inputs of the program; what is written for some is changed.
      lifter: Spells shapes and dtypes.

    Returns:
      The variables that are to be assigned first, in this order, with their inputs.
    """
    names = _names(trees, lifter)
    if lifter.options.anonymous:  # others are not what they were
        names = {i: name for i, name in names.items() if DRAWS in inputs[i].text}
    if not any(_is_drawn(inputs[i]) or _is_whole(inputs[i]) for i in names):
        return {}
    pairs = compared_inputs(block, names)
    sums = positive_sums(block, names)
    added = {i for one in sums for i in one.factors}
    compared = sorted(added.union(*pairs))
    numbers = {i: _numbers(inputs[i]) for i in compared}
    values = {i: held for i, held in numbers.items() if held is not None}
    below = all_below(pairs, values)
    first, whole = _draw_integers(names, inputs, values, below, lifter)
    # Integers do not depend on floats, but these may on them.
    exact = [i for i in values if not _is_drawn(inputs[i])]
    exact.sort(key=lambda i: whole.index(i) if i in whole else -1)
    ends = _cut(
        {
            i: (float(held.min()), float(held.max()))
            if i in exact
            else range_of(held, inputs[i].aval.dtype, lifter.options.anonymous)
            for i, held in values.items()
        },
        below,
    )
    kept = _Kept(
        below,
        {i: Bound(names[i], values[i], ends[i]) for i in exact},
        {i: below.get(i, frozenset()) & {*exact} for i in exact},
    )
    drawn = [i for i in values if i not in exact]
    for i in drawn:
        held, aval = np.asarray(inputs[i].value), inputs[i].aval
        others = [j for j in kept.done if _goes_with(inputs[j], inputs[i])]
        lows, highs = kept.bounds(i, others)
        first.update((*lows, *highs))
        if i in below or any(i in lows for lows in below.values()):
            under, over = ([kept.done[j] for j in js] for js in (lows, highs))
            given = Bounds(under, over, ends[i])
            inputs[i].text = draw(held, tuple(aval.shape), aval, lifter, given)
        kept.done[i] = Bound(names[i], values[i], ends[i])
    first |= _keep_sums(sums, kept, drawn, inputs, first, lifter)
    # What one refers to stands before it.
    return {names[i]: i for i in (*exact, *drawn) if i in first}


def _draw_integers(
    names: Mapping[int, str],
    inputs: Sequence[Input],
    values: Mapping[int, Array],
    below: Orders,
    lifter: Lifter,
) -> tuple[set[int], list[int]]:
    """Let drawn integers be between others.

    Returns:
      The inputs that are referred to, and those that are drawn, in this order.
    """
    whole = {
        i: held.astype(np.int64)
        for i, held in values.items()
        if np.array_equal(held, np.trunc(held)) and np.abs(held).max() < MAX_WHOLE
    }
    drawn = [i for i in whole if _is_whole(inputs[i])]
    whole = {i: v for i, v in whole.items() if i in drawn or not _is_drawn(inputs[i])}
    rising = [
        i
        for i, held in whole.items()
        if held.ndim == 0
        or (inputs[i].text.startswith("np.sort(") and inputs[i].text.endswith(")"))
        or (i not in drawn and held.ndim == 1 and np.all(np.diff(held) >= 0))
    ]
    integers = Integers(below, whole, drawn, names, rising)
    if lifter.options.anonymous:
        integers = integers.hidden()
    order, first = integers.order(), set[int]()
    for i in order:
        aval = inputs[i].aval
        request = Request(tuple(aval.shape), aval.dtype, lifter)
        inputs[i].text, used = integers.draw(i, request)
        first.update(used)
    return first, order


def _keep_sums(
    sums: Sequence[Sum],
    kept: _Kept,
    drawn: Sequence[int],
    inputs: Sequence[Input],
    first: Collection[int],
    lifter: Lifter,
) -> set[int]:
    """Move the last input of each sum that has to be positive so that it is.

    Returns:
      The inputs that are referred to, which are not moved themselves.
    """
    used: set[int] = set()
    referred: set[int] = set()
    moved: dict[int, list[tuple[Sum, float]]] = {}
    ends = {i: one.ends for i, one in kept.done.items() if one.ends is not None}
    for one in sums:
        free = [
            i for i in drawn if i in one.factors and i not in first and i not in used
        ]
        if not free or not all(i in kept.done for i in one.factors):
            continue
        i = free[-1]
        values = {j: kept.done[j].values for j in one.factors}
        shapes = {held.shape for held in values.values()}
        if len({inputs[j].aval.dtype for j in one.factors}) > 1:
            continue
        is_above = any(i in lows for lows in kept.below.values())
        is_stuck = is_above if one.factors[i] > 0 else bool(kept.below.get(i))
        if (
            is_stuck
            or not shapes <= {(), values[i].shape}
            or "np.sort(" in inputs[i].text
            or one.least(ends) >= 0  # whatever is drawn
        ):
            continue
        terms = [f * values[j] for j, f in one.factors.items()]
        total = sum(terms) + one.number
        # What is 0 but for rounding is one of a triangle that is flat, say.
        rounding = ROUNDING * float(jnp.finfo(inputs[i].aval.dtype).eps)
        if np.any(total < -rounding * sum(map(np.abs, terms))):
            continue
        least = float(np.min(total)) / abs(one.factors[i])
        moved.setdefault(i, []).append((one, least))
        used |= {*one.factors} - {i}
    for i, needed in moved.items():
        text = _between_sums(
            i, [one for one, _ in needed], kept, inputs[i], lifter, ends
        )
        text = text or _moved(i, needed, kept, inputs[i].text)
        if text != inputs[i].text:
            inputs[i].text = text
            referred.update(j for one, _ in needed for j in one.factors if j != i)
    return referred


def _moved(i: int, needed: Sequence[tuple[Sum, float]], kept: _Kept, text: str) -> str:
    """Write an input that is moved to where sums are positive, one after the other."""
    for one, least in needed:
        if least <= 0:
            continue
        bound = _written(_solved(one, i), kept)
        step = f"{number(float(f'{least / 2:.0e}'))}"
        which, sign = ("maximum", "+") if one.factors[i] > 0 else ("minimum", "-")
        text = f"np.{which}({text}, {bound} {sign} {step})"
    return text


def _between_sums(
    i: int,
    needed: Sequence[Sum],
    kept: _Kept,
    leaf: Input,
    lifter: Lifter,
    ends: Mapping[int, tuple[float, float]],
) -> str:
    """Write an input that is drawn between sums of others: a side of a triangle.

    It is "" unless it has sums on both sides, the lower ones of which are below the upper
    ones whatever the others are. Its own range is kept if that is so with it, too.
    """
    # What the input is where a sum is 0, in terms of the others.
    bounds = [(one.factors[i] > 0, _solved(one, i)) for one in needed]
    lower = [one for is_lower, one in bounds if is_lower]
    upper = [one for is_lower, one in bounds if not is_lower]
    if not (lower and upper and _are_below(lower, upper, ends)):
        return ""
    low_text = [_written(one, kept) for one in lower]
    high_text = [_written(one, kept) for one in upper]
    if i in ends:
        low, high = (Sum({}, end) for end in ends[i])
        if _are_below([*lower, low], [*upper, high], ends):
            if not _is_above_end(lower, low, ends):
                low_text.append(number(low.number))
            if not _is_above_end(
                [one.times(-1.0) for one in upper], high.times(-1.0), ends
            ):
                high_text.append(number(high.number))
    given = f"{extreme('maximum', low_text)}, {extreme('minimum', high_text)}"
    shape = np.shape(leaf.value)
    others = {j for one in needed for j in one.factors if j != i}
    if all(kept.done[j].values.shape != shape for j in others):
        return ""
    request = Request(tuple(leaf.aval.shape), leaf.aval.dtype, lifter)
    return request.typed(f"rng.uniform({given})")


def _is_above_end(
    sums: Sequence[Sum], end: Sum, ends: Mapping[int, tuple[float, float]]
) -> bool:
    """Whether the largest of some sums, which is above the mean of two, is above a number."""
    return any(
        one.plus(other, 1.0).plus(end, -2.0).least(ends) >= 0
        for one, other in itertools.combinations_with_replacement(sums, 2)
    )


def _are_below(
    lower: Sequence[Sum], upper: Sequence[Sum], ends: Mapping[int, tuple[float, float]]
) -> bool:
    """Whether some sums are below others whatever their inputs are, as they are rounded.

    One operation is rounded to no other order; more may be, so these need some room.
    """
    for low, high in itertools.product(lower, upper):
        room = high.plus(low, -1.0).least(ends)
        is_exact = _is_one_operation(low) and _is_one_operation(high)
        needed = 0.0 if is_exact else ROOM * max(_size(low, ends), _size(high, ends))
        if room < needed:
            return False
    return True


def _is_one_operation(one: Sum) -> bool:
    are_plain = all(abs(factor) == 1 for factor in one.factors.values())
    return are_plain and len(one.factors) + bool(one.number) <= 2


def _size(one: Sum, ends: Mapping[int, tuple[float, float]]) -> float:
    """Return the largest that the terms of a sum can be together."""
    terms = [
        abs(factor) * max(map(abs, ends[i])) if i in ends else math.inf
        for i, factor in one.factors.items()
    ]
    return abs(one.number) + sum(terms)


def _solved(one: Sum, i: int) -> Sum:
    """Return what an input is for a sum to be 0."""
    rest = Sum({j: f for j, f in one.factors.items() if j != i}, one.number)
    return rest.times(-1 / one.factors[i])


def _written(one: Sum, kept: _Kept) -> str:
    """Write a sum, what is added before what is taken away."""
    text = number(one.number) if one.number else ""
    for j, factor in sorted(one.factors.items(), key=lambda item: item[1] < 0):
        size = "" if abs(factor) == 1 else f"{number(abs(factor))} * "
        term = f"{size}{kept.done[j].text}"
        if text:
            text += f" {'-' if factor < 0 else '+'} {term}"
        else:
            text = f"-{term}" if factor < 0 else term
    return text


@dataclass(slots=True)
class _Kept:
    """What examples are known to keep.

    Attributes:
      below: For each input those below it.
      done: The inputs of which an example is written.
      lower: For each of these those of which the examples are below its own.
    """

    below: Orders
    done: dict[int, Bound]
    lower: dict[int, frozenset[int]]

    def bounds(self, i: int, others: Sequence[int]) -> tuple[list[int], list[int]]:
        """Choose from others what the next input is drawn between."""
        lows = [j for j in others if j in self.below.get(i, ())]
        lows = [j for j in lows if not any(j in self.below.get(k, ()) for k in lows)]
        highs = [j for j in others if i in self.below.get(j, ())]
        highs = [j for j in highs if self.lower[j].issuperset(lows)]
        highs = [j for j in highs if not any(k in self.below[j] for k in highs)]
        self.lower[i] = frozenset(lows).union(*(self.lower[j] for j in lows))
        for j in self.done:
            if j in highs or not self.lower[j].isdisjoint(highs):
                self.lower[j] |= self.lower[i] | {i}
        return lows, highs


def _cut(ends: Mapping[int, Ends], below: Orders) -> dict[int, Ends]:
    """Let no range end after those of inputs above it, nor begin before those below it."""
    cut = dict(ends)
    for high, lows in below.items():
        for low in lows:
            one, other = cut[low], ends[high]
            if one is not None and other is not None:
                cut[low] = one[0], min(one[1], other[1])
            one, other = cut[high], ends[low]
            if one is not None and other is not None:
                cut[high] = max(one[0], other[0]), one[1]
    return cut


def _numbers(leaf: Input) -> Array | None:
    """Return the finite real numbers of an input; None if it has others.

    None, too, if an example of a kind is drawn, which need not stay between others.
    """
    if (
        leaf.value is None
        or jaxapi.is_token(leaf.aval)
        or jaxapi.is_ref_aval(leaf.aval)
    ):
        return None
    is_known = jaxapi.is_concrete(leaf.value) or jaxapi.is_python_scalar(leaf.value)
    if jaxapi.is_key(leaf.aval) or not is_known:
        return None
    if jaxapi.dtype_kind(leaf.aval.dtype) not in ("integer", "floating"):
        return None
    if DRAWS in leaf.text and not (_is_drawn(leaf) or _is_whole(leaf)):
        return None
    held = np.asarray(leaf.value).astype(np.float64)
    return held if held.size and np.all(np.isfinite(held)) else None


def _is_drawn(leaf: Input) -> bool:
    """Whether floats are drawn of which nothing but range, scale and order is known."""
    drawn = leaf.text.removeprefix("np.sort(")
    if not drawn.startswith(("rng.uniform(", "rng.normal(")):
        return False
    return jaxapi.dtype_kind(leaf.aval.dtype) == "floating" and leaf.is_drawn()


def _is_whole(leaf: Input) -> bool:
    """Whether whole numbers are drawn."""
    drawn = leaf.text.removeprefix("np.sort(").removeprefix("np.reshape(")
    is_labels = drawn.startswith("rng.permutation(") and "np.arange(" in drawn
    if not (is_labels or drawn.startswith("rng.integers(")):
        return False
    kind = jaxapi.dtype_kind(leaf.aval.dtype)
    return kind in ("integer", "floating") and leaf.is_drawn()


def _goes_with(other: Input, leaf: Input) -> bool:
    """Whether an input can bound another one, which has no less axes or digits then."""
    shape = np.shape(leaf.value)
    is_other = DRAWS in other.text and other.aval.dtype != leaf.aval.dtype
    if is_other and not _is_whole(other):
        return False
    try:
        return np.broadcast_shapes(np.shape(other.value), shape) == shape
    except ValueError:  # shapes that do not go together
        return False


def _names(trees: Mapping[str, Tree], lifter: Lifter) -> dict[int, str]:
    """Return a variable for each input: the argument, or one called like its field."""
    taken = {*trees, "rng", *lifter.imports.dims.values()}
    found = {t.index: name for name, t in trees.items() if isinstance(t, Leaf)}
    for argument, tree in trees.items():
        for index, _, words in accessors(tree, argument):
            if index in found:
                continue
            key = words[-1] if identifier(words[-1]) == words[-1] else "_".join(words)
            name = hint = identifier(key, argument)
            while name in taken or lifter.scope.is_taken(name):
                name = f"{argument}_{hint}" if name == hint else f"{name}_"
            taken.add(name)
            found[index] = name
    return {i: name for i, name in found.items() if name != "rng"}
