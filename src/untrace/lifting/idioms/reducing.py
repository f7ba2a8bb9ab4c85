"""Idioms that reduce, accumulate and order."""

from __future__ import annotations

from untrace.lifting.idioms.domains import AXES, AXIS, INTEGER, SIZE
from untrace.lifting.idioms.table import Domain, idiom

REDUCTIONS = ("sum", "mean", "max", "min", "prod", "any", "all", "var", "std", "median")
FLAT = ("norm", "ptp", "nanmean", "nansum", "count_nonzero")


def _forms(function: str, types: tuple[str, ...], *more: str) -> None:
    """Declare a reduction over one axis, over several and over all, kept or dropped."""
    for extra in ("", *more):
        for keep in ("", ", keepdims=True"):
            idiom(f"{function}({{x}}{extra}{keep})", *types)
            idiom(f"{function}({{x}}, axis={{axis}}{extra}{keep})", *types, axis=AXIS)
            idiom(
                f"{function}({{x}}, axis={{axis}}{extra}{keep})",
                "f32[2,3,4]",
                axis=AXES,
            )


for name in REDUCTIONS:
    types = ("bool[2,3]",) if name in ("any", "all") else ("f32[2,3]",)
    if name in ("mean", "sum", "any", "all"):
        types = (*types, "i32[2,3]", "bool[2,3]", "bf16[2,3]")
    more = (", ddof=1",) if name in ("var", "std") else ()
    _forms(f"jnp.{name}", types, *more)
for name in FLAT:
    _forms("jnp.linalg.norm" if name == "norm" else f"jnp.{name}", ("f32[2,3]",))
_forms("jax.scipy.special.logsumexp", ("f32[2,3]",))
idiom("jnp.average({x}, weights={w}, axis={axis})", "f32[3] f32[3]", axis=AXIS)
for name in ("argmax", "argmin"):
    idiom(f"jnp.{name}({{x}}, axis={{axis}})", axis=AXIS)
    idiom(f"jnp.{name}({{x}})")
for name in ("cumsum", "cumprod"):
    idiom(f"jnp.{name}({{x}}, axis={{axis}})", "f32[2,3]", "i32[2,3]", axis=AXIS)
    idiom(f"jnp.{name}({{x}})")
for name in ("sort", "argsort"):
    idiom(f"jnp.{name}({{x}}, axis={{axis}})", axis=AXIS)
    idiom(f"jnp.{name}({{x}}, axis={{axis}}, descending=True)", axis=AXIS)
idiom("jax.lax.top_k({x}, {n})", n=SIZE)
idiom("jnp.diff({x}, axis={axis})", axis=AXIS)
idiom("jnp.gradient({x})", "f32[5]")
idiom("jnp.quantile({x}, {q})", "f32[5] f32[]")
idiom("jnp.percentile({x}, {q})", "f32[5] f32[]")
idiom("jnp.searchsorted({x}, {y})", "f32[5] f32[2]")
idiom('jnp.searchsorted({x}, {y}, side="right")', "f32[5] f32[2]")
idiom("jnp.bincount({x}, length={n})", "i32[5]", n=SIZE)
idiom("jnp.cov({x})", "f32[3,5]")

ORDER = Domain(lambda region: ["1", "jnp.inf", *INTEGER.texts(region)], "1")
idiom("jnp.linalg.norm({x}, ord={p})", "f32[5]", "f32[5]; p=jnp.inf", p=ORDER)
idiom(
    "jnp.linalg.norm({x}, ord={p}, axis={axis})",
    "f32[2,5]",
    "f32[2,5]; p=jnp.inf",
    p=ORDER,
    axis=AXIS,
)
