"""Write `jax.tree.map(f, tree)`, if `f` did the same for every leaf."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.trees import n_numbers
from untrace.lifting.recorded.building import call, text_term
from untrace.lifting.recorded.calls.arguments import public_arguments
from untrace.lifting.recorded.calls.leaf_kinds import map_by_kind
from untrace.lifting.recorded.calls.leaf_runs import may_be, takes_twice
from untrace.lifting.recorded.calls.operators import operator_term
from untrace.lifting.recorded.calls.tails import tails
from untrace.lifting.recorded.expressions import built, with_numbers
from untrace.lifting.recorded.folding import finish
from untrace.lifting.recorded.functions.definitions import bound_parameters
from untrace.lifting.recorded.functions.function_values import Given
from untrace.lifting.recorded.functions.nested import seen
from untrace.lifting.recorded.functions.parameters import passed_parameters
from untrace.lifting.recorded.functions.run_keys import distinct
from untrace.lifting.recorded.functions.runs import runs_of
from untrace.lifting.recorded.naming.unpacking import unpack_parameters
from untrace.lifting.recorded.naming.values import (
    arrays_in,
    has_array,
    hides_arrays,
    is_array,
)
from untrace.lifting.recorded.printing import render
from untrace.lifting.recorded.terms import Literal, Term
from untrace.lifting.recorded.tree import Draft
from untrace.lifting.recorded.unwritable import UnknownArray, Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling import spell
from untrace.optional import Signal
from untrace.recovery.record import Body, Call, Place, calls_inside
from untrace.syntax.steps import Path


class Unrolled(Signal):
    """A function that did different things for different leaves of a tree."""


def tree_call(item: Call, home: tuple[str, str], writer: Writer) -> Term:
    """Write a call of one of JAX's functions on trees.

    Args:
      home: The module and name of what is called.
      writer: Writes the function around it.

    Raises:
      Unrolled: If what it does for each leaf is to be written instead.
      Unwritable: If it makes arrays of what is none.
    """
    is_map = home[1] in ("map", "tree_map")
    if item.is_partial:
        raise Unrolled
    is_leaf = writer.in_library and is_map and _is_leaf_map(item)
    if is_leaf and item.place not in _tree_places(writer):
        return _leaf_call(item, writer)
    runs = _runs_on_arrays(item)
    if item.kwargs.get("is_leaf") is not None and any(map(_takes_trees, runs)):
        return _map_by_kind(item, runs, is_map, writer)
    if any(map(_makes_arrays, runs)) or any(hides_arrays(run.result) for run in runs):
        raise Unrolled
    if not runs and is_map and _has_more(item, writer):
        return _map_over_numbers(item, writer)
    kwargs = {k: v for k, v in item.kwargs.items() if k != "is_leaf"}
    before = writer.program.tail
    writer.program.n_trials += 1
    try:
        told = _told_apart(runs, writer)
        if told is not None:
            if is_map and _changes_nothing(told, writer):
                _stand_for_argument(item, writer)
            shown = replace(item, bodies=told, kwargs=kwargs)
            name = home[1].removeprefix("tree_")
            if writer.in_library and hasattr(jax.tree, name):
                home = "jax.tree", name
            if writer.in_library and _is_sum(shown, name):
                return _sum_term(shown.args[1], writer)
            function = writer.program.home_term(home)
            return call(function, public_arguments(shown, writer))
    except UnknownArray:
        raise
    except Unwritable:  # a tree of what is no array directs the function
        pass
    finally:
        writer.program.n_trials -= 1
        writer.program.tail = before
    raise Unrolled


def _told_apart(runs: Sequence[Body], writer: Writer) -> Sequence[Body] | None:
    """Return the runs that tell what a function did, if it did the same for every leaf.

    If only the shapes differ that a function of the user made, they are written after
    those of the leaves from now on.
    """
    found = _telling(runs, writer)
    if found is not None or writer.in_library:
        return found
    for tail in tails(runs):
        writer.program.tail = tail
        found = _telling(runs, writer)
        if found is not None:
            return found
    return None


def _telling(runs: Sequence[Body], writer: Writer) -> Sequence[Body] | None:
    """Return the runs that tell what a function did, if all did the same.

    Those on leaves that it closes over, on one leaf twice, or on numbers do not if there
    are others.
    """
    drafts = {run: _written(run, writer) for run in distinct(runs)}
    closed = {(id(ref.name), ref.path) for d in drafts.values() for ref in seen(d)}
    doubtful = {
        run: draft
        for run, draft in drafts.items()
        if takes_twice(draft)
        or _numbers(run)
        or closed & {*_places_of_parameters(draft, writer)}
    }
    known = {run: draft for run, draft in drafts.items() if run not in doubtful}
    if not known:
        known, doubtful = doubtful, {}
    # Before they are written, which names their variables.
    first = next(iter(known.values()), None)
    for run, draft in doubtful.items():
        imports = writer.program.lifter.imports
        literal = {n: Literal(spell(v, imports), v) for n, v in _numbers(run).items()}
        if first is not None and not may_be(first, draft, literal):
            return None
    texts = [*map(_run_text, known.values())]
    if any(text != texts[0] for text in texts):
        return None
    return list(known) if doubtful else runs


def _changes_nothing(runs: Sequence[Body], writer: Writer) -> bool:
    """Whether a library's function gives back the leaves, as it is written.

    It may have marked them, for derivatives that the program does not take.
    """
    if not writer.in_library or not runs or not runs[0].calls:
        return False
    draft = _written(runs[0], writer)
    given = draft.result.ref if draft.result is not None else None
    if given is None or draft.statements:
        return False
    ref = given.resolved()
    return not ref.path and [ref.name] == [one.name for one in draft.parameters]


def _stand_for_argument(item: Call, writer: Writer) -> None:
    """Let the result of a map stand for the tree that it was given, if that has a name.

    Raises:
      Unrolled: If it has.
    """
    found = writer.find(writer.values.key(item.args[1]))
    if found is None:
        return
    writer.values.define(item.result, *found)
    writer.program.shapes.add(*writer.values.tree(item.result), found[0].hint)
    raise Unrolled


def _numbers(run: Body) -> dict[str, float]:
    """Return the parameters that held numbers of Python in a run."""
    held = run.parameters.items()
    return {name: value for name, value in held if type(value) in (int, float)}


def _places_of_parameters(draft: Draft, writer: Writer) -> Iterator[tuple[int, Path]]:
    """Yield where around a function its parameters are held as well."""
    for parameter in draft.parameters:
        held = parameter.name.held
        found = writer.find(id(held)) if is_array(held) else None
        if found is not None:
            yield id(found[0]), found[1]


def _is_sum(item: Call, name: str) -> bool:
    """Whether a call adds the leaves of a tree to 0, as `sum` does."""
    values = [*item.args, *item.kwargs.values()]
    given = [value for value in values if value is not None]
    if name != "reduce" or len(given) != 3 or not {*item.kwargs} <= {"initializer"}:
        return False
    return given[0] is operator.add and type(given[2]) is int and given[2] == 0


def _sum_term(tree: Any, writer: Writer) -> Term:
    leaves = call(
        writer.program.home_term(("jax.tree", "leaves")), [writer.value(tree)]
    )
    return call(text_term("sum"), [leaves])


def _leaf_call(item: Call, writer: Writer) -> Term:
    """Write an operator that is mapped over one array as what it does."""
    if item.bodies:
        raise Unrolled
    function, *leaves = item.args
    sign = jaxapi.Operator(function.__name__)
    shown = replace(item, function=sign, args=tuple(leaves), kwargs={})
    return operator_term(shown, writer)


def _runs_on_arrays(item: Call) -> list[Body]:
    """Return the runs of the function that is mapped that take or return arrays."""
    function = item.args[0] if item.args else None
    return [
        run
        for run in runs_of(function, item.bodies)
        if has_array(run.result) or any(map(has_array, run.parameters.values()))
    ]


def _map_by_kind(
    item: Call, runs: Sequence[Body], is_map: bool, writer: Writer
) -> Term:
    """Write a function that does one thing for arrays, and another for objects."""
    if not is_map:
        raise Unrolled
    writer.program.n_trials += 1
    try:
        made = map_by_kind(
            item,
            runs,
            lambda run: _written(run, writer),
            lambda alike: _telling(alike, writer) is not None,
            writer,
        )
    finally:
        writer.program.n_trials -= 1
    if made is None:
        raise Unrolled
    return made


def _run_text(draft: Draft) -> Any:
    """Return what one run of a function does, to compare it with others.

    What it sees of the functions around it may have no name yet.
    """
    around = [(id(ref.name), ref.path) for ref in seen(draft)]
    made = render(draft)
    return made.parameters, tuple(made.lines), tuple(around)


def _written(run: Body, writer: Writer) -> Draft:
    """Write one run of a function."""
    draft = Draft("run")
    inner = Writer(writer.program, draft, parent=writer, setting=run.setting)
    inner.given = Given(run)
    dropped = bound_parameters(run.function, run)
    passed_parameters(run, dropped, inner)
    unpack_parameters(run.parameters, run.code, inner)
    inner.body(run.calls)
    draft.result = inner.value(run.result)
    finish(draft)
    return draft


def _tree_places(writer: Writer) -> Set[Place]:
    """Return where functions are mapped over trees, so that one text serves for arrays, too."""
    plan = writer.program.plan
    if plan.tree_places is None:
        plan.tree_places = {
            item.place
            for item in calls_inside(plan.recording)
            if item.place is not None
            and jaxapi.is_tree_function(item.function)
            and any(len(arrays_in(tree)) > 1 for tree in item.args[1:])
        }
    return plan.tree_places


def _is_leaf_map(item: Call) -> bool:
    """Whether an operator, or a function that ran once, is mapped to one array."""
    function, *trees = item.args
    if item.bodies:
        return len(item.bodies) == 1 == len(arrays_in(item.result))
    is_operator = getattr(function, "__module__", "") == "_operator"
    return is_operator and all(map(is_array, [*trees, item.result]))


def _takes_trees(body: Body) -> bool:
    """Whether a function was given what is neither an array nor None."""
    return any(
        value is not None and not is_array(value) for value in body.parameters.values()
    )


def _makes_arrays(body: Body) -> bool:
    """Whether a function made an array of what is none."""
    is_given = any(map(has_array, body.parameters.values()))
    return has_array(body.result) and not is_given


def _map_over_numbers(item: Call, writer: Writer) -> Term:
    """Write a function that makes arrays of the numbers in a tree, too."""
    function, value, *others = item.args
    tree, arrays = with_numbers(value, writer)
    n_made = len(arrays_in(item.result))
    if others or n_made != len(arrays) + n_numbers(tree):
        raise Unwritable("it makes arrays of what is none")
    writer.program.rearranged.append(tree)
    mapped = writer.program.home_term(("jax.tree", "map"))
    return call(mapped, [writer.value(function), built(tree, arrays, writer)])


def _has_more(item: Call, writer: Writer) -> bool:
    """Whether a result holds more arrays than the tree has leaves as it is written."""
    tree, arrays = writer.values.tree(item.args[1])
    return len(arrays_in(item.result)) > len(arrays) + n_numbers(tree)
