"""Operations that hold computations over scalars: reductions, scatters, sorts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from untrace import jaxapi
from untrace.readers.stablehlo.calls import Call, pairs
from untrace.readers.stablehlo.shapes import scatter_indices, scatter_numbers

Template = Callable[..., Any]


def reduce(call: Call, *operands: Any) -> Any:
    """State a reduction of one or several arrays."""
    arrays, inits = _halves(operands)
    return lax.reduce(arrays, inits, call.computation(), call["dimensions"])


def reduce_window(call: Call, *operands: Any) -> Any:
    """State a reduction of windows."""
    arrays, inits = _halves(operands)
    padding = call.get("padding")
    return lax.reduce_window(
        arrays,
        inits,
        call.computation(),
        call["window_dimensions"],
        call.get("window_strides"),
        [(0, 0)] * operands[0].ndim if padding is None else pairs(padding),
        call.get("base_dilations"),
        call.get("window_dilations"),
    )


def _halves(operands: tuple[Any, ...]) -> tuple[Any, Any]:
    """Return arrays and initial values: each one by itself, or several as tuples."""
    n = len(operands) // 2
    return operands if n == 1 else (operands[:n], operands[n:])


def _second(one: Any, other: Any) -> Any:
    return other


SCATTERS: dict[Any, Callable[..., Any]] = {
    lax.add: lax.scatter_add,
    lax.mul: lax.scatter_mul,
    lax.min: lax.scatter_min,
    lax.max: lax.scatter_max,
    lax.sub: lax.scatter_sub,
    _second: lax.scatter,
}


def scatter(call: Call, *operands: Any) -> Any:
    """State a scatter by the JAX function that updates in the same way."""
    if len(operands) != 3:
        raise call.refused("scatters into several arrays at once")
    x, indices, updates = operands
    how: dict[str, Any] = {
        "indices_are_sorted": bool(call.get("indices_are_sorted")),
        "unique_indices": bool(call.get("unique_indices")),
        "mode": lax.GatherScatterMode.FILL_OR_DROP,
    }
    numbers = scatter_numbers(call["scatter_dimension_numbers"])
    indices = scatter_indices(call, indices)
    block = call.operation.regions[0]
    old, new = block.arguments
    if block.returned == (new,):
        return lax.scatter(x, indices, updates, numbers, **how)
    computation = call.computation()
    names = [one.name for one in block.operations]
    if names == ["stablehlo.subtract"] and block.operations[0].operands == (old, new):
        computation = lax.sub
    function = SCATTERS.get(computation)
    if function is not None:
        return function(x, indices, updates, numbers, **how)
    used = {value for one in block.operations for value in one.operands}
    if new in used or new in block.returned:
        raise call.refused("updates elements by a function that JAX has no scatter for")
    return lax.scatter_apply(
        x,
        indices,
        lambda element: computation(element, element),
        numbers,
        update_shape=updates.shape,
        **how,
    )


def select_and_scatter(call: Call, x: Any, source: Any, init: Any) -> Any:
    """State a scatter to the selected elements of windows."""
    select, combine = call.region(0), call.computation(1)
    window = tuple(call["window_dimensions"])
    strides = tuple(call.get("window_strides") or (1,) * x.ndim)
    padding = tuple(pairs(call.get("padding") or ((0, 0),) * x.ndim))
    scalar = jaxapi.ShapedArray((), x.dtype)
    chosen, updated = (
        jaxapi.split_jaxpr(jaxapi.trace_flat(function, [scalar, scalar]))
        for function in (select, lambda a, b: [combine(a, b)])
    )
    return lax.select_and_scatter_p.bind(
        x,
        source,
        init,
        select_jaxpr=chosen[0],
        select_consts=tuple(chosen[1]),
        scatter_jaxpr=updated[0],
        scatter_consts=tuple(updated[1]),
        window_dimensions=window,
        window_strides=strides,
        padding=padding,
    )


def sort(call: Call, *operands: Any) -> Any:
    """State a sort whose comparator is none of JAX's own."""
    axis = int(call["dimension"]) % operands[0].ndim
    is_stable = bool(call.get("is_stable"))
    key = _key(call, operands)
    if key is None:
        return _sort_by_places(call, axis, operands)
    return lax.sort((key, *operands), axis, is_stable, num_keys=1)[1:]


def _key(call: Call, operands: tuple[Any, ...]) -> Any:
    """Return integers that are in the order of a comparator that is one comparison."""
    block = call.operation.regions[0]
    if len(block.operations) != 1 or block.operations[0].results != block.returned:
        return None
    (only,) = block.operations
    direction = only.attributes.get("comparison_direction")
    if only.name != "stablehlo.compare" or direction not in ("LT", "GT"):
        return None
    first, second = (
        block.arguments.index(value) if value in block.arguments else -1
        for value in only.operands
    )
    if min(first, second) < 0 or first // 2 != second // 2 or first == second:
        return None
    x = operands[first // 2]
    if x.dtype.kind == "c":
        return None
    is_total = only.attributes.get("compare_type") == "TOTALORDER"
    key = _ordered(x, is_total)
    is_descending = (direction == "GT") != (first > second)
    return lax.bitwise_not(key) if is_descending else key


def _ordered(x: Any, is_total: bool) -> Any:
    """Return integers in the order of some numbers; zeros are equal unless it is total."""
    if x.dtype == bool or np.issubdtype(x.dtype, np.integer) or "int" in x.dtype.name:
        return x
    signed = np.dtype(f"int{x.dtype.itemsize * 8}")
    if not is_total:
        x = lax.select(lax.eq(x, lax.full_like(x, 0)), lax.full_like(x, 0), x)
    bits = lax.bitcast_convert_type(x, signed)
    largest = lax.full_like(bits, np.iinfo(signed).max)
    return lax.select(
        lax.lt(bits, lax.full_like(bits, 0)), lax.bitwise_xor(bits, largest), bits
    )


def _sort_by_places(call: Call, axis: int, operands: tuple[Any, ...]) -> list[Any]:
    """Move each element to the place that is the number of elements before it.

    This takes the comparator for all pairs along the axis.
    """
    before = call.region()
    size = operands[0].shape[axis]
    moved = [jnp.moveaxis(x, axis, -1) for x in operands]
    flat = [x.reshape(-1, size) for x in moved]

    def places(*rows: Any) -> Any:
        def is_before(i: Any, j: Any) -> Any:
            one, other = [x[i] for x in rows], [x[j] for x in rows]
            there = before(*(v for pair in zip(one, other) for v in pair))[0]
            back = before(*(v for pair in zip(other, one) for v in pair))[0]
            return there | (~back & (i < j))

        indices = jnp.arange(size)
        table = jax.vmap(lambda j: jax.vmap(lambda i: is_before(i, j))(indices))(
            indices
        )
        return jnp.sum(table & (indices != indices[:, None]), axis=1)

    order = jax.vmap(places)(*flat)
    rows = jnp.arange(flat[0].shape[0])[:, None]
    results = [jnp.zeros_like(x).at[rows, order].set(x) for x in flat]
    return [
        jnp.moveaxis(x.reshape(like.shape), -1, axis) for x, like in zip(results, moved)
    ]


def scan(call: Call, *operands: Any) -> Any:
    """State a scan along an axis: its results are stacked along it, then the carry."""
    call.ignore("operandSegmentSizes", "resultSegmentSizes", "is_associative")
    axis = int(call["dimension"])
    n_arrays, n_stacked = (
        int(call.operation.attributes[name][0])
        for name in ("operandSegmentSizes", "resultSegmentSizes")
    )
    body = call.region()

    def step(carry: Any, items: Any) -> Any:
        results = body(*items, *carry)
        return results[n_stacked:], results[:n_stacked]

    arrays = [jnp.moveaxis(x, axis, 0) for x in operands[:n_arrays]]
    carry, stacked = lax.scan(
        step, [*operands[n_arrays:]], arrays, reverse=bool(call.get("is_reverse"))
    )
    return [*(jnp.moveaxis(x, 0, axis) for x in stacked), *carry]


def map_(call: Call, *operands: Any) -> Any:
    """State a function of each element."""
    call.ignore("dimensions")
    function = call.region()
    for _ in range(operands[0].ndim):
        function = jax.vmap(function)
    return function(*operands)


REGIONS: dict[str, Template] = {
    "stablehlo.map": map_,
    "stablehlo.reduce": reduce,
    "stablehlo.reduce_window": reduce_window,
    "stablehlo.scatter": scatter,
    "stablehlo.select_and_scatter": select_and_scatter,
    "stablehlo.sort": sort,
    "chlo.scan": scan,
}
