"""Whether two jaxprs are identical, and where they part if not.

Both sides are walked in step. Identical means: the same equations in the same order,
with the same primitives, params (sub-programs recursively), operands by position in
the data flow, types, effects and contexts. Names, debug info and source locations do
not count, and constants count by value where they are used. Derivative rules are
compared by the traces of their rules.

The walk is fast where both sides share objects, as two traces of one program mostly
do. It recurses once per nesting level, never per equation.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.verification import difference, rules
from untrace.verification.canonical import EXACT_PARAMS, literal_key
from untrace.verification.difference import Difference
from untrace.verification.surroundings import seen_globals
from untrace.verification.values import Frame, Scope, ValueWalk, is_same_type

# Two values of one of these types are the same exactly if they are equal.
_PLAIN = frozenset({int, bool, str, bytes})
_INT_ONLY = frozenset({int})
_MISSING = object()


def compare(
    expected: Any,
    actual: Any,
    unproved: list[str] | None = None,
    are_refs_anew: bool = False,
) -> Difference | None:
    """Compare two jaxprs, equation by equation.

    Args:
      expected: Closed or open jaxpr.
      actual: Closed or open jaxpr.
      unproved: Gets one line for everything that had to be taken on trust, such as a
        host function that was defined anew with the same code.
      are_refs_anew: Whether the second program has mutable arrays of its own in the
        place of those of the first. Else each stands for itself.

    Returns:
      The first difference, or None if the jaxprs are identical.

    >>> import jax
    >>> first = jax.make_jaxpr(lambda x: x * 2.0)(1.0)
    >>> print(compare(first, jax.make_jaxpr(lambda x: x * 2.5)(1.0)))
    at top level, equation 0:  expected  mul f32[]* a 2.0
                               actual    mul f32[]* a 2.5  (literal differs)
    """
    notes: list[str] = [] if unproved is None else unproved
    with jaxapi.deep_recursion():
        walk = JaxprWalk(notes, are_refs_anew)
        walk.cases = jaxapi.RuleCases(expected)
        return walk.jaxprs(expected, actual, None)


def are_same_values(value: Any, other: Any) -> bool:
    """Whether two values are the same where no jaxpr is around them.

    Classes of numbers and texts count, since nothing is known of what they are for.
    """
    walk = _Values([], are_refs_anew=True)
    walk.is_exact = True
    return walk.value(value, other, None) is None


def see_the_same(function: Any, other: Any, are_refs_anew: bool) -> bool:
    """Whether two functions of one code see the same in their modules."""
    if function.__globals__ is other.__globals__:
        return True
    walk = _Values([], are_refs_anew)
    walk.is_held = walk.is_exact = True
    return walk.value(seen_globals(function), seen_globals(other), None) is None


class JaxprWalk(ValueWalk):
    """Walks two jaxprs in step, and the values in them."""

    def __init__(self, notes: list[str], are_refs_anew: bool) -> None:
        super().__init__(notes, are_refs_anew)
        self.same_jaxprs: set[tuple[int, int, bool]] = set()
        self.same_rules: set[Any] = set()
        self.rule_names: list[str] = []
        # How many rules were too deep in others: what has them is known for its place.
        self.n_cut = 0
        self.batched: list[rules.Batched] = []
        self.check_vma = True
        self.cases = jaxapi.RuleCases()

    # -- jaxprs

    def jaxprs(
        self, expected: Any, actual: Any, parent: Scope | None
    ) -> Difference | None:
        pair = (id(expected), id(actual), self.check_vma)
        if expected is actual or self.is_known(pair, self.same_jaxprs):
            return None
        uses, n_cut = self.n_outer_uses, self.n_cut
        body, consts = jaxapi.split_jaxpr(expected)
        other, other_consts = jaxapi.split_jaxpr(actual)
        self.frames.append(Frame(body, other))
        scope = Scope(parent)
        scope.expected_consts = dict(zip(body.constvars, consts))
        scope.actual_consts = dict(zip(other.constvars, other_consts))
        # An open jaxpr on its own: its constants are inputs without a value.
        is_open = not consts and not other_consts
        found = (
            (self.binders(scope, body.constvars, other.constvars) if is_open else None)
            or self.binders(scope, body.invars, other.invars)
            or self.equations(scope, body, other)
            or self.results(scope, body, other)
        )
        if found is None:
            self.frames.pop()
            if uses == self.n_outer_uses:
                is_cut = n_cut < self.n_cut
                self.same_jaxprs.add(self.in_place(pair) if is_cut else pair)
                self.alive.append((expected, actual))
        return found

    def in_place(self, pair: Any) -> Any:
        """Name a pair at its place in rules, which decides how deep it is followed."""
        return pair, *self.rule_names

    def is_known(self, pair: Any, known: set[Any]) -> bool:
        return pair in known or (self.n_cut > 0 and self.in_place(pair) in known)

    def binders(self, scope: Scope, expected: Any, actual: Any) -> Difference | None:
        if len(expected) != len(actual):
            return self.differ("number of inputs differs")
        for position, (var, other) in enumerate(zip(expected, actual)):
            if not is_same_type(var.aval, other.aval):
                types = difference.two_types(var.aval, other.aval)
                return self.differ(f"type of input {position} differs: {types}")
            before, after = jaxapi.initial_state(var), jaxapi.initial_state(other)
            if before != after and not self.is_same(before, after, scope):
                return self.differ(f"state of input {position} differs")
            scope.partner[var] = other
        return None

    def results(self, scope: Scope, body: Any, other: Any) -> Difference | None:
        if len(body.outvars) != len(other.outvars):
            return self.differ("number of results differs")
        for position, (atom, mate) in enumerate(zip(body.outvars, other.outvars)):
            reason = self.operand(scope, atom, mate)
            if reason is not None:
                return self.differ(f"result {position}: {reason}")
        if body.effects or other.effects:
            return self.effects(scope, body.effects, other.effects)
        return None

    # -- equations

    def equations(self, scope: Scope, body: Any, other: Any) -> Difference | None:
        """Compare equations in order. This loop is what comparing costs."""
        frame, partner = self.frames[-1], scope.partner
        literal = jaxapi.JaxprLiteral
        eqns, mates = body.eqns, other.eqns
        for index, (eqn, mate) in enumerate(zip(eqns, mates)):
            frame.index = index
            if eqn.primitive is not mate.primitive or eqn.params is not mate.params:
                found = self.calls(scope, eqn, mate)
                if found is not None:
                    return found
            operands, twins = eqn.invars, mate.invars
            results, others = eqn.outvars, mate.outvars
            if (
                eqn.ctx is not mate.ctx
                or eqn.effects
                or mate.effects
                or len(operands) != len(twins)
                or len(results) != len(others)
            ):
                found = self.details(scope, eqn, mate)
                if found is not None:
                    return found
            for atom, twin in zip(operands, twins):
                if type(atom) is literal and type(twin) is literal:
                    reason = self.literal(atom, twin)
                elif type(atom) is not literal and partner.get(atom) is twin:
                    continue
                else:
                    reason = self.operand(scope, atom, twin)
                if reason is not None:
                    return self.differ(reason)
            for var, twin in zip(results, others):
                if var.aval is not twin.aval and not is_same_type(var.aval, twin.aval):
                    types = difference.two_types(var.aval, twin.aval)
                    return self.differ(f"type of a result differs: {types}")
                partner[var] = twin
        if len(eqns) != len(mates):
            frame.index = min(len(eqns), len(mates))
            return self.differ(f"{len(eqns)} and {len(mates)} equations")
        frame.index = None
        return None

    def calls(self, scope: Scope, eqn: Any, mate: Any) -> Difference | None:
        """Compare primitives and params."""
        if eqn.primitive is not mate.primitive:
            return self.differ("primitive differs")
        params, others = eqn.params, mate.params
        if len(params) != len(others):
            return self.differ(f"params differ: {sorted(params)} and {sorted(others)}")
        for name, param in params.items():
            other = others.get(name, _MISSING)
            if param is other:
                continue
            kind = type(param)
            if kind is type(other) and (
                (kind in _PLAIN and param == other)
                or (kind is tuple and _are_same_items(param, other))
            ):
                continue
            found = self.param(scope, eqn, mate, name)
            if found is not None:
                return found
        return None

    def param(self, scope: Scope, eqn: Any, mate: Any, name: str) -> Difference | None:
        if name not in mate.params:
            return self.differ(f"param `{name}` is missing")
        if name in rules.OPAQUE_PARAMS.get(jaxapi.primitive_name(eqn.primitive), ()):
            return self.rules(scope, eqn, mate)
        call, made = (rules.batching_call(e, name) for e in (eqn, mate))
        if call and made and call.rule is not made.rule:
            stand_in = jaxapi.leaves_stand_in_for(made.rule)
            if stand_in is not None:
                return self.leaves_rules(call, made, stand_in)
        rule, other = (rules.batching_identity(e, name) for e in (eqn, mate))
        if rule is not None:
            if (rule, other) in self.same_rules:  # assumed while it is compared
                return None
            cut = rules.batched_again(eqn, name, self.batched)
            if cut:
                self.n_outer_uses += 1  # it may be looked at where less is around it
                self.note(cut)
                return None
            self.same_rules.add((rule, other))
            self.batched.append(rules.batched(eqn, name))
        label = f"/{jaxapi.primitive_name(eqn.primitive)}/{name}"
        outer = self.check_vma, self.is_exact, self.is_held
        self.check_vma = eqn.params.get("check_vma", self.check_vma)
        self.is_exact, self.is_held = name in EXACT_PARAMS, False
        expected, actual = eqn.params[name], mate.params[name]
        open_question = ""
        if rule is None or jaxapi.stand_in_for(getattr(actual, "rule", None)) is None:
            expected, actual = rules.comparable(eqn, name), rules.comparable(mate, name)
            open_question = rules.unproved(eqn, name)
        if open_question:
            self.note(open_question)
        found = self.labelled(label, expected, actual, scope)
        self.check_vma, self.is_exact, self.is_held = outer
        if rule is not None:
            self.batched.pop()
        return found

    def details(self, scope: Scope, eqn: Any, mate: Any) -> Difference | None:
        """Compare what is the same for nearly every pair of equations."""
        if len(eqn.invars) != len(mate.invars):
            return self.differ("number of operands differs")
        if len(eqn.outvars) != len(mate.outvars):
            return self.differ("number of results differs")
        if eqn.effects or mate.effects:
            found = self.effects(scope, eqn.effects, mate.effects)
            if found is not None:
                return found
        if eqn.ctx is mate.ctx:
            return None
        for name in jaxapi.CONTEXT_FIELDS:
            value, other = getattr(eqn.ctx, name), getattr(mate.ctx, name)
            found = self.labelled(f"/context {name}", value, other, scope)
            if found is not None:
                return found
        return None

    # -- derivative rules

    def rules(self, scope: Scope, eqn: Any, mate: Any) -> Difference | None:
        both = eqn, mate
        identity = tuple([rules.identify_rules(e, self.check_vma) for e in both])
        pair = (id(eqn), id(mate))
        known = self.same_rules
        cases = rules.cases_of(eqn, self.cases)
        new = [c for c in cases if not self.is_known((identity, c), known)]
        if self.is_known(pair, known) or not new:
            return None
        self.alive.append(both)
        name = rules.name_rule(eqn)
        if not jaxapi.follows_rules(self.rule_names, name, eqn.params["call_jaxpr"]):
            self.note(f"{name}: the rules that its own rules make anew")
            self.n_cut += 1
            return None
        left = rules.cases_left(eqn)
        if left:
            self.note(left)
        # Assumed while their own traces are compared: rules may call themselves.
        assumed: set[Any] = {pair, *[(identity, case) for case in new]}
        known |= assumed
        n_cut = self.n_cut
        self.rule_names.append(name)
        for case in new:
            found = self.rules_in(case, scope, eqn, mate)
            if found is not None:
                return found
        self.rule_names.pop()
        if n_cut < self.n_cut:
            known -= assumed
            known |= set(map(self.in_place, assumed))
        return None

    def rules_in(
        self, case: jaxapi.RuleCase, scope: Scope, eqn: Any, mate: Any
    ) -> Difference | None:
        """Compare the rules of two equations in one case."""
        expected, actual = (
            rules.trace_rules(e, self.check_vma, case) for e in (eqn, mate)
        )
        lost = rules.lost_rules(expected, scope.sees_expected)
        if lost is not None and actual[0][0] == "error":
            expected = lost
        self.alive.append((expected, actual))
        if expected[0][0] == "error" and expected == actual:
            self.note(
                f"{rules.name_rule(eqn)}: its rule cannot be traced ({expected[0][1]})"
            )
        if [label for label, _ in expected] != [label for label, _ in actual]:
            errors = [text for label, text in expected + actual if label == "error"]
            return self.differ(f"a derivative rule cannot be traced: {errors[0]}")
        for (label, value), (_, other) in zip(expected, actual):
            label = f"/{jaxapi.primitive_name(eqn.primitive)}/{label}"
            found = self.labelled(label, value, other, scope)
            if found is not None:
                return found
        return None

    # -- effects

    def effects(self, scope: Scope, effects: Any, others: Any) -> Difference | None:
        """Compare sets of effects; those on an input by the variable they are on."""
        rest = list(others)
        for effect in effects:
            for i, other in enumerate(rest):
                if self.is_same_effect(scope, effect, other):
                    del rest[i]
                    break
            else:
                return self.differ(f"effects differ: {type(effect).__name__}")
        if rest:
            return self.differ(f"effects differ: {type(rest[0]).__name__}")
        return None

    def is_same_effect(self, scope: Scope, effect: Any, other: Any) -> bool:
        if type(effect) is not type(other):
            return False
        if not isinstance(effect, jaxapi.JaxprInputEffect):
            return self.is_same(effect, other, scope)
        var, twin = effect.input, other.input
        if isinstance(var, int) or isinstance(twin, int):
            return var == twin
        return self.operand(scope, var, twin) is None

    # -- operands

    def operand(self, scope: Scope, atom: Any, mate: Any) -> str | None:
        is_literal = type(atom) is jaxapi.JaxprLiteral
        if is_literal or type(mate) is jaxapi.JaxprLiteral:
            both = is_literal and type(mate) is jaxapi.JaxprLiteral
            return self.literal(atom, mate) if both else "one operand is a literal"
        if atom in scope.partner:
            same = scope.partner[atom] is mate
            return None if same else "operands are different values"
        if atom not in scope.expected_consts or mate not in scope.actual_consts:
            return "one operand is a constant"
        if not is_same_type(atom.aval, mate.aval):
            types = difference.two_types(atom.aval, mate.aval)
            return f"types of constants differ: {types}"
        value, other = scope.expected_consts[atom], scope.actual_consts[mate]
        return None if self.is_same(value, other, scope) else "constants differ"

    def literal(self, atom: Any, mate: Any) -> str | None:
        if not is_same_type(atom.aval, mate.aval):
            types = difference.two_types(atom.aval, mate.aval)
            return f"literal types differ: {types}"
        value, other = atom.val, mate.val
        if value is other or _are_same_bits(value, other):
            return None
        key = literal_key(value, atom.aval)
        if key is None:
            return None if self.is_same(value, other, None) else "literal differs"
        return None if key == literal_key(other, mate.aval) else "literal differs"


class _Values(JaxprWalk):
    """A walk outside of jaxprs, where no equation is to be shown."""

    def differ(self, reason: str) -> Difference:
        return Difference("", (), "", "", reason)


def _are_same_bits(value: Any, other: Any) -> bool:
    """Recognise equal literals of the usual classes quickly; False may be wrong."""
    if isinstance(value, int | float):
        # Zero has two signs; a NaN, which equals nothing, has a payload.
        return type(value) is type(other) and value == other and value != 0
    return (
        isinstance(value, np.ndarray)
        and isinstance(other, np.ndarray)
        and value.dtype is other.dtype
        and value.shape == other.shape
        and value.tobytes() == other.tobytes()
    )


def _are_same_items(items: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    """Recognise tuples of the same objects or integers quickly; False may be wrong."""
    if len(items) == len(others) and all(map(operator.is_, items, others)):
        return True
    return _are_same_ints(items, others)


def _are_same_ints(ints: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    return (
        ints == others
        and _INT_ONLY.issuperset(map(type, ints))
        and _INT_ONLY.issuperset(map(type, others))
    )
