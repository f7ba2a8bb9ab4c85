"""Programs that are identical once plain calls are opened, and those that are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from untrace.verification.equivalence import equivalent
from untrace.verification.opened import are_identical_opened

X, Y = jnp.arange(3.0), jnp.ones(3)
X_AGAIN = jnp.arange(3.0)

turn = jax.jit(lambda x, y: jnp.sin(x) - y)


def flat(x: Any, y: Any) -> Any:
    return jnp.sin(x) - y


def scanned(step: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def function(x: Any, y: Any) -> Any:
        return jax.lax.scan(lambda c, e: (step(c, e), e), x[0], y)

    return function


@jax.custom_jvp
def smooth(x: Any) -> Any:
    return x * 2.0


smooth.defjvp(lambda primals, tangents: (smooth(*primals), 3.0 * tangents[0]))


@jax.custom_jvp
def sharp(x: Any) -> Any:
    return x * 2.0


sharp.defjvp(lambda primals, tangents: (sharp(*primals), 4.0 * tangents[0]))


SAME: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (lambda x, y: turn(x, y), flat),
    (flat, lambda x, y: turn(x, y)),
    # A body that is called twice is of other values each time.
    (lambda x, y: turn(turn(x, y), x), lambda x, y: flat(flat(x, y), x)),
    (lambda x, y: turn(x, y) * turn(y, x), lambda x, y: flat(x, y) * flat(y, x)),
    (lambda x, y: jax.jit(turn)(x, y) + 1, lambda x, y: flat(x, y) + 1),
    (lambda x, y: jax.jit(lambda a, b: b)(x, y), lambda x, y: y),
    (scanned(turn), scanned(flat)),
    (lambda x, y: turn(smooth(x), y), lambda x, y: flat(smooth(x), y)),
    (lambda x, y: turn(X, y) * x, lambda x, y: flat(X, y) * x),
    # What no result needs, on either side, in calls and in loops.
    (lambda x, y: (x * 3.0, flat(x, y))[1], flat),
    (lambda x, y: (x * 3.0, turn(x, y))[1], lambda x, y: (y - 1.0, flat(x, y))[1]),
    (lambda x, y: jax.jit(lambda a, b: (jnp.exp(a), flat(a, b))[1])(x, y), flat),
    (scanned(lambda x, y: (jnp.exp(x), turn(x, y))[1]), scanned(flat)),
]


@pytest.mark.parametrize("number", range(len(SAME)))
def test_programs_that_differ_in_plain_calls_need_no_graph(number: int) -> None:
    one, other = (jax.make_jaxpr(function)(X, Y) for function in SAME[number])
    assert are_identical_opened(one, other, True)
    assert equivalent(one, other) is None


def of_two_constants(x: Any, y: Any) -> Any:
    made = jnp.sin(x), jnp.cos(x), x * X, x * X_AGAIN
    return made[0]


def of_one_constant(x: Any, y: Any) -> Any:
    made = jnp.sin(x), jnp.cos(x), x * X, x * X
    return made[1]


PARTED: list[tuple[Callable[..., Any], Callable[..., Any]]] = [
    (lambda x, y: turn(x, y), lambda x, y: flat(y, x)),
    (lambda x, y: turn(turn(x, y), x), lambda x, y: flat(flat(x, y), y)),
    (lambda x, y: turn(x, y) * turn(y, x), lambda x, y: flat(x, y) * flat(x, y)),
    (lambda x, y: turn(x, y) * turn(y, x), lambda x, y: flat(y, x) * flat(x, y)),
    (lambda x, y: (turn(x, y), y), lambda x, y: (y, flat(x, y))),
    (lambda x, y: (turn(x, y), y), lambda x, y: (flat(x, y),)),
    (lambda x, y: (turn(x, y), y), lambda x, y: (flat(x, y), x)),
    (of_two_constants, of_one_constant),
    (lambda x, y: jax.jit(lambda a, b: b)(x, y), lambda x, y: x),
    (lambda x, y: jax.jit(lambda a: 2.0)(x) * y, lambda x, y: 3.0 * y),
    (lambda x, y: jax.jit(lambda a: -0.0)(x) * y, lambda x, y: 0.0 * y),
    (lambda x, y: turn(X, y) * x, lambda x, y: flat(X + 1, y) * x),
    (lambda x, y: turn(x, y) * 2.0, lambda x, y: flat(x, y) * 2.5),
    (lambda x, y: turn(x, y).sum(0), lambda x, y: flat(x, y).sum(0, keepdims=True)),
    (lambda x, y: turn(x, y), lambda x, y: flat(x, y) + 1),
    (lambda x, y: turn(x, y) + 1, lambda x, y: flat(x, y)),
    (scanned(turn), scanned(lambda x, y: flat(y, x))),
    (lambda x, y: turn(smooth(x), y), lambda x, y: flat(sharp(x), y)),
    (lambda x, y: turn(x, y)[:2], lambda x, y: flat(x, y)[1:]),
    (lambda x, y: (x * 3.0, flat(x, y))[0], flat),
    (lambda x, y: (x * 3.0, x * 2.0, y)[1], lambda x, y: (x * 2.0, x * 3.0)[1]),
    (lambda x, y: (x * 3.0, flat(x, y))[1], lambda x, y: (x * 3.0, flat(y, x))[1]),
]


@pytest.mark.parametrize("number", range(len(PARTED)))
def test_programs_that_differ_in_more_are_not_identical(number: int) -> None:
    one, other = (jax.make_jaxpr(function)(X, Y) for function in PARTED[number])
    assert not are_identical_opened(one, other, True)
    assert not are_identical_opened(other, one, True)
    assert equivalent(one, other) is not None


def test_of_calls_that_are_not_plain_nothing_is_said() -> None:
    donating = jax.jit(flat, donate_argnums=0)
    one, other = (jax.make_jaxpr(f)(X, Y) for f in (lambda *a: donating(*a), flat))
    assert not are_identical_opened(one, other, True)


@jax.custom_jvp
def raising(x: Any) -> Any:
    return x * 2.0


@raising.defjvp
def _(primals: Any, tangents: Any) -> Any:
    raise ValueError("not differentiable")


DEAD = {
    "rule": lambda x, y: (raising(x), flat(x, y))[1],
    "loop": lambda x, y: (jax.lax.fori_loop(0, 3, lambda i, c: c + x, y), flat(x, y))[
        1
    ],
    "draw": lambda x, y: (jax.lax.rng_uniform(0.0, 1.0, (3,)), flat(x, y))[1],
    "host": lambda x, y: (jax.pure_callback(lambda a: a, x, x), flat(x, y))[1],
}


@pytest.mark.parametrize("name", DEAD)
def test_of_dead_equations_that_may_count_nothing_is_said(name: str) -> None:
    one, other = (jax.make_jaxpr(function)(X, Y) for function in (DEAD[name], flat))
    assert len(one.jaxpr.eqns) > len(other.jaxpr.eqns)
    assert not are_identical_opened(one, other, True)
    assert not are_identical_opened(other, one, True)


def test_of_effects_nothing_is_said() -> None:
    def printing(step: Callable[..., Any]) -> Callable[..., Any]:
        def function(x: Any, y: Any) -> Any:
            jax.debug.print("{x}", x=x)
            return step(x, y)

        return function

    one, other = (jax.make_jaxpr(printing(step))(X, Y) for step in (turn, flat))
    assert not are_identical_opened(one, other, True)
    assert equivalent(one, other) is None
