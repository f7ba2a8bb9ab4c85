"""Functions with batching rules: `jax.custom_batching.custom_vmap`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
from jax._src import custom_batching as _custom_batching

from untrace.jaxapi.avals import ShapedArray
from untrace.jaxapi.params import PyTreeDef
from untrace.jaxapi.tracing import trace_flat
from untrace.jaxapi.wrappers import inner_code

CUSTOM_VMAP = _custom_batching.custom_vmap
BATCH_SIZES = (2, 3)
MAX_ALONE = 8  # arguments of a rule that is traced with each of them batched alone


class BatchingCall(NamedTuple):
    """A batching rule, and the trees of what it takes and returns.

    The first `n_consts` operands are what the function closes over; the rule is given
    those behind them.
    """

    rule: Any
    n_consts: int
    in_tree: Any
    out_tree: Any

    @property
    def n_leaves(self) -> tuple[int, int, int]:
        """The numbers of constants, of leaves of the arguments, and of the results."""
        return self.n_consts, self.in_tree.num_leaves, self.out_tree.num_leaves

    @property
    def is_flat(self) -> bool:
        """Whether the rule takes leaves, and returns one leaf or a tuple of them."""
        is_one = _is_leaf(self.out_tree)
        is_several = _is_tuple_of_leaves(self.out_tree) and self.n_leaves[2] != 1
        return _is_tuple_of_leaves(self.in_tree) and (is_one or is_several)


def _is_leaf(tree: Any) -> bool:
    return tree.node_data() is None


def _is_tuple_of_leaves(tree: Any) -> bool:
    # Trees of JAX's own registry (jax 0.12) are unequal to those of the user's.
    node = tree.node_data()
    return node is not None and node[0] is tuple and all(map(_is_leaf, tree.children()))


def batching_call(params: dict[str, Any]) -> BatchingCall | None:
    """Read the params of a `custom_vmap_call`, None if JAX does not make such ones.

    The rule of a function is held in an object beside what the function closes over. That
    of a derivative of the function is one of JAX, which is given these, too.
    """
    values: list[Any] = [params.get(k) for k in ("rule", "in_tree", "out_tree")]
    rule, in_tree, out_tree = values
    if not all(isinstance(tree, PyTreeDef) for tree in (in_tree, out_tree)):
        return None
    if not isinstance(rule, _custom_batching.ClosedRule):
        return BatchingCall(rule, 0, in_tree, out_tree) if callable(rule) else None
    parts = in_tree.children()
    if len(parts) != 2:
        return None
    return BatchingCall(rule.rule, parts[0].num_leaves, parts[1], out_tree)


def rule_of_leaves(call: BatchingCall) -> Callable[..., Any]:
    """Return a batching rule as one of the leaves of what it takes and returns."""

    def rule(axis_size: int, in_batched: Any, *leaves: Any) -> Any:
        args, flags = (call.in_tree.unflatten(each) for each in (leaves, in_batched))
        made = call.rule(axis_size, list(flags), *args)
        (out, tree), (out_batched, flag_tree) = map(jax.tree.flatten, made)
        _custom_batching.check_vmap_rule_trees(
            call.rule, call.out_tree, tree, flag_tree
        )
        if len(out) == 1:
            return out[0], out_batched[0]
        return tuple(out), tuple(out_batched)

    return rule


def is_sequential(function: Any) -> bool:
    """Whether `jax.custom_batching.sequential_vmap` made a function with a rule."""
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
