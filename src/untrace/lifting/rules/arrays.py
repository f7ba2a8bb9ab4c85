"""Rules for shapes, types, indexing and the making of arrays."""

# ruff: noqa: E501  # a rule is one line

from __future__ import annotations

from untrace.ir import Equation
from untrace.lifting.rules.table import rule
from untrace.lifting.rules.when import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    all_of,
    broadcasts_leading,
    converts,
    expands,
    fills,
    fills_literal,
    is_not_identity,
    keeps_size,
    lacks,
    on_value,
    operands,
    reverses,
    several,
    slices_only,
    states,
)

DTYPES = ("bool", *INTEGERS, *FLOATS, *COMPLEX)

# ---- making arrays -----------------------------------------------------------------

for dtype in DTYPES:
    scalar = "bool_" if dtype == "bool" else dtype
    for number, function in enumerate(("zeros", "ones")):
        rule(
            "broadcast_in_dim",
            f"jnp.{function}({{shape}}, jnp.{scalar}){{broadcast_dimensions:implied}}",
            when=fills(number, dtype),
            of_literal=dtype,
            sharding=None,
        )
rule(
    "broadcast_in_dim",
    "jnp.full({shape}, {0}){broadcast_dimensions:implied}",
    when=fills_literal,
    of_literal="",
    sharding=None,
)
rule(
    "iota",
    "jnp.arange({shape:item0}, dtype={dtype:dtype})",
    when=lambda eqn: len(eqn.params["shape"]) == 1,
    dimension=0,
    sharding=None,
)
rule(
    "iota",
    "jax.lax.iota({dtype:dtype}, {shape:item0})",
    when=lambda eqn: len(eqn.params["shape"]) == 1,
    dimension=0,
    sharding=None,
)
rule(
    "iota",
    "jax.lax.broadcasted_iota({dtype:dtype}, {shape}, {dimension})",
    sharding=None,
)
rule(
    "iota",
    "jax.lax.broadcasted_iota({dtype:dtype}, {shape}, {dimension}, out_sharding={sharding})",
)
rule("empty", "jax.lax.empty({shape}, {dtype:dtype})", out_sharding=None)

# ---- types -------------------------------------------------------------------------

rule(
    "convert_element_type",
    "{0}.astype({new_dtype:dtype})",
    when=converts,
    weak_type=False,
    sharding=None,
)
rule(
    "convert_element_type",
    "jax.lax.convert_element_type({0}, {new_dtype:dtype})",
    weak_type=False,
    sharding=None,
)
rule("bitcast_convert_type", "jax.lax.bitcast_convert_type({0}, {new_dtype:dtype})")

# ---- shapes ------------------------------------------------------------------------

rule(
    "broadcast_in_dim",
    "jnp.broadcast_to({0}, {shape}){broadcast_dimensions:implied}",
    when=broadcasts_leading,
    sharding=None,
)
for axis in range(6):
    rule(
        "broadcast_in_dim",
        f"jnp.expand_dims({{0}}, {axis}){{shape:implied}}{{broadcast_dimensions:implied}}",
        when=expands(axis),
        sharding=None,
    )
rule(
    "broadcast_in_dim",
    "jax.lax.broadcast_in_dim({0}, {shape}, {broadcast_dimensions})",
    sharding=None,
)
rule(
    "broadcast_in_dim",
    "jax.lax.broadcast_in_dim({0}, {shape}, {broadcast_dimensions}, out_sharding={sharding})",
)
rule(
    "reshape",
    "jnp.reshape({0}, {new_sizes:axis})",
    when=keeps_size,
    dimensions=None,
    sharding=None,
)
rule("reshape", "jax.lax.reshape({0}, {new_sizes})", dimensions=None, sharding=None)
rule("reshape", "jax.lax.reshape({0}, {new_sizes}, {dimensions})", sharding=None)
rule(
    "reshape",
    "jax.lax.reshape({0}, {new_sizes}, {dimensions}, out_sharding={sharding})",
)
rule("transpose", "{0}.T{permutation:implied}", when=reverses)
rule("transpose", "jnp.transpose({0}, {permutation})", when=is_not_identity)
rule("transpose", "jax.lax.transpose({0}, {permutation})", when=is_not_identity)
rule("squeeze", "jnp.squeeze({0}, {dimensions:axis})", when=on_value)
rule("squeeze", "jax.lax.squeeze({0}, {dimensions})")
rule("rev", "jax.lax.rev({0}, {dimensions})")
rule("tile", "jax.lax.tile({0}, {reps})")
rule("concatenate", "jnp.concatenate([{operands}])", dimension=0)
rule("concatenate", "jnp.concatenate([{operands}], axis={dimension})")
rule("concatenate", "jax.lax.concatenate([{operands}], {dimension})")
rule("stack", "jax.lax.stack([{operands}], axis={axis})")
rule("unstack", "jax.lax.unstack({0}, axis={axis})")
rule("split", "jax.lax.split({0}, {sizes})", axis=0)
rule("split", "jax.lax.split({0}, {sizes}, axis={axis})")
rule("pad", "jax.lax.pad({0}, {1}, {padding_config})")

# ---- slices ------------------------------------------------------------------------

for axis in range(6):
    bounds = f"{{start_indices:item{axis}}}:{{limit_indices:item{axis}}}"
    before = ":, " * axis
    rule("slice", f"{{0}}[{before}{bounds}]", when=slices_only(axis), strides=None)
    rule(
        "slice",
        f"{{0}}[{before}{bounds}:{{strides:item{axis}}}]",
        when=all_of(states("strides"), slices_only(axis)),
    )
rule("slice", "jax.lax.slice({0}, {start_indices}, {limit_indices})", strides=None)
rule("slice", "jax.lax.slice({0}, {start_indices}, {limit_indices}, {strides})")
for n in range(1, 8):
    starts = ", ".join(f"{{{i}}}" for i in range(1, n + 1)) + ("," if n == 1 else "")
    rule(
        "dynamic_slice",
        f"jax.lax.dynamic_slice({{0}}, ({starts}), {{slice_sizes}}, allow_negative_indices=False)",
        when=operands(n + 1),
    )
    starts = ", ".join(f"{{{i}}}" for i in range(2, n + 2)) + ("," if n == 1 else "")
    rule(
        "dynamic_update_slice",
        f"jax.lax.dynamic_update_slice({{0}}, {{1}}, ({starts}), allow_negative_indices=False)",
        when=operands(n + 2),
    )

# ---- gather and scatter ------------------------------------------------------------


def on_any(eqn: Equation) -> bool:
    """Hold always: the combining function follows from the primitive."""
    return True


_GATHER = "jax.lax.gather({0}, {1}, {dimension_numbers}, {slice_sizes}"
rule(
    "gather",
    _GATHER + ", mode={mode})",
    unique_indices=False,
    indices_are_sorted=False,
    fill_value=None,
)
rule(
    "gather",
    _GATHER + ", mode={mode}, fill_value={fill_value})",
    unique_indices=False,
    indices_are_sorted=False,
)
rule(
    "gather",
    _GATHER
    + ", unique_indices={unique_indices}, indices_are_sorted={indices_are_sorted}, mode={mode}, fill_value={fill_value})",
)
for name in (
    "scatter",
    "scatter-add",
    "scatter-sub",
    "scatter-mul",
    "scatter-min",
    "scatter-max",
):
    call = (
        f"jax.lax.{name.replace('-', '_')}({{0}}, {{1}}, {{2}}, {{dimension_numbers}}"
    )
    implied = "{update_jaxpr:implied}{update_consts:implied}"
    implied_when = lacks("update_jaxpr") if name == "scatter" else on_any
    rule(
        name,
        f"{call}, mode={{mode}}){implied}",
        when=implied_when,
        unique_indices=False,
        indices_are_sorted=False,
    )
    rule(
        name,
        f"{call}, indices_are_sorted={{indices_are_sorted}}, unique_indices={{unique_indices}}, mode={{mode}}){implied}",
        when=implied_when,
    )

# ---- placement ---------------------------------------------------------------------

rule("optimization_barrier", "jax.lax.optimization_barrier(({0},))", when=operands(1))
rule("optimization_barrier", "jax.lax.optimization_barrier(({operands}))", when=several)
