"""Tell whether two jaxprs are identical, and where they part if not.

Both sides are walked in step. Identical means: the same equations in the same order,
with the same primitives, params (sub-programs recursively), operands by position in
the data flow, types, effects and contexts. Names, debug info and source locations do
not count, and constants count by value where they are used. Derivative rules are
compared by the traces of their rules.

The walk is fast where both sides share objects, as two traces of one program mostly
do. It recurses once per nesting level, never per equation.
"""

from __future__ import annotations

from typing import Any

from untrace import jaxapi
from untrace.verification import difference, rules
from untrace.verification.canonical import (
    Parts,
    array_key,
    literal_key,
    primitive_key,
    take_apart,
)
from untrace.verification.difference import Difference

# Two values of one of these types are the same exactly if they are equal.
_PLAIN = frozenset({int, bool, str, bytes})
_MISSING = object()
_INT_ONLY = frozenset({int})


def compare(
    expected: Any, actual: Any, unproved: list[str] | None = None
) -> Difference | None:
    """Compare two jaxprs, equation by equation.

    Args:
      expected: Closed or open jaxpr.
      actual: Closed or open jaxpr.
      unproved: Gets one line for everything that had to be taken on trust, such as a
        host function that was defined anew with the same code.

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
        return _Walk(notes).jaxprs(expected, actual, None)


class _Scope:
    """What the variables of one pair of jaxprs stand for."""

    __slots__ = ("actual_consts", "expected_consts", "parent", "partner")

    def __init__(self, parent: _Scope | None) -> None:
        self.parent = parent
        # Expected variable -> the actual variable defined at the same place.
        self.partner: dict[Any, Any] = {}
        self.expected_consts: dict[Any, Any] = {}
        self.actual_consts: dict[Any, Any] = {}


class _Frame:
    """The pair of jaxprs and equations that the walk is in, for messages."""

    __slots__ = ("actual", "expected", "index")

    def __init__(self, expected: Any, actual: Any) -> None:
        self.expected = expected
        self.actual = actual
        self.index: int | None = None


class _Walk:
    def __init__(self, notes: list[str]) -> None:
        self.notes = notes
        self.path: list[str] = []
        self.frames: list[_Frame] = []
        self.same_jaxprs: set[tuple[int, int]] = set()
        self.same_rules: set[tuple[int, int]] = set()
        self.active: set[tuple[int, int]] = set()
        self.keys: dict[int, Any] = {}
        self.alive: list[Any] = []
        self.ref_numbers: tuple[dict[int, int], dict[int, int]] = ({}, {})
        # How often a variable of an enclosing jaxpr was used: memoising needs to know.
        self.n_outer_uses = 0

    # -- jaxprs

    def jaxprs(
        self, expected: Any, actual: Any, parent: _Scope | None
    ) -> Difference | None:
        pair = (id(expected), id(actual))
        if expected is actual or pair in self.same_jaxprs:
            return None
        uses = self.n_outer_uses
        body, consts = jaxapi.split_jaxpr(expected)
        other, other_consts = jaxapi.split_jaxpr(actual)
        self.frames.append(_Frame(body, other))
        scope = _Scope(parent)
        found = (
            self.bind_consts(scope, body, consts, other, other_consts)
            or self.bind_inputs(scope, body, other)
            or self.equations(scope, body, other)
            or self.results(scope, body, other)
        )
        if found is None:
            self.frames.pop()
            if uses == self.n_outer_uses:
                self.same_jaxprs.add(pair)
                self.alive.append((expected, actual))
        return found

    def bind_consts(
        self, scope: _Scope, body: Any, consts: list[Any], other: Any, others: list[Any]
    ) -> Difference | None:
        scope.expected_consts = dict(zip(body.constvars, consts))
        scope.actual_consts = dict(zip(other.constvars, others))
        if consts or others or not (body.constvars or other.constvars):
            return None
        # An open jaxpr on its own: its constants are inputs without a value.
        return self.binders(scope, body.constvars, other.constvars, "constant")

    def bind_inputs(self, scope: _Scope, body: Any, other: Any) -> Difference | None:
        return self.binders(scope, body.invars, other.invars, "input")

    def binders(
        self, scope: _Scope, expected: Any, actual: Any, noun: str
    ) -> Difference | None:
        if len(expected) != len(actual):
            return self.differ(f"number of {noun}s differs")
        for position, (var, other) in enumerate(zip(expected, actual)):
            if not _same_type(var.aval, other.aval):
                types = _two_types(var.aval, other.aval)
                return self.differ(f"type of {noun} {position} differs: {types}")
            before, after = jaxapi.initial_state(var), jaxapi.initial_state(other)
            if before != after and self.value(before, after, scope) is not None:
                return self.differ(f"state of {noun} {position} differs")
            scope.partner[var] = other
        return None

    def results(self, scope: _Scope, body: Any, other: Any) -> Difference | None:
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

    def equations(self, scope: _Scope, body: Any, other: Any) -> Difference | None:
        frame = self.frames[-1]
        partner = scope.partner
        literal = jaxapi.JaxprLiteral
        mates = other.eqns
        eqns = body.eqns
        for index, (eqn, mate) in enumerate(zip(eqns, mates)):
            if eqn.primitive is not mate.primitive or eqn.params is not mate.params:
                frame.index = index
                found = self.calls(scope, eqn, mate)
                if found is not None:
                    return found
            if (
                eqn.ctx is not mate.ctx
                or eqn.effects
                or mate.effects
                or len(eqn.invars) != len(mate.invars)
                or len(eqn.outvars) != len(mate.outvars)
            ):
                frame.index = index
                found = self.details(scope, eqn, mate)
                if found is not None:
                    return found
            for position, (atom, twin) in enumerate(zip(eqn.invars, mate.invars)):
                if type(atom) is not literal and partner.get(atom) is twin:
                    continue
                reason = self.operand(scope, atom, twin)
                if reason is not None:
                    frame.index = index
                    where = "" if reason.startswith("literal") else f"operand {position}: "
                    return self.differ(where + reason)
            for var, twin in zip(eqn.outvars, mate.outvars):
                if var.aval is not twin.aval and not _same_type(var.aval, twin.aval):
                    frame.index = index
                    types = _two_types(var.aval, twin.aval)
                    return self.differ(f"type of a result differs: {types}")
                partner[var] = twin
        if len(eqns) != len(mates):
            frame.index = min(len(eqns), len(mates))
            return self.differ(f"{len(eqns)} and {len(mates)} equations")
        frame.index = None
        return None

    def calls(self, scope: _Scope, eqn: Any, mate: Any) -> Difference | None:
        """Compare primitives and params."""
        if eqn.primitive is not mate.primitive and primitive_key(
            eqn.primitive
        ) != primitive_key(mate.primitive):
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
                or (kind is tuple and _same_ints(param, other))
            ):
                continue
            found = self.param(scope, eqn, mate, name, other)
            if found is not None:
                return found
        return None

    def param(
        self, scope: _Scope, eqn: Any, mate: Any, name: str, other: Any
    ) -> Difference | None:
        if other is _MISSING:
            return self.differ(f"param `{name}` is missing")
        if name in rules.OPAQUE_PARAMS.get(eqn.primitive.name, ()):
            return self.rules(scope, eqn, mate)
        return self.labelled(f"/{name}", eqn.params[name], other, scope, eqn)

    def labelled(
        self, label: str, value: Any, other: Any, scope: _Scope, eqn: Any = None
    ) -> Difference | None:
        """Compare two values under one more step of the path."""
        self.path.append(label if eqn is None else f"/{eqn.primitive.name}{label}")
        found = self.value(value, other, scope)
        if found is None:
            self.path.pop()
        return found

    def rules(self, scope: _Scope, eqn: Any, mate: Any) -> Difference | None:
        pair = (id(eqn), id(mate))
        if pair in self.same_rules:
            return None
        self.same_rules.add(pair)
        expected, actual = rules.trace_rules(eqn), rules.trace_rules(mate)
        self.alive.append((expected, actual))
        name = rules.name_rule(eqn)
        if eqn.params["symbolic_zeros"]:
            self.note(f"{name}: symbolic zeros; compared with every tangent nonzero")
        if expected[0][0] == "error" and expected == actual:
            self.note(f"{name}: its rule cannot be traced ({expected[0][1]})")
        if [label for label, _ in expected] != [label for label, _ in actual]:
            errors = [text for label, text in expected + actual if label == "error"]
            return self.differ(f"a derivative rule cannot be traced: {errors[0]}")
        for (label, value), (_, other) in zip(expected, actual):
            found = self.labelled(f"/{label}", value, other, scope, eqn)
            if found is not None:
                return found
        return None

    def details(self, scope: _Scope, eqn: Any, mate: Any) -> Difference | None:
        """Compare what is the same for nearly every pair of equations."""
        if len(eqn.invars) != len(mate.invars):
            return self.differ("number of operands differs")
        if len(eqn.outvars) != len(mate.outvars):
            return self.differ("number of results differs")
        if eqn.effects or mate.effects:
            found = self.effects(scope, eqn.effects, mate.effects, eqn, mate)
            if found is not None:
                return found
        if eqn.ctx is mate.ctx:
            return None
        for name in jaxapi.CONTEXT_FIELDS:
            value, other = getattr(eqn.ctx, name), getattr(mate.ctx, name)
            if value is not other:
                found = self.labelled(f"/context {name}", value, other, scope, eqn)
                if found is not None:
                    return found
        return None

    def effects(
        self, scope: _Scope, effects: Any, others: Any, eqn: Any = None, mate: Any = None
    ) -> Difference | None:
        """Compare sets of effects; those on an input by the variable they are on."""
        if len(effects) != len(others):
            return self.differ("effects differ")
        rest = list(others)
        for effect in effects:
            for i, other in enumerate(rest):
                if self.same_effect(scope, effect, other, eqn, mate):
                    del rest[i]
                    break
            else:
                return self.differ(f"effects differ: {type(effect).__name__}")
        return None

    def same_effect(
        self, scope: _Scope, effect: Any, other: Any, eqn: Any, mate: Any
    ) -> bool:
        if type(effect) is not type(other):
            return False
        if not isinstance(effect, jaxapi.JaxprInputEffect):
            return effect is other or self.is_same(effect, other, scope)
        var, twin = effect.input, other.input
        if isinstance(var, int) or isinstance(twin, int):
            return var == twin
        if eqn is not None and (var in eqn.outvars or twin in mate.outvars):
            return list(eqn.outvars).index(var) == list(mate.outvars).index(twin)
        return self.operand(scope, var, twin) is None

    # -- operands

    def operand(self, scope: _Scope, atom: Any, mate: Any) -> str | None:
        """Say how two operands differ, None if they do not."""
        literals = [type(a) is jaxapi.JaxprLiteral for a in (atom, mate)]
        if any(literals):
            return self.literal(atom, mate) if all(literals) else "one is a literal"
        if atom in scope.partner:
            return None if scope.partner[atom] is mate else "another value"
        if atom not in scope.expected_consts or mate not in scope.actual_consts:
            return "one is a constant"
        if not _same_type(atom.aval, mate.aval):
            return f"constants of types {_two_types(atom.aval, mate.aval)}"
        value, other = scope.expected_consts[atom], scope.actual_consts[mate]
        return None if self.is_same(value, other, scope) else "constants differ"

    def literal(self, atom: Any, mate: Any) -> str | None:
        if not _same_type(atom.aval, mate.aval):
            return f"literal type differs: {_two_types(atom.aval, mate.aval)}"
        value, other = atom.val, mate.val
        if value is other:
            return None
        key = literal_key(value, atom.aval)
        if key is None:
            return None if self.is_same(value, other, None) else "literal differs"
        return None if key == literal_key(other, mate.aval) else "literal differs"

    # -- values

    def is_same(self, value: Any, other: Any, scope: _Scope | None) -> bool:
        """Compare two values without saying where they differ."""
        depth, n_frames = len(self.path), len(self.frames)
        found = self.value(value, other, scope)
        del self.path[depth:]
        del self.frames[n_frames:]
        return found is None

    def value(
        self, value: Any, other: Any, scope: _Scope | None
    ) -> Difference | None:
        if value is other:
            return None
        if jaxapi.is_jaxpr(value) and jaxapi.is_jaxpr(other):
            return self.jaxprs(value, other, scope)
        if isinstance(value, jaxapi.Tracer) or isinstance(other, jaxapi.Tracer):
            return self.tracers(value, other, scope)
        if isinstance(value, jaxapi.Ref) and isinstance(other, jaxapi.Ref):
            return self.refs(value, other)
        parts, others = self.parts(value), self.parts(other)
        if parts.is_opaque or others.is_opaque or parts.has_equality:
            if type(value) is type(other) and parts.has_equality and value == other:
                return None
            if parts.is_opaque or others.is_opaque:
                return self.differ_values(value, other)
        if parts.kind != others.kind:
            return self.differ_values(value, other)
        if parts.origin:
            self.note_origin(value, other, parts, others)
        return self.children(value, other, parts, others, scope)

    def children(
        self, value: Any, other: Any, parts: Parts, others: Parts, scope: _Scope | None
    ) -> Difference | None:
        pair = (id(value), id(other))
        if len(parts.children) != len(others.children):
            return self.differ_values(value, other)
        if pair in self.active:  # a cycle: compared further up
            return None
        self.active.add(pair)
        for (label, child), (twin_label, twin) in zip(parts.children, others.children):
            if child is twin and label == twin_label:
                continue
            if label != twin_label:
                return self.differ_values(value, other)
            found = self.labelled(label, child, twin, scope)
            if found is not None:
                self.active.discard(pair)
                return found
        self.active.discard(pair)
        return None

    def parts(self, value: Any) -> Parts:
        """Take a value apart, arrays only once."""
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            return take_apart(value)
        known = self.keys.get(id(value))
        if known is None:
            known = self.keys[id(value)] = take_apart(value)
            self.alive.append(value)
        return known

    def tracers(
        self, value: Any, other: Any, scope: _Scope | None
    ) -> Difference | None:
        """Compare what rules closed over: variables of an enclosing jaxpr."""
        self.n_outer_uses += 1
        both = isinstance(value, jaxapi.Tracer) and isinstance(other, jaxapi.Tracer)
        if not both or not _same_type(value.aval, other.aval):
            return self.differ("captured values differ")
        var, twin = jaxapi.var_behind(value), jaxapi.var_behind(other)
        while scope is not None:
            if var is not None and var in scope.partner:
                same = scope.partner[var] is twin
                return None if same else self.differ("captured values differ")
            if var in scope.expected_consts and twin in scope.actual_consts:
                reason = self.operand(scope, var, twin)
                return None if reason is None else self.differ(reason)
            scope = scope.parent
        self.note(f"a captured value of type {difference.short_type(value.aval)}")
        return None

    def refs(self, value: Any, other: Any) -> Difference | None:
        """Compare mutable arrays: same aliasing, type and present content."""
        mine, theirs = self.ref_numbers
        number = mine.setdefault(id(value), len(mine))
        if number != theirs.setdefault(id(other), len(theirs)):
            return self.differ("mutable arrays are aliased differently")
        if array_key(value[...]) != array_key(other[...]):
            return self.differ("mutable arrays differ")
        self.note("a mutable array made anew with the same content")
        return None

    # -- saying so

    def note_origin(self, value: Any, other: Any, parts: Parts, others: Parts) -> None:
        if parts.origin != others.origin:
            self.note(f"`{parts.origin}` and `{others.origin}`: same code elsewhere")
        elif value.__globals__ is not other.__globals__:
            self.note(f"`{parts.origin}`: same code with other globals")

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def differ_values(self, value: Any, other: Any) -> Difference:
        texts = [difference.shorten(repr(v))[:60] for v in (value, other)]
        what = self.path[-1].rsplit("/", 1)[-1] if self.path else "value"
        if texts[0] == texts[1]:
            return self.differ(f"{what} differs and cannot be compared: {texts[0]}")
        return self.differ(f"{what} differs: {texts[0]} and {texts[1]}")

    def differ(self, reason: str) -> Difference:
        """Make the difference at the place the walk is in."""
        frame = self.frames[-1]
        indices = [f.index for f in self.frames if f.index is not None]
        texts = [
            difference.render_equation(side, frame.index)
            if frame.index is not None
            else difference.render_inputs(side)
            if "input" in reason
            else difference.render_results(side)
            for side in (frame.expected, frame.actual)
        ]
        path = "".join(self.path).lstrip("/")
        return Difference(path, tuple(indices), *texts, reason)


def _same_type(aval: Any, other: Any) -> bool:
    return aval is other or (type(aval) is type(other) and bool(aval == other))


def _same_ints(ints: tuple[Any, ...], others: tuple[Any, ...]) -> bool:
    kinds = {*map(type, ints), *map(type, others)}
    return kinds <= _INT_ONLY and ints == others


def _two_types(aval: Any, other: Any) -> str:
    texts = [difference.short_type(a) for a in (aval, other)]
    if texts[0] == texts[1]:
        texts = [repr(aval), repr(other)]
    return f"{texts[0]} and {texts[1]}"
