"""Whether two programs are identical once plain calls are opened on both sides.

Most programs that are equivalent differ in nothing but functions that one of them jits.
They need no graph: both are laid out flat, equation by equation, and walked in step as
`compare` does. A value is known by the number of the equation that made it, so a body
that is called twice is laid out twice. What is found identical here is equivalent; of
the rest nothing is said, nor of programs with effects, with calls under a mesh, or of
which something has to be taken on trust.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.verification.compare import JaxprWalk
from untrace.verification.difference import Difference
from untrace.verification.graph import plain_call
from untrace.verification.values import Scope, is_same_type


def are_identical_opened(expected: Any, actual: Any, are_refs_anew: bool) -> bool:
    """Whether two programs are the same equations; False says nothing.

    Args:
      expected: Closed or open jaxpr.
      actual: Closed or open jaxpr.
      are_refs_anew: As for `compare`.
    """
    with jaxapi.deep_recursion():
        walk = _OpenedWalk([], are_refs_anew)
        walk.cases = _ListedCases()
        try:
            found = walk.jaxprs(expected, actual, None)
        except _Unknown:
            return False
    return found is None


class _Unknown(Exception):
    """Something that only the graph compares."""


class _ListedCases(jaxapi.RuleCases):
    """The cases of rules of which all are listed.

    Others come up when programs are differentiated, in which plain calls may count.
    """

    def find(self) -> dict[int, tuple[jaxapi.RuleCase, ...]]:
        raise _Unknown


class _Constant(NamedTuple):
    """A constant, which counts where it is used."""

    value: Any
    aval: Any


Meaning = Any
"""What a variable stands for: the number of a value, a literal, or a constant."""


class _OpenedWalk(JaxprWalk):
    """Walks two programs in step, each laid out flat."""

    def note(self, text: str) -> None:
        raise _Unknown

    def tracers(self, value: Any, other: Any, scope: Scope | None) -> Difference | None:
        raise _Unknown

    def differ(self, reason: str) -> Difference:
        return Difference("", (), "", "", reason)

    def jaxprs(
        self, expected: Any, actual: Any, parent: Scope | None
    ) -> Difference | None:
        pair = (id(expected), id(actual), self.check_vma)
        if expected is actual or pair in self.same_jaxprs:
            return None
        body, consts = jaxapi.split_jaxpr(expected)
        other, other_consts = jaxapi.split_jaxpr(actual)
        if body.effects or other.effects:
            raise _Unknown
        scope = Scope(parent)
        is_open = not consts and not other_consts
        found = (
            self.binders(scope, body.constvars, other.constvars) if is_open else None
        ) or self.binders(scope, body.invars, other.invars)
        if found is None:
            sides = [
                _meanings(each, values, is_open)
                for each, values in ((body, consts), (other, other_consts))
            ]
            found = self._flat(scope, body, other, *sides)
        if found is None:
            self.same_jaxprs.add(pair)
            self.alive.append((expected, actual))
        return found

    def _flat(
        self,
        scope: Scope,
        body: Any,
        other: Any,
        meanings: dict[Any, Meaning],
        others: dict[Any, Meaning],
    ) -> Difference | None:
        """Compare the equations of two bodies, and what they return."""
        if len(body.outvars) != len(other.outvars):
            return self.differ("number of results differs")
        sides = _laid_out(body, meanings), _laid_out(other, others)
        for pair in itertools.zip_longest(*sides):
            if None in pair:
                return self.differ("number of equations differs")
            (eqn, operands), (mate, twins) = pair
            found = self._equation(scope, eqn, mate) or self._operands(operands, twins)
            if found is not None:
                return found
        results = [_meaning(atom, meanings) for atom in body.outvars]
        return self._operands(results, [_meaning(a, others) for a in other.outvars])

    def _equation(self, scope: Scope, eqn: Any, mate: Any) -> Difference | None:
        """Compare all of two equations but their operands."""
        if eqn.effects or mate.effects:
            raise _Unknown
        if eqn.primitive is not mate.primitive or eqn.params is not mate.params:
            found = self.calls(scope, eqn, mate)
            if found is not None:
                return found
        # The numbers of operands and of results are compared with the rest.
        found = self.details(scope, eqn, mate)
        if found is not None:
            return found
        for var, twin in zip(eqn.outvars, mate.outvars):
            if var.aval is not twin.aval and not is_same_type(var.aval, twin.aval):
                return self.differ("type of a result differs")
        return None

    def _operands(
        self, meanings: list[Meaning], others: list[Meaning]
    ) -> Difference | None:
        for meaning, other in zip(meanings, others):
            if type(meaning) is not type(other):
                return self.differ("operands differ in kind")
            if type(meaning) is int:
                is_same = meaning == other
            elif type(meaning) is _Constant:
                is_same = is_same_type(meaning.aval, other.aval) and self.is_same(
                    meaning.value, other.value, None
                )
            else:
                is_same = self.literal(meaning, other) is None
            if not is_same:
                return self.differ("operands are different values")
        return None


def _meanings(body: Any, consts: list[Any], is_open: bool) -> dict[Any, Meaning]:
    """Number the inputs of a body."""
    inputs = [*(body.constvars if is_open else ()), *body.invars]
    meanings: dict[Any, Meaning] = {var: n for n, var in enumerate(inputs)}
    if not is_open:
        for var, value in zip(body.constvars, consts):
            meanings[var] = _Constant(value, var.aval)
    return meanings


def _meaning(atom: Any, meanings: dict[Any, Meaning]) -> Meaning:
    if type(atom) is jaxapi.JaxprLiteral:
        return atom
    meaning = meanings.get(atom)
    if meaning is None:  # not as JAX makes it
        raise _Unknown
    return meaning


class _Open(NamedTuple):
    """A body that is being laid out, and the call that it is of, if any."""

    left: Iterator[Any]
    body: Any
    meanings: dict[Any, Meaning]
    call: Any


def _laid_out(
    body: Any, meanings: dict[Any, Meaning]
) -> Iterator[tuple[Any, list[Meaning]]]:
    """Yield the equations of a body and of plain calls, and what operands stand for."""
    # Inputs are numbered from zero; those of the other side are as many.
    n_values = len(meanings)
    stack = [_Open(iter(body.eqns), body, meanings, None)]
    while stack:
        left, body, meanings, around = stack[-1]
        for eqn in left:
            operands = [_meaning(atom, meanings) for atom in eqn.invars]
            call = plain_call(eqn)
            if call is not None:
                stack.append(_entered(eqn, call, operands))
                break
            for var in eqn.outvars:
                meanings[var] = n_values
                n_values += 1
            yield eqn, operands
        else:
            stack.pop()
            if around is not None:
                results = [_meaning(atom, meanings) for atom in body.outvars]
                outer = stack[-1].meanings
                outer.update(zip(around.outvars, results))


def _entered(eqn: Any, call: Any, operands: list[Meaning]) -> _Open:
    """Open a call: what it is given is known."""
    body, consts = jaxapi.split_jaxpr(call)
    mesh = eqn.params.get("ctx_mesh")
    is_plain = not (consts or body.constvars or eqn.effects)
    if not is_plain or (mesh is not None and not mesh.empty):
        raise _Unknown
    if len(body.outvars) != len(eqn.outvars):
        raise _Unknown
    given = dict(zip(body.invars, operands))
    return _Open(iter(body.eqns), body, given, eqn)
