"""Loops, branches, maps: what they do and how."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.verification.attacks.pairs import I, M, X, Y, differs, regrouped


def scan(body: Any = lambda c, r: (c + r, c), **options: Any) -> Any:
    return lambda x: lax.scan(body, x, M, **options)


def loop(cond: Any = lambda c: c[0] < 3, body: Any = lambda c: c + 1) -> Any:
    return lambda x: lax.while_loop(cond, body, x)


def fori(
    n: Any = 3, body: Any = lambda i, c: c + i, first: Any = 0, **options: Any
) -> Any:
    return lambda x: lax.fori_loop(first, n, body, x, **options)


def cond(*branches: Any) -> Any:
    return lambda x: lax.cond(x[0] > 0, *branches, x)


def switch(*branches: Any) -> Any:
    return lambda i, x: lax.switch(i[0], branches, x)


differs("scan, body", scan(), scan(lambda c, r: (c - r, c)))
differs("scan, what it stacks", scan(), scan(lambda c, r: (c + r, r)))
differs("scan, reverse", scan(), scan(reverse=True))
differs("scan, unroll", scan(), scan(unroll=2))
differs(
    "scan, length",
    *[
        lambda x, n=n: lax.scan(lambda c, _: (c * 2, None), x, None, n)[0]
        for n in (2, 3)
    ],
)
differs(
    "scan, order of carries",
    lambda x, y: lax.scan(lambda c, _: ((c[0] + c[1], c[0]), None), (x, y), None, 3)[0],
    lambda x, y: lax.scan(lambda c, _: ((c[1] + c[0], c[1]), None), (y, x), None, 3)[0][
        ::1
    ],
    X,
    Y,
)
differs(
    "scan, which constant",
    lambda x, y: lax.scan(lambda c, _: (c * x + y, None), x, None, 3)[0],
    lambda x, y: lax.scan(lambda c, _: (c * y + x, None), x, None, 3)[0],
    X,
    Y,
)
differs(
    "scan, constant or element",
    lambda x: lax.scan(lambda c, r: (c + r, None), x, jnp.stack([x] * 3))[0],
    lambda x: lax.scan(lambda c, _: (c + x, None), x, None, 3)[0],
)
differs("while, condition", loop(), loop(lambda c: c[0] < 4))
differs("while, comparison", loop(), loop(lambda c: c[0] <= 3))
differs("while, body", loop(), loop(body=lambda c: c + 2))
differs(
    "while, condition in the body", loop(lambda c: c[0] < 3), loop(lambda c: c[1] < 3)
)
differs(
    "while, constant of the condition",
    lambda x, y: lax.while_loop(lambda c: (c < x).all(), lambda c: c + y, x),
    lambda x, y: lax.while_loop(lambda c: (c < y).all(), lambda c: c + x, x),
    X,
    Y,
)
differs("fori, number of rounds", fori(3), fori(4))
differs("fori, first round", fori(), fori(first=1))
differs("fori, unroll", fori(), fori(unroll=3))
differs(
    "fori, loop or scan",
    fori(),
    lambda x: lax.while_loop(
        lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + s[0]), (0, x)
    )[1],
)
differs("loop or unrolled", fori(2, lambda i, c: c * 2), lambda x: x * 2 * 2)
differs("cond, order of branches", cond(jnp.sin, jnp.cos), cond(jnp.cos, jnp.sin))
differs("cond, one branch", cond(jnp.sin, jnp.cos), cond(jnp.sin, jnp.tan))
differs(
    "cond, literal in a branch",
    cond(lambda x: x * 2, jnp.cos),
    cond(lambda x: x * 3, jnp.cos),
)
differs(
    "cond, condition",
    lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x),
    lambda x: lax.cond(x[1] > 0, jnp.sin, jnp.cos, x),
)
differs(
    "cond or select",
    cond(jnp.sin, jnp.cos),
    lambda x: jnp.where(x[0] > 0, jnp.sin(x), jnp.cos(x)),
)
differs("cond, equal branches", cond(jnp.sin, jnp.sin), jnp.sin)
differs(
    "cond, which operand",
    lambda x, y: lax.cond(x[0] > 0, lambda a, b: a * 1, lambda a, b: b * 1, x, y),
    lambda x, y: lax.cond(x[0] > 0, lambda a, b: a * 1, lambda a, b: b * 1, y, x),
    X,
    Y,
)
differs(
    "switch, order",
    switch(jnp.sin, jnp.cos, jnp.tan),
    switch(jnp.sin, jnp.tan, jnp.cos),
    I,
    X,
)
differs(
    "switch, number",
    switch(jnp.sin, jnp.cos, jnp.tan),
    switch(jnp.sin, jnp.cos, jnp.tan, jnp.tan),
    I,
    X,
)
differs(
    "switch, index",
    lambda i, x: lax.switch(i[0], [jnp.sin, jnp.cos], x),
    lambda i, x: lax.switch(i[1], [jnp.sin, jnp.cos], x),
    I,
    X,
)
differs(
    "platform, which",
    *[
        lambda x, p=p: lax.platform_dependent(x, **{p: jnp.sin}, default=jnp.cos)
        for p in ("cpu", "cuda")
    ],
)
differs(
    "platform, default",
    *[
        lambda x, f=f: lax.platform_dependent(x, cuda=jnp.sin, default=f)
        for f in (jnp.cos, jnp.tan)
    ],
)
differs(
    "map, batch size",
    *[lambda x, n=n: lax.map(jnp.sin, x, batch_size=n) for n in (None, 2)],
)
differs("map or vmap", lambda x: lax.map(jnp.sin, x), lambda x: jax.vmap(jnp.sin)(x))
differs(
    "vmap, axis", *[lambda x, n=n: jax.vmap(jnp.cumsum, n, n)(x) for n in (0, 1)], M
)
differs(
    "vmap, which axis comes out",
    *[lambda x, n=n: jax.vmap(jnp.sin, 0, n)(x) for n in (0, 1)],
    M,
)
differs(
    "associative scan, reverse",
    *[
        lambda x, r=r: lax.associative_scan(jnp.add, x, reverse=r)
        for r in (True, False)
    ],
)
differs(
    "grad, argument",
    jax.grad(lambda x, y: (x * y * y).sum(), 0),
    jax.grad(lambda x, y: (x * y * y).sum(), 1),
    X,
    Y,
)
differs(
    "linear_transpose",
    *[lambda x, n=n: jax.linear_transpose(lambda v: v * n, x)(x) for n in (2, 3)],
)
differs(
    "hessian or its transpose",
    jax.jacfwd(jax.jacrev(lambda x: jnp.sin(x).sum())),
    jax.jacrev(jax.jacfwd(lambda x: jnp.sin(x).sum())),
)
regrouped(
    "body of a loop, dead equation",
    scan(lambda c, r: ((c + r, jnp.sin(r))[0], c)),
    scan(),
)
regrouped("branch in a call", cond(jax.jit(jnp.sin), jnp.cos), cond(jnp.sin, jnp.cos))

# ---- random numbers and settings -----------------------------------------------------------


def drawn(
    impl: str = "threefry2x32", seed: int = 0, draw: Any = jax.random.bits
) -> Any:
    return lambda x: draw(jax.random.key(seed, impl=impl))


def under(setting: Any, f: Any) -> Any:
    def program(*args: Any) -> Any:
        with setting:
            return f(*args)

    return program


def set_to(**values: Any) -> Any:
    ((name, value),) = values.items()

    def program(*args: Any) -> Any:
        before = getattr(jax.config, name)
        jax.config.update(name, value)
        try:
            return _exercise(*args)
        finally:
            jax.config.update(name, before)

    return program


def _exercise(x: Any) -> Any:
    draws = jax.random.normal(jax.random.key(3), (4,))
    return jnp.dot(x, x), draws, jnp.arange(3) * 1.5, x + jnp.int16(3)


for _name, _one, _other in (
    ("jax_enable_x64", True, False),
    ("jax_default_prng_impl", "threefry2x32", "rbg"),
    ("jax_default_matmul_precision", "highest", None),
    ("jax_threefry_partitionable", True, False),
    ("jax_random_seed_offset", 0, 7),
    ("jax_numpy_rank_promotion", "allow", "allow"),
    ("jax_default_dtype_bits", "64", "32"),
):
    if _one != _other and hasattr(jax.config, _name):
        differs(f"setting {_name}", set_to(**{_name: _one}), set_to(**{_name: _other}))

differs("key, seed", drawn(), drawn(seed=1))
differs("key, implementation", drawn(), drawn("rbg"))
differs("key, rbg or unsafe_rbg", drawn("rbg"), drawn("unsafe_rbg"))
differs(
    "key, typed or raw",
    lambda x: jax.random.bits(jax.random.key(0)),
    lambda x: jax.random.bits(jax.random.PRNGKey(0)),
)
differs(
    "key, split or fold_in",
    lambda k: jax.random.split(k)[0],
    lambda k: jax.random.fold_in(k, 0),
    jax.random.key(0),
)
differs(
    "key, which of two",
    lambda k: jax.random.bits(jax.random.split(k)[0]),
    lambda k: jax.random.bits(jax.random.split(k)[1]),
    jax.random.key(0),
)
differs(
    "key, number of splits",
    *[lambda k, n=n: jax.random.split(k, n)[0] for n in (2, 3)],
    jax.random.key(0),
)
differs(
    "key, fold_in",
    *[lambda k, n=n: jax.random.fold_in(k, n) for n in (2, 3)],
    jax.random.key(0),
)
differs("key, cloned or not", jax.random.clone, lambda k: k, jax.random.key(0))
differs(
    "key, wrapped as",
    *[
        lambda x, i=i: jax.random.wrap_key_data(jnp.zeros(4, np.uint32), impl=i)
        for i in ("rbg", "unsafe_rbg")
    ],
)
differs(
    "draw, distribution", drawn(draw=jax.random.normal), drawn(draw=jax.random.uniform)
)
differs(
    "draw, width of bits",
    *[
        drawn(draw=lambda k, t=t: jax.random.bits(k, (4,), t))
        for t in (np.uint8, np.uint16)
    ],
)
differs(
    "draw, algorithm of generated bits",
    *[
        lambda x, a=a: lax.rng_bit_generator(jnp.zeros(4, np.uint32), (4,), algorithm=a)
        for a in (lax.RandomAlgorithm.RNG_DEFAULT, lax.RandomAlgorithm.RNG_PHILOX)
    ],
)
differs(
    "draw, gamma in log space",
    *[
        drawn(draw=lambda k, f=f: f(k, 2.0))
        for f in (jax.random.gamma, jax.random.loggamma)
    ],
)
differs(
    "context, threefry",
    *[under(jax.threefry_partitionable(b), drawn()) for b in (True, False)],
)
differs(
    "context, precision of matmul",
    *[
        under(jax.default_matmul_precision(p), lambda x: jnp.dot(x, x))
        for p in ("highest", "default")
    ],
)
