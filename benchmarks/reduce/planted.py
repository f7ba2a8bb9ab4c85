"""Primitives with planted defects: their CPU lowering fails under one condition each.

Every primitive computes something sensible, has abstract evaluation, batching and
derivatives, and works until its condition is met. All are module-level and called
`<name>_p`, so that generated source can import them; the functions bind them.

| primitive        | fails                | if                                       |
|------------------|----------------------|------------------------------------------|
| `fused_scale_p`  | raises at lowering   | the last axis has 17 elements            |
| `fast_gelu_p`    | aborts at lowering   | bfloat16, last axis no multiple of 8     |
| `tiled_softmax_p`| raises at compile    | 4,096 or more elements                   |
| `fused_bias_p`   | raises at lowering   | its operand is a transposition           |
| `paged_copy_p`   | aborts at lowering   | it stands in the body of a while loop    |
| `offload_p`      | raises at lowering   | it stands in a checkpoint                |
| `table_read_p`   | segfaults at run time| a value is negative                      |
| `checked_rate_p` | raises at run time   | a value exceeds 1,000                    |
| `batch_stats_p`  | aborts at run time   | the first axis has more than 12 elements |
"""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir


def fused_scale(x: Array, scale: float = 0.5) -> Array:
    """Multiply by a constant."""
    return fused_scale_p.bind(x, scale=float(scale))


def fast_gelu(x: Array) -> Array:
    """Approximate the Gaussian error linear unit."""
    return fast_gelu_p.bind(x)


def tiled_softmax(x: Array) -> Array:
    """Normalise exponentials over the last axis."""
    return tiled_softmax_p.bind(x)


def fused_bias(x: Array, bias: float = 0.0) -> Array:
    """Add a constant."""
    return fused_bias_p.bind(x, bias=float(bias))


def paged_copy(x: Array) -> Array:
    """Copy an array."""
    return paged_copy_p.bind(x)


def offload(x: Array) -> Array:
    """Mark an array as one to be kept in host memory."""
    return offload_p.bind(x)


def table_read(x: Array) -> Array:
    """Round to the nearest entry of a table of multiples of 1/256, on the host."""
    return table_read_p.bind(x)


def checked_rate(x: Array) -> Array:
    """Return rates unchanged, having checked them on the host."""
    return checked_rate_p.bind(x)


def batch_stats(x: Array) -> Array:
    """Return a batch unchanged, having recorded it on the host."""
    return batch_stats_p.bind(x)


# What they compute, in plain JAX.


def _scaled(x: Array, *, scale: float) -> Array:
    return x * jnp.asarray(scale, x.dtype)


def _gelu(x: Array) -> Array:
    return x * jax.nn.sigmoid(jnp.asarray(1.702, x.dtype) * x)


def _softmax(x: Array) -> Array:
    exps = jnp.exp(x - x.max(-1, keepdims=True))
    return exps / exps.sum(-1, keepdims=True)


def _biased(x: Array, *, bias: float) -> Array:
    return x + jnp.asarray(bias, x.dtype)


def _copied(x: Array) -> Array:
    return x + jnp.zeros((), x.dtype)


def _on_host(function: Callable[[np.ndarray], np.ndarray], x: Array) -> Array:
    return jax.pure_callback(function, jax.ShapeDtypeStruct(x.shape, x.dtype), x)


def _read(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    if (x < 0).any():
        ctypes.string_at(8)  # the address of an entry before the table
    return (np.round(x * 256) / 256).astype(x.dtype)


def _check(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    if (x > 1000).any():
        raise ValueError(f"rate {x.max():.6g} exceeds the limit of 1000")
    return x


def _record(x: np.ndarray) -> np.ndarray:
    x = np.asarray(x)
    if x.ndim and len(x) > 12:
        _abort(f"planted_runtime.cc:88] Check failed: rows <= 12 ({len(x)} vs. 12)")
    return x


# When their lowering fails.


def _no_seventeen(ctx: Any, x: Any) -> None:
    (aval,) = ctx.avals_in
    if aval.shape and aval.shape[-1] == 17:
        raise NotImplementedError(
            f"fused_scale: no kernel for a last axis of 17, shape {aval.shape}"
        )


def _aligned_lanes(ctx: Any, x: Any) -> None:
    (aval,) = ctx.avals_in
    lanes = aval.shape[-1] if aval.shape else 1
    if aval.dtype == jnp.bfloat16 and lanes % 8:
        _abort(f"fast_gelu.cc:214] Check failed: lanes % 8 == 0 ({lanes % 8} vs. 0)")


def _not_transposed(ctx: Any, x: Any) -> None:
    producer = getattr(x.owner, "name", "")  # an argument's owner is a block
    if producer == "stablehlo.transpose":
        raise ValueError("fused_bias: operand has layout {0,1}, expected {1,0}")


def _outside_loops(ctx: Any, x: Any) -> None:
    if "while/body" in str(ctx.name_stack):
        _abort("paged_copy.cc:57] Check failed: !builder->in_region()")


def _outside_checkpoints(ctx: Any, x: Any) -> None:
    if "checkpoint" in str(ctx.name_stack):
        raise RuntimeError("offload: memory space is assigned twice")


def _anything(ctx: Any, x: Any) -> None:
    del ctx, x


def _abort(message: str) -> None:
    os.write(2, f"F0000 00:00:00.000000 {os.getpid()} {message}\n".encode())
    os.abort()


def _declare(
    name: str,
    compute: Callable[..., Array],
    check: Callable[[Any, Any], None] = _anything,
    tangent: Callable[..., Array] | None = None,
) -> Primitive:
    """Make a primitive of one operand whose result has the same type.

    Args:
      name: What it is called.
      compute: What it computes.
      check: Called at lowering with its context and operand; may fail.
      tangent: Differentiable stand-in for `compute`, if that calls the host.
    """
    primitive = Primitive(name)
    primitive.def_impl(lambda x, **params: _compiled(primitive, **params)(x))
    primitive.def_abstract_eval(
        lambda x, **params: jax.core.ShapedArray(x.shape, x.dtype)
    )

    def lower(ctx: Any, x: Any, **params: Any) -> Any:
        check(ctx, x)
        return mlir.lower_fun(compute, multiple_results=False)(ctx, x, **params)

    def derive(primals: Any, tangents: Any, **params: Any) -> tuple[Array, Any]:
        out = primitive.bind(*primals, **params)
        seeds = tuple(map(ad.instantiate_zeros, tangents))
        rule = partial(tangent or compute, **params)
        return out, jax.jvp(rule, tuple(primals), seeds)[1]

    mlir.register_lowering(primitive, lower, platform="cpu", cacheable=False)
    ad.primitive_jvps[primitive] = derive
    batching.primitive_batchers[primitive] = lambda args, dims, **params: (
        primitive.bind(jnp.moveaxis(args[0], dims[0], 0), **params),
        0,
    )
    return primitive


def _compiled(primitive: Primitive, **params: Any) -> Callable[[Array], Array]:
    return jax.jit(lambda x: primitive.bind(x, **params))


def _identity(x: Array) -> Array:
    return x


fused_scale_p = _declare("fused_scale", _scaled, _no_seventeen)
fast_gelu_p = _declare("fast_gelu", _gelu, _aligned_lanes)
fused_bias_p = _declare("fused_bias", _biased, _not_transposed)
paged_copy_p = _declare("paged_copy", _copied, _outside_loops)
offload_p = _declare("offload", _copied, _outside_checkpoints)
table_read_p = _declare("table_read", partial(_on_host, _read), tangent=_identity)
checked_rate_p = _declare("checked_rate", partial(_on_host, _check), tangent=_identity)
batch_stats_p = _declare("batch_stats", partial(_on_host, _record), tangent=_identity)


# A kernel that the compiler does not know: small arrays do not need it.


def _lower_softmax(ctx: Any, x: Any) -> Any:
    (aval,) = ctx.avals_in
    if math.prod(aval.shape) < 4096:
        return mlir.lower_fun(_softmax, multiple_results=False)(ctx, x)
    return jax.ffi.ffi_lowering("planted_tiled_softmax")(ctx, x)


tiled_softmax_p = _declare("tiled_softmax", _softmax)
mlir.register_lowering(tiled_softmax_p, _lower_softmax, platform="cpu")
