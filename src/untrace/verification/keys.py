"""Write what stands in a jaxpr as a hashable key: equal keys, equal meaning.

`KeyMaker` gives the keys of values, types, contexts, effects and derivative rules. How
a variable and a jaxpr are written is left to the subclass: the fingerprint numbers
variables in order, equivalence numbers them by what they compute.
"""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Callable, Generator, Hashable, Mapping
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.verification import rules
from untrace.verification.canonical import (
    EXACT_PARAMS,
    HOLDING_KINDS,
    array_key,
    class_name,
    literal_key,
    primitive_key,
    take_apart,
)
from untrace.verification.rule_stack import DEPTH, VARIABLES, Make, RuleStack
from untrace.verification.surroundings import changeable, changes_nothing

Key = Any
_PLAIN = {int: "int", bool: "bool", str: "str"}
NONE_KNOWN: Mapping[str, Key] = {}
_AS_AROUND = contextlib.nullcontext()


class KeyScope:
    """The keys of the variables of one jaxpr."""

    __slots__ = ("consts", "keys", "parent")

    def __init__(self, parent: KeyScope | None, consts: dict[Any, Any]) -> None:
        self.parent = parent
        self.consts = consts
        self.keys: dict[Any, Key] = {}

    def sees(self, var: Any) -> bool:
        """Whether a variable belongs to this jaxpr or one around it."""
        scope: KeyScope | None = self
        while scope is not None:
            if var in scope.keys or var in scope.consts:
                return True
            scope = scope.parent
        return False


class KeyMaker(abc.ABC):
    """Makes keys and remembers those of shared objects."""

    def __init__(self, followed: rules.FollowedRules | None = None) -> None:
        self.notes: list[str] = []
        # How often something outside the jaxpr at hand was used; such keys cannot
        # be remembered.
        self.n_outer_uses = 0
        self._shared: dict[int, Key] = {}
        self._alive: list[Any] = []
        self._active: list[int] = []
        self._refs: dict[int, int] = {}
        self._rules = RuleStack()
        self._followed = followed or rules.FollowedRules(0)
        # What raises where it is differentiated, also if no result needs it, and how: in
        # what is written, and in the rules and bodies that are not written again.
        self.raising: dict[Key, str] = {}
        self.raised: dict[Hashable, dict[Key, str]] = {}
        self._batched: list[rules.Batched] = []
        self._check_vma = True
        self.cases = jaxapi.RuleCases()
        # Whether types of numbers count here, and whether a function holds what is here.
        self._is_exact = self._is_held = False
        self._may_change = True
        self._holder: Key = ()

    @abc.abstractmethod
    def jaxpr(self, jaxpr: Any, parent: KeyScope | None) -> Key:
        """Make the key of a jaxpr."""

    # -- equations

    def params(
        self, eqn: Any, scope: KeyScope, known: Mapping[str, Key] = NONE_KNOWN
    ) -> Key:
        """Make the key of an equation's params, derivative rules included.

        Args:
          scope: Where it stands.
          known: The keys of some params.
        """
        opaque = rules.OPAQUE_PARAMS.get(jaxapi.primitive_name(eqn.primitive))
        with self.inside(eqn):
            items = [
                (name, known[name] if name in known else self.param(eqn, name, scope))
                for name in sorted(eqn.params)
                if (opaque is None or name not in opaque)
            ]
            if opaque is not None:
                items.append(("rules", self.rules(eqn, scope)))
        return tuple(items)

    def inside(self, eqn: Any) -> contextlib.AbstractContextManager[None]:
        """Go through the sub-programs of an equation as JAX traces the rules in them."""
        is_checked = eqn.params.get("check_vma")
        return _AS_AROUND if is_checked is None else self._checked(is_checked)

    @contextlib.contextmanager
    def _checked(self, check_vma: bool) -> Generator[None]:
        outer, self._check_vma = self._check_vma, check_vma
        try:
            yield
        finally:
            self._check_vma = outer

    def param(self, eqn: Any, name: str, scope: KeyScope) -> Key:
        """Make the key of a param; a batching rule that recurs is written as such."""
        outer = self._is_exact, self._is_held
        self._is_exact, self._is_held = name in EXACT_PARAMS, False
        key = self._param(eqn, name, scope)
        self._is_exact, self._is_held = outer
        return key

    def _param(self, eqn: Any, name: str, scope: KeyScope) -> Key:
        identity = rules.batching_identity(eqn, name)
        if identity is None:
            return self.value(rules.comparable(eqn, name), scope)
        self.notes.append(rules.unproved(eqn, name))
        batched = rules.batched(eqn, name)
        cut = rules.batched_again(eqn, name, self._batched)

        def make() -> Key:
            self._batched.append(batched)
            traced = rules.comparable(eqn, name)
            if traced is eqn.params[name]:  # it cannot be traced
                text = f"the batching rule of `{rules.rule_name(eqn, name)}`"
                self.raising[text] = text
            self._alive.append((eqn, traced))
            key = self.value(traced, scope)
            self._batched.pop()
            return key

        return self._rule(identity, cut, make)

    def rules(self, eqn: Any, scope: KeyScope) -> Key:
        """Make the key of derivative rules; rules that recur are written as such."""
        cases = rules.cases_of(eqn, self.cases)
        identity = rules.identify_rules(eqn, self._check_vma)
        name = rules.name_rule(eqn)
        is_followed, is_more = self._followed.decide(name, eqn)
        cut = "" if is_followed else f"{name}: rules of rules of rules"

        def make() -> Key:
            if is_more:
                self._followed.count_more()
            self._followed.names.append(name)
            self.notes += filter(None, [rules.cases_left(eqn)])
            keys = [self._derivative_rules(eqn, name, scope, case) for case in cases]
            self._followed.names.pop()
            return (cases, tuple(keys))

        # All cases at once: a rule may call its own function in each of them.
        return self._rule((identity, cases), cut, make)

    def _derivative_rules(
        self, eqn: Any, name: str, scope: KeyScope, case: jaxapi.RuleCase
    ) -> Key:
        def sees(var: Any) -> bool:
            self._rules.depends(VARIABLES)
            return scope.sees(var)

        traced = self.traced_rules(eqn, case)
        traced = rules.lost_rules(traced, sees) or traced
        self._alive.append((eqn, traced))
        key = tuple([(label, self.value(value, scope)) for label, value in traced])
        if traced[0][0] == "error":
            text = str(traced[0][1])
            self.raising[text] = text
            self.notes.append(f"{name}: its rule cannot be traced ({traced[0][1]})")
        return key

    def traced_rules(self, eqn: Any, case: jaxapi.RuleCase) -> rules.Rules:
        """Trace the derivative rules of an equation in one case."""
        return rules.trace_rules(eqn, self._check_vma, case)

    def _rule(self, identity: Hashable, cut: str, make: Callable[[], Key]) -> Key:
        """Make the key of rules, once if it may be used again.

        Args:
          identity: Of the rules.
          cut: What to note where they are not followed, "" where they are.
          make: Makes the key.
        """
        identity = (identity, self._check_vma, *self._modes())
        again = self._rules.met_again(identity)
        if again is not None or cut:
            self.n_outer_uses += 1
            if again is not None:
                return again
            self._rules.depends(DEPTH)
            self.notes.append(cut)
            return ("again", 0)
        return self._once(self._rules.key, identity, make)

    def body(self, body: Hashable, make: Callable[[], Key]) -> Key:
        """Make the key of a body, once if it may be used again.

        Args:
          body: All that the key depends on, but for what is around the body.
          make: Makes the key.
        """
        body = ("body", body, self._check_vma, *self._modes())
        return self._once(self._rules.body, body, make)

    def _once(
        self,
        find: Callable[[Hashable, Make], tuple[Key, bool]],
        name: Hashable,
        make: Callable[[], Key],
    ) -> Key:
        uses, counts = self.n_outer_uses, self.counts()
        outer, self.raising = self.raising, {}

        def counted() -> tuple[Key, bool]:
            key = make()
            self.raised.setdefault(name, {}).update(self.raising)
            if counts != self.counts():
                self._rules.keep_none()
            return key, self.n_outer_uses > uses

        key, leads_back = find(name, counted)
        self.raising = outer | self.raised.get(name, {})
        # What is around such rules is written otherwise inside of one of them.
        self.n_outer_uses = uses + leads_back
        return key

    def _modes(self) -> tuple[bool, ...]:
        return self._is_exact, self._is_held, self._may_change

    def counts(self) -> Key:
        """Count what has to be gone through every time."""
        return ()

    def context(self, context: Any) -> Key:
        """Make the key of an equation context."""
        return self.shared(context, self._context)

    def _context(self, context: Any) -> Key:
        names = jaxapi.CONTEXT_FIELDS
        return tuple([self.value(getattr(context, name), None) for name in names])

    def effects(self, effects: Any, scope: KeyScope) -> Key:
        """Make the key of a set of effects."""
        return tuple(sorted((self._effect(e, scope) for e in effects), key=repr))

    def _effect(self, effect: Any, scope: KeyScope) -> Key:
        if not isinstance(effect, jaxapi.JaxprInputEffect):
            return self.value(effect, scope)
        place = effect.input
        key = place if isinstance(place, int) else self.atom(place, scope)
        return (class_name(type(effect)), key)

    def primitive(self, primitive: Any) -> Key:
        """Make the key of a primitive."""
        return self.shared(primitive, primitive_key)

    def aval(self, aval: Any) -> Key:
        """Make the key of a type."""
        return self.shared(aval, self._aval)

    def _aval(self, aval: Any) -> Key:
        return self.value(aval, None)

    # -- operands

    def atom(self, atom: Any, scope: KeyScope) -> Key:
        """Make the key of an operand."""
        if type(atom) is jaxapi.JaxprLiteral:
            return self.literal(atom)
        key = scope.keys.get(atom)
        return (
            key if key is not None else self.const(scope.consts[atom], atom.aval, scope)
        )

    def literal(self, atom: Any) -> Key:
        """Make the key of a literal."""
        bits = literal_key(atom.val, atom.aval)
        return ("literal", self.aval(atom.aval), bits or self.value(atom.val, None))

    def const(self, value: Any, aval: Any, scope: KeyScope) -> Key:
        """Make the key of a constant where it is used."""
        return ("const", self.aval(aval), self.value(value, scope))

    # -- values

    def shared(self, value: Any, make: Any) -> Key:
        """Make the key of an object that occurs often; keep it for its identity."""
        key = self._shared.get(id(value))
        if key is None:
            key = self._shared[id(value)] = make(value)
            self._alive.append(value)
        return key

    def value(self, value: Any, scope: KeyScope | None) -> Key:
        """Make the key of any value."""
        plain = _PLAIN.get(type(value))
        if plain is not None:  # as `take_apart` has it, but quicker
            return (plain, value)
        if jaxapi.is_jaxpr(value):
            return self.jaxpr(value, scope)
        if isinstance(value, jaxapi.Tracer):
            return self._tracer(value, scope)
        if isinstance(value, jaxapi.Ref):
            return self.ref(value)
        if id(value) in self._active:  # a cycle: say how far back it leads
            self._rules.keep_none()
            return ("cycle", len(self._active) - self._active.index(id(value)))
        if _is_plain_array(value):
            key = self.shared(value, array_key)
            if not self._is_held:
                return key
            held = (key, class_name(type(value)), getattr(value, "strides", None))
            found = changeable(value) if self._may_change else ()
            return (*held, *self.changeable(found))
        return self.parts(value, scope)

    def ref(self, ref: Any) -> Key:
        """Make the key of a mutable array: its place among them, its content now."""
        number = self._refs.setdefault(id(ref), len(self._refs))
        return ("ref", number, self.aval(ref.aval), array_key(ref[...]))

    def opaque(self, value: Any, kind: Key) -> Key:
        """Make the key of an object that nothing can be said about but its class."""
        return kind

    def witnessed(self, kind: Key, witness: Any) -> Key:
        """Make the key of what only names a class, module or primitive."""
        return kind

    def seeing(self, kind: Key, function: Any) -> Key:
        """Make the key of what a function sees of its module."""
        return ()

    def changeable(self, parts: tuple[Any, ...]) -> Key:
        """Make the key of what a host function may change, and others may see."""
        return ()

    def parts(self, value: Any, scope: KeyScope | None) -> Key:
        """Make the key of a value from those of its components."""
        parts = take_apart(value)
        if parts.is_opaque:
            return self.opaque(value, parts.kind)
        kind = parts.kind
        if parts.sees_globals:
            kind = (*kind, *self.seeing(kind, value))
        if self._is_exact:
            kind = (*kind, parts.exact_type)
        if self._is_held:
            kind = (*kind, class_name(type(value)))
        if self._is_held and type(value) is dict:
            kind = (*kind, tuple([self.value(key, scope) for key in value]))
        if parts.witness is not None:
            kind = self.witnessed(kind, parts.witness)
        if not parts.children:
            return kind
        self._active.append(id(value))
        outer = self._is_exact, self._is_held, self._may_change
        if parts.kind[0] in HOLDING_KINDS:
            self._may_change = not changes_nothing(value)
            if not self._is_held:
                self._is_held, self._holder = True, kind
        self._is_exact |= self._is_held
        if self._is_held and self._may_change:
            kind = (*kind, *self.changeable(changeable(value)))
        children = [
            (label, self.value(child, scope)) for label, child in parts.children
        ]
        self._is_exact, self._is_held, self._may_change = outer
        self._active.pop()
        return (kind, tuple(children))

    def _tracer(self, tracer: Any, scope: KeyScope | None) -> Key:
        self.n_outer_uses += 1
        self._rules.depends(VARIABLES)
        var = jaxapi.var_behind(tracer)
        depth = 0
        while scope is not None:
            if var in scope.keys or var in scope.consts:
                return ("outer", depth, self.atom(var, scope))
            scope = scope.parent
            depth += 1
        self.notes.append("a value that a derivative rule captured")
        return ("captured", self.aval(tracer.aval))


def _is_plain_array(value: Any) -> bool:
    """Whether a value is an array that is its numbers alone: no masks, no objects."""
    is_array = type(value) is np.ndarray or isinstance(value, jax.Array)
    return is_array and value.dtype != object
