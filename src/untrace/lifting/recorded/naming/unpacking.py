"""Unpack what the user's function unpacks: `w, b = params["dense"]`, `x, v = state`."""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Names, Statement
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.recovery.record import Call, Target, is_starred, regrouped, variable_of
from untrace.recovery.unpacking import Unpacked, unpacked, unpacked_locals
from untrace.syntax.names import identifier
from untrace.syntax.steps import Item, Slice, Step


def unpack_parameters(
    values: Mapping[str, Any], code: types.CodeType, writer: Writer
) -> None:
    """Let the parameters that a function unpacks, and parts of them, be unpacked.

    That is written with the calls, where the function does so: what a loop before it takes
    of a parameter may have the same names.
    """
    for one in unpacked(code):
        value = one.of(values.get(one.variable))
        if is_array(value):
            writer.unpacked[id(value)] = one.target
        elif _fits(value, one):
            writer.unpacking.append((one, values[one.variable], code))


def _fits(value: Any, one: Unpacked) -> bool:
    """Whether a container has as many items as are unpacked."""
    is_container = type(value) in (tuple, list)
    return is_container and len(regrouped(value, one.target)) == len(one.target)


class _Waiting(NamedTuple):
    """What is to be unpacked of what a variable holds.

    Attributes:
      one: What is unpacked.
      value: What the variable holds.
      code: That of the function.
      item: The call that gave the variable its value; None for a parameter.
    """

    one: Unpacked
    value: Any
    code: types.CodeType | None
    item: Call | None = None


class UnpackedInBody:
    """What a function unpacks of its parameters, and of what its calls return.

    It is written between the calls.

    Args:
      calls: All that are written.
      writer: Writes them.
    """

    def __init__(self, calls: Sequence[Call], writer: Writer) -> None:
        self._writer = writer
        self._calls = calls
        self._known: dict[str, list[Unpacked]] = {}
        self._waiting = [_Waiting(*one) for one in writer.unpacking]
        writer.unpacking.clear()
        places = [item.place for item in calls if item.place is not None]
        # The hash of a code object is computed anew every time, from all of its parts.
        codes = {id(place.code): place for place in places}
        for code in [place.code for place in codes.values() if place.is_users]:
            for one in unpacked_locals(code):
                self._known.setdefault(one.variable, []).append(one)

    @optional(gives(None))
    def write(self, n_before: int, n_done: int) -> None:
        """Write what is unpacked between the calls that are done and the next one."""
        if not self._known and not self._waiting:
            return
        for item in self._calls[n_before:n_done]:
            for name, value in _held(item.target, item.result):
                for one in self._known.get(name, ()):
                    code = item.place.code if item.place is not None else None
                    self._waiting.append(_Waiting(one, value, code, item))
        following = self._calls[n_done] if n_done < len(self._calls) else None
        while due := [one for one in self._waiting if _is_due(one, following)]:
            for waiting in due:
                self._waiting.remove(waiting)
                self._write(waiting)

    def _write(self, waiting: _Waiting) -> None:
        """Write what is unpacked, and wait for what is unpacked of its parts."""
        one, value, code, item = waiting
        part = one.of(value)
        if not _fits(part, one):
            return
        statement = _unpack(part, value, one, self._writer)
        if statement is None:
            return
        if item is not None:
            self._writer.stand_with(item, statement)
            statement.site = item.place, one.line
        for name, held in _held(one.target, part):
            for inner in self._known.get(name, ()):
                self._waiting.append(_Waiting(inner, held, code, item))


def _held(target: Target, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the variables that a result was bound to, and what they hold."""
    if variable := variable_of(target):
        yield variable, value
    elif isinstance(target, tuple) and isinstance(value, (tuple, list)):
        for name, part in zip(target, regrouped(value, target)):
            yield from _held(name, part)


def _is_due(waiting: _Waiting, following: Call | None) -> bool:
    """Whether a variable is unpacked before the next call is made."""
    one, _, code, item = waiting
    if following is None or following.place is None or code is None:
        return True
    after = following.place
    if item is None:  # a parameter; what a loop does in each turn is done once, before
        is_behind = after.code is code and after.line < one.line
        return one.in_loop or not is_behind
    here = item.place
    if here is None:
        return True
    is_same = (code, here.loop, item.turn) == (after.code, after.loop, following.turn)
    return not is_same or after.line > one.line


def _unpack(
    value: Any, parameter: Any, one: Unpacked, writer: Writer
) -> Statement | None:
    """Write `a, b = parameter[...]`; its parts are known by these names then."""
    last = one.path[-1:]
    is_of_whole = any(type(step) is Slice or _is_from_end(step) for step in last)
    around = one._replace(path=one.path[:-1]).of(parameter)
    key = writer.values.key(around if is_of_whole else value)
    found = writer.find(key) if key is not None and writer.parent else None
    found = writer.values.find(key) if found is None and key is not None else found
    if found is None or not (writer.parent or id(found[0]) in writer.owned):
        return None
    name, path = found
    held = name.held if path or is_of_whole else value
    if held is None:
        return None
    name.uses += 1
    whole = Term([Ref(name, (*path, *last) if is_of_whole else path)])
    writer.values.forget(name)
    taken = zip(regrouped(value, one.target), one.target)
    names = tuple([name_part(v, t, writer) for v, t in taken])
    writer.values.define(held, name)
    statement = Statement(names, whole)
    writer.draft.statements.append(statement)
    return statement


def _is_from_end(step: Step) -> bool:
    return type(step) is Item and type(step.key) is int and step.key < 0


def name_part(value: Any, target: Target, writer: Writer) -> Names:
    """Name a part of a parameter that is unpacked."""
    if (
        isinstance(target, tuple)
        and type(value) in (tuple, list)
        and len(target) == len(value)
    ):
        return tuple([name_part(v, t, writer) for v, t in zip(value, target)])
    variable = variable_of(target)
    name = Name(identifier(variable or "value"), variable not in ("", "_"))
    name.is_starred = is_starred(target)
    writer.define(value, name)
    if name.is_given and is_array(value):  # it may be another part, too
        writer.arguments[id(value), variable] = name
    return name
