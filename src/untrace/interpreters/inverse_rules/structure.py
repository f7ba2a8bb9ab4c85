"""Inverses of functions that move elements: none is computed with, so log |det| is 0."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.interpreters.inverse_rules.table import check_zeros, lost, solves
from untrace.interpreters.inverting.cells import Box, full_box
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.step import PART, WAITS, NotInvertible, Step

# ---- one operand, the same elements ------------------------------------------------


@solves("reshape", "always")
def _reshape(step: Step) -> None:
    shape, order = step.operands[0].shape, step.params.get("dimensions")
    if order is None:
        step.solve(
            0, lambda y: jnp.reshape(y, shape), step.needed_result(), log_det=0.0
        )
        return
    turned = [shape[axis] for axis in order]
    back = tuple(np.argsort(order).tolist())
    step.solve(
        0,
        lambda y: jnp.transpose(jnp.reshape(y, turned), back),
        step.needed_result(),
        log_det=0.0,
    )


@solves("squeeze", "always")
def _squeeze(step: Step) -> None:
    dimensions = step.params["dimensions"]
    step.solve(
        0, lambda y: jnp.expand_dims(y, dimensions), step.needed_result(), log_det=0.0
    )


@solves("transpose", "always")
def _transpose(step: Step) -> None:
    order = tuple(np.argsort(step.params["permutation"]).tolist())
    step.solve(0, lambda y: jnp.transpose(y, order), step.needed_result(), log_det=0.0)


@solves("rev", "always")
def _rev(step: Step) -> None:
    axes = step.params["dimensions"]
    step.solve(0, lambda y: jnp.flip(y, axes), step.needed_result(), log_det=0.0)


@solves("broadcast_in_dim", "the copies are taken to be equal")
def _broadcast(step: Step) -> None:
    i = step.only_unknown()
    shape, places = step.operands[0].shape, step.params["broadcast_dimensions"]
    wide = step.results[0].shape
    index = tuple(
        slice(None)
        if axis in places and shape[places.index(axis)] == wide[axis]
        else slice(0, 1)
        for axis in range(len(wide))
    )
    is_whole = math.prod(shape) == math.prod(wide)

    def first(y: Any) -> Any:
        return jnp.reshape(y if is_whole else y[index], shape)

    step.solve(i, first, step.needed_result(), log_det=0.0 if is_whole else None)


@solves("tile", "the copies are taken to be equal")
def _tile(step: Step) -> None:
    index = tuple(slice(0, n) for n in step.operands[0].shape)
    step.solve(0, lambda y: y[index], step.needed_result())


@solves("bitcast_convert_type", "always")
def _bitcast(step: Step) -> None:
    aval = step.operands[0].aval
    if aval.dtype == jnp.bool_ or step.results[0].aval.dtype == jnp.bool_:
        raise NotInvertible("truth values have one bit")
    step.solve(
        0,
        lambda y: jax.lax.bitcast_convert_type(y, aval.dtype),
        step.needed_result(),
    )


@solves(
    "optimization_barrier device_put sharding_constraint "
    "layout_constraint stop_gradient name pin unpin random_clone pbroadcast pvary reshard "
    "xla_metadata_value",
    "always: values stay what they are",
)
def _same(step: Step) -> None:
    for i, cell in enumerate(step.operands):
        known = step.result(i)
        if not cell.is_known and known is not None:
            step.solve(i, lambda y: y, known, log_det=0.0)


@solves("random_wrap", "always")
def _random_wrap(step: Step) -> None:
    step.solve(0, jax.random.key_data, step.needed_result())


@solves("random_unwrap", "always")
def _random_unwrap(step: Step) -> None:
    impl = jaxapi.key_impl_name(step.operands[0].aval)
    step.solve(
        0, lambda y: jax.random.wrap_key_data(y, impl=impl), step.needed_result()
    )


# ---- parts -------------------------------------------------------------------------


def box_of(starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]) -> Box:
    """Return a box whose slices end with their last elements."""
    return tuple(
        slice(a, a + (b - a - 1) // s * s + 1, s)
        for a, b, s in zip(starts, stops, steps, strict=True)
    )


def _solve_parts(step: Step, boxes: Sequence[Box]) -> None:
    """Learn parts of the operand from the results, and results from known parts."""
    news = 0
    for i, box in enumerate(boxes):
        known = step.result(i)
        if known is not None:
            news += step.solve_part(0, box, known)
        else:
            part = step.operands[0].part(box)
            if part is not None:
                step.make(i, part)
                news += 1
    if not news and not step.operands[0].is_known:
        raise NotInvertible(
            WAITS if not any(c.is_touched for c in step.results) else PART
        )


@solves("slice", "slices that are known cover the operand")
def _slice(step: Step) -> None:
    params = step.params
    strides = params["strides"] or (1,) * len(params["start_indices"])
    _solve_parts(
        step, [box_of(params["start_indices"], params["limit_indices"], strides)]
    )


@solves("split", "always, as parts of the operand")
def _split(step: Step) -> None:
    axis, shape = step.params["axis"], step.operands[0].shape
    boxes: list[Box] = []
    start = 0
    for size in step.params["sizes"]:
        box = list(full_box(shape))
        box[axis] = slice(start, start + int(size), 1)
        boxes.append(tuple(box))
        start += int(size)
    _solve_parts(step, boxes)


@solves("dynamic_slice", "the start is constant and known slices cover the operand")
def _dynamic_slice(step: Step) -> None:
    starts = static_starts(step, step.operands[0].shape, step.params["slice_sizes"], 1)
    sizes = step.params["slice_sizes"]
    stops = [a + n for a, n in zip(starts, sizes)]
    _solve_parts(step, [box_of(starts, stops, [1] * len(sizes))])


def static_starts(
    step: Step, shape: Sequence[int], sizes: Sequence[int], first: int
) -> list[int]:
    """Return the start of a slice, clamped as JAX does.

    Raises:
      NotInvertible: If it is not constant.
    """
    starts: list[int] = []
    for lazy, n, size in zip(
        step.needed_operands(range(first, len(step.operands))), shape, sizes
    ):
        start = lazy.concrete()
        if start is None:
            raise NotInvertible("the start of the slice is not a constant")
        starts.append(min(max(int(start), 0), n - size))
    return starts


@solves("dynamic_update_slice", "the start is constant; as parts")
def _dynamic_update_slice(step: Step) -> None:
    y, shape = step.needed_result(), step.operands[1].shape
    first = 2
    if all(cell.is_known for cell in step.operands[first:]) and all(
        lazy.concrete() is None
        for lazy in step.needed_operands(range(first, len(step.operands)))
    ):
        _dynamic_update(step, y, shape)
        return
    starts = static_starts(step, step.operands[0].shape, shape, first)
    box = tuple(slice(a, a + n, 1) for a, n in zip(starts, shape))
    if not step.operands[1].is_known:
        step.solve(1, lambda y: y[box], y, log_det=0.0)
    if not step.operands[0].is_known:
        outside = np.ones(step.operands[0].shape, bool)
        outside[box] = False
        if outside.any():
            step.solve_part(0, outside, y)


def _dynamic_update(step: Step, y: Lazy, shape: tuple[int, ...]) -> None:
    """Take the update out where the start is not known before the program runs."""
    if step.operands[1].is_known:
        raise NotInvertible("information lost: the elements that were replaced")
    starts = step.needed_operands(range(2, len(step.operands)))

    def taken(y: Any, *starts: Any) -> Any:
        return jax.lax.dynamic_slice(y, starts, shape)

    step.solve(1, taken, y, *starts)


@solves("concatenate", "always")
def _concatenate(step: Step) -> None:
    y, axis = step.needed_result(), step.params["dimension"]
    start = 0
    for i, cell in enumerate(step.operands):
        stop = start + cell.shape[axis]
        if not cell.is_known:
            _solve_side(step, i, y, axis, start, stop)
        start = stop


def _solve_side(step: Step, i: int, y: Lazy, axis: int, start: int, stop: int) -> None:
    size = step.results[0].shape[axis]
    part = slice(start or None, None if stop == size else stop)
    index = (*[slice(None)] * axis, part) if axis else part
    step.solve(i, lambda value: value[index], y, log_det=0.0)


@solves("pad", "nothing is cut off")
def _pad(step: Step) -> None:
    y, config = step.needed_result(), step.params["padding_config"]
    shape = step.operands[0].shape
    if any(low < 0 or high < 0 for low, high, _ in config):
        raise NotInvertible("information lost: negative padding cuts elements off")
    index = tuple(
        slice(low, low + n + max(n - 1, 0) * inner, inner + 1)
        for (low, _, inner), n in zip(config, shape)
    )
    if not step.operands[0].is_known:
        step.solve(0, lambda y: y[index], y, log_det=0.0)
    outside = np.ones(step.results[0].shape, bool)
    outside[index] = False
    if not step.operands[1].is_known and outside.any():
        place = tuple(int(i) for i in np.argwhere(outside)[0])
        step.solve(1, lambda y: y[place], y, log_det=0.0)
    if not step.operands[1].is_known:
        raise NotInvertible("information lost: nothing is padded")


@solves("stack", "always")
def _stack(step: Step) -> None:
    y, axis = step.needed_result(), step.params["axis"]
    for i, cell in enumerate(step.operands):
        if not cell.is_known:
            _solve_row(step, i, y, axis)


def _solve_row(step: Step, i: int, y: Lazy, axis: int) -> None:
    index = (*[slice(None)] * axis, i) if axis else i
    step.solve(i, lambda value: value[index], y, log_det=0.0)


@solves("unstack", "always, as parts of the operand")
def _unstack(step: Step) -> None:
    axis, shape = step.params["axis"], step.operands[0].shape
    for i, known in enumerate([cell.whole for cell in step.results]):
        if known is not None:
            box = list(full_box(shape))
            box[axis] = slice(i, i + 1, 1)
            step.solve_part(0, tuple(box), _row(known, axis))
    if not step.operands[0].is_known:
        raise NotInvertible(WAITS)


def _row(known: Lazy, axis: int) -> Lazy:
    return Lazy(lambda y: jnp.expand_dims(y, axis), [known])


@solves(
    "scatter-add scatter-sub scatter-mul", "the indices and what is added are known"
)
def _scatter_combined(step: Step) -> None:
    """Undo `x.at[i].add(v)`: with the same equation, and minus or one over v."""
    y = step.needed_result()
    if step.operands[0].is_known:
        raise NotInvertible("what is added is taken out of no single element")
    indices, update = step.needed_operands(range(1, 3))
    if step.name == "scatter-mul":
        check_zeros(update)
    eqn, is_product = step.node.eqn, step.name == "scatter-mul"
    if is_product and not jnp.issubdtype(step.operands[0].aval.dtype, jnp.inexact):
        raise NotInvertible("products of whole numbers overflow")

    def undone(y: Any, indices: Any, update: Any) -> Any:
        opposite = 1 / update if is_product else -update
        with eqn.ctx.manager:
            return eqn.primitive.bind(y, indices, opposite, **eqn.params)

    def log_det(x: Any, y: Any, indices: Any, update: Any) -> Any:
        # Those outside of the operand are dropped; several may meet at one place.
        terms = jnp.log(jnp.abs(update))
        numbers, mode = eqn.params["dimension_numbers"], eqn.params["mode"]
        zero = jnp.zeros(y.shape, terms.dtype)
        return -jnp.sum(jax.lax.scatter_add(zero, indices, terms, numbers, mode=mode))

    step.solve(
        0,
        undone,
        y,
        indices,
        update,
        log_det=log_det if is_product else 0.0,
        counts_new=True,
    )


# ---- complex numbers ---------------------------------------------------------------


@solves("complex", "always")
def _complex(step: Step) -> None:
    y = step.needed_result()
    if not step.operands[0].is_known:
        step.solve(0, jnp.real, y, log_det=0.0)
    if not step.operands[1].is_known:
        step.solve(1, jnp.imag, y, log_det=0.0)


@solves("real imag", "real and imaginary part are both known")
def _real_or_imag(step: Step) -> None:
    """Put a complex number together, once both of its parts are known."""
    found: dict[str, Lazy] = {}
    for node in step.operands[0].nodes:
        is_part = node.name in ("real", "imag") and node.operands == step.operands
        if is_part and node.results[0].whole is not None:
            found[node.name] = node.results[0].whole
    if len(found) < 2:
        raise NotInvertible("information lost: one part of a complex number is known")
    step.solve(0, jax.lax.complex, found["real"], found["imag"], log_det=0.0)


# ---- selections ------------------------------------------------------------------


@solves(
    "select_n",
    "the mask is constant; or an elementwise function is in pieces that can be solved",
)
def _select(step: Step) -> None:
    mask = step.operand(0)
    if mask is None:
        raise NotInvertible("which operand was selected depends on what is not known")
    if mask.concrete() is None:
        raise NotInvertible("which operand was selected is not known in advance")
    raise NotInvertible("information lost: what was not selected")


# ---- what has no inverse -----------------------------------------------------------

lost("scatter-min scatter-max", "information lost: one of its operands is left out")
lost("approx_top_k", "information lost: small elements are left out")
lost(
    "after_all create_token dce_sink dim_as_value empty",
    "it computes nothing of values",
)
lost("argmax argmin", "information lost: only the position of one element is left")
lost("iota rng_bit_generator rng_uniform random_bits", "it computes nothing of values")
lost("random_seed random_fold_in random_split random_gamma threefry2x32", "a hash")
