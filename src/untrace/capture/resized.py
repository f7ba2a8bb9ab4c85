"""Arguments of a function with other sizes of some axes, to trace it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from untrace.capture.capture import static_keys, traced_arguments
from untrace.capture.inputs import are_dynamic


def resized(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    sizes: Mapping[tuple[int, int], int],
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
    fixed: frozenset[type] = frozenset(),
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments with other sizes of some axes of the inputs of `capture`.

    Inputs of other sizes are abstract.
    """
    static = static_keys(function, args, kwargs, static_argnums, static_argnames)
    given: dict[int | str, Any] = {**dict(enumerate(args)), **kwargs}
    bound = traced_arguments(function, args, kwargs, static)
    arguments = [given[item.key] for item in bound]
    leaves, treedef = jax.tree.flatten(arguments)
    inputs = [i for i, is_input in enumerate(are_dynamic(arguments, fixed)) if is_input]
    for (position, axis), size in sizes.items():
        leaf = leaves[inputs[position]]
        shape = (*leaf.shape[:axis], size, *leaf.shape[axis + 1 :])
        is_weak = getattr(leaf, "weak_type", False)
        made = jax.ShapeDtypeStruct(shape, leaf.dtype, weak_type=is_weak)
        leaves[inputs[position]] = made
    values = jax.tree.unflatten(treedef, leaves)
    given.update(zip((item.key for item in bound), values))
    return tuple([given[i] for i in range(len(args))]), {k: given[k] for k in kwargs}
