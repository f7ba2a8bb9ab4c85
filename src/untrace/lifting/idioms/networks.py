"""Idioms of neural networks: `jax.nn`, and normalisation as one expression."""

from __future__ import annotations

from untrace.lifting.idioms.domains import AXIS, DTYPE, LITERAL, SIZE
from untrace.lifting.idioms.table import idiom

FUNCTIONS = """relu relu6 sigmoid softplus silu gelu elu selu celu leaky_relu log_sigmoid
soft_sign hard_tanh hard_sigmoid hard_silu mish squareplus sparse_plus glu"""
for name in ("softmax", "log_softmax", "standardize"):
    idiom(f"jax.nn.{name}({{x}}, axis={{axis}})", axis=AXIS)
idiom("jax.nn.softmax({x}, axis={axis}, where={m})", "f32[2,3] bool[2,3]", axis=AXIS)
idiom("jax.nn.logsumexp({x}, axis={axis})", axis=AXIS)
idiom("jax.nn.logsumexp({x}, axis={axis}, keepdims=True)", axis=AXIS)
idiom("jax.nn.logsumexp({x})")
for name in FUNCTIONS.split():
    idiom(
        f"jax.nn.{name}({{x}})", "f32[2,4]", *(("f16[2,4]",) if name == "gelu" else ())
    )
idiom("jax.nn.gelu({x}, approximate=False)", "f32[2,4]", "f16[2,4]")
HEADS = "f32[2,5,4,8] f32[2,6,4,8] f32[2,6,4,8]"
ATTENTION = "jax.nn.dot_product_attention({q}, {k}, {v}"
for options in ("", ", is_causal=True"):
    idiom(f"{ATTENTION}{options})", HEADS)
    idiom(f"{ATTENTION}, scale={{s}}{options})", HEADS, s=LITERAL)
    idiom(f"{ATTENTION}, {{b}}{options})", f"{HEADS} f32[2,4,5,6]")
    idiom(f"{ATTENTION}, mask={{m}}{options})", f"{HEADS} bool[2,4,5,6]")
    idiom(f"{ATTENTION}, {{b}}, {{m}}{options})", f"{HEADS} f32[2,4,5,6] bool[2,4,5,6]")
idiom("jax.nn.leaky_relu({x}, {k})", k=LITERAL)
idiom("jax.nn.elu({x}, {k})", k=LITERAL)
idiom("jax.nn.one_hot({x}, {n})", "i32[2]", "i32[]", n=SIZE)
idiom(
    "jax.nn.one_hot({x}, {n}, dtype={dtype})",
    "i32[2]; dtype=jnp.int32",
    n=SIZE,
    dtype=DTYPE,
)
idiom("jax.nn.one_hot({x}, {n}, axis={axis})", "i32[2]; axis=0", n=SIZE, axis=AXIS)
