"""Functions with batching rules: `jax.custom_batching.custom_vmap`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax._src import custom_batching as _custom_batching

from untrace.jaxapi.avals import ShapedArray
from untrace.jaxapi.tracing import trace_flat
from untrace.jaxapi.wrappers import inner_code

CUSTOM_VMAP = _custom_batching.custom_vmap
BATCH_SIZES = (2, 3)


def is_sequential(function: Any) -> bool:
    """Tell whether `jax.custom_batching.sequential_vmap` made a function with a rule."""
    return getattr(function.vmap_rule, "__code__", None) is _SEQUENTIAL


def batching_rule(params: dict[str, Any], avals: Sequence[Any]) -> list[Any]:
    """Trace the rule of a `custom_vmap_call` with every argument batched.

    Sizes that a rule takes from elsewhere than its arguments show at a second one.

    Args:
      params: Of the equation.
      avals: The types of its operands.

    Returns:
      For each size the jaxpr, and which results are batched.
    """
    constants, args = params["in_tree"].children()
    plain = avals[constants.num_leaves :]
    return [_at_size(params["rule"].rule, args, plain, size) for size in BATCH_SIZES]


def _at_size(rule: Any, tree: Any, avals: Sequence[Any], size: int) -> Any:
    flags = list(tree.unflatten([True] * tree.num_leaves))
    batched: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        out, out_batched = rule(size, flags, *tree.unflatten(values))
        batched[:] = jax.tree.leaves(out_batched)
        return jax.tree.leaves(out)

    return trace_flat(flat, [_batched(aval, size) for aval in avals]), tuple(batched)


def _batched(aval: Any, size: int) -> Any:
    shape = (size, *aval.shape)
    return ShapedArray(shape, aval.dtype, weak_type=aval.weak_type)


_SEQUENTIAL = inner_code(_custom_batching.sequential_vmap, "rule")
