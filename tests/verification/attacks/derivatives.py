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


Chosen = tuple[int, ...]


def zero_aware(n_args: int, chosen: Chosen, n: float) -> Any:
    """A rule that does something else where exactly the chosen tangents are given."""

    @jax.custom_jvp
    def f(*args: Any) -> Any:
        return sum(args[1:], args[0])

    def rule(primals: Any, tangents: Any) -> Any:
        given = [i for i, t in enumerate(tangents) if not isinstance(t, SymbolicZero)]
        factor = n if tuple(given) == chosen else 1.0
        return f(*primals), sum(tangents[i] for i in given) * factor

    f.defjvp(rule, symbolic_zeros=True)
    return f


def perturbed_aware(n_args: int, chosen: Chosen, n: float) -> Any:
    """A forward rule that does so."""

    @jax.custom_vjp
    def f(*args: Any) -> Any:
        return sum(args[1:], args[0])

    def fwd(*args: Any) -> Any:
        given = tuple([i for i, arg in enumerate(args) if arg.perturbed])
        factor = n if given == chosen else 1.0
        return f(*[arg.value for arg in args]), args[0].value * factor

    f.defvjp(fwd, lambda r, ct: (ct * r,) * n_args, symbolic_zeros=True)
    return f


def cotangent_aware(n_results: int, chosen: Chosen, n: float) -> Any:
    """A backward rule that does so for the cotangents it is given."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return [x * i for i in range(n_results)]

    def bwd(_: Any, cts: Any) -> Any:
        given = [i for i, ct in enumerate(cts) if not isinstance(ct, SymbolicZero)]
        factor = n if tuple(given) == chosen else 1.0
        return (sum(cts[i] for i in given) * factor,)

    f.defvjp(lambda x: (f(x.value), None), bwd, symbolic_zeros=True)
    return f


def both_aware(n: float) -> Any:
    """Rules that do something else for one operand and one cotangent."""

    @jax.custom_vjp
    def f(x: Any, y: Any) -> Any:
        return x * y, x + y

    def fwd(x: Any, y: Any) -> Any:
        return f(x.value, y.value), y.value * (1.0 if x.perturbed else 2.0)

    def bwd(r: Any, cts: Any) -> Any:
        if isinstance(cts[0], SymbolicZero):
            return r, cts[1] * r * n
        return r, cts[0] * r

    f.defvjp(fwd, bwd, symbolic_zeros=True)
    return f


for _n, _chosen, _given in (
    (2, (0,), "the first of two tangents"),
    (2, (1,), "the second of two tangents"),
    (2, (0, 1), "both of two tangents"),
    (3, (2,), "the last of three tangents"),
    (3, (0, 1, 2), "all of three tangents"),
    (4, (1,), "one of four tangents"),
    (5, (0, 1, 2, 3, 4), "all of five tangents"),
    (5, (1,), "one of five tangents"),
):
    _args = [X] * _n
    differs(
        f"a jvp rule where {_given} {'are' if len(_chosen) > 1 else 'is'} given",
        *[zero_aware(_n, _chosen, n) for n in (2.0, 3.0)],
        *_args,
        because="the rules differ for these tangents",
    )
    if _n < 5 or len(_chosen) == 5:
        differs(
            f"a forward rule where {_given} are asked for",
            *[perturbed_aware(_n, _chosen, n) for n in (2.0, 3.0)],
            *_args,
            because="the forward rules differ",
        )
    differs(
        f"a vjp rule where {_given.replace('tangent', 'cotangent')} "
        f"{'are' if len(_chosen) > 1 else 'is'} given",
        *[cotangent_aware(_n, _chosen, n) for n in (2.0, 3.0)],
        because="the rules differ for these cotangents",
    )

# What is found by differentiating: of six operands the program makes two from its inputs.
differs(
    "a jvp rule where the tangents of a program are given",
    *[
        lambda x, y, f=zero_aware(6, (1, 4), n): f(Y, x, Y, Y, jnp.sin(y), Y)
        for n in (2.0, 3.0)
    ],
    X,
    Y,
)
differs(
    "a jvp rule where the tangents of a loop are given",
    *[
        lambda x, f=zero_aware(6, (1, 4), n): lax.scan(
            lambda c, y: (f(Y, c, Y, Y, y, Y), None), X, jnp.stack([x, x])
        )[0]
        for n in (2.0, 3.0)
    ],
)
differs(
    "a forward rule where the tangents of a jitted function are asked for",
    *[
        lambda x, y, f=perturbed_aware(6, (1, 4), n): jax.jit(f)(Y, x, Y, Y, y, Y)
        for n in (2.0, 3.0)
    ],
    X,
    Y,
    because="the forward rules differ",
)
differs(
    "a vjp rule where the cotangents of a program are given",
    *[lambda x, f=cotangent_aware(6, (1, 4), n): f(x)[1:5:3] for n in (2.0, 3.0)],
)
differs(
    "a vjp rule where one operand and one cotangent are given",
    *[lambda x, y, f=both_aware(n): f(x, y) for n in (2.0, 3.0)],
    X,
    Y,
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


def beside_many(n: float) -> Any:
    """A rule in rules of long functions, among more of them than are followed so deep."""
    rules = [nested_long(2, factor) for factor in [*np.arange(70.0), n]]
    return lambda x: sum(rule(x) for rule in rules)


differs(
    "a rule of a long function, 2 rules deep beside many",
    beside_many(2.0),
    beside_many(3.0),
    because="the innermost rule differs",
)


def closing_over_an_array(n: float) -> Any:
    """A rule that JAX asks with all but the array that the function closes over."""

    @jax.custom_vjp
    def f(x: Any) -> Any:
        return x * jnp.asarray(Y)

    f.defvjp(lambda x: (f(x), None), lambda _, ct: (ct * n,))
    return f


def in_a_batch(make: Any) -> Any:
    """A function that JAX batches as part of a program: its constants are operands then."""
    return lambda x: jax.vmap(make)(jnp.stack([x, x]))


for _kind, _around in {
    "in a jitted function": jax.jit,
    "in a loop": lambda f: lambda x: lax.fori_loop(0, 2, lambda _, c: f(c), x),
    "in a branch": lambda f: lambda x: lax.cond(x[0] > 0, f, jnp.sin, x),
    "in a batch": lambda f: jax.vmap(jax.jit(f), axis_size=1, in_axes=None),
}.items():
    differs(
        f"a rule of a batch that closes over an array, {_kind}",
        *[in_a_batch(_around(closing_over_an_array(n))) for n in (2.0, 3.0)],
    )


def also_less_deep(n: float, jits: bool) -> Any:
    """A rule that is too deep to be looked at, and after that one that is not."""
    inner = jvp(lambda x, t: t * n, long_primal)
    step = jax.jit(inner) if jits else inner
    around = jvp(lambda x, t: step(x) * t, long_primal)
    deepest = jvp(lambda x, t: around(x) * t, long_primal)
    later = jvp(lambda x, t: step(x) * t, long_primal) if jits else around
    return lambda x: (deepest(x), later(x))


for _jits in (False, True):
    differs(
        f"a rule that was too deep before, {'in one call' if _jits else 'itself'}",
        also_less_deep(2.0, _jits),
        also_less_deep(3.0, _jits),
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
