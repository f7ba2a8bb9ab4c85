"""Find stretches of statements that are the turns of one loop.

Turns are alike but for what a loop changes: values of the turn before, the next item of
a list, leaf of a tree or row of an array, another number. The first two turns say what
stands where; every further one has to agree.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from untrace.lifting.recorded.function import Draft, Statement, flat
from untrace.lifting.recorded.held import differing_key, is_leaf, leading, n_leaves
from untrace.lifting.recorded.joint import assigned_at_once
from untrace.lifting.recorded.terms import Global, Name, Part, Ref

MIN_TURNS = 3
_INDEX = re.compile(r"(?<=\[)\d+(?=\])")
_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")


def plain_text(part: Part) -> str:
    return part.text if type(part) is Global else str(part)


@dataclass(slots=True)
class Slot:
    """What stands at one place of every turn.

    Attributes:
      kind: "same", "local" (a value of the turn), "carry" (one of the turn before),
        "index" (an item of a container, the next one in every turn), "leaf" (the next
        leaf of a tree), "key" (an item of a dict), "row" (the next row of an array) or
        "number".
      local: Which value of a turn.
      array: The statement that unpacks the rows.
      numbers: The number of every turn, or the index of the first; the trees whose leaf
        it may be.
      start: The place of an index or key in the path.
      keys: The key of every turn, in brackets.
      path: The part of a carry that is taken.
    """

    kind: str
    local: int = 0
    array: Statement | None = None
    numbers: list[str] = field(default_factory=list[str])
    start: int = 0
    keys: list[str] = field(default_factory=list[str])
    path: str = ""


@dataclass(slots=True)
class Run:
    """Stretches of statements that one loop can make.

    `rows` are the names of rows of arrays, with the statements that unpack these,
    `at_once` the statements of a turn that are one assignment.
    """

    period: int
    turns: list[Sequence[Statement]]
    draft: Draft
    rows: dict[int, tuple[Statement, int]]
    slots: list[list[Slot]] = field(default_factory=list[list[Slot]])
    at_once: range = range(0)

    def origin(self, ref: Ref) -> tuple[Name, str]:
        """Return where a value comes from: a name, and a path from there."""
        name, path = self.draft.origins.get(id(ref.name), (ref.name, ""))
        return name, path + ref.path

    @property
    def functions(self) -> set[str]:
        """The functions of the module that a turn calls."""
        parts = [part for statement in self.turns[0] for part in statement.term.parts]
        return {part.text for part in parts if type(part) is Global}

    @property
    def n_turns(self) -> int:
        return len(self.turns)

    @property
    def is_indexed(self) -> bool:
        """Tell whether a turn is one call, and turns differ in an index at most."""
        pairs = list(_first_parts(self))
        starts = (part for part, slot in pairs if slot.kind == "carry")
        return (
            self.period == 1
            and all(slot.kind in ("same", "carry", "index") for _, slot in pairs)
            and not any(slot.path for _, slot in pairs)
            and all(type(part) is Ref for part in starts)
        )


def run_at(
    position: int,
    period: int,
    draft: Draft,
    sites: Sequence[object],
    rows: dict[int, tuple[Statement, int]],
) -> Run | None:
    """Find the stretches from a statement on that are turns of one loop."""
    statements = draft.statements
    first = sites[position : position + period]
    if None in first:
        return None
    run = Run(period, [statements[position : position + period]], draft, rows)
    while True:
        start = position + run.n_turns * period
        if sites[start : start + period] != first:
            break
        if not _takes_turn(run, statements[start : start + period]):
            break
    return run if run.n_turns >= MIN_TURNS and _is_closed(run) else None


def _takes_turn(run: Run, turn: Sequence[Statement]) -> bool:
    """Add a turn to a run, if it is the next one."""
    first, before = run.turns[0], run.turns[-1]
    locals_of = [locals_in(stretch) for stretch in (first, before, turn)]
    is_second = run.n_turns == 1
    slots: list[list[Slot]] = []
    for index, (a, b) in enumerate(zip(first, turn)):
        if len(a.term.parts) != len(b.term.parts) or not _alike(a, b):
            return False
        row: list[Slot] = []
        for place, (mine, other) in enumerate(zip(a.term.parts, b.term.parts)):
            known = None if is_second else run.slots[index][place]
            slot = _slot(mine, other, known, run, locals_of)
            if slot is None:
                return False
            row.append(slot)
        slots.append(row)
    run.slots = slots
    if (is_second and not _carries(run)) or not _is_private(before, turn):
        return False
    run.turns.append(turn)
    return True


def locals_in(turn: Iterable[Statement]) -> dict[int, int]:
    names = [name for statement in turn for name in flat(statement.targets)]
    return {id(name): index for index, name in enumerate(names)}


def _alike(first: Statement, second: Statement) -> bool:
    """Tell whether two statements have targets of one shape."""
    if isinstance(first.targets, Name) != isinstance(second.targets, Name):
        return False
    return len(list(flat(first.targets))) == len(list(flat(second.targets)))


def _slot(
    mine: Part,
    other: Part,
    known: Slot | None,
    run: Run,
    locals_of: Sequence[dict[int, int]],
) -> Slot | None:
    """Say what stands at one place, which was `mine` at first and is `other` now."""
    if type(mine) is str and type(other) is Ref and _NUMBER.fullmatch(mine):
        ref, before = other.resolved(), locals_of[1]
        is_carried = id(ref.name) in before and not ref.path
        return Slot("carry", before[id(ref.name)]) if is_carried else None
    if type(mine) is not Ref or type(other) is not Ref:
        return _text_slot(mine, other, known, run.n_turns)
    found = _ref_slot(mine.resolved(), other.resolved(), run, locals_of)
    if found is not None and known is not None and found.kind == known.kind == "leaf":
        found.numbers = [tree for tree in known.numbers if tree in found.numbers]
        is_same = found.start == known.start and known.keys and found.keys
        found.keys = [*known.keys, found.keys[-1]] if is_same else []
        return found if found.numbers or found.keys else None
    if found is None or known is None or found == known:
        return found
    return None


def _text_slot(mine: Part, other: Part, known: Slot | None, turn: int) -> Slot | None:
    if type(mine) is Ref or type(other) is Ref or type(mine) is not type(other):
        return None
    was_same = known is None or known.kind == "same"
    if was_same and plain_text(mine) == plain_text(other):
        return Slot("same")
    texts = plain_text(mine), plain_text(other)
    if type(mine) is Global or not all(_NUMBER.fullmatch(text) for text in texts):
        return None
    if known is not None and not was_same:
        known.numbers.append(texts[1])  # one too many if the turn is none
        return known
    return Slot("number", numbers=[*[texts[0]] * turn, texts[1]])


def _ref_slot(
    mine: Ref, other: Ref, run: Run, locals_of: Sequence[dict[int, int]]
) -> Slot | None:
    first, before, this = locals_of
    turn, rows = run.n_turns, run.rows
    if id(other.name) in this:
        local = this[id(other.name)]
        is_alike = first.get(id(mine.name)) == local and mine.path == other.path
        return Slot("local", local) if is_alike else None
    if id(other.name) in before:
        is_start = mine.path.endswith(other.path) and id(mine.name) not in first
        local = before[id(other.name)]
        return Slot("carry", local, path=other.path) if is_start else None
    if mine.name is other.name and mine.path == other.path:
        return Slot("same")
    if id(mine.name) in rows and id(other.name) in rows:
        (array, start), (owner, position) = rows[id(mine.name)], rows[id(other.name)]
        is_next = array is owner and position == start + turn and start == 0
        return Slot("row", array=array) if is_next and mine.path == other.path else None
    (owner, begin), (other_owner, path) = run.origin(mine), run.origin(other)
    if owner is not other_owner:
        return None
    for match in _INDEX.finditer(begin):
        moved = f"{begin[: match.start()]}{int(match[0]) + turn}"
        if moved + begin[match.end() :] == path:
            return Slot("index", numbers=[match[0]], start=match.start())
    trees = [tree for tree in leading(begin) if is_leaf(owner, tree, turn, begin, path)]
    start, keys = differing_key(begin, path)
    return (
        Slot("leaf", numbers=trees, start=start, keys=keys) if trees or keys else None
    )


def _is_private(turn: Sequence[Statement], following: Sequence[Statement]) -> bool:
    """Tell whether nothing but a turn itself and the next one uses what it makes."""
    names = [name for statement in turn for name in flat(statement.targets)]
    uses = {id(name): 0 for name in names}
    for statement in (*turn, *following):
        for ref in statement.term.refs():
            if id(ref.name) in uses:
                uses[id(ref.name)] += 1
    return all(not n.captured and n.uses == uses[id(n)] for n in names)


def _is_closed(run: Run) -> bool:
    """Tell whether a loop takes all of what it takes, and nobody sees inside of it."""
    if any(n.captured for s in run.turns[-1] for n in flat(s.targets)):
        return False
    return all(_are_all_rows(run, slot) for row in run.slots for slot in row) and all(
        _are_all_leaves(run, *pair) for pair in _first_parts(run)
    )


def begin_of(ref: Ref, slot: Slot) -> tuple[Name, str]:
    """Return what a carry begins as whose part is taken in the first turn."""
    return ref.name, ref.path.removesuffix(slot.path)


def _carries(run: Run) -> bool:
    """Tell whether something runs through, and begins as one value."""
    starts: dict[int, object] = {}
    needed: list[tuple[int, int]] = []
    for index, (statement, slots) in enumerate(zip(run.turns[0], run.slots)):
        for part, slot in zip(statement.term.parts, slots):
            if slot.kind != "carry":
                continue
            ref = part.resolved() if type(part) is Ref else None
            start = plain_text(part) if ref is None else begin_of(ref, slot)
            if starts.setdefault(slot.local, start) != start:
                return False
            needed.append((index, slot.local))
    at_once = assigned_at_once(run.turns[0], needed)
    if at_once is not None:
        run.at_once = at_once
    return bool(starts) and at_once is not None


def n_next_rows(run: Run) -> int:
    """Count the statements that a turn begins with by taking the next rows of arrays."""
    count = 0
    while count < run.period and _takes_next_row(run, count):
        count += 1
    return count


def _takes_next_row(run: Run, index: int) -> bool:
    rows = [turn[index].row for turn in run.turns]
    slots = zip(run.turns[0][index].term.parts, run.slots[index])
    return all(
        slot.kind == "same" for part, slot in slots if type(part) is Ref
    ) and all(
        row is not None and row.is_next and (row.index, row.length) == (n, run.n_turns)
        for n, row in enumerate(rows)
    )


def _first_parts(run: Run) -> Iterator[tuple[Part, Slot]]:
    for statement, slots in zip(run.turns[0], run.slots):
        yield from zip(statement.term.parts, slots)


def _are_all_leaves(run: Run, part: Part, slot: Slot) -> bool:
    """Choose the tree whose leaves the turns take, or keys; tell whether there are any."""
    if slot.kind != "leaf":
        return True
    assert type(part) is Ref
    owner, _ = run.origin(part.resolved())
    slot.numbers = [t for t in slot.numbers if n_leaves(owner, t) == run.n_turns]
    slot.kind = "leaf" if slot.numbers else "key"
    return bool(slot.numbers) or len(slot.keys) >= run.n_turns


def _are_all_rows(run: Run, slot: Slot) -> bool:
    """Tell whether the turns take all rows of an array, one each, and nothing else does."""
    if slot.array is None:
        return True
    targets = slot.array.targets
    names = targets if isinstance(targets, tuple) else ()
    used = sum(known.array is slot.array for row in run.slots for known in row)
    return len(names) == run.n_turns and all(
        isinstance(name, Name) and not name.captured and name.uses == used
        for name in names
    )
