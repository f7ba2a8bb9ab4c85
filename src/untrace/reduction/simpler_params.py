"""Simpler settings of the params of an equation: one line per param.

What is proposed need not trace: strides, groups and axes change shapes. Each setting
taken leaves fewer to propose, so taking them comes to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jax import lax

from untrace import jaxapi
from untrace.ir import Equation
from untrace.jaxapi import plainness

Simpler = Callable[[Any], Iterator[Any]]


def simpler_params(eqn: Equation) -> Iterator[dict[str, Any]]:
    """List simpler settings of single params of an equation, simplest first.

    Yields:
      Params to set; none of them is set so already.
    """
    own = OWN_PARAMS.get(eqn.name, NO_PARAMS)
    for name, value in eqn.params.items():
        rule = own.get(name) or PARAMS.get(name)
        if rule is not None:
            for simpler in rule(value):
                yield {name: simpler}


def _is(simplest: Any) -> Simpler:
    """Propose one setting."""

    def rule(value: Any) -> Iterator[Any]:
        if value is not simplest and value != simplest:
            yield simplest

    return rule


def _each_is(simplest: Any) -> Simpler:
    """Propose one setting for all entries, then for single ones."""

    def rule(value: Any) -> Iterator[Any]:
        if not isinstance(value, tuple):
            return
        others = [i for i, entry in enumerate(value) if entry != simplest]
        if others:
            yield (simplest,) * len(value)
        if len(others) > 1:
            for i in others:
                yield (*value[:i], simplest, *value[i + 1 :])

    return rule


def _fewer(value: Any) -> Iterator[Any]:
    """Leave out one of several."""
    if len(value) > 1:
        for i in range(len(value)):
            yield (*value[:i], *value[i + 1 :])


def _leave(value: Any) -> Iterator[Any]:
    yield from ()


def _without_strides(value: Any) -> Iterator[Any]:
    if value is not None:
        yield None


def _not_inlined(value: Any) -> Iterator[Any]:
    simplest = plainness.default_inline(value)
    if value != simplest:
        yield simplest


def _unspecified(value: Any) -> Iterator[Any]:
    if any(not jaxapi.is_unspecified(sharding) for sharding in value):
        yield (plainness.UNSPECIFIED,) * len(value)


def _without_interior(value: Any) -> Iterator[Any]:
    yield from _each_is((0, 0, 0))(value)
    if any(interior for _, _, interior in value):
        yield tuple((low, high, 0) for low, high, _ in value)


NO_PARAMS: Mapping[str, Simpler] = {}
SCATTERS = ("", "-add", "-max", "-min", "-mul", "-sub")
_INDEXED = {
    "mode": _is(lax.GatherScatterMode.FILL_OR_DROP),
    "fill_value": _is(None),
}
_ONES = {
    "window_dimensions": _each_is(1),
    "window_strides": _each_is(1),
    "base_dilation": _each_is(1),
    "window_dilation": _each_is(1),
    "padding": _each_is((0, 0)),
}

PARAMS: dict[str, Simpler] = {
    "accuracy": _is(None),
    "axis_index_groups": _is(None),
    "compiler_options_kvs": _is(()),
    "conjugate_a": _is(False),
    "differentiated": _is(False),
    "donated_invars": _each_is(False),
    "in_layouts": _each_is(None),
    "in_shardings": _unspecified,
    "indices_are_sorted": _is(False),
    "inline": _not_inlined,
    "keep_unused": _is(False),
    "num_keys": _is(1),
    "out_layouts": _each_is(None),
    "out_sharding": _is(None),
    "out_shardings": _unspecified,
    "policy": _is(None),
    "precision": _is(None),
    "preferred_element_type": _is(None),
    "prevent_cse": _is(True),
    "reverse": _is(False),
    "sharding": _is(None),
    "symbolic_zeros": _is(False),
    "transpose_a": _is(False),
    "unique_indices": _is(False),
    "unit_diagonal": _is(False),
    "unroll": _is(1),
    "weak_type": _is(False),
    "_split_transpose": _is(False),
}

# Params whose name alone does not tell what they are.
OWN_PARAMS: dict[str, Mapping[str, Simpler]] = {
    "conv_general_dilated": {
        "window_strides": _each_is(1),
        "padding": _each_is((0, 0)),
        "lhs_dilation": _each_is(1),
        "rhs_dilation": _each_is(1),
        "feature_group_count": _is(1),
        "batch_group_count": _is(1),
    },
    "reduce_window": _ONES,
    "reduce_window_max": _ONES,
    "reduce_window_min": _ONES,
    "reduce_window_sum": _ONES,
    "select_and_scatter_add": _ONES,
    "select_and_gather_add": _ONES,
    "pad": {"padding_config": _without_interior},
    "slice": {"strides": _without_strides},
    "sort": {"is_stable": _is(True)},
    "top_k": {"is_stable": _is(True)},
    "eigh": {"algorithm": _is(None), "lower": _is(True), "subset_by_index": _is(None)},
    "svd": {"algorithm": _is(None), "subset_by_index": _is(None)},
    "qr": {"pivoting": _is(False), "use_magma": _is(None)},
    "reduce": {"dimensions": _fewer},
    "sharding_constraint": {"sharding": _leave},
    "gather": _INDEXED,
    **{f"scatter{kind}": _INDEXED for kind in SCATTERS},
    **{
        name: {"axes": _fewer}
        for name in (
            "reduce_and",
            "reduce_max",
            "reduce_min",
            "reduce_or",
            "reduce_prod",
            "reduce_sum",
            "reduce_xor",
        )
    },
}
