"""Find stretches of statements that are the turns of one loop.

Turns are alike but for what a loop changes (`slots.py`). The first two turns say what
stands where; every further one has to agree. Two turns, and turns that leave values to
what follows, are a loop only if the recording shows that the program had one there.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from untrace.lifting.recorded.naming.held import n_leaves
from untrace.lifting.recorded.repeats.joint import assigned_at_once, updated_last
from untrace.lifting.recorded.repeats.older import (
    is_handed_down,
    maker,
    settle_older,
)
from untrace.lifting.recorded.repeats.savings import is_shorter
from untrace.lifting.recorded.repeats.slots import (
    ZERO,
    Run,
    Slot,
    carried,
    first_parts,
    locals_in,
    names_in,
    plain_text,
    slot_of,
)
from untrace.lifting.recorded.terms import Name, Ref, Token
from untrace.lifting.recorded.tree import Draft, Statement, Trail, flat
from untrace.syntax.steps import Path, ends_with, without_end

MIN_TURNS = 3


@dataclass(frozen=True, slots=True)
class Search:
    """The statements among which turns are sought, and what is wanted.

    Attributes:
      sites: What the same statements of other turns have in common with them.
      rows: The names of rows of arrays, with the statements that unpack these.
      is_wanted: Whether a loop is, which its first two turns tell.
      may_be_wanted: Whether it may be, by its first turn and where the second one ends.
      stops: Where runs have to stop that are none without the next turn, by the length of
        turns and their place.
    """

    draft: Draft
    sites: Sequence[object]
    rows: dict[int, tuple[Statement, int]]
    is_wanted: Callable[[Run], bool]
    may_be_wanted: Callable[[Sequence[Statement], int], bool]
    stops: dict[tuple[int, int], int] = field(default_factory=dict)


def run_at(position: int, period: int, search: Search) -> Run | None:
    """Find the stretches from a statement on that are turns of one loop.

    Looking at all turns from every statement on would take quadratic time: the first ones
    tell what is wanted, and where other runs of the same turns had to stop is known.
    """
    draft, sites, stops = search.draft, search.sites, search.stops
    statements = draft.statements
    place = period, position % period
    if position + 2 * period <= stops.get(place, 0):
        return None
    first = sites[position : position + period]
    if None in first or sites[position + period : position + 2 * period] != first:
        return None
    turns = [statements[position + n * period :][:period] for n in range(2)]
    if not search.may_be_wanted(turns[0], position + 2 * period):
        return None
    is_of_loop = _are_of_loop(turns)
    # Two turns are cheaper to refuse before what they have in common is known.
    is_known = is_of_loop or _adds_to_0(turns[0])
    if not is_known and sites[position + 2 * period :][:period] != first:
        return None
    run = Run(period, [turns[0]], draft, search.rows)
    while True:
        start = position + run.n_turns * period
        is_complete = sites[start : start + period] != first
        if is_complete or not _takes_turn(run, statements[start : start + period]):
            break
        is_known = is_of_loop or _is_plain(run) or _are_of_map(run.turns)
        if run.n_turns == 2 and not (is_known and search.is_wanted(run)):
            return None
    if not is_complete and run.left and not _lists(run):
        stops[place] = start
    # A list of what some turns make has to have what the first ones made, too.
    begins_late = position >= period and sites[position - period : position] == first
    is_complete = is_complete and (bool(carried(run)) or not begins_late)
    return run if _is_loop(run, is_complete) else None


def _is_loop(run: Run, is_complete: bool) -> bool:
    """Whether turns are enough to be a loop, which is `is_complete` with them.

    If they are few, or leave values, it has to be known that they were one.
    """
    if run.n_turns == 1 or not _is_closed(run):
        return False
    if all(statement.row is not None for statement in run.turns[0]):
        return False  # it only takes an array apart
    if run.n_turns >= MIN_TURNS and _is_plain(run):
        return True
    if is_complete and _is_sum_of_leaves(run):
        return True
    is_long = run.n_turns >= MIN_TURNS
    is_known = _are_of_loop(run.turns) or (is_long and _are_of_map(run.turns))
    is_long = is_long and bool(_functions(run))
    return is_complete and is_known and (is_long or is_shorter(run))


def _is_sum_of_leaves(run: Run) -> bool:
    """Whether turns add leaves of a tree to 0, as `sum` does, however few these are."""
    kinds = [slot.kind for slot in run.slots[0]]
    is_added = kinds == ["carry", "same", "leaf"] and _adds_to_0(run.turns[0])
    return is_added and not run.left


def _adds_to_0(turn: Sequence[Statement]) -> bool:
    return len(turn) == 1 and turn[0].term.parts[:2] == [ZERO, " + "]


def _functions(run: Run) -> list[Slot]:
    """Return where turns call one function of those that the program's loop is over."""
    slots = itertools.chain.from_iterable(run.slots)
    return [slot for slot in slots if slot.kind == "function"]


def _is_plain(run: Run) -> bool:
    """Whether turns leave no values, and take none that are just listed.

    What holds for the first two turns holds for all.
    """
    return not run.left and not _lists(run)


def _lists(run: Run) -> bool:
    """Whether turns take values or functions that are just listed."""
    slots = itertools.chain.from_iterable(run.slots)
    return any([slot.kind in ("each", "function") for slot in slots])


def _are_of_loop(turns: Sequence[Sequence[Statement]]) -> bool:
    """Whether all turns came from the same calls in a loop of the program."""
    trails = [tuple([statement.trail for statement in turn]) for turn in turns]
    places = [place for trail in trails[0] for place in trail if place is not None]
    if all(place.loop is None for place in places):
        return False
    is_late = any(
        _is_before(b, a) and not (depth_of(a) > 1 and depth_of(b) > 1)
        for a, b in itertools.pairwise(trails[0])
    )
    return not is_late and all(trail == trails[0] for trail in trails)


def _are_of_map(turns: Sequence[Sequence[Statement]]) -> bool:
    """Whether all turns came from one call of the program that stands in no loop.

    What it calls does them one after the other, such as `map(update, grads, states)`: the
    same calls led to the statements of each turn.
    """
    trails = [tuple([statement.trail for statement in turn]) for turn in turns]
    outermost = {trail[:1] for trail in trails[0]}
    is_placed = len(outermost) == 1 and outermost != {()} and outermost != {(None,)}
    return is_placed and all(trail == trails[0] for trail in trails)


def depth_of(trail: Trail) -> int:
    """Return how many loops of the program a statement stands in."""
    return sum(place.depth for place in trail if place is not None)


def _is_before(trail: Trail, other: Trail) -> bool:
    """Whether a call was written before another one, in the same function."""
    for one, two in zip(trail, other):
        if one != two:
            break
    else:
        return False
    if one is None or two is None or one.function != two.function:
        return False
    return one.line <= two.line and one.offset < two.offset


def _takes_turn(run: Run, turn: Sequence[Statement]) -> bool:
    """Add a turn to a run, if it is the next one."""
    first, before = run.turns[0], run.turns[-1]
    locals_of = [run.locals_of(0), run.locals_of(-1), locals_in(turn)]
    is_second = run.n_turns == 1
    if is_second:
        run.starts = _starts(first, turn, locals_of[1])
    slots: list[list[Slot]] = []
    for index, (a, b) in enumerate(zip(first, turn)):
        tokens, others = a.term.tokens(), b.term.tokens()
        if len(tokens) != len(others) or not _alike(a, b):
            return False
        row: list[Slot] = []
        for place, (mine, other) in enumerate(zip(tokens, others)):
            known = None if is_second else run.slots[index][place]
            slot = slot_of(mine, other, known, run, locals_of)
            if slot is None:
                return False
            row.append(slot)
        slots.append(row)
    known_older, run.slots = run.older, slots
    left, older = _left(before, turn), run.older
    if left is None or (left - older != run.left - older and not is_second):
        return False
    run.left = left - older
    has_effects = any(statement.is_effect for statement in turn)
    if not is_second and older != known_older and not _agrees(run):
        return False  # what is older may only show in the third turn
    if is_second and not (_agrees(run) and (run.left or carried(run) or has_effects)):
        return False
    run.turns.append(turn)
    return True


def _starts(
    first: Sequence[Statement], second: Sequence[Statement], made: dict[int, int]
) -> dict[int, tuple[Name, Path]]:
    """Return what the carries of a run begin as, but for literals."""
    found: dict[int, tuple[Name, Path]] = {}
    for a, b in zip(first, second):
        for mine, other in zip(a.term.tokens(), b.term.tokens()):
            if type(mine) is not Ref or type(other) is not Ref:
                continue
            ref, taken = mine.resolved(), other.resolved()
            local = made.get(id(taken.name))
            if local is not None and ends_with(ref.path, taken.path):
                path = without_end(ref.path, taken.path)
                if id(ref.name) not in made:
                    found.setdefault(local, (ref.name, path))
    return found


def _alike(first: Statement, second: Statement) -> bool:
    """Whether two statements have targets of one shape."""
    if isinstance(first.targets, Name) != isinstance(second.targets, Name):
        return False
    return len(list(flat(first.targets))) == len(list(flat(second.targets)))


def _left(
    turn: Sequence[Statement], following: Sequence[Statement]
) -> frozenset[int] | None:
    """Return the values of a turn that not only it and the next one use.

    None if a function sees one of them.
    """
    names = names_in(turn)
    uses = {id(name): 0 for name in names}
    for statement in (*turn, *following):
        for ref in statement.term.refs():
            if id(ref.name) in uses:
                uses[id(ref.name)] += 1
    if any(name.captured for name in names):
        return None
    return frozenset([i for i, n in enumerate(names) if n.uses != uses[id(n)]])


def _is_closed(run: Run) -> bool:
    """Whether a loop takes all of what it takes, and nobody sees inside of it."""
    if any(name.captured for name in names_in(run.turns[-1])):
        return False
    if run.older and not settle_older(run):
        return False
    return all(_are_all_rows(run, slot) for row in run.slots for slot in row) and all(
        _are_all_leaves(run, *pair) for pair in first_parts(run)
    )


def begin_of(ref: Ref, slot: Slot) -> tuple[Name, Path]:
    """Return what a carry begins as whose part is taken in the first turn."""
    return ref.name, without_end(ref.path, slot.path)


def _agrees(run: Run) -> bool:
    """Whether what runs through begins as one value."""
    starts: dict[tuple[str, int], object] = {}
    needed: list[tuple[int, int]] = []
    older = run.older
    for index, (statement, slots) in enumerate(zip(run.turns[0], run.slots)):
        for part, slot in zip(statement.term.tokens(), slots):
            if slot.kind not in ("carry", "older"):
                continue
            ref = part.resolved() if type(part) is Ref else None
            start = plain_text(part) if ref is None else begin_of(ref, slot)
            if starts.setdefault((slot.kind, slot.local), start) != start:
                return False
            if slot.local not in older:
                needed.append((index, slot.local))
    at_once = assigned_at_once(run.turns[0], needed)
    if at_once is None:
        at_once, run.updated = range(0), updated_last(run.turns[0], needed)
    if any(maker(run, local) in at_once for local in older):
        return False
    run.at_once = at_once
    return all(is_handed_down(run, local) for local in older)


def n_next_rows(run: Run) -> int:
    """Count the statements that a turn begins with by taking the next rows of arrays."""
    count = 0
    while count < run.period and _takes_next_row(run, count):
        count += 1
    return count


def _takes_next_row(run: Run, index: int) -> bool:
    rows = [turn[index].row for turn in run.turns]
    slots = zip(run.turns[0][index].term.tokens(), run.slots[index])
    return all(
        slot.kind == "same" for part, slot in slots if type(part) is Ref
    ) and all(
        row is not None and row.is_next and (row.index, row.length) == (n, run.n_turns)
        for n, row in enumerate(rows)
    )


def _are_all_leaves(run: Run, part: Token, slot: Slot) -> bool:
    """Choose the tree whose leaves the turns take, or keys; tell whether there are any."""
    if slot.kind != "leaf":
        return True
    assert type(part) is Ref
    owner, _ = run.origin(part.resolved())
    slot.trees = [t for t in slot.trees if n_leaves(owner, t) == run.n_turns]
    slot.kind = "leaf" if slot.trees else "key"
    return bool(slot.trees) or len(slot.keys) >= run.n_turns


def _are_all_rows(run: Run, slot: Slot) -> bool:
    """Whether the turns take all rows of an array, one each, and nothing else does."""
    if slot.array is None:
        return True
    targets = slot.array.targets
    names = targets if isinstance(targets, tuple) else ()
    used = sum(known.array is slot.array for row in run.slots for known in row)
    return len(names) == run.n_turns and all(
        isinstance(name, Name) and not name.captured and name.uses == used
        for name in names
    )
