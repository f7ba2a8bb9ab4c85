"""Write the variables of the user that hold containers: `state = (position, velocity)`.

Nothing is recorded where Python makes a tuple or an object of arrays. Which variables
hold one is known from the calls that they are passed to. A container is written as soon
as all of its arrays are there, so that expressions can still be folded into it, but behind the
loop that makes them; one that takes the variable of another, after the calls that the
other was passed to.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.lifting.recorded.naming.values import is_made_of_arrays
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.writer import Writer
from untrace.optional import gives, optional
from untrace.recovery.record import Call, Place
from untrace.syntax.names import identifier


@dataclass(frozen=True, eq=False, slots=True)
class _Held:
    """That a variable is passed to a call: the last one, if it is to several.

    Attributes:
      value: What it holds.
      key: What identifies that.
      last: The position of the call.
      first: Where it is passed on first.
      name: The variable.
    """

    value: Any
    key: Any
    last: int
    first: Place | None
    name: str

    def is_due(self, following: Place | None) -> bool:
        """Whether the call that follows stands in no other loop than where it is passed."""
        if self.first is None or following is None:
            return True
        first, after = [
            (place.code, place.loop, place.depth) for place in (self.first, following)
        ]
        return first == after or first[0] is not after[0]


def _only_moves(item: Call) -> bool:
    """Whether a call only puts arrays that there are into another container.

    It is left out, and what it returns is written where it is used.
    """
    if not (item.is_own or jaxapi.is_tree_function(item.function)):
        return False
    return all(_only_moves(inner) for body in item.bodies for inner in body.calls)


class Containers:
    """The containers that variables hold while some calls are made."""

    def __init__(self, calls: Sequence[Call], writer: Writer) -> None:
        self._writer = writer
        self._places = [item.place for item in calls]
        self._waiting: dict[str, deque[_Held]] = {}
        for position, item in enumerate(calls):
            for name, value in item.containers:
                self._add(name, value, position, item)
        self._leave_results(calls)

    def _leave_results(self, calls: Sequence[Call]) -> None:
        """Leave the containers to the calls that return them."""
        kinds = {type(held.value) for row in self._waiting.values() for held in row}
        results = [
            item.result
            for item in calls
            if type(item.result) in kinds and not _only_moves(item)
        ]
        made = {*map(self._writer.values.key, results)}
        for name, row in self._waiting.items():
            self._waiting[name] = deque(held for held in row if held.key not in made)

    def _add(self, name: str, value: Any, position: int, item: Call) -> None:
        key = self._writer.values.key(value) if is_made_of_arrays(value) else None
        if key is None:
            return
        row = self._waiting.setdefault(name, deque())
        first = item.place
        if row and row[-1].key == key:
            first = row.pop().first
        row.append(_Held(value, key, position, first, name))

    @optional(gives(None))
    def write(self, n_done: int) -> None:
        """Write the containers whose arrays are there after so many calls."""
        following = self._places[n_done] if n_done < len(self._places) else None
        for row in self._waiting.values():
            while row and row[0].last < n_done:
                row.popleft()
            if row and row[0].is_due(following) and self._is_complete(row[0]):
                self._assign(row[0])

    def _is_complete(self, held: _Held) -> bool:
        values = self._writer.values
        if values.find(held.key) is not None:
            return False
        return all(values.find(id(array)) for array in values.tree(held.value)[1])

    def _assign(self, held: _Held) -> None:
        writer = self._writer
        name = Name(identifier(held.name), is_given=True)
        site = held.first, held.name
        statement = Statement(name, writer.value(held.value), site=site)
        writer.draft.statements.append(statement)
        refs = list(statement.term.refs())
        if isinstance(held.value, list) and not any(ref.path for ref in refs):
            items = tuple([id(ref.name) for ref in refs])
            writer.draft.displayed[items] = identifier(held.name)
        writer.define(held.value, name)
