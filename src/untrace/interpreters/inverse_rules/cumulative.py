"""Inverses of running sums, products and extremes."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from untrace.interpreters.inverse_rules.table import lost, solves
from untrace.interpreters.inverting.step import NotInvertible, Step


def _along(axis: int, start: int | None, stop: int | None) -> Any:
    """Return the index of a part of an array along one axis."""
    return (*[slice(None)] * axis, slice(start, stop)) if axis else slice(start, stop)


def _before(y: Any, axis: int, reverse: bool) -> tuple[Any, Any]:
    """Return a running value and what it was one place before, where it was anything."""
    there, here = y[_along(axis, 1, None)], y[_along(axis, None, -1)]
    return (here, there) if reverse else (there, here)


def _differences(y: Any, axis: int, reverse: bool, combine: Callable[..., Any]) -> Any:
    """Combine each running value with the one before; the first stays."""
    if y.shape[axis] < 2:
        return y
    combined = combine(*_before(y, axis, reverse))
    if reverse:
        parts = [combined, y[_along(axis, -1, None)]]
    else:
        parts = [y[_along(axis, None, 1)], combined]
    return jnp.concatenate(parts, axis=axis)


@solves("cumsum", "always")
def _cumsum(step: Step) -> None:
    axis, reverse = step.params["axis"], step.params["reverse"]
    step.solve(
        0,
        lambda y: _differences(y, axis, reverse, operator.sub),
        step.needed_result(),
        log_det=0.0,
    )


@solves("cumprod", "no product is zero")
def _cumprod(step: Step) -> None:
    axis, reverse = step.params["axis"], step.params["reverse"]
    if not jnp.issubdtype(step.operands[0].aval.dtype, jnp.inexact):
        raise NotInvertible("products of whole numbers overflow")
    scale = 2 if jnp.issubdtype(step.operands[0].aval.dtype, jnp.complexfloating) else 1

    def log_det(x: Any, y: Any) -> Any:
        _, before = _before(y, axis, reverse)
        return -scale * jnp.sum(jnp.log(jnp.abs(before)))

    step.solve(
        0,
        lambda y: _differences(y, axis, reverse, operator.truediv),
        step.needed_result(),
        log_det=log_det,
    )


def _log_difference(y: Any, before: Any) -> Any:
    return y + jnp.log1p(-jnp.exp(before - y))


@solves("cumlogsumexp", "always")
def _cumlogsumexp(step: Step) -> None:
    axis, reverse = step.params["axis"], step.params["reverse"]
    step.solve(
        0,
        lambda y: _differences(y, axis, reverse, _log_difference),
        step.needed_result(),
        log_det=lambda x, y: jnp.sum(y - x),
    )


lost("cummax cummin", "information lost: elements that are no extremes so far")


# ---- reductions --------------------------------------------------------------------


@solves(
    "reduce_sum reduce_prod reduce_max reduce_min",
    "the axes have a single element",
)
def _reduce(step: Step) -> None:
    shape = step.operands[0].shape
    sizes = [shape[axis] for axis in step.params["axes"]]
    if any(size != 1 for size in sizes):
        n = step.operands[0].size // max(step.results[0].size, 1)
        raise NotInvertible(f"information lost: {n} elements become one")
    step.solve(0, lambda y: jnp.reshape(y, shape), step.needed_result(), log_det=0.0)


lost(
    "reduce_and reduce_or reduce_xor reduce",
    "information lost: many elements become one",
)
lost(
    "reduce_window reduce_window_sum reduce_window_max reduce_window_min "
    "select_and_scatter select_and_scatter_add select_and_gather_add",
    "information lost: many elements become one",
)
