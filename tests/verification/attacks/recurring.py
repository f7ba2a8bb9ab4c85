"""Attacks on how rules are written that lead back to themselves, and what they close over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from tests.verification.attacks.pairs import Jaxpr, X, Y, differs
from untrace import jaxapi

# ---- rules of which the inner ones are the same again, or nearly --------------------------

Make = Callable[[Any, float], Any]


def by_jvp(inner: Any, factor: float) -> Any:
    """Make a function whose rule calls `inner`, or itself."""

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defjvp(lambda p, t: (jnp.sin(*p), t[0] * factor * (inner or f)(*p)))
    return f


def by_vjp(inner: Any, factor: float) -> Any:
    """Make a function whose rules call `inner`, or itself."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defvjp(
        lambda x: ((inner or f)(x), x), lambda x, ct: (ct * factor * (inner or f)(x),)
    )
    return f


def nested(make: Make, factors: Sequence[float]) -> Any:
    """Make a function whose rule calls one whose rule ...; the innermost calls itself."""
    f: Any = None
    for factor in reversed(factors):
        f = make(f, factor)
    return f


def in_turn(make: Any, first: float, second: float) -> Any:
    """Make two functions whose rules call each other."""
    found: list[Any] = []
    other = make(lambda x: found[0](x), second)
    found.append(make(other, first))
    return found[0]


_HIGHER = "a derivative differs, of higher order perhaps"

for _make in (by_jvp, by_vjp):
    for _factors, _others in (
        ((1.0,), (2.0, 1.0)),
        ((1.0,), (1.0, 2.0)),
        ((1.0,), (1.0, 1.0, 2.0)),
        ((1.0,), (1.0, 2.0, 1.0)),
        ((1.0, 2.0), (2.0,)),
        ((2.0, 1.0), (1.0, 2.0)),
        ((1.0, 2.0, 1.0), (1.0, 1.0, 2.0)),
    ):
        differs(
            f"{_make.__name__}, recurring rules {_factors} {_others}",
            nested(_make, _factors),
            nested(_make, _others),
            because=_HIGHER,
        )
    for _turn in ((1.0, 2.0), (2.0, 1.0)):
        differs(
            f"{_make.__name__}, rules in turn {_turn}",
            nested(_make, (1.0,)),
            in_turn(_make, *_turn),
            because=_HIGHER,
        )

# ---- functions that close over one value several times ---------------------------------


def closing(a: Any, b: Any, c: Any = None) -> Any:
    """Make functions with rules that close over two or three values."""

    def combined(x: Any) -> Any:
        return jnp.sin(x * a) + b * (x if c is None else c - x)

    by_jvp, by_vjp = jax.custom_jvp(combined), jax.custom_vjp(combined)
    by_jvp.defjvp(lambda p, t: (by_jvp(*p), t[0] * by_jvp(*p)))
    by_vjp.defvjp(lambda x: (by_vjp(x), x), lambda x, ct: (ct * by_vjp(x),))
    return by_jvp, by_vjp


def among(which: int, *order: int) -> Any:
    """Make a program that hands a function some of three values, two of them equal."""
    values = [jnp.asarray(Y), jnp.asarray(Y.copy()), jnp.asarray(2 * Y)]
    return lambda x: closing(*[values[i] for i in order])[which](x)


for _which, _kind in enumerate(("jvp", "vjp")):
    for _order, _other in (
        ((0, 1), (0, 2)),
        ((0, 1), (2, 1)),
        ((0, 2), (2, 0)),
        ((0, 1, 2), (0, 2, 1)),
        ((0, 1, 2), (2, 0, 1)),
        ((0, 1, 0), (0, 1, 2)),
    ):
        differs(
            f"custom_{_kind} closes over {_order} {_other}",
            among(_which, *_order),
            among(_which, *_other),
        )


def argument_or_closed(is_closed: bool) -> Any:
    """Make a function that gets the same value twice, one of them perhaps by closing."""

    def program(x: Any) -> Any:
        y = jnp.exp(x)

        @jax.custom_jvp
        def f(z: Any) -> Any:
            return jnp.sin(z) * y + (y if is_closed else z)

        f.defjvp(lambda p, t: (jnp.sin(*p), t[0]))
        return f(y)

    return program


differs(
    "closed over twice, or given, too",
    argument_or_closed(True),
    argument_or_closed(False),
)


def residual_named(position: int, *order: int) -> Any:
    """Make a custom_vjp call whose residual is one of the values it closes over.

    JAX makes such calls where it moves what a loop computes anew every time out of it.
    """
    values = [jnp.asarray(Y), jnp.asarray(Y.copy()), jnp.asarray(2 * Y)]

    @jax.custom_vjp
    def f(x: Any) -> Any:
        for i in order:
            x = jnp.sin(x) * values[i] if i < 2 else x + values[2]
        return x

    f.defvjp(lambda x: (jnp.sin(x), x), lambda x, ct: (ct * x,))
    closed = jax.make_jaxpr(lambda x: f(x))(X)
    body, consts = jaxapi.split_jaxpr(closed)
    (eqn,) = body.eqns
    trees = eqn.params["out_trees"]

    def moved() -> Any:
        out_tree, res_tree, _ = trees()
        return out_tree, res_tree, [position]

    edited = eqn.replace(params={**eqn.params, "out_trees": moved})
    return jaxapi.close_jaxpr(body.replace(eqns=[edited]), consts)


# The last one closes over the first value twice where the other does so once.
for _first, _second in (
    ((0, 0, 1, 2), (2, 0, 1, 2)),
    ((1, 0, 1, 2), (2, 0, 1, 2)),
    ((0, 0, 1, 2), (3, 0, 1, 2)),
    ((2, 0, 1, 2), (3, 0, 1, 2)),
    ((1, 0, 2, 1), (0, 0, 2, 0)),
):
    differs(
        f"a residual is closed over {_first} {_second}",
        Jaxpr(lambda first=_first: residual_named(*first)),
        Jaxpr(lambda second=_second: residual_named(*second)),
        because="the backward rule is given another value",
    )
