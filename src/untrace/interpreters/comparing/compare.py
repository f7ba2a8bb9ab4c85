"""Compare two captured programs: the checker's verdict, and the statements behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from untrace import jaxapi
from untrace.capture import Captured
from untrace.capture.trees import accessors
from untrace.interpreters.comparing.changes import Change, Hunks, Row
from untrace.interpreters.comparing.comparison import Comparison
from untrace.interpreters.comparing.differences import Walk
from untrace.interpreters.comparing.reasons import type_reason
from untrace.ir import Block, from_jaxpr
from untrace.lifting.lift import count_blocks
from untrace.printable import printable
from untrace.verification.compare import compare
from untrace.verification.difference import Difference, short_type
from untrace.verification.equivalence import equivalent, graph_of
from untrace.verification.interface import (
    Interface,
    interface_difference,
    tree_difference,
)


def compare_programs(
    before: Captured, after: Captured, n_context: int = 3, are_anew: bool = False
) -> Comparison:
    """Compare two programs.

    Args:
      before: The first program.
      after: The second program.
      n_context: How many statements to show around each that differs.
      are_anew: Whether the second program has mutable arrays and classes of its own in the
        place of those of the first.
    """
    unproved: list[str] = []
    with jaxapi.paused_collection():
        first = compare(before.jaxpr, after.jaxpr, unproved, are_anew)
        tree = _other_tree(before, after, are_anew)
        parting = None
        if first is not None:
            parting = equivalent(
                before.jaxpr, after.jaxpr, unproved, are_refs_anew=are_anew
            )
        blocks = from_jaxpr(before.jaxpr), from_jaxpr(after.jaxpr)
        n_before, n_after = [count_blocks(block)[0] for block in blocks]
        if first is None and tree is None:
            return Comparison("equal", (), (), n_before, n_after, tuple(unproved))
        walk = Walk(graph_of(*_jaxprs(before, after), {}, are_anew), n_context)
        is_same = parting is None
        if first is not None:
            _compare_statements(walk, before, after, blocks, is_same)
    changes, hunks = list(walk.changes), list(walk.hunks)
    if tree is not None:
        changes.append(tree)
        hunks.append(_hunk(tree))
    if not changes:  # nothing that the walk knows of; the checker's word counts
        made = _of_checker(parting or first)
        changes += made
        hunks += [] if is_same else map(_hunk, made)
    verdict = "equivalent" if is_same and tree is None else "different"
    notes = tuple(dict.fromkeys(unproved))
    return Comparison(verdict, tuple(changes), tuple(hunks), n_before, n_after, notes)


def _jaxprs(before: Captured, after: Captured) -> tuple[object, object]:
    return before.jaxpr, after.jaxpr


def _compare_statements(
    walk: Walk,
    before: Captured,
    after: Captured,
    blocks: tuple[Block, Block],
    is_same: bool,
) -> None:
    with jaxapi.deep_recursion():
        for captured in (after, before):  # as the checker does, what it is to remember
            walk.graph.program(captured.jaxpr)
        names = input_texts(before), input_texts(after)
        inputs = paired_inputs(names, [len(block.inputs) for block in blocks])
        own = [] if is_same else _input_changes(before, after, inputs, names)
        walk.programs(*blocks, inputs, names, is_same)
    walk.changes[:0] = own
    if own:
        walk.hunks.insert(
            0, Hunks("", tuple(row for c in own for row in _hunk(c).rows))
        )


def input_texts(captured: Captured) -> list[str]:
    """How each input of a program is written: `params["w"]`."""
    texts = [f"x{k}" for k in range(len(captured.values))]
    for parameter in captured.parameters:
        for index, text, _ in accessors(parameter.tree, parameter.name):
            texts[index] = printable(text)
    return texts


def paired_inputs(
    names: tuple[Sequence[str], Sequence[str]], sizes: Sequence[int]
) -> dict[int, int]:
    """Which inputs are the same: by position, or by name if there are not as many."""
    if sizes[0] == sizes[1]:
        return {k: k for k in range(sizes[0])}
    places = {name: k for k, name in enumerate(names[1])}
    return {k: places[name] for k, name in enumerate(names[0]) if name in places}


def _input_changes(
    before: Captured,
    after: Captured,
    inputs: dict[int, int],
    names: tuple[Sequence[str], Sequence[str]],
) -> list[Change]:
    """The inputs that differ in type, or are in one program only."""
    avals, others = (
        jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals for captured in (before, after)
    )
    mine, theirs = (
        [f"{name}: {printable(short_type(aval))}" for name, aval in zip(texts, each)]
        for texts, each in zip(names, (avals, others))
    )
    made: list[Change] = []
    for k, aval in enumerate(avals):
        if k not in inputs:
            made.append(Change("", "input", mine[k], "", "", "", "no such input"))
        elif not jaxapi.same_aval(aval, others[inputs[k]]):
            other = inputs[k]
            reason = type_reason(f"input `{names[0][k]}`", aval, others[other])
            made.append(
                Change("", "input", mine[k], theirs[other], "", "", reason.words)
            )
    known = set(inputs.values())
    made += [
        Change("", "input", "", text, "", "", "a new input")
        for k, text in enumerate(theirs)
        if k not in known
    ]
    return made


def _other_tree(before: Captured, after: Captured, are_anew: bool) -> Change | None:
    """The difference between the trees of two results, if both are known."""
    if before.outline is None or after.outline is None:
        return None
    if are_anew:  # a file has NamedTuples in the place of objects
        made = Interface((), (), after.outline)
        # What the parameters are called is no part of what is computed.
        found = interface_difference(_without_parameters(before), made)
    else:
        found = tree_difference(before.outline, after.outline)
    if found is None:
        return None
    expected, actual = (
        printable(f"return {text}") for text in (found.expected, found.actual)
    )
    words = printable(f"put together in another way: {found.reason}")
    return Change("", "result", expected, actual, "", "", words)


def _without_parameters(captured: Captured) -> Captured:
    return replace(captured, parameters=())


def _of_checker(found: Difference | None) -> list[Change]:
    """A change as the checker says it."""
    if found is None:
        return []
    expected, actual = printable(found.expected), printable(found.actual)
    words = printable(found.reason)
    return [Change(found.path, "other", expected, actual, "", "", words)]


def _hunk(change: Change) -> Hunks:
    rows = [Row("-", change.before)] if change.before else []
    rows += [Row("+", change.after, change.what)] if change.after else []
    if change.before and not change.after:
        rows = [Row("-", change.before, change.what)]
    return Hunks(change.path, tuple(rows))
