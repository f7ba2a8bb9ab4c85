"""Varied functions with their arguments: one line per feature that jaxprs can have."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec

X = np.linspace(-1.0, 1.0, 4, dtype=np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
INDICES = np.arange(4, dtype=np.int32)
TABLE = np.arange(4, dtype=np.float32) + 0.5
POLICY = jax.checkpoint_policies.save_only_these_names("kept")


@jax.custom_jvp
def square(x: Any) -> Any:
    return x * x


@square.defjvp
def _square_jvp(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return square(x), 2.0 * square(x) * t


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def power(x: Any, n: int) -> Any:
    return x**n


@power.defjvp
def _power_jvp(n: int, primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return power(x, n), n * power(x, n - 1) * t if n > 0 else t * 0.0


@jax.custom_vjp
def clipped(x: Any, y: Any) -> Any:
    return jnp.sin(x) * y


clipped.defvjp(
    lambda x, y: (clipped(x, y), (jnp.cos(x), y)),
    lambda res, ct: (ct * res[0] * res[1], jnp.clip(ct, -1.0, 1.0) - res[0]),
)


@jax.custom_vjp
def gather(x: Any, i: Any) -> Any:
    return x[i]


def _gather_bwd(res: Any, ct: Any) -> Any:
    x, i = res
    return jnp.zeros_like(x).at[i].add(ct), None


gather.defvjp(lambda x, i: (x[i], (x, i)), _gather_bwd)


@jax.custom_vjp
def lazy(x: Any, y: Any) -> Any:
    return x * y, x - y


def _lazy_fwd(x: Any, y: Any) -> Any:
    return lazy(x.value, y.value), (x.value, y.value)


def _lazy_bwd(res: Any, cts: Any) -> Any:
    first = cts[0]
    zero = jax.custom_derivatives.SymbolicZero
    return (None if isinstance(first, zero) else first * res[1]), None


lazy.defvjp(_lazy_fwd, _lazy_bwd, symbolic_zeros=True)


def captured_rule(x: Any, y: Any) -> Any:
    """A rule that closes over a traced value."""
    scale = jnp.exp(y)

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * scale))
    return jax.jit(f)(x) + scale


def nested(x: Any) -> Any:
    """Every kind of control flow inside another."""

    def body(carry: Any, row: Any) -> Any:
        carry = lax.cond(
            row.sum() > 0,
            lambda c: lax.while_loop(lambda v: v.sum() < 9, lambda v: v * 2 + 1, c),
            lambda c: jnp.tanh(c) - row,
            carry,
        )
        return carry, carry * row

    return lax.scan(body, x, M, reverse=True)


def mlp(w: Any, x: Any) -> Any:
    return jnp.sum(jnp.tanh(x @ w.T) ** 2)


def kernel(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2.0 + 1.0


def pallas(x: Any) -> Any:
    spec = pl.BlockSpec((2,), lambda i: (i,))
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(
        kernel, shape, grid=(2,), in_specs=[spec], out_specs=spec, interpret=True
    )
    return call(x) - 1.0


def refs(x: Any) -> Any:
    ref = jax.new_ref(x)
    ref[0] = 2.0
    ref[1:3] += 1.0
    return ref[...] * x


def sharded(x: Any) -> Any:
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("d")

    def body(x: Any) -> Any:
        return square(x) * lax.psum(x.sum(), "d") + lax.axis_index("d")

    return jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec)(x)


def sharded_rule(x: Any) -> Any:
    """A rule that uses an axis name."""
    mesh = jax.make_mesh((1,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("d")

    @jax.custom_jvp
    def f(x: Any) -> Any:
        return x * lax.axis_size("d")

    f.defjvp(lambda p, t: (f(*p), t[0] * lax.psum(1.0, "d")))
    return jax.shard_map(f, mesh=mesh, in_specs=spec, out_specs=spec)(x)


def host(x: Any) -> Any:
    shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
    y = jax.pure_callback(np.sin, shape, x)
    jax.debug.print("sum {s}", s=y.sum())
    jax.debug.callback(print, y)
    z = io_callback(np.cos, shape, y, ordered=True)
    return z + io_callback(np.tan, shape, y, ordered=True)


def keys(key: Any) -> Any:
    first, second = jax.random.split(key)
    return jax.random.normal(first, (4,)) + jax.random.uniform(second, (4,))


def solve(a: Any, b: Any) -> Any:
    return lax.custom_linear_solve(
        lambda v: a @ v,
        b,
        lambda matvec, b: jnp.linalg.solve(a, b),
        transpose_solve=lambda vecmat, b: jnp.linalg.solve(a.T, b),
    )


def remat(x: Any) -> Any:
    def block(x: Any) -> Any:
        y = checkpoint_name(jnp.sin(x), "kept")
        return jnp.cos(y) * jnp.exp(y)

    return jax.checkpoint(block, policy=POLICY)(x).sum()


def switch(i: Any, x: Any) -> Any:
    return lax.switch(i, [jnp.sin, jnp.cos, lambda v: v * 3.0], x)


def metadata(x: Any) -> Any:
    with jax.threefry_partitionable(False):
        y = jax.random.bits(jax.random.key(3), (4,))
    return y.astype(jnp.float32) * x


def constants(x: Any) -> Any:
    return x * TABLE + jnp.asarray(M)[1] - TABLE + np.float32(0.3)


def dead(x: Any) -> Any:
    unused = jnp.sin(x) * 3.0  # noqa: F841
    return x + 1.0


def jitted(x: Any) -> Any:
    inner = jax.jit(lambda v: jnp.where(v > 0, v, jnp.exp(v) - 1.0))
    return inner(x) * inner(x * 2.0)


def sub(x: Any, y: Any) -> Any:
    return x - y, y / x, x - y


KEY = jax.random.key(0)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "sin": (jnp.sin, (X,)),
    "sub": (sub, (X, X)),
    "weak": (lambda x: x * 2 + 1.5, (2.0,)),
    "nan": (lambda x: jnp.where(x > 0, x, jnp.nan) * -0.0, (X,)),
    "where": (lambda x: jnp.where(x > 0, x, -x), (X,)),
    "constants": (constants, (X,)),
    "dead": (dead, (X,)),
    "jitted": (jitted, (X,)),
    "mlp": (mlp, (M, X)),
    "softmax": (jax.nn.softmax, (M,)),
    "logsumexp": (jax.nn.logsumexp, (M,)),
    "gelu": (jax.nn.gelu, (X,)),
    "relu": (jax.nn.relu, (X,)),
    "einsum": (lambda a: jnp.einsum("ij,kj->ik", a, a), (M,)),
    "index": (lambda x, i: x[i] + x[::2].sum(), (X, INDICES)),
    "scatter": (lambda x, i: x.at[i].add(2.0).at[0].set(1.0), (X, INDICES)),
    "sort": (lambda x: lax.sort((x, x * 2), num_keys=1), (X,)),
    "top_k": (lambda x: lax.top_k(x, 2), (X,)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), (M,)),
    "reduce_window": (
        lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "SAME"),
        (M,),
    ),
    "reduce": (lambda x: lax.reduce(x, 1.0, lambda a, b: a * b + a, (0,)), (M,)),
    "conv": (lambda x: jnp.convolve(x, TABLE, mode="same"), (X,)),
    "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 0)), constant_values=3.0), (M,)),
    "concatenate": (lambda x, y: jnp.concatenate([x, y, x]), (X, TABLE)),
    "transpose": (lambda x: x.T.reshape(2, 6)[:, None], (M,)),
    "iota": (lambda x: lax.broadcasted_iota(jnp.int32, (3, 4), 1) + x, (INDICES,)),
    "astype": (lambda x: x.astype(jnp.bfloat16) * jnp.int8(3), (X,)),
    "complex": (lambda x: jnp.fft.rfft(x) * (1 - 2j), (X,)),
    "cholesky": (lambda a: jnp.linalg.cholesky(a @ a.T + jnp.eye(3)), (M,)),
    "svd": (lambda a: jnp.linalg.svd(a, full_matrices=False), (M,)),
    "clip": (lambda x: jnp.clip(x, -0.5, 0.5), (X,)),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.max(x, 0)), (M,)),
    "dynamic": (lambda x, i: lax.dynamic_slice(x, (i[0],), (2,)), (X, INDICES)),
    "nested": (nested, (X,)),
    "switch": (switch, (np.int32(1), X)),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, v: v * i + 1, x), (X,)),
    "map": (lambda x: lax.map(lambda r: jnp.sin(r) + x[0], x), (M,)),
    "associative": (lambda x: lax.associative_scan(jnp.maximum, x), (X,)),
    "custom_jvp": (square, (X,)),
    "custom_jvp_static": (lambda x: power(x, 3), (X,)),
    "custom_vjp": (clipped, (X, X)),
    "custom_vjp_int": (gather, (X, INDICES)),
    "custom_vjp_lazy": (lazy, (X, X)),
    "custom_vjp_vmap": (jax.vmap(clipped, (0, None)), (X, np.float32(2))),
    "custom_jvp_vmap": (jax.vmap(square), (M,)),
    "captured_rule": (captured_rule, (X, X)),
    "linearize": (lambda x: jax.linearize(nested, x)[0], (X,)),
    "grad_custom_vjp": (jax.grad(lambda x: clipped(x, x).sum()), (X,)),
    "remat": (remat, (X,)),
    "grad_remat": (jax.grad(remat), (X,)),
    "grad_mlp": (jax.value_and_grad(mlp), (M, X)),
    "hessian": (jax.hessian(lambda x: (jnp.sin(x) * x[0]).sum()), (X,)),
    "grad_scan": (
        jax.grad(lambda x: lax.scan(lambda c, r: (c * r, c), x, M)[1].sum()),
        (X,),
    ),
    "vmap_cond": (
        jax.vmap(lambda p, x: lax.cond(p > 0, jnp.sin, jnp.cos, x)),
        (INDICES, X),
    ),
    "vmap_while": (
        jax.vmap(lambda x: lax.while_loop(lambda v: v < 3, lambda v: v + 1, x)),
        (X,),
    ),
    "jvp": (lambda x: jax.jvp(jitted, (x,), (x,)), (X,)),
    "solve": (solve, (M[:, :3] + np.eye(3, dtype=np.float32), X[:3])),
    "grad_solve": (
        jax.grad(lambda a, b: solve(a, b).sum()),
        (np.eye(3, dtype=np.float32), X[:3]),
    ),
    "keys": (keys, (KEY,)),
    "key_const": (lambda x: jax.random.normal(KEY, (4,)) * x, (X,)),
    "metadata": (metadata, (X,)),
    "host": (host, (X,)),
    "refs": (refs, (X,)),
    "pallas": (pallas, (X,)),
    "sharded": (sharded, (X,)),
    "sharded_rule": (sharded_rule, (X,)),
    "platform": (
        lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos),
        (X,),
    ),
    "barrier": (lambda x: lax.optimization_barrier((x, x + 1)), (X,)),
}


def trace(name: str) -> Any:
    """Trace a program anew: nothing is taken from JAX's caches of this function."""
    function, args = PROGRAMS[name]
    return jax.make_jaxpr(lambda *args: function(*args))(*args)


def retrace(name: str) -> Any:
    """Trace a program with every cache of JAX emptied."""
    jax.clear_caches()
    return trace(name)
