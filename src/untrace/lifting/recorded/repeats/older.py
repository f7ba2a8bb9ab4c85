"""Values that a turn takes from the turn before the last one: `a, b = b, f(a, b)`.

Such a value has a second variable, which takes over its old value when it gets its new
one. After the loop, that is the value of the last turn but one.
"""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.recorded.building import joined
from untrace.lifting.recorded.repeats.slots import Run, first_parts, names_in
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Draft, Statement, defined

MIN_TURNS = 3


def maker(run: Run, local: int) -> int:
    """Return which statement of a turn makes a value."""
    makers = [n for n, one in enumerate(run.turns[0]) for _ in defined(one)]
    return makers[local]


def is_handed_down(run: Run, local: int) -> bool:
    """Whether a value can be handed to its second variable when it is made.

    Its older one must not be needed after that, and it has to be a carry.
    """
    made = maker(run, local)
    uses = [
        index
        for index, row in enumerate(run.slots)
        for slot in row
        if slot.kind == "older" and slot.local == local
    ]
    is_carry = any(s.kind == "carry" and s.local == local for _, s in first_parts(run))
    is_single = isinstance(run.turns[0][made].targets, Name)
    return is_carry and is_single and max(uses) <= made


def settle_older(run: Run) -> bool:
    """Find which of these values the turns leave; tell whether all do, or none."""
    if run.n_turns < MIN_TURNS:
        return False
    for local in run.older:
        names = [names_in(turn)[local] for turn in run.turns]
        is_left = [
            name.uses != _count_uses(name, run.turns[turn : turn + 3])
            for turn, name in enumerate(names)
        ]
        if any(name.captured for name in names):
            return False
        if any(is_left[:-2]):
            if not all(is_left):
                return False
            run.left |= {local}
    return True


def _count_uses(name: Name, turns: Sequence[Sequence[Statement]]) -> int:
    refs = (ref for turn in turns for one in turn for ref in one.term.refs())
    return sum(ref.name is name for ref in refs)


def second_variables(run: Run, draft: Draft) -> dict[int, Name]:
    """Name the variables that hold the values of the last turn but one."""
    found: dict[int, Name] = {}
    for local in run.older:
        name = names_in(run.turns[-2])[local]
        hint = draft.others.get(id(name)) or f"previous_{name.hint}"
        found[local] = Name(hint, is_given=True)
        if local not in run.left:
            name.alias = found[local], ()
            found[local].uses += name.uses
    return found


def updated_variables(run: Run, draft: Draft) -> dict[int, Name]:
    """Name the variables that get the values of a turn where it ends."""
    return {local: _updated(run, local, draft) for local in run.updated}


def _updated(run: Run, local: int, draft: Draft) -> Name:
    """Name a variable as the program does that holds a value in the next turn."""
    names = [names_in(turn)[local] for turn in run.turns]
    begin, path = run.starts.get(local, (None, ()))
    is_named = begin is not None and begin.is_given and not path
    known = [draft.others[id(name)] for name in names if id(name) in draft.others]
    begun = begin.hint if begin is not None and is_named else ""
    hint = next(iter(known), begun) or f"previous_{names[-1].hint}"
    return Name(hint, is_given=True)


def hand_down(made: Statement, second: Name) -> None:
    """Let a statement give the old value of its name to a second variable."""
    name = made.targets
    assert isinstance(name, Name)
    made.targets = second, name
    made.term = joined([Term([Ref(name)]), made.term])
