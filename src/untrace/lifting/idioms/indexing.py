"""Idioms that read and write parts of arrays."""

from __future__ import annotations

from untrace.lifting.idioms.domains import AXIS, FILL, INTEGER, LITERAL, SIZE
from untrace.lifting.idioms.index_texts import STATIC_INDEX, UPDATED_INDEX
from untrace.lifting.idioms.table import idiom

idiom("{x}[{index}]", index=STATIC_INDEX)
idiom("{x}[{index}]", "f32[2,3]; index=:, None", index=STATIC_INDEX)
idiom("{x}[{index}]", "f32[2,3]; index=:1", index=STATIC_INDEX)

# Indices of single elements are made good for every axis.
RANKS = ("f32[4] i32[]", "f32[4,3] i32[]", "f32[4,3,5,2] i32[]", "f32[4,3] i32*[]")
ONE = (
    "f32[4,3,5] i32[]",
    "f32[4,3,5] i32[2]",
    "f32[4,3,5] u32[2]",
    "f32[4,3] bool[4,3]",
)
for index in ("{i}", ":, {i}", "..., {i}", ":, :, {i}"):
    idiom(f"{{x}}[{index}]", *ONE[:3], *RANKS)
TWO = (
    "f32[4,3,5] i32[2] i32[2]",
    "f32[4,3,5] i32[2,1] i32[3]",
    "f32[4,3,5] i32[] i32[]",
    "f32[4,3] i32[] i32[]",
)
for index in ("{i}, {j}", ":, {i}, {j}", "{i}, :, {j}", "{i}[:, None], {j}"):
    idiom(f"{{x}}[{index}]", *TWO)
for index in ("{i}, {k}", "{k}, {i}"):
    idiom(f"{{x}}[{index}]", *ONE[:2], *RANKS, k=INTEGER)
for mode in ("", ', mode="clip"', ', mode="wrap"', ', mode="fill"'):
    idiom(f"jnp.take({{x}}, {{i}}, axis={{axis}}{mode})", *ONE[:2], axis=AXIS)
    idiom(f"jnp.take({{x}}, {{i}}{mode})", *ONE[:2])
    if "wrap" not in mode:
        along = f"jnp.take_along_axis({{x}}, {{i}}, axis={{axis}}{mode})"
        idiom(along, "f32[2,3] i32[2,3]", axis=AXIS)
idiom("jnp.take({x}, {i}, axis={axis}, fill_value={k})", *ONE[:2], axis=AXIS, k=FILL)
idiom("{x}[{i}, {i}]", "f32[4,4] i32[]", "f32[4,4] i32[2]")
idiom("jnp.take_along_axis({x}, {i}[:, None], axis=-1)", "f32[2,3] i32[2]")
idiom("jnp.take_along_axis({x}, {i}[..., None], axis=-1)", "f32[2,3] i32[2]")

UPDATED = ("f32[4,3]; index=0", "f32[4,3]; index=0, 1", "f32[4,3]; index=1:3, 1:2")
for method in ("set", "add", "multiply", "min", "max"):
    for index in ("{i}", ":, {i}", "..., {i}"):
        values = (
            "f32[4,3,5] i32[] f32[]",
            "f32[4,3,5] i32[2] f32[]",
            "f32[4,4,4] u32[2] f32[]",
        )
        idiom(f"{{x}}.at[{index}].{method}({{y}})", *values)
        idiom(
            f"{{x}}.at[{index}].{method}({{k}})",
            *(v.rpartition(" ")[0] + "; k=1.0" for v in values),
            k=LITERAL,
        )
    idiom(f"{{x}}.at[{{i}}, {{j}}].{method}({{y}})", "f32[4,3,5] i32[2] i32[2] f32[]")
    for example in UPDATED:
        idiom(
            f"{{x}}.at[{{index}}].{method}({{y}})",
            example.replace("]; ", "] f32[]; "),
            index=UPDATED_INDEX,
        )
        idiom(
            f"{{x}}.at[{{index}}].{method}({{k}})",
            f"{example}; k=1.0",
            index=UPDATED_INDEX,
            k=LITERAL,
        )
for mode in ("fill", "clip"):
    idiom(f'{{x}}.at[{{i}}].get(mode="{mode}")', *ONE[:2])
idiom('{x}.at[{i}].get(mode="fill", fill_value={k})', *ONE[:2], k=FILL)

idiom(
    "jax.lax.dynamic_slice_in_dim({x}, {i}, {n}, axis={axis})",
    "f32[4,3] i32[]",
    n=SIZE,
    axis=AXIS,
)
idiom(
    "jax.lax.dynamic_index_in_dim({x}, {i}, axis={axis})", "f32[4,3] i32[]", axis=AXIS
)
idiom(
    "jax.lax.dynamic_index_in_dim({x}, {i}, axis={axis}, keepdims=False)",
    "f32[4,3] i32[]",
    axis=AXIS,
)
idiom(
    "jax.lax.dynamic_update_index_in_dim({x}, {y}, {i}, axis={axis})",
    "f32[4,3] f32[3] i32[]; axis=0",
    axis=AXIS,
)
idiom(
    "jax.lax.dynamic_update_slice_in_dim({x}, {y}, {i}, axis={axis})",
    "f32[4,3] f32[2,3] i32[]; axis=0",
    axis=AXIS,
)
for name in ("segment_sum", "segment_max", "segment_min", "segment_prod"):
    idiom(f"jax.ops.{name}({{x}}, {{i}}, {{n}})", "f32[6,2] i32[6]", n=SIZE)
