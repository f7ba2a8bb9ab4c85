"""Calls that are given other weak types than their functions were traced at come back.

No call does that, but a jaxpr that is evaluated anew, as loops and rules of libraries do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.extend.core
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import untrace
from tests.lifting.test_opened import unbatched_p

X = np.array([1.5, -2.0], np.float16)
STRONG, WEAK = np.int32(3), 3


@jax.custom_jvp
def scaled(n: Any, x: Any) -> Any:
    return x * n


@scaled.defjvp
def _(primals: Any, tangents: Any) -> Any:
    n, _ = primals
    kept = jnp.full((), 1, np.int8) * n  # of another type if `n` is not weak
    return scaled(*primals), tangents[1] * kept * (2 if kept.dtype == np.int8 else 5)


def evaluated(function: Callable[..., Any], *args: Any) -> Callable[..., Any]:
    """Trace a function at the types of some arguments, to evaluate it at any."""
    traced = jax.make_jaxpr(function)(*args)
    return lambda *given: jax.extend.core.jaxpr_as_fun(traced)(*given)[0]


def with_rule(run: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose backward rule runs another one in a loop."""

    @jax.custom_vjp
    def function(n: Any, x: Any) -> Any:
        return x * 2

    def backward(n: Any, ct: Any) -> Any:
        return None, lax.fori_loop(0, 2, lambda _, total: total + run(n, ct), ct)

    function.defvjp(lambda n, x: (function(n, x), n), backward)
    return function


def plain(n: Any, x: Any) -> Any:
    return run_jitted(n, x)


@jax.jit
def run_jitted(n: Any, x: Any) -> Any:
    return jnp.sin(scaled(n, x))


BOTH = pytest.mark.parametrize("traced, given", [(WEAK, STRONG), (STRONG, WEAK)])


def recovered(function: Any, *args: Any) -> tuple[Any, Any]:
    src = untrace.source(function, level="lax")(*args)
    scope: dict[str, Any] = {}
    exec(compile(str(src), "recovered.py", "exec"), scope)
    return src, scope[src.name]


@BOTH
@pytest.mark.parametrize("wrap", [lambda run: run, with_rule])
def test_a_call_of_a_function_traced_at_another_weak_type(
    wrap: Any, traced: Any, given: Any
) -> None:
    function = wrap(evaluated(plain, traced, X))
    src, made = recovered(function, given, X)
    assert src.report.strength == "identical", str(src)
    assert "written by `bind`" not in str(src)
    assert re.search(r"traced_at\(\s*run_jitted", str(src))
    wanted, got = (jax.jit(jax.jacrev(f, 1))(given, X) for f in (function, made))
    np.testing.assert_array_equal(wanted, got)


@BOTH
def test_such_a_call_in_a_rule_beside_what_is_opened(traced: Any, given: Any) -> None:
    # Calls are opened where equations need not be identical, so that none is to blame.
    inner = with_rule(evaluated(plain, traced, X))

    def function(n: Any, x: Any) -> Any:
        return unbatched_p.bind(inner(n, x), why=object())

    src, made = recovered(function, given, X)
    assert src.report.strength == "equivalent", str(src)
    assert "written by `bind`" not in str(src)
    wanted, got = (jax.jit(jax.jacrev(f, 1))(given, X) for f in (inner, made))
    np.testing.assert_array_equal(wanted, got)


def test_usual_calls_are_written_as_such() -> None:
    src, _ = recovered(lambda x: run_jitted(3, x) + run_jitted(np.int32(3), x), X)
    assert src.report.strength == "identical"
    assert "traced_at" not in str(src)
