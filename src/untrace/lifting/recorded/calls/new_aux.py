"""Let functions that a library differentiates return only what is new beside the value.

`nnx.value_and_grad` returns the whole state of a module, of which the parameters are what
was passed. Written is `(loss, state), grads = jax.value_and_grad(...)`, where the state is
what the function has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from untrace import jaxapi
from untrace.capture.trees import Leaf, Node, Tree, build, is_builtin, leaves
from untrace.recovery.functions import innermost
from untrace.recovery.record import Body, Call, is_library

if TYPE_CHECKING:
    from untrace.lifting.recorded.writer import Writer


def with_new_aux(item: Call, writer: Writer) -> Call:
    """Return a call of a differentiated function without what it returns unchanged."""
    made = item.function
    run = _run(item) if _has_aux(made) else None
    if run is None or not _is_pair(run.result):
        return item
    is_first = made.maker[1] == "value_and_grad"
    pair = item.result[0] if is_first else item.result
    value, aux = pair if is_first else (pair[0], pair[1])
    inside, outside = run.result[1], aux
    tree, arrays = writer.values.tree(outside)
    inner, inner_arrays = writer.values.tree(inside)
    new = {i for i in leaves(tree) if writer.find(id(arrays[i])) is None}
    if tree != inner or not new or len(new) == len(arrays):
        return item
    kept = _only(tree, new)
    if not is_builtin(kept):
        return item
    aux, inside = build(kept, arrays, {}), build(kept, inner_arrays, {})
    shown = replace(run, result=(run.result[0], inside))
    name = "aux" if isinstance(kept, Leaf) else "state"
    result: Any = (value, aux)
    target: Any = ("value", name) if is_first else ("grads", name)
    if is_first:
        result, target = (result, item.result[1]), (target, "grads")
    bodies = [shown if one is run else one for one in item.bodies]
    return replace(item, result=result, target=target, bodies=bodies)


def _has_aux(made: Any) -> bool:
    return (
        isinstance(made, jaxapi.Transformed)
        and made.maker[1] in ("grad", "value_and_grad")
        and bool(made.options.get("has_aux"))
    )


def _run(item: Call) -> Body | None:
    """Return the only run of the function, if it is a library's."""
    function = innermost(item.function.function)
    if function is None or not is_library(function.__code__):
        return None
    runs = [one for one in item.bodies if one.code is function.__code__]
    return runs[0] if len(runs) == 1 and runs[0].opened is None else None


def _is_pair(value: Any) -> bool:
    return type(value) is tuple and len(value) == 2


def _only(tree: Tree, kept: Collection[int]) -> Tree:
    """Leave out the other leaves of a tree, and containers of one thing around all."""
    tree = _pruned(tree, kept)
    while isinstance(tree, Node) and len(tree.children) == 1:
        (tree,) = tree.children
    return tree


def _pruned(tree: Tree, kept: Collection[int]) -> Tree:
    if isinstance(tree, Leaf):
        return tree
    pairs = [
        (key, _pruned(child, kept))
        for key, child in zip(tree.keys, tree.children)
        if not set(kept).isdisjoint(leaves(child))
    ]
    keys: Sequence[Any] = [key for key, _ in pairs]
    if tree.kind in ("tuple", "list"):
        keys = range(len(pairs))
    return replace(tree, keys=tuple(keys), children=tuple(child for _, child in pairs))
