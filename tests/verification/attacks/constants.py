"""Literals and constants: bits, types, weak types, where they lie, and refs."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.verification.attacks.pairs import Jaxpr, M, X, Y, differs, regrouped
from untrace import jaxapi

QUIET, LOUD = np.uint32([0x7FC00000, 0x7FC00001]).view(np.float32)
NEXT = np.nextafter(np.float32(1), np.float32(2))
PLAIN = jax.make_jaxpr(lambda x: x * jnp.asarray(X * 3))(X)
SCALED = jax.make_jaxpr(lambda x: lax.mul(x, np.float32(2)))(np.float32(1))


def having(*consts: Any) -> Jaxpr:
    """A program with other constants."""
    return Jaxpr(lambda: jaxapi.close_jaxpr(jaxapi.split_jaxpr(PLAIN)[0], consts))


def literal(value: Any, aval: Any = None) -> Jaxpr:
    """A program with another literal."""

    def make() -> Any:
        body, consts = jaxapi.split_jaxpr(SCALED)
        (eqn,) = body.eqns
        made = jaxapi.JaxprLiteral(value, aval or eqn.invars[1].aval)
        return jaxapi.close_jaxpr(
            body.replace(eqns=[eqn.replace(invars=[eqn.invars[0], made])]), consts
        )

    return Jaxpr(make)


def key(*args: Any, **options: Any) -> Any:
    made = jax.random.key(*args, **options)
    return lambda x: jax.random.uniform(made, (4,)) * x


def filled(value: Any) -> Any:
    array = np.full(4, value, np.float32)
    return lambda x: x * jnp.asarray(array)


for _what, _one, _other in (
    ("value", 2.0, 2.5),
    ("sign", 2.0, -2.0),
    ("sign of zero", 0.0, -0.0),
    ("last bit", 1.0, NEXT),
    ("NaN payload", QUIET, LOUD),
    ("sign of NaN", np.float32(np.nan), -np.float32(np.nan)),
    ("NaN or infinity", np.nan, np.inf),
    ("sign of infinity", np.inf, -np.inf),
    ("denormal or zero", np.float32(1e-45), 0.0),
):
    differs(
        f"literal, {_what}",
        literal(np.float32(_one)),
        literal(np.float32(_other)),
        because="the bits differ",
    )
    differs(
        f"constant, {_what}", filled(_one), filled(_other), because="the bits differ"
    )
    differs(
        f"constant of many elements, {_what}",
        *[
            lambda x, a=np.full(2000, v, np.float32): x * jnp.asarray(a)[:4]
            for v in (_one, _other)
        ],
        because="the bits differ",
    )
    differs(
        f"constant in a loop, {_what}",
        *[
            lambda x, a=np.full(4, v, np.float32): lax.fori_loop(
                0, 3, lambda i, c: c * jnp.asarray(a), x
            )
            for v in (_one, _other)
        ],
        because="the bits differ",
    )

differs(
    "literal, weak type",
    literal(2.0),
    literal(2.0, jax.core.ShapedArray((), np.float32, weak_type=True)),
    because="the type of the product depends on it",
)
differs(
    "literal, dtype",
    literal(2.0),
    literal(2.0, jax.core.ShapedArray((), np.float16)),
    because="the types differ",
)
differs(
    "literal, a large integer",
    lambda x: x * np.uint32(2**32 - 1),
    lambda x: x * np.uint32(2**32 - 2),
    np.uint32(3),
)
differs("literal, complex", lambda x: x * (1 + 2j), lambda x: x * (1 - 2j))
differs(
    "literal, sign of an imaginary zero",
    lambda x: x * complex(1, 0.0),
    lambda x: x * complex(1, -0.0),
)
differs("literal or argument", lambda x, y: x * 2.0, lambda x, y: x * y, 1.0, 2.0)
differs(
    "literal of an operator or an array of it",
    lambda x: x * 2.0,
    lambda x: x * jnp.float32(2.0),
    1.0,
)
differs(
    "weak or strong argument", lambda x, y: x, lambda x, y: jnp.float32(x), 1.0, 1.0
)


# ---- functions that were traced at another weak type than they are given -------------


@jax.custom_jvp
def times(n: Any, x: Any) -> Any:
    return x * n


@times.defjvp
def _(primals: Any, tangents: Any) -> Any:
    n, _ = primals
    is_weak = (jnp.full((), 1, np.int8) * n).dtype == np.int8
    return times(*primals), tangents[1] * n * (2 if is_weak else 5)


def evaluated(function: Any, traced: Any) -> Any:
    """Trace a function at the type of a number, and evaluate it at another one."""
    jaxpr = jax.make_jaxpr(jax.jit(function))(traced, X)
    return lambda n, x: jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, n, x)[0]


def pulling_back(function: Any) -> Any:
    """A function whose backward rule calls another one."""

    @jax.custom_vjp
    def f(n: Any, x: Any) -> Any:
        return x * 2

    f.defvjp(lambda n, x: (f(n, x), n), lambda n, ct: (None, function(n, ct)))
    return f


for _what, _wrap in (("", lambda f: f), (" in a backward rule", pulling_back)):
    for _given in (3, np.int32(3)):
        _is = "strong" if isinstance(_given, np.int32) else "weak"
        differs(
            f"a call traced at a weak or a strong number, given a {_is} one{_what}",
            *[_wrap(evaluated(times, n)) for n in (3, np.int32(3))],
            _given,
            X,
            because="a derivative rule in the call sees the type",
        )
        regrouped(
            f"a call that rounds a weak or a strong number, given a {_is} one{_what}",
            *[_wrap(evaluated(lambda n, x: x * n, n)) for n in (3, np.int32(3))],
            _given,
            X,
            because="the function in the call has another type",
        )

differs(
    "weak type of a result",
    lambda x: lax.full_like(x, 0),
    lambda x: jnp.zeros((), x.dtype),
    1.0,
    because="weak types differ",
)
differs(
    "constant, one element",
    having(X),
    having(np.concatenate([X[:3], [NEXT]]).astype(np.float32)),
    because="the bits differ",
)
differs(
    "constant, order of elements",
    having(X),
    having(X[::-1]),
    because="the values differ",
)
differs(
    "constant, dtype with the same bits",
    lambda x: x * jnp.asarray(X.view(np.int32)),
    lambda x: x * jnp.asarray(X.view(np.uint32)),
)
differs(
    "constant, shape with the same bits",
    lambda x: jnp.asarray(X).reshape(-1) + 0 * jnp.asarray(M[0]).sum(),
    lambda x: jnp.asarray(X[None]).reshape(-1) + 0 * jnp.asarray(M[0]).sum(),
)
differs(
    "constant, bool or int8",
    lambda x: jnp.asarray(X > 0).sum() + x,
    lambda x: jnp.asarray((X > 0).astype(np.int8)).sum() + x,
)
differs(
    "constant, bfloat16 or float16",
    lambda x: x * jnp.asarray(X, jnp.bfloat16),
    lambda x: x * jnp.asarray(X, jnp.float16),
)
differs(
    "constant, float8 types",
    lambda x: x * jnp.asarray(X, jnp.float8_e4m3fn).astype(np.float32),
    lambda x: x * jnp.asarray(X, jnp.float8_e5m2).astype(np.float32),
)
differs(
    "constant, int4 or uint4",
    lambda x: x + jnp.asarray([1, 2, 3, 4], jnp.int4).astype(np.float32),
    lambda x: x + jnp.asarray([1, 2, 3, 4], jnp.uint4).astype(np.float32),
)
differs(
    "constants, which is used where",
    *[
        (lambda x, a=jnp.asarray(X), b=jnp.asarray(Y), i=i: (a, b)[i] * x + (b, a)[i])
        for i in (0, 1)
    ],
    because="the constants change places",
)
differs("constant that is a result", *[lambda x, a=jnp.asarray(a): a for a in (X, Y)])
differs(
    "constant in a branch",
    *[
        lambda x, a=jnp.asarray(a): lax.cond(x[0] > 0, lambda: x * a, lambda: x)
        for a in (X, Y)
    ],
)
differs(
    "constant in a call",
    *[lambda x, a=jnp.asarray(a): jax.jit(lambda x: x * a)(x) for a in (X, Y)],
)
differs("constant key, bits", key(0), key(1))
differs("constant key, implementation", key(0), key(0, impl="rbg"))
differs(
    "constant key, rbg or unsafe_rbg", key(0, impl="rbg"), key(0, impl="unsafe_rbg")
)
differs(
    "constant on another device",
    *[lambda x, a=jax.device_put(X, d): a for d in jax.devices()[:2]],
)
PAIR = jax.make_mesh(
    (2,), ("a",), (jax.sharding.AxisType.Auto,), devices=jax.devices()[:2]
)
differs(
    "constant in another memory of its device",
    *[
        lambda x, a=jax.device_put(X, jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind=k)): (
            a
        )
        for k in ("device", "unpinned_host")
    ],
)
differs(
    "constant on several devices",
    *[
        lambda x, a=jax.device_put(X, jax.NamedSharding(PAIR, jax.P(p))): a
        for p in ("a", None)
    ],
)


# ---- refs ------------------------------------------------------------------------------


def ref(value: Any = X) -> Any:
    return jax.new_ref(jnp.asarray(value))


def writing(*refs: Any) -> Any:
    """A program that writes to one of several refs that it closes over."""

    def f(x: Any) -> Any:
        for i, r in enumerate(refs):
            r[...] = x * (i + 2.0)
        return x + 1.0

    return f


A, B, C = ref(), ref(), ref(Y)
differs(
    "which of two equal refs is written",
    writing(A),
    writing(B),
    because="another ref changes",
)
differs(
    "which of two refs is written",
    writing(A),
    writing(C),
    because="another ref changes",
)
differs(
    "order of writes to two refs",
    writing(A, B),
    writing(B, A),
    because="the refs get each other's values",
)
differs(
    "one ref written twice or two refs",
    writing(A, A),
    writing(A, B),
    because="another ref changes",
)
differs(
    "which of two equal refs is read",
    lambda x: x * A[...],
    lambda x: x * B[...],
    because="the refs may get other contents",
)
differs(
    "which ref is read after a write",
    lambda x: (A.__setitem__(..., x), A[...])[1],
    lambda x: (A.__setitem__(..., x), B[...])[1],
)
differs(
    "which ref is read after both are used",
    lambda x: (A.__setitem__(..., x), B.__setitem__(..., x * 2), A[...])[2],
    lambda x: (A.__setitem__(..., x), B.__setitem__(..., x * 2), B[...])[2],
)
differs("content of a ref", lambda x: x * A[...], lambda x: x * C[...])
differs("ref or array", lambda x: x * A[...], lambda x: x * jnp.asarray(X))
