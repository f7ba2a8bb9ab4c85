"""Write calls of libraries that put the arrays of trees into other trees.

Equinox splits a tree by `partition` into two that have None where the other has a leaf,
and puts them together again by `combine`. Nothing is computed, so such a call is left
out as a rule, and trees are built of their parts where they are used. Large trees are
split and put together as the library does it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.lifting.recorded.building import call
from untrace.lifting.recorded.expressions import tree_term
from untrace.lifting.recorded.naming.leaves import put_into, structure_term
from untrace.lifting.recorded.naming.naming import rename
from untrace.lifting.recorded.naming.values import arrays_in
from untrace.lifting.recorded.terms import Global, Term
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.recovery.record import Body, Call

MIN_LEAVES = 4
MIN_UNFLATTENED = 3  # of a tree of the user


@optional(gives(False))
def rearranges(item: Call) -> bool:
    """Whether a call puts the arrays that it was given into another tree.

    Symbolic zeros are no arrays that it would have made.
    """
    if not jaxapi.is_tree_function(item.function):
        return False
    made = arrays_in(item.result)
    if not made:
        return bool(item.bodies) and all(map(_hands_on, item.bodies))
    given = set(map(id, arrays_in([item.args, item.kwargs])))
    return all(id(array) in given or _is_zero(array) for array in made)


def _hands_on(body: Body) -> bool:
    """Whether a function only returned what it was given."""
    given = body.parameters.values()
    return not body.calls and any(body.result is value for value in given)


def write_rearranged(item: Call, writer: Writer) -> None:
    """Write such a call, if it splits a large tree or puts leaves or two together."""
    if not writer.in_library and item.function in _UNFLATTEN:
        _write_unflattened(item, writer)
        return
    is_map = item.function in (jax.tree.map, jax.tree_util.tree_map)
    if not (writer.in_library and is_map):
        return
    trees = [arg for arg in item.args[1:] if arrays_in(arg)]
    if max([len(arrays_in(tree)) for tree in trees], default=0) < MIN_LEAVES:
        return
    if not all(_is_known(array, writer) for array in arrays_in(trees)):
        return
    if writer.find(writer.values.key(item.result)) is not None:
        rename(item.result, item.target, writer)
        return
    helper = _helper(trees, item.result)
    if not helper:
        return
    trees = trees[: 1 if helper in ("inexact", "exact") else 2]
    for tree in trees:
        if writer.find(writer.values.key(tree)) is None:
            writer.assign(_result_of(item, tree), tree_term(tree, writer))
    terms = [tree_term(tree, writer) for tree in trees]
    writer.program.rearranged += [writer.values.tree(tree)[0] for tree in trees]
    name = writer.program.lifter.helper(helper)
    writer.assign(item, call(Term([Global(name)]), terms))


def _is_known(array: Any, writer: Writer) -> bool:
    """Whether an array has a name, or is a constant."""
    is_tracer = isinstance(array, jaxapi.Tracer)
    return not is_tracer or writer.find(id(array)) is not None


def _result_of(item: Call, tree: Any) -> Call:
    """Return a call that made a tree, which nobody has named."""
    return replace(item, result=tree, target=None)


_UNFLATTEN = (jax.tree.unflatten, jax.tree_util.tree_unflatten)


def _write_unflattened(item: Call, writer: Writer) -> None:
    """Put new leaves into a tree that is like another one, as the user's code does."""
    treedef, leaves = item.args if len(item.args) == 2 else (None, ())
    if len(leaves) < MIN_UNFLATTENED or not all(
        _is_known(leaf, writer) for leaf in leaves
    ):
        return
    if writer.find(writer.values.key(item.result)) is not None:
        return  # they are the leaves of a tree that has a name
    structure = structure_term(treedef, writer)
    if structure is None:
        return
    known = [(id(leaf), writer.values.find(id(leaf))) for leaf in leaves]
    writer.assign(item, put_into(structure, writer.value([*leaves]), writer))
    for key, found in known:  # they are still items of the list
        if found is not None and not found[1]:
            writer.values.add(key, found[0])


def _helper(trees: Sequence[Any], result: Any) -> str:
    """Return the name of the helper that makes a tree of others; "" if none does."""
    wanted = _ids(result)
    if len(trees) == 2:
        for name, emulate in (("combine", _combine), ("with_zeros", _with_zeros)):
            with contextlib.suppress(TypeError, ValueError):  # they do not go together
                if _ids(emulate(*trees)) == wanted:
                    return name
    first = arrays_in(trees[0])
    if len(wanted) == len(first):
        return ""
    for name, is_kept in (("inexact", True), ("exact", False)):
        if [id(x) for x in first if _is_inexact(x) == is_kept] == wanted:
            return name
    return ""


def _combine(first: Any, second: Any) -> Any:
    """Do what the helper does, but refuse two leaves in one place."""
    if first is None or second is None:
        return second if first is None else first
    if jax.tree_util.all_leaves([first]):
        raise ValueError("both trees have a leaf")
    return jax.tree.map(_combine, first, second, is_leaf=lambda x: x is not first)


def _is_inexact(array: Any) -> bool:
    return bool(jnp.issubdtype(array.dtype, jnp.inexact))


def _with_zeros(tangents: Any, primals: Any) -> Any:
    """Do what the helper does."""
    return jax.tree.map(
        lambda t, p: jax.tree.map(_ZERO.from_primal_value, p) if t is None else t,
        tangents,
        primals,
        is_leaf=lambda t: t is None,
    )


_ZERO = jax.custom_derivatives.SymbolicZero


def _is_zero(array: Any) -> bool:
    return isinstance(array, _ZERO)


def _ids(tree: Any) -> list[int]:
    """List the arrays in a tree by identity; all symbolic zeros are one."""
    return [0 if _is_zero(array) else id(array) for array in arrays_in(tree)]
