"""Rules for reductions, scans along an axis, sorting, windows and contractions."""

# ruff: noqa: E501  # a rule is one line

from __future__ import annotations

import inspect

import jax

from untrace.ir import Equation
from untrace.lifting.rules.table import rule
from untrace.lifting.rules.when import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    STANDARD_NUMBERS,
    all_of,
    default_integer,
    has,
    of,
    on_value,
    operands,
    several,
    shape_of,
    states,
)


def _reduces_all(eqn: Equation) -> bool:
    return len(eqn.params["axes"]) == len(shape_of(eqn)) > 0


def _reduces(eqn: Equation) -> bool:
    return len(eqn.params["axes"]) > 0


# jax 0.11 gave two more primitives this param; JAX's own tests bind them without.
_SHARDED = frozenset(
    name
    for name in ("reduce_max", "reduce_min")
    if "out_sharding" in inspect.signature(getattr(jax.lax, name)).parameters
)


def _has_all(eqn: Equation) -> bool:
    return eqn.name not in _SHARDED or "out_sharding" in eqn.params


def _keeps_width(eqn: Equation) -> bool:
    """Hold where jnp does not widen integers first."""
    dtype = eqn.operands[0].aval.dtype
    return dtype.kind not in "iu" or dtype.itemsize == default_integer().itemsize


for function, primitive, dtypes in (
    ("sum", "reduce_sum", (*STANDARD_NUMBERS, *COMPLEX)),
    ("prod", "reduce_prod", (*STANDARD_NUMBERS, *COMPLEX)),
    ("max", "reduce_max", (*INTEGERS, *FLOATS)),
    ("min", "reduce_min", (*INTEGERS, *FLOATS)),
    ("all", "reduce_and", ("bool",)),
    ("any", "reduce_or", ("bool",)),
):
    keeps = _keeps_width if function in ("sum", "prod") else _has_all
    rule(
        primitive,
        f"jnp.{function}({{0}}){{axes:implied}}",
        when=all_of(of(*dtypes), _reduces_all, keeps),
        out_sharding=None,
    )
    rule(
        primitive,
        f"jnp.{function}({{0}}, axis={{axes:axis}})",
        when=all_of(of(*dtypes), _reduces, keeps),
        out_sharding=None,
    )
for name in ["sum", "prod", "max", "min", "and", "or", "xor"]:
    rule(
        f"reduce_{name}",
        f"jax.lax.reduce_{name}({{0}}, {{axes}})",
        when=_has_all,
        out_sharding=None,
    )
for name in ["sum", "max", "min"]:
    rule(
        f"reduce_{name}",
        f"jax.lax.reduce_{name}({{0}}, {{axes}}, out_sharding={{out_sharding}})",
        when=has("out_sharding"),
    )
for name in ("argmax", "argmin"):
    rule(
        name,
        f"jnp.{name}({{0}}, axis={{axes:axis}}){{index_dtype:implied}}",
        when=all_of(
            on_value, lambda eqn: eqn.params["index_dtype"] == default_integer()
        ),
    )
    rule(name, f"jax.lax.{name}({{0}}, {{axes:axis}}, {{index_dtype:dtype}})")
for name in ["cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"]:
    rule(name, f"jax.lax.{name}({{0}}, axis={{axis}})", reverse=False)
    rule(name, f"jax.lax.{name}({{0}}, axis={{axis}}, reverse={{reverse}})")
for operand_tuple, when in (("({0},)", operands(1)), ("({operands})", several)):
    rule(
        "sort",
        f"jax.lax.sort({operand_tuple}, dimension={{dimension}})",
        when=when,
        is_stable=True,
        num_keys=1,
    )
    rule(
        "sort",
        f"jax.lax.sort({operand_tuple}, dimension={{dimension}}, is_stable={{is_stable}}, num_keys={{num_keys}})",
        when=when,
    )
rule("top_k", "jax.lax.top_k({0}, {k}, axis={axis})", is_stable=True)
rule("top_k", "jax.lax.top_k({0}, {k}, axis={axis}, is_stable={is_stable})")
for name, is_max in (("approx_max_k", True), ("approx_min_k", False)):
    rule(
        "approx_top_k",
        f"jax.lax.{name}({{0}}, {{k}}, reduction_dimension={{reduction_dimension}}, recall_target={{recall_target}}, reduction_input_size_override={{reduction_input_size_override}}, aggregate_to_topk={{aggregate_to_topk}})",
        is_max_k=is_max,
    )


_WINDOWS = "{window_dimensions}, {window_strides}, {padding}"
_DILATIONS = "{base_dilation}, {window_dilation}"


def _is_undilated(eqn: Equation) -> bool:
    return {*eqn.params["base_dilation"], *eqn.params["window_dilation"]} == {1}


for name, start, function, dtypes in (
    ("sum", "0.0", "add", FLOATS),
    ("sum", "0", "add", INTEGERS),
    ("max", "-jnp.inf", "max", FLOATS),
    ("min", "jnp.inf", "min", FLOATS),
):
    pooling = f"jax.lax.reduce_window({{0}}, {start}, jax.lax.{function}, {_WINDOWS}"
    implied = "{base_dilation:implied}{window_dilation:implied}"
    rule(
        f"reduce_window_{name}",
        f"{pooling}){implied}",
        when=all_of(of(*dtypes), _is_undilated),
    )
    rule(f"reduce_window_{name}", f"{pooling}, {_DILATIONS})", when=of(*dtypes))


def _is_matmul(eqn: Equation) -> bool:
    left, right = eqn.operands
    ndim = len(left.aval.shape)
    n_right = len(right.aval.shape)
    if (
        not on_value(eqn)
        or left.aval.dtype != right.aval.dtype
        or not (ndim and n_right)
    ):
        return False
    contract, batch = eqn.params["dimension_numbers"]
    if ndim > 2 or n_right > 2:
        return False
    return (tuple(map(tuple, contract)), tuple(map(tuple, batch))) == (
        ((ndim - 1,), (max(n_right - 2, 0),)),
        ((), ()),
    )


def _keeps_dtype(eqn: Equation) -> bool:
    wanted = eqn.params["preferred_element_type"]  # a dtype float64 equals None
    return wanted is not None and wanted == eqn.operands[0].aval.dtype


_DOT = "jax.lax.dot_general({0}, {1}, {dimension_numbers}"
rule(
    "dot_general",
    "{0} @ {1}{dimension_numbers:implied}{preferred_element_type:implied}",
    when=all_of(_is_matmul, _keeps_dtype),
    precision=None,
    out_sharding=None,
)
rule(
    "dot_general",
    _DOT + ")",
    precision=None,
    preferred_element_type=None,
    out_sharding=None,
)
rule(
    "dot_general",
    _DOT + ", preferred_element_type={preferred_element_type:dtype})",
    when=states("preferred_element_type"),
    precision=None,
    out_sharding=None,
)
rule(
    "dot_general",
    _DOT + ", precision={precision})",
    preferred_element_type=None,
    out_sharding=None,
)
rule(
    "dot_general",
    _DOT
    + ", precision={precision}, preferred_element_type={preferred_element_type:dtype})",
    when=states("preferred_element_type"),
    out_sharding=None,
)
rule(
    "dot_general",
    _DOT + ", precision={precision}, out_sharding={out_sharding})",
    preferred_element_type=None,
)
rule(
    "dot_general",
    _DOT
    + ", precision={precision}, preferred_element_type={preferred_element_type:dtype}, out_sharding={out_sharding})",
    when=states("preferred_element_type"),
)
_RAGGED = "jax.lax.ragged_dot_general({0}, {1}, {2}, {ragged_dot_dimension_numbers}, precision={precision}"
rule(
    "ragged_dot_general",
    _RAGGED + ")",
    when=operands(3),
    preferred_element_type=None,
    group_offset=None,
    out_sharding=None,
)
rule(
    "ragged_dot_general",
    _RAGGED + ", preferred_element_type={preferred_element_type})",
    when=all_of(operands(3), states("preferred_element_type")),
    group_offset=None,
    out_sharding=None,
)
_CONV = "jax.lax.conv_general_dilated({0}, {1}, {window_strides}, {padding}, {lhs_dilation}, {rhs_dilation}, {dimension_numbers}"
_COUNTS = (
    ", feature_group_count={feature_group_count}, batch_group_count={batch_group_count}"
)
rule(
    "conv_general_dilated",
    _CONV + ")",
    feature_group_count=1,
    batch_group_count=1,
    precision=None,
    preferred_element_type=None,
    out_sharding=None,
)
rule(
    "conv_general_dilated",
    _CONV + _COUNTS + ", precision={precision})",
    preferred_element_type=None,
    out_sharding=None,
)
rule(
    "conv_general_dilated",
    _CONV
    + _COUNTS
    + ", precision={precision}, preferred_element_type={preferred_element_type:dtype})",
    when=states("preferred_element_type"),
    out_sharding=None,
)
