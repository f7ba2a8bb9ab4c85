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
MAX_ALONE = 8  # arguments of a rule that is traced with each of them batched alone


def is_sequential(function: Any) -> bool:
    """Tell whether `jax.custom_batching.sequential_vmap` made a function with a rule."""
    return getattr(function.vmap_rule, "__code__", None) is _SEQUENTIAL


def batching_rule(params: dict[str, Any], avals: Sequence[Any]) -> list[Any]:
    """Trace the rule of a `custom_vmap_call` as it may be called.

    Every argument is batched, at two sizes, since a rule may take the size from elsewhere
    than its arguments; then each of a few arguments alone, since it may ask which are.

    Args:
      params: Of the equation.
      avals: The types of its operands.

    Returns:
      For each way the jaxpr, and which results are batched; or the name of the exception
      if the rule refuses one argument alone.

    Raises:
      Exception: If it refuses that every argument is batched.
    """
    constants, args = params["in_tree"].children()
    plain = avals[constants.num_leaves :]
    rule, n = params["rule"].rule, len(plain)
    ways = [_traced(rule, args, plain, [True] * n, size) for size in BATCH_SIZES]
    for i in range(n if 1 < n <= MAX_ALONE else 0):
        alone = [i == j for j in range(n)]
        try:
            ways.append(_traced(rule, args, plain, alone, BATCH_SIZES[0]))
        except Exception as error:  # the user's code
            ways.append(type(error).__name__)
    return ways


def _traced(
    rule: Any, tree: Any, avals: Sequence[Any], flags: Sequence[bool], size: int
) -> Any:
    out_flags: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        given = list(tree.unflatten(flags))
        out, out_batched = rule(size, given, *tree.unflatten(values))
        out_flags[:] = jax.tree.leaves(out_batched)
        return jax.tree.leaves(out)

    types = [_batched(a, size) if flag else a for a, flag in zip(avals, flags)]
    return trace_flat(flat, types), tuple(out_flags)


def _batched(aval: Any, size: int) -> Any:
    shape = (size, *aval.shape)
    return ShapedArray(shape, aval.dtype, weak_type=aval.weak_type)


_SEQUENTIAL = inner_code(_custom_batching.sequential_vmap, "rule")
