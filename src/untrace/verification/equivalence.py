"""Whether two programs are equal as data flow.

Every value gets a number by what computes it: primitive, params and the numbers of its
operands. Both programs share one table, so values computed alike have one number, and
the programs are equivalent if their results and their effectful equations, in order,
have the same numbers. Plain calls (`jit` without options, `closed_call`, `core_call`)
are opened while numbering, and the name of any other `jit` is left out. So names, dead
equations, operands that only these read, repeated subexpressions, operands that a loop
or branch is given twice, values that a function with derivative rules closes over twice,
whether these close over constants or name them, how often rules that lead back to
themselves are written before they do, and the order of pure equations do not count.
Nothing is simplified.

The method is value numbering, Cocke & Schwartz 1970.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

from untrace import jaxapi
from untrace.verification import difference, rules
from untrace.verification.difference import Difference
from untrace.verification.graph import Graph
from untrace.verification.keys import Key, KeyScope
from untrace.verification.opened import are_identical_opened
from untrace.verification.parting import find_difference
from untrace.verification.shared_cases import Place, SharedCases


def equivalent(
    expected: Any,
    actual: Any,
    unproved: list[str] | None = None,
    opened: Mapping[Any, bool] = MappingProxyType({}),
    are_refs_anew: bool = False,
) -> Difference | None:
    """Compare two jaxprs as data flow.

    Args:
      expected: Closed or open jaxpr.
      actual: Closed or open jaxpr.
      unproved: Gets one line for everything that had to be taken on trust.
      opened: Primitives of libraries that stand for what they compute, as calls do, and
        whether for that with their backward passes.
      are_refs_anew: As for `compare`.

    Returns:
      None if they are equivalent, else the first place in the data flow, searched from
      the results upwards, where they part.
    """
    if are_identical_opened(expected, actual, are_refs_anew):
        return None
    notes: list[str] = []

    def compared(followed: rules.FollowedRules) -> Difference | None:
        graph = graph_of(expected, actual, opened, are_refs_anew, followed)
        found, notes[:] = _difference(graph, expected, actual)
        return found

    found = rules.with_depth(compared)
    if unproved is not None:
        unproved.extend(note for note in notes if note not in unproved)
    return found


def _difference(
    graph: Graph, expected: Any, actual: Any
) -> tuple[Difference | None, list[str]]:
    """Number two programs; return where they part, and what is taken on trust."""
    with jaxapi.deep_recursion():
        # First, for what stands in for others there.
        second = graph.program(actual, is_recovered=True)
        meshes, shared = graph.meshes, graph.shared_objects()
        raising = graph.raising
        first = graph.program(expected)
    notes = list(dict.fromkeys([*first.notes, *second.notes]))
    # A text may do without calls that the original made under a mesh.
    if meshes and graph.meshes and meshes != graph.meshes:
        texts = [repr(sorted(map(str, each))) for each in (graph.meshes, meshes)]
        expected_text, actual_text = map(difference.shorten, texts)
        found = Difference("", (), expected_text, actual_text, "meshes differ")
        return found, notes
    parting = find_difference(graph.nodes, first, second)
    if parting is None and shared != graph.shared_objects():
        return Difference("", (), "", "", "host functions share other objects"), notes
    # What no result needs is differentiated all the same.
    raised = sorted(raising[key] for key in raising.keys() - graph.raising.keys())
    if parting is None and raised:
        text = difference.shorten(raised[0])
        return Difference("", (), "", text, "a rule raises"), notes
    return parting, notes


def graph_of(
    expected: Any,
    actual: Any,
    opened: Mapping[Any, bool] = MappingProxyType({}),
    are_refs_anew: bool = False,
    followed: rules.FollowedRules | None = None,
) -> Graph:
    """Return an empty table for the values of two programs, as `equivalent` makes it."""
    graph = Graph(opened, are_refs_anew, followed)
    graph.cases = SharedCases(
        expected,
        actual,
        find_places=lambda: _places((actual, expected), opened, are_refs_anew),
    )
    return graph


class _Places(Graph):
    """Numbers values whatever the derivative rules, to find where these belong."""

    def __init__(self, opened: Mapping[Any, bool], are_refs_anew: bool) -> None:
        super().__init__(opened, are_refs_anew)
        self.places: dict[int, set[int]] = {}

    def rules(self, eqn: Any, scope: KeyScope) -> Key:
        return ()

    def _equation(
        self,
        eqn: Any,
        operands: tuple[int, ...],
        scope: KeyScope,
        body: Any,
        index: int,
    ) -> list[int]:
        results = super()._equation(eqn, operands, scope, body, index)
        opaque = rules.OPAQUE_PARAMS.get(jaxapi.primitive_name(eqn.primitive))
        if opaque and results and eqn.params.keys() >= opaque:
            rule = id(jaxapi.asked_rule(eqn.params))
            self.places.setdefault(results[0], set()).add(rule)
        return results


def _places(
    programs: tuple[Any, Any], opened: Mapping[Any, bool], are_refs_anew: bool
) -> Collection[Place]:
    """List which derivative rules are at the same places of programs."""
    graph = _Places(opened, are_refs_anew)
    for is_recovered, program in zip((True, False), programs):
        graph.program(program, is_recovered)
    return graph.places.values()
