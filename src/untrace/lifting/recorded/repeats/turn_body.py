"""Write the statements of a turn with the variables of the loop in them."""

from __future__ import annotations

from untrace.lifting.recorded.repeats.loop_headers import Header
from untrace.lifting.recorded.repeats.older import hand_down, maker
from untrace.lifting.recorded.repeats.slots import Run, Slot, names_in
from untrace.lifting.recorded.repeats.turns import begin_of
from untrace.lifting.recorded.terms import Name, Part, Ref, Term, Token
from untrace.lifting.recorded.tree import Statement
from untrace.syntax.precedence import ATOM

_BEGINS = ("(", "[", "{", ",", ":", "=")
_ENDS = (")", "]", "}", ",", ":")


class TurnBody:
    """The statements of a turn.

    Attributes:
      starts: The statements that give variables their first value, by the number of the
        value; those of its second variable first.
    """

    def __init__(
        self,
        run: Run,
        header: Header,
        seconds: dict[int, Name],
        updated: dict[int, Name],
    ) -> None:
        self._run = run
        self._header = header
        self._seconds, self._updated = seconds, updated
        self._makers = {maker(run, local): local for local in seconds}
        self._variables = names_in(run.turns[-1])
        self.starts: dict[tuple[int, bool], Statement] = {}

    def statement(self, index: int) -> Statement:
        """Write one of the statements."""
        run = self._run
        first, last = run.turns[0][index], run.turns[-1][index]
        tokens = first.term.tokens()
        before, after = ["(", *tokens], [*tokens[1:], ")"]
        slots = run.slots[index]
        parts = [
            self._part(part, slot, index, _is_alone(one, other))
            for part, slot, one, other in zip(tokens, slots, before, after)
        ]
        term = first.term.of_parts(parts)
        if self._header.tuples:
            term.map_groups(self._header.whole_tuple)
        made = Statement(last.targets, term, last.is_effect)
        made.comment, made.origin = first.comment, first.origin
        made.remarks = first.remarks
        made.bound, made.site, made.trail = last.bound, last.site, last.trail
        made.turn, made.roles = last.turn, last.roles
        if index in self._makers:
            hand_down(made, self._seconds[self._makers[index]])
        return made

    def updates(self) -> list[Statement]:
        """Give variables what the turn made for the next one, at its end."""
        pairs = [(self._variables[n], name) for n, name in self._updated.items()]
        return [Statement(kept, Term([Ref(made)])) for made, kept in pairs]

    def _part(self, part: Token, slot: Slot, index: int, is_alone: bool) -> list[Part]:
        """Write what stands at a place of a statement."""
        header = self._header
        mine = part.resolved() if type(part) is Ref else None
        if slot.kind in ("carry", "older"):
            return [self._variable(part, mine, slot, index)]
        if slot.kind == "number":
            return header.number(slot, index, is_alone)
        if slot.kind == "word":
            return header.text(slot)
        if slot.kind == "function":
            return [header.function(slot)]
        if mine is None or slot.kind == "same":
            return [part]
        if slot.kind == "index":
            return header.item(mine, slot)
        if slot.kind == "key":
            return header.key(mine, slot)
        if slot.kind == "each":
            return [header.each(slot, mine.level)]
        if slot.kind == "leaf":
            return header.leaf(mine, slot)
        if slot.kind == "row":
            return [header.row(mine, slot)]
        return [Ref(self._variables[slot.local], mine.path, mine.level)]

    def _variable(self, part: Token, mine: Ref | None, slot: Slot, index: int) -> Ref:
        """Refer to a variable that turns hand on, and note what it begins as."""
        local, is_carry = slot.local, slot.kind == "carry"
        second = self._seconds.get(local)
        own = self._updated.get(local, self._variables[local])
        variable = own if is_carry else second
        assert variable is not None
        begin = Term([part if mine is None else Ref(*begin_of(mine, slot))])
        start = Statement(variable, begin, is_start=True)
        self.starts.setdefault((local, is_carry), start)
        if second is not None and index > maker(self._run, local):
            variable = second  # which has its old value by now
        level = ATOM if mine is None else mine.level
        return Ref(variable, slot.path, level)


def _is_alone(before: Token, after: Token) -> bool:
    """Whether what stands between two parts is an argument, an item or a bound."""
    if type(before) is not str or type(after) is not str:
        return False
    return before.rstrip().endswith(_BEGINS) and after.lstrip().startswith(_ENDS)
