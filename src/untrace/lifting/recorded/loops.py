"""Write statements that repeat as a Python loop, or as a scan (`reroll=`).

`x = layer(params[0], x)`, `x = layer(params[1], x)`, ... becomes

    for layer_params in params:
        x = layer(layer_params, x)

Python runs the same statements, so the equations are the same. By default a loop is
written where the program had one: the statements come from the same places of its code.
"for" asks for a loop wherever stretches are alike, and "scan" for

    layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params[0:12])
    x, _ = jax.lax.scan(lambda carry, item: (layer(item, carry), None), x, layers)

which is another program of the same values: it compiles once for all layers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from untrace.lifting.recorded.function import Draft, Loop, Statement, flat
from untrace.lifting.recorded.held import (
    is_leaf,
    item_hint,
    leading,
    length_of,
    n_leaves,
)
from untrace.lifting.recorded.scans import scan_of
from untrace.lifting.recorded.terms import (
    ATOM,
    Global,
    Name,
    Part,
    Ref,
    Term,
    text_term,
)

MIN_TURNS = 3
MAX_PERIOD = 400
_INDEX = re.compile(r"(?<=\[)\d+(?=\])")
_NUMBER = re.compile(r"-?\d+(\.\d*)?(e[+-]?\d+)?")
_WHOLE = re.compile(r"\d+")


def write_loops(draft: Draft, reroll: str, max_period: int = MAX_PERIOD) -> None:
    """Replace statements of a function that repeat by loops.

    Args:
      draft: The function.
      reroll: "auto", "for" or "scan".
      max_period: How many statements a turn may have.
    """
    statements = draft.statements
    sites = [_site(statement, reroll) for statement in statements]
    following = _following(sites)
    made: list[Statement] = []
    position = 0
    while position < len(statements):
        period = following[position] - position
        run = None
        if 0 < period <= max_period:
            run = _run_at(position, period, draft, sites)
        if run is None:
            made.append(statements[position])
            position += 1
            continue
        stretch = statements[position : position + run.n_turns * run.period]
        scan = scan_of(stretch) if reroll == "scan" and run.is_indexed else []
        made += scan or _loop(run, draft)
        position += len(stretch)
    draft.statements = made


def _site(statement: Statement, reroll: str) -> object:
    """Return what the same statement of another turn has in common with it."""
    if (
        statement.nested is not None
        or statement.is_effect
        or statement.loop is not None
    ):
        return None
    if statement.targets is None:
        return None
    if reroll == "auto":
        return statement.site
    parts = ["·" if type(p) is Ref else _plain(p) for p in statement.term.parts]
    return _WHOLE.sub("#", "".join(parts))


def _plain(part: Part) -> str:
    return part.text if type(part) is Global else str(part)


def _following(sites: Sequence[object]) -> list[int]:
    """Return for every statement the next one of the same site, or 0."""
    latest: dict[object, int] = {}
    found = [0] * len(sites)
    for position in reversed(range(len(sites))):
        if sites[position] is not None:
            found[position] = latest.get(sites[position], 0)
            latest[sites[position]] = position
    return found


# ---- finding a run -----------------------------------------------------------------


@dataclass(slots=True)
class _Slot:
    """What stands at one place of every turn.

    Attributes:
      kind: "same", "local" (a value of the turn), "carry" (one of the turn before),
        "index" (an item of a container, the next one in every turn), "leaf" (the next
        leaf of a tree), "row" (the next row of an array) or "number".
      local: Which value of a turn.
      array: The statement that unpacks the rows.
      numbers: The number of every turn, or the index of the first; the trees whose leaf
        it may be.
      start: The place of an index in the path.
    """

    kind: str
    local: int = 0
    array: Statement | None = None
    numbers: list[str] = field(default_factory=list[str])
    start: int = 0


@dataclass(slots=True)
class _Run:
    """Stretches of statements that one loop can make."""

    period: int
    turns: list[Sequence[Statement]]
    draft: Draft
    slots: list[list[_Slot]] = field(default_factory=list[list[_Slot]])

    rows: dict[int, tuple[Statement, int]] = field(
        default_factory=dict[int, tuple[Statement, int]]
    )

    def __post_init__(self) -> None:
        for statement in self.draft.statements:
            if statement.whole is not None and isinstance(statement.targets, tuple):
                for index, name in enumerate(statement.targets):
                    self.rows[id(name)] = statement, index

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
        kinds = {slot.kind for slots in self.slots for slot in slots}
        return self.period == 1 and "number" not in kinds


def _run_at(
    position: int,
    period: int,
    draft: Draft,
    sites: Sequence[object],
) -> _Run | None:
    """Find the stretches from a statement on that are turns of one loop."""
    statements = draft.statements
    first = sites[position : position + period]
    if None in first:
        return None
    run = _Run(period, [statements[position : position + period]], draft)
    while True:
        start = position + run.n_turns * period
        if sites[start : start + period] != first:
            break
        if not _takes_turn(run, statements[start : start + period]):
            break
    return run if run.n_turns >= MIN_TURNS and _is_closed(run) else None


def _takes_turn(run: _Run, turn: Sequence[Statement]) -> bool:
    """Add a turn to a run, if it is the next one."""
    first, before = run.turns[0], run.turns[-1]
    locals_of = [_locals(stretch) for stretch in (first, before, turn)]
    is_second = run.n_turns == 1
    slots: list[list[_Slot]] = []
    for index, (a, b) in enumerate(zip(first, turn)):
        if len(a.term.parts) != len(b.term.parts) or not _alike(a, b):
            return False
        row: list[_Slot] = []
        for place, (mine, other) in enumerate(zip(a.term.parts, b.term.parts)):
            known = None if is_second else run.slots[index][place]
            slot = _slot(mine, other, known, run, locals_of)
            if slot is None:
                return False
            row.append(slot)
        slots.append(row)
    run.slots = slots
    run.turns.append(turn)
    return True


def _locals(turn: Iterable[Statement]) -> dict[int, int]:
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
    known: _Slot | None,
    run: _Run,
    locals_of: Sequence[dict[int, int]],
) -> _Slot | None:
    """Say what stands at one place, which was `mine` at first and is `other` now."""
    if type(mine) is str and type(other) is Ref and _NUMBER.fullmatch(mine):
        ref, before = other.resolved(), locals_of[1]
        is_carried = id(ref.name) in before and not ref.path
        return _Slot("carry", before[id(ref.name)]) if is_carried else None
    if type(mine) is not Ref or type(other) is not Ref:
        return _text_slot(mine, other, known, run.n_turns)
    found = _ref_slot(mine.resolved(), other.resolved(), run, locals_of)
    if found is not None and known is not None and found.kind == known.kind == "leaf":
        found.numbers = [tree for tree in known.numbers if tree in found.numbers]
        return found if found.numbers else None
    if found is None or known is None or found == known:
        return found
    return None


def _text_slot(mine: Part, other: Part, known: _Slot | None, turn: int) -> _Slot | None:
    if type(mine) is Ref or type(other) is Ref or type(mine) is not type(other):
        return None
    was_same = known is None or known.kind == "same"
    if was_same and _plain(mine) == _plain(other):
        return _Slot("same")
    texts = _plain(mine), _plain(other)
    if type(mine) is Global or not all(_NUMBER.fullmatch(text) for text in texts):
        return None
    before = [texts[0]] * turn if was_same or known is None else known.numbers
    return _Slot("number", numbers=[*before, texts[1]])


def _ref_slot(
    mine: Ref, other: Ref, run: _Run, locals_of: Sequence[dict[int, int]]
) -> _Slot | None:
    first, before, this = locals_of
    turn, rows = run.n_turns, run.rows
    if id(other.name) in this:
        local = this[id(other.name)]
        is_alike = first.get(id(mine.name)) == local and mine.path == other.path
        return _Slot("local", local) if is_alike else None
    if id(other.name) in before:
        is_start = not other.path and id(mine.name) not in first
        return _Slot("carry", before[id(other.name)]) if is_start else None
    if mine.name is other.name and mine.path == other.path:
        return _Slot("same")
    if id(mine.name) in rows and id(other.name) in rows:
        (array, start), (owner, position) = rows[id(mine.name)], rows[id(other.name)]
        is_next = array is owner and position == start + turn and start == 0
        return (
            _Slot("row", array=array) if is_next and mine.path == other.path else None
        )
    (owner, begin), (other_owner, path) = run.origin(mine), run.origin(other)
    if owner is not other_owner:
        return None
    for match in _INDEX.finditer(begin):
        moved = f"{begin[: match.start()]}{int(match[0]) + turn}"
        if moved + begin[match.end() :] == path:
            return _Slot("index", numbers=[match[0]], start=match.start())
    trees = [tree for tree in leading(begin) if is_leaf(owner, tree, turn, begin, path)]
    return _Slot("leaf", numbers=trees) if trees else None


def _is_closed(run: _Run) -> bool:
    """Tell whether a loop computes what its turns do.

    What runs through must be used before it is made anew, and no turn but the last may
    have made what is used afterwards.
    """
    names = [n for turn in run.turns for s in turn for n in flat(s.targets)]
    if any(name.captured for name in names):
        return False
    inner = [*names[: -len(_locals(run.turns[-1]))]]
    uses = {id(name): 0 for name in inner}
    for turn in run.turns:
        for statement in turn:
            for ref in statement.term.refs():
                if id(ref.name) in uses:
                    uses[id(ref.name)] += 1
    if any(name.uses != uses[id(name)] for name in inner):
        return False
    if not all(_are_all_rows(run, slot) for row in run.slots for slot in row):
        return False
    if not all(_are_all_leaves(run, *pair) for pair in _first_parts(run)):
        return False
    starts: dict[int, tuple[object, str]] = {}
    made = 0
    for statement, slots in zip(run.turns[0], run.slots):
        for part, slot in zip(statement.term.parts, slots):
            if slot.kind != "carry":
                continue
            ref = part.resolved() if type(part) is Ref else None
            start = (id(ref.name), ref.path) if ref is not None else (_plain(part), "")
            if slot.local < made or starts.setdefault(slot.local, start) != start:
                return False
        made += len(list(flat(statement.targets)))
    return bool(starts)


def _first_parts(run: _Run) -> Iterator[tuple[Part, _Slot]]:
    for statement, slots in zip(run.turns[0], run.slots):
        yield from zip(statement.term.parts, slots)


def _are_all_leaves(run: _Run, part: Part, slot: _Slot) -> bool:
    """Choose the tree whose leaves the turns take; tell whether there is one."""
    if slot.kind != "leaf":
        return True
    assert type(part) is Ref
    owner, _ = run.origin(part.resolved())
    slot.numbers = [t for t in slot.numbers if n_leaves(owner, t) == run.n_turns]
    return bool(slot.numbers)


def _are_all_rows(run: _Run, slot: _Slot) -> bool:
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


# ---- writing it --------------------------------------------------------------------


def _loop(run: _Run, draft: Draft) -> list[Statement]:
    """Write the loop, and before it what its variables begin with."""
    last = run.turns[-1]
    variables = [name for statement in last for name in flat(statement.targets)]
    for turn in run.turns:
        for statement in turn:
            for ref in statement.term.refs():
                ref.name.uses -= 1
    header = _Header(run, draft)
    starts: dict[int, Statement] = {}
    body: list[Statement] = []
    for first, statement, slots in zip(run.turns[0], last, run.slots):
        parts: list[Part] = []
        for part, slot in zip(first.term.parts, slots):
            mine = part.resolved() if type(part) is Ref else None
            if mine is None and slot.kind == "carry":
                variable = variables[slot.local]
                parts.append(Ref(variable, "", ATOM))
                start = Statement(variable, Term([part]), is_start=True)
                starts.setdefault(slot.local, start)
            elif mine is None or slot.kind in ("same", "number"):
                parts += header.number(part, slot) if slot.kind == "number" else [part]
            elif slot.kind == "index":
                parts += header.item(mine, slot)
            elif slot.kind == "leaf":
                parts.append(header.leaf(mine, slot))
            elif slot.kind == "row":
                parts.append(header.row(mine, slot))
            else:
                variable = variables[slot.local]
                parts.append(
                    Ref(variable, "" if slot.kind == "carry" else mine.path, mine.level)
                )
                if slot.kind == "carry" and slot.local not in starts:
                    begin = Term([Ref(mine.name, mine.path)])
                    starts[slot.local] = Statement(variable, begin, is_start=True)
        made = Statement(statement.targets, Term(parts, first.term.level))
        made.comment, made.origin = first.comment, first.origin
        body.append(made)
    for local in starts:
        variables[local].uses += 2  # of the loop itself
        variables[local].is_given, variables[local].is_foreign = True, False
    loop = Loop(*header.finished(), body)
    for term in [*(s.term for s in (*starts.values(), *body)), loop.over]:
        for ref in term.refs():
            ref.name.uses += 1
    targets = (*loop.variables, *variables)
    return [*starts.values(), Statement(targets, loop=loop)]


class _Header:
    """The variables of a loop, and what it takes them from."""

    def __init__(self, run: _Run, draft: Draft) -> None:
        self.run = run
        self.draft = draft
        self.items: dict[object, tuple[Name, Term]] = {}
        self.hints: dict[int, str] = {}

    def item(self, ref: Ref, slot: _Slot) -> list[Part]:
        """Write what a turn takes from a container: its item, or one of its index."""
        begin = int(slot.numbers[0])
        owner, path = self.run.origin(ref)
        container, rest = path[: slot.start - 1], path[slot.start :]
        rest = rest.partition("]")[2]
        stop = begin + self.run.n_turns
        whole = self._container(ref, owner, container)
        if begin == 0 and length_of(owner, container) == stop:
            hint = item_hint(self.draft, owner, container, stop - 1)
            if hint in self.run.functions:
                hint = f"{hint}_params"
            key = id(owner), container
            return [Ref(self._variable(key, hint, Term([whole])), rest, ref.level)]
        bounds = f"{begin}, {stop}" if begin else str(stop)
        name = self._variable(bounds, "i", Term([f"range({bounds})"]))
        return [whole, "[", Ref(name), f"]{rest}"]

    def _container(self, ref: Ref, owner: Name, path: str) -> Ref:
        """Refer to a container, which may have to become a parameter."""
        if owner is ref.name or self.draft.lift is None:
            return Ref(owner, path, ATOM)
        name = self.draft.lift((owner, path))
        name.is_tree = True
        return Ref(name, "", ATOM)

    def leaf(self, ref: Ref, slot: _Slot) -> Part:
        """Write the leaf of a tree that a turn takes."""
        owner, _ = self.run.origin(ref)
        tree = self._container(ref, owner, slot.numbers[0])
        over = Term([Global("jax"), ".tree.leaves(", tree, ")"])
        return Ref(
            self._variable((id(owner), *slot.numbers), "leaf", over), "", ref.level
        )

    def row(self, ref: Ref, slot: _Slot) -> Part:
        """Write the row of an array that a turn takes; the array has a name again."""
        array = slot.array
        assert array is not None and array.whole is not None
        whole = array.whole
        if isinstance(array.targets, tuple):
            last = array.targets[-1]
            self.hints[id(array)] = last.hint if isinstance(last, Name) else "row"
            array.targets, whole.uses = whole, 0
        over = Term([Ref(whole)])
        name = self._variable(id(array), self.hints[id(array)], over)
        return Ref(name, ref.path, ref.level)

    def number(self, part: Part, slot: _Slot) -> list[Part]:
        """Write a number that is another one in every turn."""
        assert isinstance(part, str)
        numbers = tuple(slot.numbers)
        statements = [s for turn in self.run.turns for s in turn]
        roles = [s.roles[n] for s in statements for n in numbers if n in s.roles]
        hint = roles[0] if roles else "value"
        over = Term([f"({', '.join(numbers)})"])
        if all(_WHOLE.fullmatch(number) for number in numbers):
            first, *_ = values = [int(number) for number in numbers]
            if values == list(range(first, first + len(values))):
                bounds = f"{first}, {values[-1] + 1}" if first else str(len(values))
                hint, over = (
                    hint if hint != "value" else "i",
                    text_term(f"range({bounds})"),
                )
        return [Ref(self._variable(numbers, hint, over))]

    def _variable(self, key: object, hint: str, over: Term) -> Name:
        if key not in self.items:
            self.items[key] = Name(hint, True, is_foreign=False), over
        name = self.items[key][0]
        return name

    def finished(self) -> tuple[tuple[Name, ...], Term]:
        """Return the variables and what the loop is over."""
        names = tuple([name for name, _ in self.items.values()])
        terms = [term for _, term in self.items.values()]
        if not names:
            return (), Term([f"range({self.run.n_turns})"])
        if len(names) == 1:
            return names, terms[0]
        parts: list[Part] = ["zip("]
        for index, term in enumerate(terms):
            parts += [*([", "] if index else []), *term.parts]
        return names, Term([*parts, ")"])
