"""Idioms that make, join, cut and reorder arrays, and sums of products."""

from __future__ import annotations

from untrace.lifting.idioms.domains import (
    AXES,
    AXIS,
    BOUNDS,
    DIAGONAL,
    DTYPE,
    LITERAL,
    OFFSET,
    PADDING,
    PARTS,
    REPS,
    SECTIONS,
    SHAPE,
    SIZE,
    SUBSCRIPTS,
    TIMES,
)
from untrace.lifting.idioms.table import idiom

MAX_JOINED = 8

idiom("{x} @ {y}.T", "f32[2,3] f32[4,3]")
idiom("{x}.T @ {y}", "f32[3,2] f32[3,4]")
idiom("jnp.tensordot({x}, {y})", "f32[2,3] f32[2,3]")
idiom("jnp.cross({x}, {y})", "f32[3] f32[3]")
idiom("jnp.kron({x}, {y})", "f32[2,2] f32[3,3]")
idiom("jnp.einsum({subscripts}, {x}, {y})", "f32[2,3] f32[3,4]", subscripts=SUBSCRIPTS)
idiom(
    "jnp.einsum({subscripts}, {x}, {y}, preferred_element_type={dtype})",
    "f32[2,3] f32[3,4]",
    subscripts=SUBSCRIPTS,
    dtype=DTYPE,
)
for precision in ("DEFAULT", "HIGH", "HIGHEST"):
    idiom(
        f"jnp.einsum({{subscripts}}, {{x}}, {{y}}, precision=jax.lax.Precision.{precision})",
        "f32[2,3] f32[3,4]",
        subscripts=SUBSCRIPTS,
    )
idiom('jnp.einsum("ij,ij->i", {x}, {y})', "f32[2,3] f32[2,3]")
idiom("jnp.dot({x}, {y})", "f32[2,3] f32[3,4]", "f32[] f32[]")
idiom("jnp.outer({x}, {y})", "f32[2] f32[3]")
idiom("jnp.inner({x}, {y})", "f32[2] f32[2]")
idiom("jnp.vdot({x}, {y})", "f32[2] f32[2]")
idiom("jnp.trace({x})", "f32[3,3]")
idiom("jnp.diag({x})", "f32[3,3]", "f32[3]")
idiom("jnp.diagonal({x})", "f32[3,3]")

idiom("jnp.arange({n})", "", n=SIZE)
idiom("jnp.arange({n}, dtype={dtype})", "", n=SIZE, dtype=DTYPE)
idiom("jnp.arange({k}, {l})", "; k=1; l=4", k=LITERAL, l=LITERAL)
idiom("jnp.arange({bounds})", "", "; bounds=0.0, 3.0, 0.5", bounds=BOUNDS)
idiom("jnp.arange({n})[:, None]", "", n=SIZE)
idiom("jnp.arange({n})[None, :]", "", n=SIZE)
idiom(
    "jnp.linspace({k}, {l}, {n})", "; k=0.0; l=1.0; n=5", k=LITERAL, l=LITERAL, n=SIZE
)
idiom("jnp.linspace({x}, {y}, {n})", "f32[] f32[]; n=5", n=SIZE)
idiom(
    "jnp.linspace({k}, {l}, {n}, endpoint=False)",
    "; k=0.0; l=1.0; n=5",
    k=LITERAL,
    l=LITERAL,
    n=SIZE,
)
idiom("jnp.eye({n})", "", n=SIZE)
idiom("jnp.eye({n}, dtype={dtype})", "", "; dtype=bool", n=SIZE, dtype=DTYPE)
idiom("jnp.identity({n})", "", n=SIZE)
idiom("jnp.tri({n}, dtype=bool)", "", n=SIZE)
idiom("jnp.tri({n})", "", n=SIZE)
for name in ("tril", "triu"):
    idiom(f"jnp.{name}({{x}})", "f32[3,3]")
    idiom(f"jnp.{name}({{x}}, {{k}})", "f32[3,3]; k=1", k=DIAGONAL)
    idiom(f"jnp.{name}(jnp.ones({{shape}}, dtype=bool))", "; shape=(3, 3)", shape=SHAPE)
    idiom(f"jnp.{name}(jnp.ones({{shape}}))", "; shape=(3, 3)", shape=SHAPE)

for n in range(2, MAX_JOINED + 1):
    items = ", ".join(f"{{x{i}}}" for i in range(n))
    idiom(f"jnp.stack([{items}])")
    idiom(f"jnp.stack([{items}], axis={{axis}})", axis=AXIS)
    idiom(f"jnp.concatenate([{items}], axis={{axis}})", axis=AXIS)
    idiom(f"jnp.vstack([{items}])", " ".join(["f32[3]"] * n))
idiom("jnp.array([{x}, {y}])", "f32[] f32[]")
idiom("jnp.array([{x}, {y}, {z}])", "f32[] f32[] f32[]")
idiom("jnp.hstack([{x}, {y}])", "f32[] f32[]")
idiom("jnp.split({x}, {n}, axis={axis})", n=PARTS, axis=AXIS)
idiom(
    "jnp.split({x}, {sections}, axis={axis})",
    "f32[2,5]",
    sections=SECTIONS,
    axis=AXIS,
)
idiom("jnp.unstack({x})")
idiom("jnp.unstack({x}, axis={axis})", axis=AXIS)
idiom("jnp.array_split({x}, {n}, axis={axis})", n=PARTS, axis=AXIS)
idiom("jnp.repeat({x}, {n}, axis={axis})", "f32[2,3]; n=2", n=TIMES, axis=AXIS)
idiom("jnp.tile({x}, {n})", "f32[3]; n=2", n=TIMES)
idiom("jnp.tile({x}, {reps})", "f32[2,3]; reps=(2, 1)", reps=REPS)
idiom("jnp.roll({x}, {n})", "f32[5]", n=OFFSET)
idiom("jnp.roll({x}, {n}, axis={axis})", "f32[5,2]", n=OFFSET, axis=AXIS)
idiom("jnp.flip({x}, axis={axis})", axis=AXIS)
idiom("jnp.flip({x}, axis={axis})", axis=AXES)
PADS = ("_pad",)
idiom("jnp.pad({x}, {widths})", names=PADS, widths=PADDING)
idiom(
    "jnp.pad({x}, {widths}, constant_values={k})",
    names=PADS,
    widths=PADDING,
    k=LITERAL,
)
for mode in ("edge", "reflect", "wrap", "symmetric"):
    idiom(f'jnp.pad({{x}}, {{widths}}, mode="{mode}")', names=PADS, widths=PADDING)
idiom("jnp.reshape({x}, {shape})", shape=SHAPE)
idiom("{x}.reshape(-1)")
