"""Rules for batches, and functions that come with the solutions of their derivatives."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.custom_batching import custom_vmap, sequential_vmap
from jax.custom_derivatives import linear_call

from tests.verification.attacks.pairs import S, X, Y, differs


def batched(rule: Any, primal: Any = jnp.sin) -> Any:
    f = custom_vmap(lambda x: primal(x))
    f.def_vmap(lambda size, in_batched, x: (rule(size, x), in_batched[0]))
    return f


def batched2(rule: Any) -> Any:
    f = custom_vmap(lambda x, y: x * y)
    f.def_vmap(lambda size, flags, x, y: (rule(flags, x, y), True))
    return f


def batched3(rule: Any) -> Any:
    f = custom_vmap(lambda x, y, z: x * y * z)
    f.def_vmap(lambda size, flags, x, y, z: ((x * y * z) * rule(flags), True))
    return lambda x, y: f(x, y, y)


differs(
    "batching rule", batched(lambda n, x: jnp.sin(x)), batched(lambda n, x: jnp.cos(x))
)
differs(
    "batching rule, a constant",
    batched(lambda n, x: x * 2.0),
    batched(lambda n, x: x * 3.0),
)
differs(
    "batching rule, the size", batched(lambda n, x: x * n), batched(lambda n, x: x * 2)
)
differs(
    "batching rule, a large size",
    *[batched(lambda n, x, b=b: x * (b if n > 5 else 1)) for b in (2, 3)],
    because="they differ in batches of more than 5",
)
differs(
    "batching rule, which are batched",
    batched2(lambda b, x, y: x * (2 if b[1] else 3)),
    batched2(lambda b, x, y: x * 2),
    X,
    Y,
    because="they differ where one is batched",
)
differs(
    "batching rule, two of three batched",
    *[
        batched3(lambda flags, n=n: n if list(flags) == [True, True, False] else 1)
        for n in (2, 3)
    ],
    X,
    Y,
    because="they differ where the first two are batched",
)
differs(
    "batching rule or sequential",
    batched(lambda n, x: jnp.sin(x)),
    sequential_vmap(lambda x: jnp.sin(x)),
)
differs("batching rule or none", batched(lambda n, x: jnp.sin(x)), jnp.sin)
differs(
    "batching rule used at another size",
    *[
        lambda x, f=batched(lambda n, x, t=t: x * t.get(x.shape[-1], 2)): (
            f(x[:2]).sum() + f(x).sum()
        )
        for t in ({4: 3}, {4: 2})
    ],
)
differs(
    "function with a batching rule",
    batched(lambda n, x: x),
    batched(lambda n, x: x, jnp.cos),
)


def flagged(flag: bool) -> Any:
    f = custom_vmap(lambda x: jnp.sin(x))
    f.def_vmap(lambda size, flags, x: (jnp.sin(x[0] if not flag else x), flag))
    return f


differs("whether a batched result is batched", flagged(True), flagged(False))


# ---- roots, solutions, transposes ------------------------------------------------------


def root(
    f: Any = lambda v: v**2 - 2,
    solve: Any = lambda f, x: x * 1.4,
    tangent: Any = lambda g, y: y / g(1.0),
) -> Any:
    return lambda x: lax.custom_root(f, x, solve, tangent)


def linear(
    matvec: Any = lambda a, v: a @ v,
    solve: Any = lambda a, b: b / 3,
    back: Any = lambda a, b: b / 4,
    symmetric: bool = False,
) -> Any:
    def program(a: Any, b: Any) -> Any:
        return lax.custom_linear_solve(
            lambda v: matvec(a, v),
            b,
            lambda mv, b: solve(a, b),
            lambda mv, b: back(a, b),
            symmetric,
        )

    return program


B = X[:3]
differs(
    "custom_root, function",
    root(),
    root(f=lambda v: v**3 - 2),
    1.0,
    because="the functions differ",
)
differs("custom_root, solution", root(), root(solve=lambda f, x: x * 1.5), 1.0)
differs(
    "custom_root, tangent solution",
    root(),
    root(tangent=lambda g, y: y / g(2.0)),
    1.0,
    because="the tangent solutions differ",
)
differs(
    "custom_linear_solve, matvec", linear(), linear(matvec=lambda a, v: a.T @ v), S, B
)
differs("custom_linear_solve, solve", linear(), linear(solve=lambda a, b: b / 5), S, B)
differs(
    "custom_linear_solve, transpose", linear(), linear(back=lambda a, b: b / 5), S, B
)
differs("custom_linear_solve, symmetric", linear(), linear(symmetric=True), S, B)
differs(
    "linear_call, forward",
    *[
        lambda x, n=n: linear_call(lambda r, x: x * n, lambda r, ct: ct * 2, Y, x)
        for n in (2, 3)
    ],
)
differs(
    "linear_call, transpose",
    *[
        lambda x, n=n: linear_call(lambda r, x: x * 2, lambda r, ct: ct * n, Y, x)
        for n in (2, 3)
    ],
)
differs(
    "linear_call, residuals",
    *[
        lambda x, r=r: linear_call(lambda r, x: x * r, lambda r, ct: ct * r, r, x)
        for r in (X, Y)
    ],
)
