"""Say in sentences how two programs differ that are equal as data flow.

They are laid out flat, with plain calls opened, and counted: calls that are opened,
equations that no result needs, values that are computed again. What stands in a call or
in a loop that no result needs is dead as that is. It is for the reader and proves
nothing; what is not counted is said in general.
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
    """An equation or a call: what it is, what made it, and whose primitive it is.

    Its source infos are its own and those of the calls around it, innermost first.
    """

    what: tuple[str, str]
    source_infos: tuple[Any, ...] = ()
    library: str = ""

    def __str__(self) -> str:
        shown = f"`{self.what[0]}`" + (f" of {self.library}" if self.library else "")
        place = jaxapi.users_place(*self.source_infos)
        return f"{shown} ({place})" if place else shown


class _Placed(NamedTuple):
    """An equation, numbers for its operands and results, and the calls around it."""

    eqn: Any
    operands: list[int]
    results: list[int]
    around: tuple[Any, ...]


class _Wrapper(NamedTuple):
    """A plain call, and which of the equations laid out stand in it."""

    item: _Item
    first: int
    end: int


class _TooLong(Exception):
    pass


class _Census:
    """The equations of a program and of its sub-programs, which count once."""

    def __init__(self) -> None:
        self.wrappers: list[_Item] = []
        self.dead_wrappers: list[_Item] = []
        self.needed: list[_Item] = []
        self.dead: list[_Item] = []
        self.names: list[_Item] = []
        self._seen: dict[int, Any] = {}
        self._in_dead: list[tuple[Any, tuple[Any, ...]]] = []
        self._n_values = 0
        self._kinds: dict[int, tuple[Any, str]] = {}

    def order(self) -> list[tuple[str, str]]:
        return [item.what for item in self.needed]

    def program(self, jaxpr: Any) -> None:
        self._program(jaxpr, (), True)
        # What a needed equation runs too is not dead.
        while self._in_dead:
            inner, around = self._in_dead.pop(0)
            self._program(inner, around, False)

    def _program(self, jaxpr: Any, around: tuple[Any, ...], counts: bool) -> None:
        if id(jaxpr) in self._seen:
            return
        self._seen[id(jaxpr)] = jaxpr
        body, _ = jaxapi.split_jaxpr(jaxpr)
        flat: list[_Placed] = []
        wrappers: list[_Wrapper] = []
        numbers: dict[Any, int] = {}
        self._lay_out(body, numbers, around, flat, wrappers)
        results = {numbers.get(v, -1) for v in body.outvars if _is_variable(v)}
        is_needed = _needed(flat, results) if counts else [False] * len(flat)
        for placed, is_one in zip(flat, is_needed):
            (self.needed if is_one else self.dead).append(self._item(placed))
            name = placed.eqn.params.get("name")
            if jaxapi.primitive_name(placed.eqn.primitive) == "jit" and is_one:
                self.names.append(_Item((str(name), "")))
        for item, first, end in wrappers:
            is_one = any(is_needed[first:end]) or (counts and first == end)
            (self.wrappers if is_one else self.dead_wrappers).append(item)
        for placed, is_one in zip(flat, is_needed):
            inside = (placed.eqn.source_info, *placed.around)
            for inner in jaxapi.sub_jaxprs_of([placed.eqn]):
                if is_one:
                    self._program(inner, inside, True)
                else:
                    self._in_dead.append((inner, inside))

    def _lay_out(
        self,
        body: Any,
        numbers: dict[Any, int],
        around: tuple[Any, ...],
        flat: list[_Placed],
        wrappers: list[_Wrapper],
    ) -> None:
        """List equations with numbers for their operands and results; open plain calls."""
        for eqn in body.eqns:
            operands = [self._number(v, numbers) for v in eqn.invars if _is_variable(v)]
            call = plain_call(eqn)
            if call is None:
                results = [self._number(v, numbers) for v in eqn.outvars]
                flat.append(_Placed(eqn, operands, results, around))
                if len(flat) > MAX_EQUATIONS:
                    raise _TooLong
                continue
            name = str(eqn.params.get("name", jaxapi.primitive_name(eqn.primitive)))
            inside = (eqn.source_info, *around)
            inner, _ = jaxapi.split_jaxpr(call)
            given = {
                v: self._number(atom, numbers)
                for v, atom in zip(inner.invars, eqn.invars)
                if _is_variable(atom)
            }
            place = len(wrappers)
            first = len(flat)
            self._lay_out(inner, given, inside, flat, wrappers)
            item = _Item((name, ""), inside)
            wrappers.insert(place, _Wrapper(item, first, len(flat)))
            for var, result in zip(eqn.outvars, inner.outvars):
                if _is_variable(result):
                    numbers[var] = self._number(result, given)

    def _item(self, placed: _Placed) -> _Item:
        eqn = placed.eqn
        kind = self._kind(eqn.outvars[0].aval) if eqn.outvars else ""
        what = jaxapi.primitive_name(eqn.primitive), kind
        infos = (eqn.source_info, *placed.around)
        return _Item(what, infos, jaxapi.library_of(eqn.primitive))

    def _kind(self, aval: Any) -> str:
        """Write a type, once for what many values share."""
        known = self._kinds.get(id(aval))
        if known is None:
            known = self._kinds[id(aval)] = aval, short_type(aval)
        return known[1]

    def _number(self, var: Any, numbers: dict[Any, int]) -> int:
        if var not in numbers:
            self._n_values += 1
            numbers[var] = self._n_values
        return numbers[var]


def _needed(flat: Sequence[_Placed], results: set[int]) -> list[bool]:
    """Whether each equation has an effect or is needed for what the program returns."""
    needed = set(results)
    is_needed: list[bool] = []
    for placed in reversed(flat):
        counts = bool(placed.eqn.effects) or not needed.isdisjoint(placed.results)
        is_needed.append(counts)
        if counts:
            needed.update(placed.operands)
    return is_needed[::-1]


def _is_variable(atom: Any) -> bool:
    return type(atom) is not jaxapi.JaxprLiteral


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
    shown_lists = opened, before.dead, before.dead_wrappers, before.needed
    for items, others, text in (
        (opened, [], "plain `jit` wrapper{s} {is_} opened"),
        (added, [], "plain `jit` wrapper{s} {is_} added"),
        (before.dead, after.dead, "dead equation{s} {is_} gone"),
        (
            before.dead_wrappers,
            after.dead_wrappers,
            "plain `jit` wrapper{s} around dead equations {is_} gone",
        ),
        (after.dead, before.dead, "dead equation{s} {is_} added"),
        (
            after.dead_wrappers,
            before.dead_wrappers,
            "plain `jit` wrapper{s} around dead equations {is_} added",
        ),
        (before.needed, after.needed, "equation{s} {is_} not computed again"),
        (after.needed, before.needed, "equation{s} {is_} computed once more"),
    ):
        shows = any(items is shown for shown in shown_lists)
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
    rest.wrappers, rest.dead_wrappers = census.wrappers, census.dead_wrappers
    rest.dead, rest.names = census.dead, census.names
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
    """Name the first ones; those that read the same are named, and counted, together."""
    shown = Counter(map(str, items))
    named = [*shown][:MAX_NAMED]
    more = len(items) - sum(shown[text] for text in named)
    rest = f" and {more} more" if more else ""
    return f": {', '.join(named)}{rest}"
