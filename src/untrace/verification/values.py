"""Compare two values that stand in jaxprs: params, constants, and what they hold.

`ValueWalk` walks the parts of both values in step and remembers where it is, so that
the first difference can be shown. Jaxprs inside values are compared by its subclass in
`compare.py`.
"""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.verification import difference
from untrace.verification.canonical import (
    HOLDING_KINDS,
    Parts,
    array_key,
    take_apart,
)
from untrace.verification.difference import Difference
from untrace.verification.identity import identity, is_looked_into
from untrace.verification.surroundings import changeable, changes_nothing, seen_globals


class Scope:
    """What the variables of one pair of jaxprs stand for."""

    __slots__ = ("actual_consts", "expected_consts", "parent", "partner")

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        # Expected variable -> the actual variable defined at the same place.
        self.partner: dict[Any, Any] = {}
        self.expected_consts: dict[Any, Any] = {}
        self.actual_consts: dict[Any, Any] = {}

    def sees_expected(self, var: Any) -> bool:
        """Whether a variable of the expected side is one of this or outer jaxprs."""
        scope: Scope | None = self
        while scope is not None:
            if var in scope.partner or var in scope.expected_consts:
                return True
            scope = scope.parent
        return False


class Frame:
    """The pair of jaxprs and equations that the walk is in."""

    __slots__ = ("actual", "expected", "index")

    def __init__(self, expected: Any, actual: Any) -> None:
        self.expected = expected
        self.actual = actual
        self.index: int | None = None

    @property
    def equation(self) -> Any:
        """The expected equation, None if there is none."""
        eqns, index = self.expected.eqns, self.index
        return None if index is None or index >= len(eqns) else eqns[index]


class ValueWalk(abc.ABC):
    """A walk over two values; stops at the first difference.

    Methods return the difference or None. After a difference the walk is not used
    again, except by `is_same`, which puts its state back.
    """

    def __init__(self, notes: list[str], are_refs_anew: bool) -> None:
        self.notes = notes
        self.are_refs_anew = are_refs_anew
        self.path: list[str] = []
        self.frames: list[Frame] = []
        self.active: set[tuple[int, int]] = set()
        # Whether types of numbers count here, and whether a function holds what is here.
        self.is_exact = False
        self.is_held = False
        # Whether that function may change what it holds.
        self.may_change = True
        self.arrays: dict[int, Parts] = {}
        self.ref_numbers: tuple[dict[int, int], dict[int, int]] = ({}, {})
        # Objects that host functions may share, by their addresses, and their partners.
        self.partners: tuple[dict[int, int], dict[int, int]] = ({}, {})
        # The host functions that others stand in for, by the addresses of these.
        self.hosts: dict[int, Any] = {}
        # How often a variable of an enclosing jaxpr was used: memoising needs to know.
        self.n_outer_uses = 0
        # What ids in tables refer to; it must not be freed before the walk ends.
        self.alive: list[Any] = []

    @abc.abstractmethod
    def jaxprs(
        self, expected: Any, actual: Any, parent: Scope | None
    ) -> Difference | None:
        """Compare two jaxprs."""

    @abc.abstractmethod
    def operand(self, scope: Scope, atom: Any, mate: Any) -> str | None:
        """Say how two operands differ, None if they do not."""

    # -- values

    def is_same(self, value: Any, other: Any, scope: Scope | None) -> bool:
        """Compare two values without saying where they differ."""
        depth, n_frames, active = len(self.path), len(self.frames), set(self.active)
        modes = self.is_exact, self.is_held, self.may_change
        mine, theirs = self.partners
        partners = dict(mine), dict(theirs)
        found = self.value(value, other, scope)
        if found is not None:
            self.partners = partners
        self.is_exact, self.is_held, self.may_change = modes
        del self.path[depth:]
        del self.frames[n_frames:]
        self.active = active
        return found is None

    def value(self, value: Any, other: Any, scope: Scope | None) -> Difference | None:
        """Compare two values of any type."""
        is_traced = isinstance(value, jaxapi.Tracer) or isinstance(other, jaxapi.Tracer)
        are_refs = isinstance(value, jaxapi.Ref) and isinstance(other, jaxapi.Ref)
        if are_refs and not is_traced:
            return self.refs(value, other)
        if value is other:
            return None
        if jaxapi.is_jaxpr(value) and jaxapi.is_jaxpr(other):
            return self.jaxprs(value, other, scope)
        if is_traced:
            return self.tracers(value, other, scope)
        leaves = jaxapi.leaves_stand_in(other)
        if leaves is not None:
            return self.leaves_stand_ins(value, other, *leaves)
        stand_in = jaxapi.stand_in_for(other)
        if stand_in is not None and callable(value):
            return self.stand_ins(value, other, stand_in)
        if self.is_held and not is_looked_into(value):
            is_same = identity(value) == identity(other)
            return None if is_same else self.differ_values(value, other)
        parts, others = self.parts(value), self.parts(other)
        is_one = parts.has_equality and type(value) is type(other)
        if is_one and _are_equal(value, other):
            return None
        is_opaque = parts.is_opaque or others.is_opaque
        if is_opaque or parts.kind != others.kind:
            return self.differ_values(value, other)
        is_other = parts.witness is not others.witness
        is_other |= self.is_exact and parts.exact_type != others.exact_type
        if is_other or (self.is_held and not _is_laid_out_alike(value, other)):
            return self.differ_values(value, other)
        if parts.sees_globals and value.__globals__ is not other.__globals__:
            parts = parts._replace(children=parts.children + seen_globals(value))
            others = others._replace(children=others.children + seen_globals(other))
        return self.children(value, other, parts, others, scope)

    def children(
        self, value: Any, other: Any, parts: Parts, others: Parts, scope: Scope | None
    ) -> Difference | None:
        """Compare the components of two values of one kind."""
        pair = (id(value), id(other))
        if pair in self.active:  # a cycle: compared further up
            return None
        if [c[0] for c in parts.children] != [c[0] for c in others.children]:
            return self.differ_values(value, other)
        self.active.add(pair)
        outer = self.is_exact, self.is_held, self.may_change
        if parts.kind[0] in HOLDING_KINDS:
            self.is_held, self.may_change = True, not changes_nothing(value)
        self.is_exact |= self.is_held
        is_shared = self.is_held and self.may_change
        if is_shared and not self.are_shared_alike(value, other):
            return self.differ("host functions share other objects")
        for (label, child), (_, twin) in zip(parts.children, others.children):
            found = None if child is twin else self.labelled(label, child, twin, scope)
            if found is not None:
                return found
        self.active.discard(pair)
        self.is_exact, self.is_held, self.may_change = outer
        return None

    def are_shared_alike(self, value: Any, other: Any) -> bool:
        """Whether what host functions may change corresponds one to one so far."""
        mine, theirs = self.partners
        for first, second in zip(changeable(value), changeable(other)):
            self.alive.append((first, second))
            pair = id(first), id(second)
            if (mine.setdefault(*pair), theirs.setdefault(*pair[::-1])) != pair[::-1]:
                return False
        return True

    def labelled(
        self, label: str, value: Any, other: Any, scope: Scope | None
    ) -> Difference | None:
        """Compare two values under one more step of the path."""
        self.path.append(label)
        found = self.value(value, other, scope)
        if found is None:
            self.path.pop()
        return found

    def parts(self, value: Any) -> Parts:
        """Take a value apart, an array only once: its bits are hashed."""
        if not hasattr(value, "dtype") or not hasattr(value, "shape"):
            return take_apart(value)
        known = self.arrays.get(id(value))
        if known is None:
            known = self.arrays[id(value)] = take_apart(value)
            self.alive.append(value)
        return known

    def tracers(self, value: Any, other: Any, scope: Scope | None) -> Difference | None:
        """Compare what rules closed over: variables of an enclosing jaxpr."""
        self.n_outer_uses += 1
        both = isinstance(value, jaxapi.Tracer) and isinstance(other, jaxapi.Tracer)
        if not both or not is_same_type(value.aval, other.aval):
            return self.differ("captured values differ")
        var, twin = jaxapi.var_behind(value), jaxapi.var_behind(other)
        while scope is not None:
            if var in scope.partner:
                same = scope.partner[var] is twin
                return None if same else self.differ("captured values differ")
            if var in scope.expected_consts and twin in scope.actual_consts:
                reason = self.operand(scope, var, twin)
                return None if reason is None else self.differ(reason)
            scope = scope.parent
        text = difference.short_type(value.aval)
        self.note(f"a value of type {text} that a derivative rule captured")
        return None

    def refs(self, value: Any, other: Any) -> Difference | None:
        """Compare mutable arrays: the very same, or made anew with the same content.

        Those made anew correspond one to one, in the order in which they are met.
        """
        mine, theirs = self.ref_numbers
        if not self.are_refs_anew:
            return None if value is other else self.differ("another mutable array")
        number = mine.setdefault(id(value), len(mine))
        if number != theirs.setdefault(id(other), len(theirs)):
            return self.differ("mutable arrays are aliased differently")
        if value is not other and array_key(value[...]) != array_key(other[...]):
            return self.differ("mutable arrays differ")
        if value is not other:
            self.note("a mutable array made anew with the same content")
        return None

    def stand_ins(
        self, value: Any, made: Any, name: str, *trees: Any
    ) -> Difference | None:
        """Accept a function that says for which host function it stands in.

        One that stands in for two has to stand in for the same one, with the same trees.
        """
        host = value, *trees
        known = self.hosts.setdefault(id(made), host)
        is_other = known is not host and not self.is_made_anew(known, host)
        is_meant = name == jaxapi.function_origin(value)
        # Of two stand-ins both say which function they are for, and what they take.
        said = [(f(value), f(made)) for f in _SAID_OF_STAND_INS]
        if is_other or not (is_meant or all(one == two for one, two in said)):
            return self.differ(
                f"a stand-in for `{name}` is in the place of another function"
            )
        self.note(f"the function `{name}` (a stand-in is in its place)")
        return None

    def is_made_anew(self, host: Any, again: Any) -> bool:
        """Whether two host functions of one program are the same, made twice.

        What they hold corresponds by itself: that the functions of this program
        correspond to those of another one says nothing of it.
        """
        partners, self.partners = self.partners, ({}, {})
        is_same = self.is_same(host, again, None)
        self.partners = partners
        return is_same

    def leaves_stand_ins(
        self, value: Any, made: Any, name: str, n: int
    ) -> Difference | None:
        """Accept a stand-in that takes the leaves of what the host function takes."""
        call = jaxapi.host_call(value)
        if call is None or call.in_tree.num_leaves != n:
            return self.differ("the host functions take other arguments")
        stand_in = jaxapi.host_call(made)
        function = getattr(stand_in, "function", made)
        return self.stand_ins(call.function, function, name, call.in_tree)

    def leaves_rules(
        self, call: jaxapi.BatchingCall, made: jaxapi.BatchingCall, name: str
    ) -> Difference | None:
        """Accept a stand-in that takes and returns the leaves of a batching rule's trees."""
        if call.n_leaves != made.n_leaves:
            return self.differ("the batching rules take or return other leaves")
        trees = call.in_tree, call.out_tree
        return self.stand_ins(call.rule, made.rule, name, *trees)

    # -- saying so

    def note(self, text: str) -> None:
        """Add a line to what is not proved, once."""
        if text not in self.notes:
            self.notes.append(text)

    def differ_values(self, value: Any, other: Any) -> Difference:
        """Make the difference of two values at the end of the path."""
        texts = [difference.shorten(repr(v), 60) for v in (value, other)]
        what = self.path[-1].rsplit("/", 1)[-1] if self.path else "value"
        if texts[0] == texts[1]:
            return self.differ(f"`{what}` differs or cannot be compared: {texts[0]}")
        return self.differ(f"`{what}` differs: {texts[0]} and {texts[1]}")

    def differ(self, reason: str) -> Difference:
        """Make the difference at the place the walk is in."""
        frame = self.frames[-1]
        indices = [f.index for f in self.frames if f.index is not None]
        if frame.index is not None:
            sides = [
                difference.render_equation(side, frame.index)
                for side in (frame.expected, frame.actual)
            ]
        else:
            render = (
                difference.render_inputs
                if "input" in reason
                else difference.render_results
            )
            sides = [render(frame.expected), render(frame.actual)]
        path = "".join(self.path).lstrip("/")
        blamed = tuple([f.equation for f in self.frames])
        return Difference(
            path, tuple(indices), sides[0], sides[1], reason, blamed=blamed
        )


_SAID_OF_STAND_INS = jaxapi.stand_in_for, jaxapi.leaves_stand_in_for


def _is_laid_out_alike(value: Any, other: Any) -> bool:
    """Whether two containers have one class, and their items one order."""
    if type(value) is not type(other):
        return False
    if type(value) is dict:
        return identity(tuple(value)) == identity(tuple(other))
    return type(value) is not np.ndarray or value.strides == other.strides


def _are_equal(value: Any, other: Any) -> bool:
    try:
        is_equal = bool(value == other)
        # To containers of Python 1 is 1.0 and True; what they print is not.
        return is_equal and (_is_jaxs(value) or repr(value) == repr(other))
    except Exception:  # of arrays, nobody can say
        return False


def _is_jaxs(value: Any) -> bool:
    return type(value).__module__.partition(".")[0] in ("jax", "jaxlib")


def is_same_type(aval: Any, other: Any) -> bool:
    """Compare two avals; JAX makes only one object for most of them."""
    if aval is other:
        return True
    # The `==` of mutable arrays leaves their kind out.
    kinds = [getattr(each, "kind", None) for each in (aval, other)]
    return type(aval) is type(other) and bool(aval == other) and kinds[0] == kinds[1]
