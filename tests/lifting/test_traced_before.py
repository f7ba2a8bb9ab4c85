"""Calls of jitted functions that JAX knew show the runs of earlier calls."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from untrace import jaxapi
from untrace.lifting.recorded.functions.traced_before import TracedBefore
from untrace.recovery.record import Body, Call


def _run(function: Any, *calls: Call) -> Body:
    return Body(function, function.__code__, {}, list(calls))


def test_a_call_shows_no_run_that_it_is_made_in() -> None:
    def f(x: Any, n: int) -> Any:
        return jnp.sin(x) * n

    step = jaxapi.Transformed(("jax", "jit"), f, {}, ((1,), ("n",)))
    known = Call(step, (1.0, 2), {}, None)
    inner = Call(step, (1.0, 1), {}, None)
    outer = Call(step, (1.0, 2), {}, None, bodies=[_run(f, inner)])
    alone = TracedBefore(_run(f, outer))
    assert alone.runs(known) == outer.bodies
    assert not alone.runs(inner)
    earlier = Call(step, (1.0, 1), {}, None, bodies=[_run(f)])
    assert TracedBefore(_run(f, earlier, outer)).runs(inner) == earlier.bodies
