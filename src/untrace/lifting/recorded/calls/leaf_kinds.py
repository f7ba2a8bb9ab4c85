"""Write a function that is mapped over a tree and treats two kinds of leaves differently.

A library marks some leaves by putting them into objects of a class of its own, and maps
`lambda x: x.array if isinstance(x, Marked) else jnp.array(x)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from untrace.capture.trees import Node
from untrace.lifting.recorded.building import call, keyword
from untrace.lifting.recorded.functions.library import lambda_term
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.terms import Global, Ref, Term, placed
from untrace.lifting.recorded.tree import Draft
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.recovery.record import Body, Call
from untrace.syntax.precedence import LAMBDA, OR


@optional(gives(None))
def map_by_kind(
    item: Call,
    runs: Sequence[Body],
    written: Callable[[Body], Draft],
    are_alike: Callable[[Sequence[Body]], bool],
    writer: Writer,
) -> Term | None:
    """Write `jax.tree.map(f, tree, is_leaf=g)` where `f` asks for the class of a leaf.

    Args:
      runs: The runs of the function.
      written: Writes one run as a function.
      are_alike: Tells whether runs have one text.
      writer: Writes the function around the call.

    Returns:
      The call, which passes on only the trees that are needed; None if the function is
      more than a choice between two expressions.
    """
    others = [run for run in runs if not any(_kinds(run))]
    marked = [run for run in runs if run not in others]
    if len(set(map(_kinds, marked))) != 1 or not others:
        return None
    if not _are_outermost(item.args[1], marked):
        return None
    if not (are_alike(marked) and are_alike(others)):
        return None
    first, second = written(marked[0]), written(others[0])
    if not (_is_expression(first) and _is_expression(second)):
        return None
    pairs = list(zip(first.parameters, second.parameters))
    used = [i for i, pair in enumerate(pairs) if any(p.name.uses for p in pair)]
    trees = item.args[1:]
    if not used or len(pairs) != len(trees):
        return None
    described, _ = writer.values.tree([*marked[0].parameters.values()][used[0]])
    if not isinstance(described, Node) or described.kind not in ("replaced", "fields"):
        return None
    chosen = Draft("function", [pairs[i][0] for i in used])
    for one, other in pairs:
        other.name.alias = one.name, ()
        one.name.uses += other.name.uses
    kind = Global(writer.program.class_name(described))
    assert first.result is not None and second.result is not None
    leaf = chosen.parameters[0]
    choice = _is_instance(Term([Ref(leaf.name)]), kind)
    parts = [*placed(first.result, OR), " if ", *choice.parts, " else "]
    chosen.result = Term([*parts, *placed(second.result, LAMBDA)], LAMBDA)
    is_leaf = Term(["lambda x: ", *_is_instance(Term(["x"]), kind).parts], LAMBDA)
    arguments = [writer.value(trees[i]) for i in used]
    mapped = writer.program.home_term(("jax.tree", "map"))
    function = lambda_term(chosen)
    return call(mapped, [function, *arguments, keyword("is_leaf", is_leaf)])


def _is_instance(value: Term, kind: Global) -> Term:
    return call(Term(["isinstance"]), [value, Term([kind])])


def _are_outermost(tree: Any, runs: Sequence[Body]) -> bool:
    """Whether the objects that runs were given are all of their class in a tree.

    An object may hold another one of its class, which alone is a leaf to the library.
    """
    taken = [next(iter(run.parameters.values())) for run in runs]
    classes = tuple({type(value) for value in taken})
    leaves = jax.tree.leaves(tree, is_leaf=lambda x: isinstance(x, classes))
    found = [leaf for leaf in leaves if isinstance(leaf, classes)]

    def held(objects: Sequence[Any]) -> list[list[int]]:
        return [[*map(id, jax.tree.leaves(each))] for each in objects]

    return held(found) == held(taken)


def _kinds(run: Body) -> frozenset[Any]:
    """Return the classes that a run was given objects of; None stands for arrays."""
    values = run.parameters.values()
    return frozenset(None if is_array(value) else type(value) for value in values)


def _is_expression(draft: Draft) -> bool:
    is_plain = not any(p.stars or p.is_keyword for p in draft.parameters)
    return is_plain and draft.result is not None and not draft.statements_left()
