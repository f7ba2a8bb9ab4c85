"""Idioms of `jax.random`, sought by the names of its jitted functions."""

from __future__ import annotations

from untrace.lifting.idioms.domains import AXIS, DTYPE, LITERAL, SHAPE, SIZE
from untrace.lifting.idioms.table import idiom

SHAPED = """normal uniform exponential gumbel laplace cauchy logistic truncated_normal
rademacher bits ball"""
for name in SHAPED.split():
    call, names = f"jax.random.{name}({{key}}, {{shape}}", (f"_{name}", name)
    idiom(f"{call})", names=names, shape=SHAPE)
    idiom(f"{call}, dtype={{dtype}})", names=names, shape=SHAPE, dtype=DTYPE)
idiom("jax.random.normal({key})", names=("_normal",))
idiom("jax.random.uniform({key})", names=("_uniform",))
idiom(
    "jax.random.uniform({key}, {shape}, minval={a}, maxval={b})",
    names=("_uniform",),
    shape=SHAPE,
)
idiom(
    "jax.random.uniform({key}, {shape}, dtype={dtype}, minval={a}, maxval={b})",
    names=("_uniform",),
    shape=SHAPE,
    dtype=DTYPE,
)
idiom(
    "jax.random.truncated_normal({key}, {a}, {b}, {shape})",
    names=("_truncated_normal",),
    shape=SHAPE,
)
idiom("jax.random.randint({key}, {shape}, {a}, {b})", names=("_randint",), shape=SHAPE)
idiom(
    "jax.random.randint({key}, {shape}, {a}, {b}, dtype={dtype})",
    names=("_randint",),
    shape=SHAPE,
    dtype=DTYPE,
)
idiom("jax.random.bernoulli({key}, {p}, {shape})", names=("_bernoulli",), shape=SHAPE)
idiom("jax.random.bernoulli({key}, shape={shape})", names=("_bernoulli",), shape=SHAPE)
idiom("jax.random.bernoulli({key}, {p})", names=("_bernoulli",))
for name in ("gamma", "beta", "dirichlet", "poisson", "t", "chisquare", "pareto"):
    idiom(
        f"jax.random.{name}({{key}}, {{a}}, {{shape}})",
        names=(f"_{name}",),
        shape=SHAPE,
    )
    idiom(f"jax.random.{name}({{key}}, {{a}})", names=(f"_{name}",))
idiom("jax.random.beta({key}, {a}, {b}, {shape})", names=("_beta",), shape=SHAPE)
idiom(
    "jax.random.multivariate_normal({key}, {m}, {c})", names=("_multivariate_normal",)
)
idiom("jax.random.permutation({key}, {x})", names=("_shuffle", "permutation"))
idiom("jax.random.permutation({key}, {n})", names=("_shuffle", "permutation"), n=SIZE)

KEY, RAW = "key[]", "u32[2]"
idiom("jax.random.split({key})", KEY, RAW)
idiom("jax.random.split({key}, {n})", KEY, RAW, n=SIZE)
idiom("jax.random.split({key}, {shape})", KEY, shape=SHAPE)
idiom("jax.random.fold_in({key}, {i})", "key[] i32[]", "key[] u32[]", "u32[2] i32[]")
idiom("jax.random.fold_in({key}, {k})", "key[]; k=1", "u32[2]; k=1", k=LITERAL)
idiom("jax.random.key({k})", "; k=0", k=LITERAL)
idiom("jax.random.key({x})", "i32[]")
idiom("jax.random.PRNGKey({k})", "; k=0", k=LITERAL)
idiom(
    "jax.random.categorical({key}, {x})",
    "key[] f32[3]",
    "key[] f32[2,3]",
    "u32[2] f32[2,3]",
)
idiom("jax.random.categorical({key}, {x}, axis={axis})", "key[] f32[2,3]", axis=AXIS)
idiom("jax.random.categorical({key}, {x}, shape={shape})", "key[] f32[3]", shape=SHAPE)
idiom("jax.random.choice({key}, {x})", "key[] f32[3]")
idiom("jax.random.choice({key}, {x}, {shape})", "key[] f32[3]", shape=SHAPE)
idiom("jax.random.choice({key}, {n}, {shape})", "key[]", n=SIZE, shape=SHAPE)
