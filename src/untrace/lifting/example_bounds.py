"""Draw example inputs such that what was below another input stays below it.

Inputs are drawn one after another, each between those that have been drawn before, or that
are written exactly: `hi = rng.uniform(lo, 2)`. Others refer to them by a variable, so these
are written first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.capture.trees import Leaf, Tree, accessors
from untrace.ir import Block
from untrace.lifting.alike_inputs import Input
from untrace.lifting.example_arrays import Bound, Bounds, draw, range_of
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
      block: The program.
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
            else range_of(held, inputs[i].aval.dtype)
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
    first |= _keep_sums(sums, kept, drawn, inputs, first)
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
) -> set[int]:
    """Move the last input of each sum that has to be positive so that it is.

    Returns:
      The inputs that are referred to, which are not moved themselves.
    """
    used: set[int] = set()
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
        ):
            continue
        total = sum(f * values[j] for j, f in one.factors.items()) + one.number
        least = float(np.min(total)) / abs(one.factors[i])
        if least <= 0:
            continue
        bound = _written_sum(one, i, kept)
        step = f"{number(float(f'{least / 2:.0e}'))}"
        which, sign = ("maximum", "+") if one.factors[i] > 0 else ("minimum", "-")
        text = f"np.{which}({inputs[i].text}, {bound} {sign} {step})"
        inputs[i].text = text
        used |= {*one.factors} - {i}
    return used


def _written_sum(one: Sum, i: int, kept: _Kept) -> str:
    """Write what an input is for a sum to be 0."""
    parts = [number(-one.number / one.factors[i])] if one.number else []
    for j, factor in one.factors.items():
        if j != i:
            times = -factor / one.factors[i]
            text = kept.done[j].text
            size = "" if abs(times) == 1 else f"{number(abs(times))} * "
            sign = "-" if times < 0 else "+"
            parts.append(f"{sign} {size}{text}")
    return " ".join(parts).removeprefix("+ ").replace("- ", "-", parts[0][:1] == "-")


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
