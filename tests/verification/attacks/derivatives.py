"""Derivative and batching rules: what they compute, what they close over, how they are asked."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.custom_derivatives import SymbolicZero

from tests.verification.attacks.pairs import X, Y, differs


def jvp(rule: Any, primal: Any = jnp.sin, **options: Any) -> Any:
    """Make a function of one argument with a rule for its tangent."""

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return primal(x)

    f.defjvp(lambda p, t: (primal(*p), rule(p[0], t[0])), **options)
    return f


def vjp(bwd: Any, fwd: Any = jnp.cos, primal: Any = jnp.sin, **options: Any) -> Any:
    """Make a function of one argument with rules; `fwd` gives the residuals."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return primal(x)

    f.defvjp(lambda x: (primal(x), fwd(x)), lambda res, ct: (bwd(res, ct),), **options)
    return f


def vjp2(bwd: Any, fwd: Any = lambda x, y: (x, y), **options: Any) -> Any:
    """Make a function of two arguments with rules."""

    @jax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    f.defvjp(lambda x, y: (x * y, fwd(x, y)), bwd, **options)
    return f


def closing_over(n: Any) -> Any:
    return jvp(lambda x, t: t * n)


def default(n: Any) -> Any:
    def rule(x: Any, t: Any, n: Any = n) -> Any:
        return t * n

    return jvp(rule)


def keyword(n: Any) -> Any:
    def rule(x: Any, t: Any, *, n: Any = n) -> Any:
        return t * n

    return jvp(rule)


def reading_global(n: Any) -> Any:
    space: dict[str, Any] = {"N": n}
    exec("def rule(x, t):\n    return t * N", space)
    return jvp(space["rule"])


class Rule:
    def __init__(self, n: Any) -> None:
        self.n = n

    def __call__(self, x: Any, t: Any) -> Any:
        return t * self.n

    def method(self, x: Any, t: Any) -> Any:
        return t * self.n


for _what, _make in {
    "what a rule closes over": closing_over,
    "a default of a rule": default,
    "a keyword default of a rule": keyword,
    "a global of a rule": reading_global,
    "the state of a rule that is an object": lambda n: jvp(Rule(n)),
    "the object of a rule that is a method": lambda n: jvp(Rule(n).method),
    "a rule that is a partial": lambda n: jvp(
        functools.partial(lambda x, t, n: t * n, n=n)
    ),
    "a residual": lambda n: vjp(lambda r, ct: ct * r, lambda x: x * n),
    "a constant in a backward rule": lambda n: vjp(lambda r, ct: ct * r * n),
    "an array that a rule closes over": lambda n: closing_over(X * np.float32(n)),
}.items():
    differs(_what, _make(2.0), _make(3.0))
    differs(f"{_what}, sign of zero", _make(0.0), _make(-0.0))
    differs(
        f"{_what}, in a loop",
        *[
            lambda x, f=_make(n): lax.scan(lambda c, _: (f(c), None), x, None, 3)
            for n in (2.0, 3.0)
        ],
    )
    differs(
        f"{_what}, in a remat",
        *[
            lambda x, f=_make(n): jax.checkpoint(lambda x: f(x) * 2)(x)
            for n in (2.0, 3.0)
        ],
    )

differs("rule or none", jvp(lambda x, t: t * jnp.cos(x)), jnp.sin)
differs(
    "jvp rule or vjp rule", jvp(lambda x, t: t * jnp.cos(x)), vjp(lambda r, ct: ct * r)
)
differs(
    "a dead residual", vjp(lambda r, ct: ct * 2), vjp(lambda r, ct: ct * 2, jnp.exp)
)
differs(
    "no cotangent or zeros",
    vjp2(lambda r, ct: (ct, None)),
    vjp2(lambda r, ct: (ct, ct * 0)),
    X,
    Y,
)
differs(
    "order of cotangents",
    vjp2(lambda r, ct: (ct * r[0], ct * r[1])),
    vjp2(lambda r, ct: (ct * r[1], ct * r[0])),
    X,
    Y,
)
differs(
    "order of residuals",
    vjp2(lambda r, ct: (ct * r[0], ct), lambda x, y: (x, y)),
    vjp2(lambda r, ct: (ct * r[0], ct), lambda x, y: (y, x)),
    X,
    Y,
)
differs(
    "precision in a backward rule",
    vjp(lambda r, ct: jnp.dot(r, ct, precision="highest") * ct),
    vjp(lambda r, ct: jnp.dot(r, ct) * ct),
)
differs(
    "symbolic zeros or not",
    vjp2(lambda r, ct: (ct * r[1], ct * r[0])),
    vjp2(
        lambda r, ct: (ct * r[1], ct * r[0]),
        lambda x, y: (getattr(x, "value", x), getattr(y, "value", y)),
        symbolic_zeros=True,
    ),
    X,
    Y,
)
differs(
    "optimize_remat or not",
    vjp(lambda r, ct: ct * r),
    vjp(lambda r, ct: ct * r, optimize_remat=True),
)
differs("primal of a jvp", jvp(lambda x, t: t), jvp(lambda x, t: t, jnp.cos))


def primal_in_rule(g: Any) -> Any:
    f = jax.custom_jvp(jnp.sin)
    f.defjvp(lambda p, t: (g(*p), t[0]))
    return f


def primal_in_fwd(g: Any) -> Any:
    f = jax.custom_vjp(lambda x: jnp.sin(x))
    f.defvjp(lambda x: (g(x), None), lambda r, ct: (ct * 2,))
    return f


differs(
    "the primal that a jvp rule returns",
    primal_in_rule(jnp.sin),
    primal_in_rule(jnp.cos),
)
differs("the primal that a fwd returns", primal_in_fwd(jnp.sin), primal_in_fwd(jnp.cos))


def zero_aware(n: float) -> Any:
    """A rule that does something else where a tangent is a symbolic zero."""

    @jax.custom_jvp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def rule(primals: Any, tangents: Any) -> Any:
        x, y = primals
        t, u = tangents
        if isinstance(u, SymbolicZero):
            return x * y, t * y * n
        return x * y, t * y + u * x

    f.defjvp(rule, symbolic_zeros=True)
    return lambda x: f(x, Y)


def perturbed_aware(n: float) -> Any:
    @jax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y

    def fwd(x: Any, y: Any) -> Any:
        return x.value * y.value, y.value * (1.0 if y.perturbed else n)

    f.defvjp(fwd, lambda r, ct: (ct * r, ct), symbolic_zeros=True)
    return lambda x: f(x, Y)


differs("a jvp rule where a tangent is zero", zero_aware(2.0), zero_aware(3.0))
differs(
    "a vjp rule where an operand is not perturbed",
    perturbed_aware(2.0),
    perturbed_aware(3.0),
    because="the forward rules differ",
)


def nested(depth: int, n: float, size: int = 1) -> Any:
    """Rules in rules: the innermost one has the factor `n`."""

    def rule(x: Any, t: Any) -> Any:
        for _ in range(size):
            t = t * 2.0
        return t * n if depth == 0 else nested(depth - 1, n, size)(x) * t

    return jvp(rule)


for _depth in (1, 2, 3, 4, 6):
    differs(
        f"a rule {_depth} rules deep",
        nested(_depth, 2.0),
        nested(_depth, 3.0),
        because="the innermost rule differs",
    )
    differs(
        f"a long rule {_depth} rules deep",
        nested(_depth, 2.0, 14),
        nested(_depth, 3.0, 14),
        because="the innermost rule differs",
    )


def long_primal(x: Any) -> Any:
    for _ in range(14):
        x = jnp.sin(x)
    return x


def nested_long(depth: int, n: float) -> Any:
    """Rules in rules of long functions of one name."""

    def rule(x: Any, t: Any) -> Any:
        return t * n if depth == 0 else nested_long(depth - 1, n)(x) * t

    return jvp(rule, long_primal)


for _depth in (1, 2, 3):
    differs(
        f"a rule of a long function, {_depth} rules deep",
        nested_long(_depth, 2.0),
        nested_long(_depth, 3.0),
        because="the innermost rule differs",
    )


def by_size(table: dict[int, float], rest: float) -> Any:
    """A rule that depends on the size of its operand."""
    return jvp(lambda x, t: t * table.get(x.shape[0], rest))


differs(
    "a rule used at another size",
    *[
        lambda x, f=by_size(t, 2.0): f(x[:2]).sum() + f(x).sum()
        for t in ({4: 3.0}, {4: 2.0})
    ],
)
differs(
    "a rule used at another type",
    *[
        lambda x, f=jvp(lambda x, t, n=n: t * (n if x.dtype == jnp.float16 else 2.0)): (
            f(x),
            f(x.astype(jnp.float16)),
        )
        for n in (3.0, 2.0)
    ],
)


def by_setting(n: float) -> Any:
    """A rule that depends on the context of its equation."""
    f = jvp(lambda x, t: t * (2.0 if jax.config.jax_threefry_partitionable else n))

    def program(x: Any) -> Any:
        y = f(x)
        with jax.threefry_partitionable(False):
            return y + f(x)

    return program


differs(
    "a rule used in another context",
    by_setting(2.0),
    by_setting(3.0),
    because="the rule differs where its setting is off",
)
