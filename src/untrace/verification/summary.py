"""Say in sentences how two programs differ that are equal as data flow.

They are laid out flat, with plain calls opened, and counted: calls that are opened,
equations that no result needs, values that are computed again. It is for the reader and
proves nothing; what is not counted is said in general.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.verification.difference import short_type
from untrace.verification.graph import plain_call

MAX_NAMED = 3
MAX_EQUATIONS = 20_000
"""Equations of a program beyond which only general words are found."""

GENERAL = "Sub-programs are given their constants and operands in another way"


def differences(expected: Any, actual: Any) -> tuple[str, ...]:
    """List what differs between a program and one that is equivalent, a sentence each.

    Args:
      expected: The jaxpr that was captured, whose lines are shown.
      actual: The other one.
    """
    with jaxapi.deep_recursion():
        before, after = _Census(), _Census()
        try:
            before.program(expected)
            after.program(actual)
        except _TooLong:
            return ("Dead code, `jit` wrappers or the order of equations differ.",)
    said = [*_counted(before, after)]
    if not said and before.order() != after.order():
        said.append("Equations that do not need each other stand in another order")
    return tuple(f"{sentence}." for sentence in said or [GENERAL])


class _Item(NamedTuple):
    """An equation or a call: what it is, what made it, and whose primitive it is."""

    what: tuple[str, str]
    source_info: Any = None
    library: str = ""

    def __str__(self) -> str:
        shown = f"`{self.what[0]}`" + (f" of {self.library}" if self.library else "")
        info = self.source_info
        place = jaxapi.users_place(info) if info is not None else ""
        return f"{shown} ({place})" if place else shown


class _TooLong(Exception):
    pass


class _Census:
    """The equations of a program and of its sub-programs, which count once."""

    def __init__(self) -> None:
        self.wrappers: list[_Item] = []
        self.needed: list[_Item] = []
        self.dead: list[_Item] = []
        self.names: list[_Item] = []
        self._seen: dict[int, Any] = {}
        self._n_values = 0

    def order(self) -> list[tuple[str, str]]:
        return [item.what for item in self.needed]

    def program(self, jaxpr: Any) -> None:
        if id(jaxpr) in self._seen:
            return
        self._seen[id(jaxpr)] = jaxpr
        body, _ = jaxapi.split_jaxpr(jaxpr)
        flat: list[tuple[Any, list[int], list[int]]] = []
        numbers: dict[Any, int] = {}
        self._lay_out(body, numbers, flat)
        needed = {numbers.get(v, -1) for v in body.outvars if _is_variable(v)}
        is_needed: list[bool] = []
        for eqn, operands, results in reversed(flat):
            counts = bool(eqn.effects) or not needed.isdisjoint(results)
            is_needed.append(counts)
            if counts:
                needed.update(operands)
        for (eqn, _, _), counts in zip(flat, reversed(is_needed)):
            (self.needed if counts else self.dead).append(_item(eqn))
            name = eqn.params.get("name")
            if jaxapi.primitive_name(eqn.primitive) == "jit" and counts:
                self.names.append(_Item((str(name), "")))
        for inner in jaxapi.sub_jaxprs_of([eqn for eqn, _, _ in flat]):
            self.program(inner)

    def _lay_out(
        self,
        body: Any,
        numbers: dict[Any, int],
        flat: list[tuple[Any, list[int], list[int]]],
    ) -> None:
        """List equations with numbers for their operands and results; open plain calls."""
        for eqn in body.eqns:
            operands = [self._number(v, numbers) for v in eqn.invars if _is_variable(v)]
            call = plain_call(eqn)
            if call is None:
                results = [self._number(v, numbers) for v in eqn.outvars]
                flat.append((eqn, operands, results))
                if len(flat) > MAX_EQUATIONS:
                    raise _TooLong
                continue
            name = str(eqn.params.get("name", jaxapi.primitive_name(eqn.primitive)))
            self.wrappers.append(_Item((name, ""), eqn.source_info))
            inner, _ = jaxapi.split_jaxpr(call)
            given = {
                v: self._number(atom, numbers)
                for v, atom in zip(inner.invars, eqn.invars)
                if _is_variable(atom)
            }
            self._lay_out(inner, given, flat)
            for var, result in zip(eqn.outvars, inner.outvars):
                if _is_variable(result):
                    numbers[var] = self._number(result, given)

    def _number(self, var: Any, numbers: dict[Any, int]) -> int:
        if var not in numbers:
            self._n_values += 1
            numbers[var] = self._n_values
        return numbers[var]


def _is_variable(atom: Any) -> bool:
    return type(atom) is not jaxapi.JaxprLiteral


def _item(eqn: Any) -> _Item:
    kind = short_type(eqn.outvars[0].aval) if eqn.outvars else ""
    what = jaxapi.primitive_name(eqn.primitive), kind
    return _Item(what, eqn.source_info, jaxapi.library_of(eqn.primitive))


def _counted(before: _Census, after: _Census) -> Iterator[str]:
    """Yield sentences about what there is more or less of."""
    gone = _more(before.needed, after.needed)
    computed = [item for item in gone if item.library]
    if computed:
        is_, s = ("is", "") if len(computed) == 1 else ("are", "s")
        what = (
            "primitives of libraries compute" if s else "a library's primitive computes"
        )
        yield f"{len(computed)} equation{s} {is_} written as what {what}{_named(computed)}"
        # What they compute stands among the others, and cannot be told from them.
        before = _without_computing(before)
        after = _without_computing(after)
    opened = _more(before.wrappers, after.wrappers)
    added = _more(after.wrappers, before.wrappers)
    renamed = _renamed(before.names, after.names)
    exchanged = _renamed(before.wrappers, after.wrappers)
    if len(opened) == len(added) == len(exchanged):  # in their places
        renamed += exchanged
        opened = added = []
    for items, others, text in (
        (opened, [], "plain `jit` wrapper{s} {is_} opened"),
        (added, [], "plain `jit` wrapper{s} {is_} added"),
        (before.dead, after.dead, "dead equation{s} {is_} gone"),
        (after.dead, before.dead, "dead equation{s} {is_} added"),
        (before.needed, after.needed, "equation{s} {is_} not computed again"),
        (after.needed, before.needed, "equation{s} {is_} computed once more"),
    ):
        shows = items is opened or items is before.dead
        shows = shows or items is before.needed
        more = _more(items, others)
        if more:
            n = len(more)
            is_, s = ("is", "") if n == 1 else ("are", "s")
            named = _named(more) if shows else ""
            yield f"{n} {text.format(s=s, is_=is_)}{named}"
    pairs = {(a.what[0], b.what[0]): None for a, b in renamed}
    if pairs:
        shown = ", ".join(f"`{a}` is `{b}`" for a, b in [*pairs][:MAX_NAMED])
        yield f"Jitted functions have other names for JAX: {shown}"


def _renamed(
    before: Sequence[_Item], after: Sequence[_Item]
) -> list[tuple[_Item, _Item]]:
    """Pair those that differ, if there are as many before as after."""
    if len(before) != len(after):
        return []
    return [(a, b) for a, b in zip(before, after) if a.what != b.what]


def _without_computing(census: _Census) -> _Census:
    """What there is besides the equations that results need."""
    rest = _Census()
    rest.wrappers, rest.dead, rest.names = census.wrappers, census.dead, census.names
    return rest


def _more(items: Sequence[_Item], others: Sequence[_Item]) -> list[_Item]:
    """The items of which there are more than among others."""
    left = Counter(item.what for item in others)
    more: list[_Item] = []
    for item in items:
        if left[item.what] > 0:
            left[item.what] -= 1
        else:
            more.append(item)
    return more


def _named(items: Sequence[_Item]) -> str:
    shown = list(dict.fromkeys(map(str, items)))
    more = len(shown) - MAX_NAMED
    rest = f" and {more} more" if more > 0 else ""
    return f": {', '.join(shown[:MAX_NAMED])}{rest}"
