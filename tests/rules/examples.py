"""Programs that reach the rules of the table: one line per rule or family of rules.

`example(primitive, function, *args)` says that tracing the function at these arguments
gives an equation of that primitive for a rule to print. Names like `f32(3)` stand for
abstract arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

EXAMPLES: list[Example] = []

NEWER = frozenset(["log2", "one_minus_square", "polynomial"])
"""Primitives that the oldest supported JAX does not have."""

NEWER_PARAMS = frozenset(
    [
        "jax.lax.erfc({0}, accuracy={accuracy})",
        "jax.lax.reduce_max({0}, {axes}, out_sharding={out_sharding})",
        "jax.lax.reduce_min({0}, {axes}, out_sharding={out_sharding})",
        "jax.lax.top_k({0}, {k}, axis={axis}, is_stable={is_stable})",
    ]
)
"""Templates with a param that the oldest supported JAX does not have."""

IS_NEW = hasattr(lax, "log2")


@dataclass(frozen=True)
class Example:
    """A program with an equation of `primitive` in it."""

    primitive: str
    function: Callable[..., Any]
    args: tuple[Any, ...]
    is_x32: bool = False


def example(
    primitive: str, function: Callable[..., Any], *args: Any, is_x32: bool = False
) -> None:
    """Add a program; one that is `is_x32` does not trace where 64 bits are enabled."""
    EXAMPLES.append(Example(primitive, function, args, is_x32))


def array(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
    """Describe an array."""
    return jax.ShapeDtypeStruct(shape, dtype)


f32, f16, bf16, c64, i32, i8, u32, u8, pred = (
    partial(array, dtype)
    for dtype in (
        jnp.float32,
        jnp.float16,
        jnp.bfloat16,
        jnp.complex64,
        jnp.int32,
        jnp.int8,
        jnp.uint32,
        jnp.uint8,
        jnp.bool_,
    )
)
key = partial(array, jax.eval_shape(lambda: jax.random.key(0)).dtype)
HIGH = lax.AccuracyMode.HIGHEST

# ---- elementwise: the operator or jnp function, then with a weak literal, which only
# jax.lax leaves as it is

for name in [
    "add",
    "sub",
    "mul",
    "div",
    "max",
    "min",
    "pow",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "nextafter",
    "atan2",
]:
    f = getattr(lax, name)
    example(name, f, f32(3), f32(3))
    example(name, lambda x, f=f: f(x, 2.5), f32(3), is_x32=True)
    example(name, lambda x, f=f: f(2.5, x), f32(), is_x32=True)
    example(name, lambda x, f=f: f(2.5, x), 1.5)
    example(name, lambda x, f=f: f(x, jnp.float32(2)), f32(3))
for name in [
    "add",
    "sub",
    "mul",
    "max",
    "min",
    "rem",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
]:
    example(name, getattr(lax, name), i32(3), i32(3))
    example(name, getattr(lax, name), 2, 3)
for name, operator in dict(add="+", sub="-", mul="*", div="/", eq="==", lt="<").items():
    example(name, eval(f"lambda x: x {operator} 0.1"), f32(3))
    example(name, eval(f"lambda x: 0.1 {operator} x"), bf16(2, 3))
    example(name, eval(f"lambda x: x {operator} float('nan')"), f32(3))
for name in ["neg", "abs", "sign", "square", "integer_pow"]:
    f = getattr(lax, name)
    given = (2,) if name == "integer_pow" else ()
    for operand in (f32(3), i32(), c64(2), bf16(), 2.0):
        example(name, lambda x, f=f, given=given: f(x, *given), operand)
    example(name, lambda f=f, given=given: f(2.5, *given))
example("integer_pow", lambda x: lax.integer_pow(x, -3), f32(3))
example("pow", lambda x: x**2.5, f32(3))
example("pow", lambda x: 2.5**x, f32(3))
example("pow", lambda x: (-1.0) ** x, f32(3))
example("mul", lambda x, y: lax.mul(x, y, out_dtype=jnp.float32), bf16(3), bf16(3))
example("mul", lambda x: x * jnp.uint32(3000000000), u32(3))
example("mul", lambda x: lax.mul(x, x, out_dtype=jnp.dtype("float32")), bf16(3))
example("dot_general", lambda x: lax.dot(x, x), array(jnp.float64, 3, 3))
example("mulhi", lax.mulhi, u32(3), u32(3))
example("mul", lambda x, s: x * s, f32(2, 3), f32())
example("add", lambda x, s: lax.add(x, s), f32(2, 3), f32())
example("sub", lambda x: 1.0 - x, 2.0)
example("max", lambda x: jnp.maximum(x, 0), i32(3))
example("eq", lambda x: x == True, pred(3))  # noqa: E712
example("eq", lambda k: lax.eq(k, k), key(3))
example("select_n", lax.select, pred(3), f32(3), f32(3))
example("select_n", lax.select, pred(), f32(3), f32(3))
example("select_n", lambda i, x: lax.select_n(i, x, x, x), i32(), f32(3))
example("clamp", lambda x: lax.clamp(0.0, x, 1.0), f32(3), is_x32=True)
example("is_finite", lax.is_finite, f32(3))
for name, primitive in (
    ("bitwise_and", "and"),
    ("bitwise_or", "or"),
    ("bitwise_xor", "xor"),
    ("shift_left", "shift_left"),
    ("shift_right_arithmetic", "shift_right_arithmetic"),
    ("shift_right_logical", "shift_right_logical"),
):
    for dtype in (i32, u32, i8, u8):
        example(primitive, getattr(lax, name), dtype(3), dtype(3))
    f = getattr(lax, name)
    example(primitive, lambda x, f=f: f(x, jnp.int32(1)), i32(3))
    example(primitive, lambda x, y, f=f: f(x, y), i32(3), i32())
example("and", lambda x, y: x & y, pred(3), pred(3))
example("or", lambda x: x | 1, u8(3))
for operand in (pred(3), u8(3)):
    example("not", lax.bitwise_not, operand)
for name in ["population_count", "clz"]:
    example(name, getattr(lax, name), u32(3))
for name in ["floor", "ceil", "round"]:
    example(name, getattr(lax, name), f32(3))
example("round", lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN), f32(3))
for name in ["real", "imag", "conj"]:
    example(name, getattr(lax, name), c64(3))
example("conj", lax.conj, f32(3))
example("complex", lax.complex, f32(3), f32(3))
example("reduce_precision", lambda x: lax.reduce_precision(x, 5, 10), f32(3))
ACCURATE = "sin cos tan tanh exp exp2 expm1 log log1p sqrt cbrt rsqrt logistic"
for name in ACCURATE.split():
    example(name, partial(getattr(lax, name), accuracy=HIGH), f32(3))
for name in f"{ACCURATE} sinh cosh asin acos atan asinh acosh atanh".split():
    example(name, getattr(lax, name), f32(3))
    if name != "cbrt":
        example(name, getattr(lax, name), c64())
    example(name, getattr(lax, name), 0.5)
for name in ["erf", "erfc", "erf_inv", "lgamma", "digamma", "bessel_i0e", "bessel_i1e"]:
    example(name, getattr(lax, name), f32(3))
for name in ["igamma", "igammac", "igamma_grad_a", "zeta", "polygamma"]:
    example(name, getattr(lax, name), f32(3), f32(3))
example("regularized_incomplete_beta", lax.betainc, f32(3), f32(3), f32(3))
example("stop_gradient", lax.stop_gradient, f32(3))
example("copy", jnp.copy, f32(3))

if IS_NEW:
    for operand in (f32(3), 2.0):
        example("log2", lax.log2, operand)
    example("log2", lambda x: lax.log2(x, accuracy=HIGH), f32(3))
    example("erfc", lambda x: lax.erfc(x, accuracy=HIGH), f32(3))
    example("one_minus_square", lax.one_minus_square, f32(3))
    for n in range(2, 8):
        example("polynomial", lambda x, n=n: lax.polynomial(x, [x] * n), f32(3))
    example("top_k", lambda x: lax.top_k(x, 2, is_stable=False), f32(3))

# ---- making arrays and changing types

for dtype in [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bfloat16",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]:
    example("broadcast_in_dim", lambda d=dtype: jnp.zeros((3, 4), d))
    example("broadcast_in_dim", lambda d=dtype: jnp.ones(3, d))
example("broadcast_in_dim", lambda: jnp.full((3, 4), -0.0))
example("broadcast_in_dim", lambda: lax.full((3, 4), 2.5))
example("broadcast_in_dim", lambda: jnp.full((3,), 7, jnp.uint8))
example("broadcast_in_dim", lambda x: jnp.broadcast_to(x, (2, 3)), f32(3))
example("broadcast_in_dim", lambda x: jnp.broadcast_to(x, (2, 3)), f32())
for axis in range(6):
    whole = f32(1, 2, 3, 4, 5)
    example("broadcast_in_dim", partial(lax.expand_dims, dimensions=(axis,)), whole)
example("broadcast_in_dim", lambda x: lax.broadcast_in_dim(x, (3, 4), (0,)), f32(3))
example("iota", lambda: jnp.arange(5))
example("iota", lambda: lax.iota(jnp.uint8, 5))
example("iota", lambda: lax.broadcasted_iota(jnp.float32, (3, 4), 1))
example("empty", lambda: lax.empty((3,), jnp.float32))
example("convert_element_type", lambda x: x.astype(jnp.float32), i32(3))
example(
    "convert_element_type", lambda x: lax.convert_element_type(x, jnp.bool_), c64(3)
)
example("convert_element_type", lambda x: jnp.asarray(x, jnp.float32), 1.0)
example(
    "bitcast_convert_type", partial(lax.bitcast_convert_type, new_dtype="int32"), f32(3)
)

# ---- shapes

example("reshape", lambda x: x.reshape(-1), f32(2, 3))
example("reshape", lambda x: x.reshape(3, 2), f32(2, 3))
example("reshape", lambda x: lax.reshape(x, (6,), (1, 0)), f32(2, 3))
example("transpose", lambda x: x.T, f32(2, 3))
example("transpose", lambda x: x.transpose(0, 2, 1), f32(2, 3, 4))
example("squeeze", lambda x: jnp.squeeze(x), f32(1, 3, 1))
example("rev", lambda x: x[::-1], f32(3))
example("tile", lambda x: lax.tile(x, (2,)), f32(3))
example("concatenate", lambda x: jnp.concatenate([x, x]), f32(3))
example("concatenate", lambda x: jnp.concatenate([x, x], axis=1), f32(3, 4))
example("stack", lambda x: lax.stack([x, x], axis=1), f32(3))
example("unstack", lambda x: lax.unstack(x, axis=1), f32(3, 2))
example("split", lambda x: lax.split(x, (1, 2)), f32(3))
example("split", lambda x: lax.split(x, (1, 2), axis=1), f32(2, 3))
example("pad", lambda x: lax.pad(x, jnp.float32(0), [(1, 2, 0)]), f32(3))

# ---- slices, gather, scatter

for axis in range(6):
    whole = f32(*([1] * axis), 5)
    example(
        "slice",
        partial(lax.slice_in_dim, start_index=1, limit_index=3, axis=axis),
        whole,
    )
    example(
        "slice",
        partial(lax.slice_in_dim, start_index=1, limit_index=5, stride=2, axis=axis),
        whole,
    )
    example(
        "slice",
        lambda x: lax.slice(x, (0,) * (x.ndim - 1) + (1,), (*x.shape[:-1], 3)),
        whole,
    )
example("slice", lambda x: lax.slice(x, (1, 1), (2, 2)), f32(3, 3))
example("slice", lambda x: lax.slice(x, (0, 0), (3, 3), (2, 2)), f32(3, 3))
for n in range(1, 8):
    ones = (1,) * n
    whole, starts = f32(*[2] * n), [i32()] * n
    example(
        "dynamic_slice",
        lambda x, *i, s=ones: lax.dynamic_slice(x, i, s, allow_negative_indices=False),
        whole,
        *starts,
    )
    example(
        "dynamic_update_slice",
        lambda x, *i: lax.dynamic_update_slice(x, x, i, allow_negative_indices=False),
        whole,
        *starts,
    )
example("gather", lambda x, i: x.at[i].get(mode="clip"), f32(3), i32(2))
example("gather", lambda x, i: x[i], f32(3), i32(2))
example("gather", lambda x, i: x.at[i].get(mode="fill", fill_value=2.0), f32(3), i32(2))
example("gather", lambda x, i: x.at[i].get(unique_indices=True), f32(3), i32(2))
for name, method in (
    ("scatter", "set"),
    ("scatter-add", "add"),
    ("scatter-sub", "subtract"),
    ("scatter-mul", "multiply"),
    ("scatter-min", "min"),
    ("scatter-max", "max"),
):
    example(name, lambda x, i, m=method: getattr(x.at[i], m)(2.0), f32(3), i32(2))
    example(
        name,
        lambda x, i, m=method: getattr(x.at[i], m)(2.0, unique_indices=True),
        f32(3),
        i32(2),
    )
example("scatter", lambda x: x.at[0].apply(jnp.sin), f32(3))
example("optimization_barrier", lambda x: lax.optimization_barrier((x, x)), f32(3))
example("optimization_barrier", lambda x: lax.optimization_barrier(x), f32(3))

# ---- reductions, sorting, contractions

for name in ["sum", "prod", "max", "min"]:
    reduction = getattr(lax, f"reduce_{name}")
    example(f"reduce_{name}", partial(reduction, axes=(0, 1)), f32(2, 3))
    example(f"reduce_{name}", partial(reduction, axes=(1,)), i32(2, 3))
    example(f"reduce_{name}", partial(reduction, axes=(0, 2)), f32(2, 3, 4))
    example(f"reduce_{name}", partial(reduction, axes=(0,)), bf16(2, 3))
    example(f"reduce_{name}", partial(reduction, axes=(0,)), i8(2, 3))
    example(f"reduce_{name}", partial(reduction, axes=()), f32(2))
for name in ["and", "or", "xor"]:
    for operand in (i32(3, 3), *([pred(3, 3)] if name != "xor" else [])):
        example(
            f"reduce_{name}",
            partial(getattr(lax, f"reduce_{name}"), axes=(0,)),
            operand,
        )
        example(
            f"reduce_{name}",
            partial(getattr(lax, f"reduce_{name}"), axes=(0, 1)),
            operand,
        )
for name in ["argmax", "argmin"]:
    example(name, partial(getattr(jnp, name), axis=1), f32(2, 3))
    example(name, partial(getattr(lax, name), axis=0, index_dtype=jnp.uint8), f32(2, 3))
for name in ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]:
    example(name, partial(getattr(lax, name), axis=1), f32(2, 3))
    example(name, partial(getattr(lax, name), axis=0, reverse=True), f32(2, 3))
for dilation in ((1, 1), (2, 1)):
    for start, combine, operand, name in (
        (0.0, lax.add, f32(4, 6), "sum"),
        (0, lax.add, i32(4, 6), "sum"),
        (-jnp.inf, lax.max, bf16(4, 6), "max"),
        (jnp.inf, lax.min, f32(4, 6), "min"),
    ):
        example(
            f"reduce_window_{name}",
            lambda x, s=start, c=combine, d=dilation: lax.reduce_window(
                x,
                x.dtype.type(s),
                c,
                (2, 2),
                (1, 1),
                "VALID",
                window_dilation=d,
            ),
            operand,
        )
example("sort", lambda x: lax.sort(x), f32(3))
example("sort", lambda x: lax.sort(x, is_stable=False), f32(3))
example("sort", lambda x: lax.sort((x, x)), f32(3))
example("sort", lambda x: lax.sort((x, x), num_keys=2, is_stable=False), f32(3))
example("top_k", lambda x: lax.top_k(x, 2), f32(3))
example("approx_top_k", lambda x: lax.approx_max_k(x, 2), f32(3))
example("approx_top_k", lambda x: lax.approx_min_k(x, 2), f32(3))
example("dot_general", lambda x, y: x @ y, f32(2, 3), f32(3, 4))
example("dot_general", lambda x, y: x @ y, f32(3), f32(3))
example(
    "dot_general",
    lambda x, y: jnp.matmul(x, y, precision="highest"),
    f32(2, 3),
    f32(3, 4),
)
example("dot_general", lambda x, y: lax.dot(x, y), f32(2, 3), f32(3, 4))
example(
    "dot_general", lambda x, y: lax.dot(x, y, precision="highest"), f32(2, 3), f32(3, 4)
)
example(
    "dot_general", lambda x, y: jnp.einsum("ij,kj->ik", x, y), bf16(2, 3), bf16(4, 3)
)
RAGGED = (f32(6, 3), f32(2, 3, 4), i32(2))
example("ragged_dot_general", lax.ragged_dot, *RAGGED)
example(
    "ragged_dot_general",
    partial(lax.ragged_dot, preferred_element_type=jnp.float32),
    *RAGGED,
)
IMAGE, FILTER = f32(1, 2, 8, 8), f32(4, 2, 3, 3)
conv = partial(lax.conv_general_dilated, window_strides=(1, 1), padding="SAME")
example("conv_general_dilated", conv, IMAGE, FILTER)
example(
    "conv_general_dilated", partial(conv, feature_group_count=2), IMAGE, f32(4, 1, 3, 3)
)
example("conv_general_dilated", partial(conv, precision="highest"), IMAGE, FILTER)
example(
    "conv_general_dilated",
    partial(conv, preferred_element_type=jnp.float32),
    IMAGE,
    FILTER,
)

# ---- random numbers, linear algebra, the rest

example("random_seed", lambda seed: jax.random.key(seed), u32())
example("random_wrap", lambda x: jax.random.wrap_key_data(x, impl="rbg"), u32(4))
example("random_unwrap", jax.random.key_data, key(3))
example("random_split", jax.random.split, key())
example("random_split", lambda k: jax.random.split(k, (2, 3)), key())
example("random_fold_in", jax.random.fold_in, key(), u32())
example("random_clone", jax.random.clone, key())
for width in (8, 16, 32, 64):
    example(
        "random_bits", lambda k, w=width: jax.random.bits(k, (3,), f"uint{w}"), key()
    )
example("rng_bit_generator", lambda k: lax.rng_bit_generator(k, (3,)), u32(4))
SQUARE = f32(4, 4)
example("lu", lax.linalg.lu, SQUARE)
example("qr", lax.linalg.qr, SQUARE)
example("svd", lambda x: lax.linalg.svd(x, compute_uv=False), SQUARE)
example("eig", lax.linalg.eig, SQUARE)
example("schur", lax.linalg.schur, SQUARE)
example("hessenberg", lax.linalg.hessenberg, SQUARE)
example("householder_product", lax.linalg.householder_product, SQUARE, f32(4))
example("ormqr", lax.linalg.ormqr, SQUARE, f32(4), SQUARE)
example("tridiagonal", lax.linalg.tridiagonal, SQUARE)
DIAGONALS = (f32(4), f32(4), f32(4), f32(4, 1))
example("tridiagonal_solve", lax.linalg.tridiagonal_solve, *DIAGONALS)
example(
    "tridiagonal_solve",
    partial(lax.linalg.tridiagonal_solve, perturb_singular=True),
    *DIAGONALS,
)
example("triangular_solve", lax.linalg.triangular_solve, SQUARE, SQUARE)
example(
    "lu_pivots_to_permutation",
    lambda p: lax.linalg.lu_pivots_to_permutation(p, 6),
    i32(4),
)
example("cholesky_update", lax.linalg.cholesky_update, SQUARE, f32(4))
example("symmetric_product", lax.linalg.symmetric_product, SQUARE, SQUARE)
example("create_token", lambda: lax.create_token())
example("after_all", lambda: lax.after_all(lax.create_token(), lax.create_token()))
example("dce_sink", lax.dce_sink, f32(3))
