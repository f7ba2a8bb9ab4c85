"""Params of the primitives that people call: one line for each that changes."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.lax import GatherScatterMode as Mode

from tests.verification.attacks.pairs import I, M, S, X, Y, differs, regrouped

C3 = np.arange(48, dtype=np.float32).reshape(1, 3, 16) / 9
K3 = np.arange(18, dtype=np.float32).reshape(2, 3, 3) / 5
Z = X.astype(np.complex64)


def options(f: Any, name: str, one: Any, other: Any, *args: Any, **rest: Any) -> None:
    """Register two values of one option of a function."""
    what = getattr(f, "__name__", "function").strip("<>")
    one_text, other_text = (
        re.sub(" object at 0x[0-9a-f]+", "", str(v)) for v in (one, other)
    )
    differs(
        f"{what}, {name}: {one_text} or {other_text}"[:90],
        lambda *a: f(*a, **{name: one}, **rest),
        lambda *a: f(*a, **{name: other}, **rest),
        *args,
    )


def dots(a: Any, **options: Any) -> Any:
    return lax.dot(a, a.T, **options)


def conv(x: Any, k: Any, **options: Any) -> Any:
    return lax.conv_general_dilated(
        x, k, **{"window_strides": (1,), "padding": "VALID", **options}
    )


def gather(x: Any, i: Any, **options: Any) -> Any:
    numbers = lax.GatherDimensionNumbers((), (0,), (0,))
    return lax.gather(x, i[:, None], numbers, (1,), **options)


def scatter(x: Any, i: Any, **options: Any) -> Any:
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    return lax.scatter(x, i[:, None], x, numbers, **options)


def windows(x: Any, **options: Any) -> Any:
    given = {"window_dimensions": (2, 2), "window_strides": (1, 1), "padding": "VALID"}
    return lax.reduce_window(x, 0.0, lax.add, **{**given, **options})


PRECISION = "precision"
options(dots, PRECISION, lax.Precision.HIGHEST, lax.Precision.DEFAULT, M)
options(dots, PRECISION, None, lax.Precision.DEFAULT, M)
options(
    dots,
    PRECISION,
    lax.DotAlgorithmPreset.F32_F32_F32,
    lax.DotAlgorithmPreset.TF32_TF32_F32,
    M,
)
options(dots, "preferred_element_type", None, jnp.float16, M)
options(dots, "preferred_element_type", jnp.float16, jnp.bfloat16, M)
options(conv, PRECISION, lax.Precision.HIGHEST, None, C3, K3)
options(conv, "window_strides", (1,), (2,), C3, K3)
options(conv, "padding", "VALID", "SAME", C3, K3)
options(conv, "lhs_dilation", (1,), (2,), C3, K3, padding=[(0, 0)])
options(conv, "rhs_dilation", (1,), (2,), C3, K3)
options(
    conv,
    "preferred_element_type",
    None,
    jnp.float32,
    C3.astype(np.float16),
    K3.astype(np.float16),
)
options(conv, "dimension_numbers", ("NCH", "OIH", "NCH"), ("NCH", "OIH", "NHC"), C3, K3)
options(gather, "mode", Mode.CLIP, Mode.FILL_OR_DROP, X, I)
options(gather, "mode", Mode.CLIP, Mode.PROMISE_IN_BOUNDS, X, I)
options(gather, "fill_value", 0.0, 1.0, X, I, mode=Mode.FILL_OR_DROP)
options(gather, "fill_value", 0.0, -0.0, X, I, mode=Mode.FILL_OR_DROP)
options(gather, "indices_are_sorted", True, False, X, I)
options(gather, "unique_indices", True, False, X, I)
options(scatter, "mode", Mode.CLIP, Mode.FILL_OR_DROP, X, I)
options(scatter, "indices_are_sorted", True, False, X, I)
options(scatter, "unique_indices", True, False, X, I)
options(windows, "window_dimensions", (2, 2), (2, 1), M)
options(windows, "window_strides", (1, 1), (2, 1), M)
options(windows, "padding", "VALID", "SAME", M)
options(windows, "base_dilation", (1, 1), (2, 1), M)
options(windows, "window_dilation", (1, 1), (2, 1), M)
options(jnp.cumsum, "axis", 0, 1, M)
options(lax.cumsum, "reverse", True, False, X)
options(lax.cumlogsumexp, "reverse", True, False, X)
options(lax.argmax, "axis", 0, 1, M, index_dtype=np.int32)
options(lax.argmax, "index_dtype", np.int32, np.uint32, M, axis=0)
options(lax.sort, "is_stable", True, False, X)
options(lax.sort, "dimension", 0, 1, M)
options(lax.top_k, "k", 1, 2, X)
options(lax.top_k, "axis", 0, 1, M, k=1)
options(lax.approx_max_k, "recall_target", 0.95, 0.9, X, k=2)
options(lax.approx_max_k, "aggregate_to_topk", True, False, X, k=2)
options(lax.approx_max_k, "reduction_input_size_override", -1, 8, X, k=2)
options(lax.exp, "accuracy", None, lax.AccuracyMode.HIGHEST, X)
options(lax.exp, "accuracy", lax.Tolerance(0.1, 0, 0), lax.Tolerance(0.2, 0, 0), X)
options(lax.tanh, "accuracy", lax.AccuracyMode.DEFAULT, lax.AccuracyMode.HIGHEST, X)
options(
    lax.round,
    "rounding_method",
    lax.RoundingMethod.AWAY_FROM_ZERO,
    lax.RoundingMethod.TO_NEAREST_EVEN,
    X,
)
options(lax.integer_pow, "y", 2, 3, X)
options(lax.convert_element_type, "new_dtype", jnp.float16, jnp.bfloat16, X)
options(lax.bitcast_convert_type, "new_dtype", jnp.int32, jnp.uint32, X)
options(lax.reduce_precision, "exponent_bits", 5, 6, X, mantissa_bits=10)
options(lax.reduce_precision, "mantissa_bits", 9, 10, X, exponent_bits=5)
options(lax.slice, "start_indices", (0,), (1,), X, limit_indices=(3,))
options(lax.slice, "strides", None, (2,), X, start_indices=(0,), limit_indices=(3,))
options(lax.pad, "padding_config", [(0, 1, 0)], [(1, 0, 0)], X, np.float32(0))
options(lax.pad, "padding_config", [(0, 0, 1)], [(1, 2, 0)], X, np.float32(0))
options(lax.rev, "dimensions", (0,), (1,), M)
options(lax.transpose, "permutation", (0, 1), (1, 0), S)
options(lax.squeeze, "dimensions", (0,), (1,), M[:1, :1])
options(lax.expand_dims, "dimensions", (0,), (1,), X)
options(lax.broadcast_in_dim, "broadcast_dimensions", (0,), (1,), X, shape=(4, 4))
options(lax.split, "sizes", (1, 3), (3, 1), X)
options(lax.dynamic_slice, "slice_sizes", (1,), (2,), X, I[:1])
options(lax.fft, "fft_type", "FFT", "IFFT", Z, fft_lengths=(4,))
options(lax.linalg.cholesky, "symmetrize_input", True, False, S)
options(lax.linalg.triangular_solve, "left_side", True, False, S, S)
options(lax.linalg.triangular_solve, "lower", True, False, S, S)
options(lax.linalg.triangular_solve, "transpose_a", True, False, S, S)
options(
    lax.linalg.triangular_solve,
    "conjugate_a",
    True,
    False,
    S.astype(np.complex64),
    S.astype(np.complex64),
    transpose_a=True,
)
options(lax.linalg.triangular_solve, "unit_diagonal", True, False, S, S)
options(lax.linalg.eigh, "lower", True, False, S, symmetrize_input=False)
options(lax.linalg.eigh, "sort_eigenvalues", True, False, S)
options(lax.linalg.svd, "full_matrices", True, False, M)
options(lax.linalg.svd, "compute_uv", True, False, M)
options(lax.linalg.qr, "full_matrices", True, False, M)
options(lax.linalg.qr, "pivoting", True, False, M)
options(lax.linalg.eig, "compute_left_eigenvectors", True, False, S)
options(lax.reduce_sum, "axes", (0,), (1,), S)
options(jax.nn.one_hot, "num_classes", 3, 4, I)
options(jax.nn.gelu, "approximate", True, False, X)
options(jax.random.bits, "shape", (2,), (4,), jax.random.key(0))
options(jnp.linalg.norm, "ord", 1, 2, X)
options(
    jax.lax.dot_general,
    "dimension_numbers",
    (((1,), (0,)), ((), ())),
    (((0,), (1,)), ((), ())),
    S,
    S,
)
options(
    jax.lax.ragged_dot,
    "preferred_element_type",
    None,
    jnp.float16,
    M,
    np.ones((2, 4, 3), np.float32),
    np.int32([1, 2]),
)
options(jax.image.resize, "method", "linear", "nearest", M, shape=(6, 4))

differs(
    "sort, number of keys",
    *[lambda x, y, n=n: lax.sort((x, y), num_keys=n) for n in (1, 2)],
    X,
    Y,
)
differs(
    "sort, order of operands",
    lambda x, y: lax.sort((x, y)),
    lambda x, y: lax.sort((y, x)),
    X,
    Y,
)
differs(
    "iota, dimension",
    *[lambda x, d=d: lax.broadcasted_iota(np.int32, (4, 4), d) for d in (0, 1)],
)
differs("iota, dtype", *[lambda x, t=t: lax.iota(t, 4) for t in (np.int32, np.float32)])
differs(
    "reduce, computation",
    *[
        lambda x, f=f: lax.reduce(x, 1.0, f, (0,))
        for f in (lambda a, b: a * b + a, lambda a, b: a * b + b)
    ],
)
differs(
    "reduce, initial value",
    *[
        lambda x, n=n: lax.reduce(x, n, lambda a, b: a * b + a, (0,))
        for n in (0.0, -0.0)
    ],
)
differs("compare, direction", lambda x: x > 0, lambda x: x >= 0)
differs(
    "compare, total order",
    *[lambda x, f=f: f(x, x * 2) for f in (lax.lt_p.bind, lax.lt_to_p.bind)],
)
differs(
    "clamp, order of bounds",
    lambda x: lax.clamp(-1.0, x, 1.0),
    lambda x: lax.clamp(1.0, x, -1.0),
)
differs(
    "select, order of cases",
    lambda x: jnp.where(x > 0, x, -x),
    lambda x: jnp.where(x > 0, -x, x),
)
differs(
    "operands of a commutative primitive", lambda x, y: x + y, lambda x, y: y + x, X, Y
)
differs("association", lambda x, y: (x + y) + 1.0, lambda x, y: x + (y + 1.0), X, Y)
differs("an identity", lambda x: x * 1.0, lambda x: x)
differs("x - x or zeros", lambda x: x - x, lambda x: jnp.zeros_like(x))
differs("sin or cos", jnp.sin, jnp.cos)
differs("negation or subtraction", lambda x: -x, lambda x: 0.0 - x)
differs("division or reciprocal", lambda x: x / 3.0, lambda x: x * (1 / 3.0))
differs("square or product", lambda x: lax.square(x), lambda x: x * x)
differs("power or integer power", lambda x: x**2.0, lambda x: lax.integer_pow(x, 2))
differs(
    "shift, arithmetic or logical",
    lax.shift_right_arithmetic,
    lax.shift_right_logical,
    I,
    I,
)
differs(
    "reshape, order of dimensions",
    lambda x: x.reshape(2, 6),
    lambda x: x.reshape(6, 2),
    M,
)
differs("reshape or transpose", lambda x: x.reshape(4, 3), lambda x: x.T, M)
differs(
    "scatter, add or set",
    lambda x, i: x.at[i].add(1.0),
    lambda x, i: x.at[i].set(1.0),
    X,
    I,
)
differs(
    "scatter, min or max",
    lambda x, i: x.at[i].min(1.0),
    lambda x, i: x.at[i].max(1.0),
    X,
    I,
)
differs(
    "scatter, apply",
    *[lambda x, i, f=f: x.at[i].apply(f) for f in (jnp.sin, jnp.cos)],
    X,
    I,
)
differs(
    "index, negative ones wrap or not",
    lambda x, i: x.at[i].get(wrap_negative_indices=True),
    lambda x, i: x.at[i].get(wrap_negative_indices=False),
    X,
    I,
)
differs(
    "optimization_barrier or none", lambda x: lax.optimization_barrier(x), lambda x: x
)
differs(
    "optimization_barrier, which",
    lambda x: lax.optimization_barrier((x, x * 2))[0],
    lambda x: lax.optimization_barrier((x * 2, x))[1],
)
differs("copy or none", lambda x: jnp.array(x, copy=True), lambda x: x)
differs("number of results", lambda x: (x, x), lambda x: (x, x, x))
differs("order of results", lambda x: (x, x + 1), lambda x: (x + 1, x))
differs("a result that is an argument", lambda x, y: x, lambda x, y: y, X, Y)
differs(
    "approximate division of gelu",
    lambda x: jax.nn.gelu(x, True),
    lambda x: jax.nn.gelu(x, False),
)
differs(
    "type of an argument",
    *[lambda x, t=t: x.astype(t) + x.astype(t) for t in (jnp.float16, jnp.bfloat16)],
)

regrouped("dead equation", lambda x: (jnp.sin(x), x + 1.0)[1], lambda x: x + 1.0)
regrouped(
    "common subexpression",
    lambda x: jnp.sin(x) * jnp.sin(x),
    lambda x: (lambda y: y * y)(jnp.sin(x)),
)
regrouped(
    "order of pure equations",
    lambda x: (jnp.sin(x), jnp.cos(x)),
    lambda x: (jnp.cos(x), jnp.sin(x))[::-1],
)
regrouped("a call or its body", lambda x: jax.jit(jnp.sin)(x), jnp.sin)
regrouped(
    "a call in a call",
    lambda x: jax.jit(lambda x: jax.jit(jnp.sin)(x))(x),
    lambda x: jax.jit(jnp.sin)(x),
)
