"""Let functions that a library differentiates return only what is new beside the value.

`nnx.value_and_grad` returns the whole state of a module, of which the parameters are what
was passed. Written is `(loss, state), grads = jax.value_and_grad(...)`, where the state is
what the function has changed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.capture.trees import Leaf, Tree, build, is_builtin, leaves
from untrace.lifting.recorded.calls.unwrapping import is_pair
from untrace.lifting.recorded.writer import Writer
from untrace.optional import optional, unchanged
from untrace.recovery.functions import innermost
from untrace.recovery.record import Body, Call, is_library


@optional(unchanged)
def with_new_aux(item: Call, writer: Writer) -> Call:
    """Return a call of a differentiated function without what it returns unchanged."""
    made = item.function
    run = _run(item) if _has_aux(made) else None
    if run is None or not is_pair(run.result):
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
    parts = list(_members(kept, ""))
    names = tuple([name for name, _ in parts])
    aux, inside = [
        tuple([build(part, held, {}) for _, part in parts])
        for held in (arrays, inner_arrays)
    ]
    if len(parts) == 1:
        (aux,), (inside,), (names,) = aux, inside, names
    shown = replace(run, result=(run.result[0], inside))
    result: Any = (value, aux)
    target: Any = ("value", names) if is_first else ("grads", names)
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


def _members(tree: Tree, name: str) -> Iterator[tuple[str, Tree]]:
    """Yield the parts of nested tuples with their names.

    Containers of one thing around a part are left out.
    """
    if isinstance(tree, Leaf):
        yield name or "aux", tree
    elif len(tree.children) == 1 or tree.kind in ("tuple", "list"):
        for key, child in zip(tree.keys, tree.children):
            yield from _members(child, key if isinstance(key, str) else name)
    else:
        yield "state", tree


def _only(tree: Tree, kept: Collection[int]) -> Tree:
    """Leave out the other leaves of a tree."""
    if isinstance(tree, Leaf):
        return tree
    pairs = [
        (key, _only(child, kept))
        for key, child in zip(tree.keys, tree.children)
        if not set(kept).isdisjoint(leaves(child))
    ]
    keys: Sequence[Any] = [key for key, _ in pairs]
    if tree.kind in ("tuple", "list"):
        keys = range(len(pairs))
    return replace(tree, keys=tuple(keys), children=tuple(child for _, child in pairs))
