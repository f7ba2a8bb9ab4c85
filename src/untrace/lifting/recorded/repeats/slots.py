"""What stands at one place of every turn of a loop.

The first two turns say it: a value of the turn, one of the turn before, the next item of
a list, leaf of a tree or row of an array, another number or value.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from untrace.lifting.recorded.naming.held import differing_key, is_leaf, leading
from untrace.lifting.recorded.naming.paths import differing_step, index_of
from untrace.lifting.recorded.terms import Global, Literal, Name, Ref, Token
from untrace.lifting.recorded.tree import Draft, Statement, defined
from untrace.syntax.steps import (
    Item,
    Path,
    common,
    ends_with,
    leads_into,
    without_end,
)

_IN_WORDS = "_ ./-"
ZERO = Literal("0", 0)


def plain_text(part: Token) -> str:
    return part.text if type(part) is Global or type(part) is Literal else str(part)


@dataclass(slots=True)
class Slot:
    """What stands at one place of every turn.

    Attributes:
      kind: "same", "local" (a value of the turn), "carry" (one of the turn before),
        "older" (one of the turn before that, of a carry),
        "index" (an item of a container, the next one in every turn or the one before),
        "leaf" (the next leaf of a tree), "key" (an item of a dict), "row" (the next row
        of an array), "each" (any other value), "number", "word" (in quotes) or
        "function" (the next one that the program's loop is over).
      local: Which value of a turn.
      array: The statement that unpacks the rows.
      literals: The number or word of every turn.
      trees: The trees whose leaf it may be.
      start: The place of an index or key in the path.
      first: The index of the first turn.
      step: 1, or -1 for an index that falls.
      keys: The key of every turn.
      path: The part of a carry or an older one that is taken, or of each value.
      each: The value of every turn.
      functions: The function of every turn.
    """

    kind: str
    local: int = 0
    array: Statement | None = None
    literals: list[Literal] = field(default_factory=list)
    trees: list[Path] = field(default_factory=list)
    start: int = 0
    first: int = 0
    step: int = 1
    keys: list[str] = field(default_factory=list)
    path: Path = ()
    each: list[tuple[Name, Path]] = field(default_factory=list)
    functions: list[Global] = field(default_factory=list)


@functools.lru_cache(maxsize=1024)
def _fixed(kind: str, local: int = 0, path: Path = ()) -> Slot:
    """Return a slot that no turn changes: there are few, and most places have one."""
    return Slot(kind, local, path=path)


@dataclass(slots=True)
class Run:
    """Stretches of statements that one loop can make.

    `rows` are the names of rows of arrays, with the statements that unpack these,
    `at_once` the statements of a turn that are one assignment, `left` the values of
    every turn that are used after the loop, `starts` what the carries begin as that are
    no literals, `updated` the carries whose variables get their new values last.
    """

    period: int
    turns: list[Sequence[Statement]]
    draft: Draft
    rows: dict[int, tuple[Statement, int]]
    slots: list[list[Slot]] = field(default_factory=list)
    at_once: range = range(0)
    left: frozenset[int] = frozenset()
    updated: frozenset[int] = frozenset()
    starts: dict[int, tuple[Name, Path]] = field(default_factory=dict)
    _locals: list[dict[int, int]] = field(default_factory=list)
    _made: set[int] = field(default_factory=set)

    def locals_of(self, number: int) -> dict[int, int]:
        """Return the values of a turn, whose number it is or counted from the last."""
        for turn in self.turns[len(self._locals) :]:
            self._locals.append(locals_in(turn))
            self._made.update(self._locals[-1])
        return self._locals[number]

    def makes(self, name: Name) -> bool:
        """Whether one of the turns gives a name its value."""
        self.locals_of(-1)
        return id(name) in self._made

    @property
    def older(self) -> frozenset[int]:
        """The values of a turn that the turn after the next one needs, too."""
        slots = itertools.chain.from_iterable(self.slots)
        return frozenset([slot.local for slot in slots if slot.kind == "older"])

    def origin(self, ref: Ref) -> tuple[Name, Path]:
        """Return where a value comes from: a name, and a path from there."""
        name, path = self.draft.origins.get(id(ref.name), (ref.name, ()))
        return name, (*path, *ref.path)

    @property
    def functions(self) -> set[str]:
        """The functions of the module that a turn calls."""
        parts = [part for s in self.turns[0] for part in s.term.tokens()]
        return {part.text for part in parts if type(part) is Global}

    @property
    def n_turns(self) -> int:
        return len(self.turns)


def names_in(turn: Iterable[Statement]) -> list[Name]:
    """List the names that a turn gives values, in order."""
    return [name for statement in turn for name in defined(statement)]


def locals_in(turn: Iterable[Statement]) -> dict[int, int]:
    return {id(name): index for index, name in enumerate(names_in(turn))}


def first_parts(run: Run) -> Iterator[tuple[Token, Slot]]:
    for statement, slots in zip(run.turns[0], run.slots):
        yield from zip(statement.term.tokens(), slots)


def carried(run: Run) -> dict[int, Token]:
    """Return what the values begin as that run through, by their number."""
    pairs = list(first_parts(run))
    return {slot.local: part for part, slot in pairs if slot.kind == "carry"}


def slot_of(
    mine: Token,
    other: Token,
    known: Slot | None,
    run: Run,
    locals_of: Sequence[dict[int, int]],
) -> Slot | None:
    """Say what stands at one place, which was `mine` at first and is `other` now."""
    is_known_same = known is not None and known.kind == "same"
    if is_known_same and type(mine) is type(other) is str and mine == other:
        return known  # as most of a text is
    if type(other) is Ref and _is_number(mine):
        ref, before = other.resolved(), locals_of[1]
        if id(ref.name) in before and not ref.path:
            return _fixed("carry", before[id(ref.name)])
        older = _older(ref, run)
        return _fixed("older", older[0]) if older and not older[1] else None
    if type(mine) is Global and type(other) is Global:
        is_known = known is not None and known.kind == "function"
        if is_known or mine.text != other.text:
            return _function_slot(mine, other, known, run)
    if type(mine) is not Ref or type(other) is not Ref:
        return _text_slot(mine, other, known, run.n_turns)
    found = None
    if known is None or known.kind != "each":
        found = _ref_slot(mine.resolved(), other.resolved(), run, locals_of)
    if found is None and (known is None or known.kind == "each"):
        return _each_slot(mine.resolved(), other.resolved(), known, run, locals_of)
    if (
        found is not None
        and known is not None
        and found.kind == "index"
        and found != known
        and known.kind in ("index", "leaf")
    ):  # the first leaves of `[(w, b), (), (w_2, b_2)]`, by one index and by the other
        found = _leaf_slot(mine.resolved(), other.resolved(), run)
    if found is not None and known is not None and found.kind == known.kind == "leaf":
        found.trees = [tree for tree in known.trees if tree in found.trees]
        is_same = found.start == known.start and known.keys and found.keys
        found.keys = [*known.keys, found.keys[-1]] if is_same else []
        return found if found.trees or found.keys else None
    if found is None or known is None or found is known or found == known:
        return found
    if found.kind == "older" and _begins_older(mine, known, found, run):
        return found
    if found.kind == "leaf" and known.kind == "index" and type(mine) is Ref:
        return _leaf_instead(found, known, mine.resolved(), run)
    return None


def _begins_older(mine: Token, known: Slot, found: Slot, run: Run) -> bool:
    """Whether a place holds an older value from the third turn on, as it did before.

    Where `prev = cur = u`, the second turn takes `u` for `prev` as well.
    """
    if run.n_turns != 2 or known.kind != "same" or type(mine) is not Ref:
        return False
    name, path = run.starts.get(found.local, (None, ()))
    ref = mine.resolved()
    return ref.name is name and ref.path == (*path, *found.path)


def _is_number(part: Token) -> bool:
    """Whether a part of a term is a number, which may have a name: `STEP`."""
    literal = part.literal if type(part) is Global else part
    return type(literal) is Literal and literal.is_number


def _leaf_instead(found: Slot, known: Slot, first: Ref, run: Run) -> Slot | None:
    """Say that the items which turns took are leaves of a tree that goes on elsewhere.

    The first leaves of `[(w, b), (w_2, b_2)]` are the items of a tuple.
    """
    owner, begin = run.origin(first)
    before, after = begin[: known.start], after_index(begin, known)
    indices = [known.first + known.step * turn for turn in range(run.n_turns)]
    paths = [(*before, Item(index), *after) for index in indices]
    trees = [
        tree
        for tree in found.trees
        if all(
            is_leaf(owner, tree, n, begin, path) for n, path in enumerate(paths) if n
        )
    ]
    return Slot("leaf", trees=trees) if trees else None


def after_index(path: Path, slot: Slot) -> Path:
    """Return what is taken from the item whose index or key a path has."""
    return path[slot.start + 1 :]


def _text_slot(mine: Token, other: Token, known: Slot | None, turn: int) -> Slot | None:
    if type(mine) is Ref or type(other) is Ref or type(mine) is not type(other):
        return None
    was_same = known is None or known.kind == "same"
    if was_same and plain_text(mine) == plain_text(other):
        return _fixed("same")
    if type(mine) is not Literal or type(other) is not Literal:
        return None
    kind = kind_of(mine)
    if not kind or kind != kind_of(other):
        return None
    if known is not None and not was_same:
        known.literals.append(other)  # one too many if the turn is none
        return known if known.kind == kind else None
    return Slot(kind, literals=[*[mine] * turn, other])


def _function_slot(
    mine: Global, other: Global, known: Slot | None, run: Run
) -> Slot | None:
    """Say that turns call other functions, if the program's loop is over functions."""
    may_be = known is None or known.kind in ("same", "function")
    is_function = not mine.number and not other.number
    if not may_be or not is_function or not any(map(calls_variable, run.turns[0])):
        return None
    if known is None or known.kind == "same":
        before = [mine] * run.n_turns
        return Slot("function", functions=[*before, other])
    known.functions.append(other)  # one too many if the turn is none
    return known


def calls_variable(statement: Statement) -> bool:
    """Whether a call stands in a loop over functions, and in none that these make."""
    place = statement.trail[-1] if statement.trail else None
    names = (place.loop or ()) if place is not None else ()
    return any(name in names and callable(held) for name, held in statement.turn)


def kind_of(literal: Literal) -> str:
    """Return the kind of a literal that another one may stand for in the next turn."""
    if literal.is_number:
        return "number"
    word = str(literal.value)
    is_plain = bool(word) and all(c.isalnum() or c in _IN_WORDS for c in word)
    return "word" if is_plain else ""


def _ref_slot(
    mine: Ref, other: Ref, run: Run, locals_of: Sequence[dict[int, int]]
) -> Slot | None:
    first, before, this = locals_of
    turn, rows = run.n_turns, run.rows
    if id(other.name) in this:
        local = this[id(other.name)]
        is_alike = first.get(id(mine.name)) == local and mine.path == other.path
        return _fixed("local", local) if is_alike else None
    if id(other.name) in before:
        is_start = ends_with(mine.path, other.path) and id(mine.name) not in first
        local = before[id(other.name)]
        return _fixed("carry", local, other.path) if is_start else None
    if mine.name is other.name and mine.path == other.path:
        return _fixed("same")
    older = _older(other, run)
    if older is not None and id(mine.name) not in first:
        return _fixed("older", *older)
    if id(mine.name) in rows and id(other.name) in rows:
        (array, start), (owner, position) = rows[id(mine.name)], rows[id(other.name)]
        is_next = array is owner and position == start + turn and start == 0
        return Slot("row", array=array) if is_next and mine.path == other.path else None
    (owner, begin), (other_owner, path) = run.origin(mine), run.origin(other)
    if owner is not other_owner:
        return None
    return _index_slot(begin, path, turn) or _leaf_slot(mine, other, run)


def _index_slot(begin: Path, path: Path, turn: int) -> Slot | None:
    """Say that turns take the items of a container, one after the other."""
    place = differing_step(begin, path)
    if place is None:
        return None
    first, index = index_of(begin[place]), index_of(path[place])
    if first is None or index is None or abs(index - first) != turn:
        return None
    return Slot("index", start=place, first=first, step=(index - first) // turn)


def _leaf_slot(mine: Ref, other: Ref, run: Run) -> Slot | None:
    """Say that turns take the leaves of a tree, or the items of a dict."""
    turn = run.n_turns
    (owner, begin), (_, path) = run.origin(mine), run.origin(other)
    trees = [tree for tree in leading(begin) if is_leaf(owner, tree, turn, begin, path)]
    start, keys = differing_key(begin, path)
    is_any = trees or keys
    return Slot("leaf", trees=trees, start=start, keys=keys) if is_any else None


def _older(ref: Ref, run: Run) -> tuple[int, Path] | None:
    """Return which value of the turn before the last one this is, and what part of it.

    Before the first turn that is what the value begins as.
    """
    if run.n_turns > 1:
        local = run.locals_of(-2).get(id(ref.name))
        return (local, ref.path) if local is not None else None
    for local, (name, path) in run.starts.items():
        if name is ref.name and leads_into(ref.path, path):
            return local, ref.path[len(path) :]
    return None


def _each_slot(
    mine: Ref,
    other: Ref,
    known: Slot | None,
    run: Run,
    locals_of: Sequence[dict[int, int]],
) -> Slot | None:
    """Say that any values stand at one place, which no turn has made."""
    if any(
        run.makes(one.name) or id(one.name) in locals_of[2] for one in (mine, other)
    ):
        return None
    if known is None:
        end = common([mine.path[::-1], other.path[::-1]])[::-1]
        begin = mine.name, without_end(mine.path, end)
        known = Slot("each", path=end, each=[begin] * run.n_turns)
    elif not ends_with(other.path, known.path):
        return None
    known.each.append((other.name, without_end(other.path, known.path)))
    return known
