"""Whether two programs are identical but for plain calls and dead equations.

Most programs that are equivalent differ in nothing but functions that one of them jits,
and in what no result needs. They need no graph: both are laid out flat, with calls
opened and dead equations left out, and walked in step as `compare` does. A value is
known by the number of the equation that made it, so a body that is called twice is laid
out twice. What is found identical here is equivalent; of the rest nothing is said, nor
of programs with effects, with calls under a mesh, or of which something has to be taken
on trust.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.verification.compare import JaxprWalk
from untrace.verification.difference import Difference
from untrace.verification.graph import DRAWS, plain_call, raises_differentiated
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
        """Compare the equations of two bodies that results need, and the results."""
        if len(body.outvars) != len(other.outvars):
            return self.differ("number of results differs")
        # Inputs are numbered alike; of other values it is known which correspond.
        partner = {n: n for n in meanings.values() if type(n) is int}
        (eqns, results), (mates, twins) = (
            _needed(*_laid_out(body, meanings)),
            _needed(*_laid_out(other, others)),
        )
        if len(eqns) != len(mates):
            return self.differ("number of equations differs")
        for one, mate in zip(eqns, mates):
            found = self._equation(scope, one.eqn, mate.eqn) or self._operands(
                one.operands, mate.operands, partner
            )
            if found is not None:
                return found
            for n in range(len(one.eqn.outvars)):
                partner[one.first + n] = mate.first + n
        return self._operands(results, twins, partner)

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
            if not _are_alike(var, twin):
                return self.differ("type of a result differs")
        return None

    def _operands(
        self, meanings: list[Meaning], others: list[Meaning], partner: dict[int, int]
    ) -> Difference | None:
        for meaning, other in zip(meanings, others):
            if type(meaning) is not type(other):
                return self.differ("operands differ in kind")
            if type(meaning) is int:
                is_same = partner.get(meaning) == other
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


def _are_alike(atom: Any, other: Any) -> bool:
    """Whether two variables or literals have one type."""
    return atom.aval is other.aval or is_same_type(atom.aval, other.aval)


class _Placed(NamedTuple):
    """An equation, what its operands stand for, and the number of its first result."""

    eqn: Any
    operands: list[Meaning]
    first: int


class _Open(NamedTuple):
    """A body that is being laid out, and the call that it is of, if any."""

    left: Iterator[Any]
    body: Any
    meanings: dict[Any, Meaning]
    call: Any


def _laid_out(
    body: Any, meanings: dict[Any, Meaning]
) -> tuple[list[_Placed], list[Meaning]]:
    """List the equations of a body and of plain calls, and what it returns."""
    n_values = len(meanings)
    placed: list[_Placed] = []
    stack = [_Open(iter(body.eqns), body, meanings, None)]
    while True:
        left, inner, known, around = stack[-1]
        for eqn in left:
            operands = [_meaning(atom, known) for atom in eqn.invars]
            call = plain_call(eqn)
            if call is not None:
                stack.append(_entered(eqn, call, operands))
                break
            placed.append(_Placed(eqn, operands, n_values))
            for var in eqn.outvars:
                known[var] = n_values
                n_values += 1
        else:
            results = [_meaning(atom, known) for atom in inner.outvars]
            stack.pop()
            if around is None:
                return placed, results
            stack[-1].meanings.update(zip(around.outvars, results))


def _needed(
    placed: list[_Placed], results: list[Meaning]
) -> tuple[list[_Placed], list[Meaning]]:
    """Leave out the equations that no result needs."""
    needed = {meaning for meaning in results if type(meaning) is int}
    kept: list[_Placed] = []
    for one in reversed(placed):
        if needed.isdisjoint(range(one.first, one.first + len(one.eqn.outvars))):
            if not _may_be_dead(one.eqn):
                raise _Unknown
            continue
        needed.update([m for m in one.operands if type(m) is int])
        kept.append(one)
    return kept[::-1], results


def _may_be_dead(eqn: Any) -> bool:
    """Whether nothing of an equation counts that no result needs.

    What is drawn counts, and what raises where it is differentiated.
    """
    if eqn.effects or jaxapi.primitive_name(eqn.primitive) in DRAWS:
        return False
    params = eqn.params.values()
    listed = [p for param in params if isinstance(param, tuple | list) for p in param]
    if any(callable(p) or jaxapi.is_jaxpr(p) for p in (*params, *listed)):
        return False
    return not raises_differentiated(eqn)


def _entered(eqn: Any, call: Any, operands: list[Meaning]) -> _Open:
    """Open a call: what it is given is known."""
    body, consts = jaxapi.split_jaxpr(call)
    mesh = eqn.params.get("ctx_mesh")
    is_plain = not (consts or body.constvars or eqn.effects)
    if not is_plain or (mesh is not None and not mesh.empty):
        raise _Unknown
    outside, inside = (*eqn.invars, *eqn.outvars), (*body.invars, *body.outvars)
    # A value is the same inside of the call and outside.
    if len(outside) != len(inside) or not all(map(_are_alike, outside, inside)):
        raise _Unknown
    given = dict(zip(body.invars, operands))
    return _Open(iter(body.eqns), body, given, eqn)
