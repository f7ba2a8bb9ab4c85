"""Lists and dicts of what turns make, where the items are containers or have keys.

`[(w, b), (w_2, b_2)]` after a loop that leaves `w` and `b` is the list of what every turn
appends, `(w, b)`, and `{"a": y, "b": y_2}` the dict of what every turn puts under a key.
Only values are collected that are used nowhere else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from untrace.lifting.recorded.repeats.lists import terms_of
from untrace.lifting.recorded.repeats.slots import Run, names_in
from untrace.lifting.recorded.terms import Name, Part, Ref, Term, placed
from untrace.lifting.recorded.tree import Draft, Loop, Statement, flat
from untrace.syntax.precedence import ATOM, LAMBDA

_QUOTED = re.compile(r"'(\\.|[^'\\])*'|\"(\\.|[^\"\\])*\"")
_KEY = re.compile(rf"\d+|{_QUOTED.pattern}")
_OPEN, _CLOSED = "([{", ")]}"


@dataclass(frozen=True, eq=False, slots=True)
class Display:
    """A list, tuple or dict of one item for every turn.

    Attributes:
      brackets: Those around it.
      head: What a list begins with that is of no turn.
      words: The keys, if it is a dict.
      item: The item of the last turn.
      locals: Which values of a turn it holds.
      key: What it has in common with a display of the same.
    """

    brackets: str
    head: tuple[Part, ...]
    words: tuple[str, ...]
    item: tuple[Part, ...]
    locals: frozenset[int]
    key: object


@dataclass(frozen=True, eq=False, slots=True)
class Collection:
    """A list or dict that a loop fills.

    Attributes:
      name: Its name.
      display: How it was written item by item.
      word: The key of a turn's item, if it is a dict.
    """

    name: Name
    display: Display
    word: tuple[Part, ...]

    @property
    def item(self) -> Term:
        """What a turn adds."""
        return Term(list(self.display.item))


def collections_of(
    run: Run,
    draft: Draft,
    rest: Sequence[Statement],
    word: Callable[[Sequence[str]], list[Part] | None],
) -> list[Collection]:
    """Find the lists and dicts of what the turns leave; the run leaves the others.

    The uses of values in the turns themselves are not counted any more.

    Args:
      run: The turns.
      draft: The function.
      rest: The statements after the turns.
      word: Writes the key of a dict, if the loop has a variable for it.
    """
    found: list[Collection] = []
    for display in _collected(run, draft, rest, Counter()):
        key = word(display.words) if display.words else []
        if key is not None:
            name = _name_of(display, run, draft)
            found.append(Collection(name, display, tuple(key)))
    taken = [local for one in found for local in one.display.locals]
    run.left -= frozenset(taken)
    for one in found:
        for parts in (one.display.item, one.word, one.display.head):
            for ref in Term(list(parts)).refs():
                ref.name.uses += 1
    return found


def put_into(collections: Sequence[Collection], loop: Loop) -> list[Statement]:
    """Let a loop fill lists and dicts; return the statements before it."""
    begins: list[Statement] = []
    for one in collections:
        parts: list[Part] = [Ref(one.name, "", ATOM)]
        item = placed(one.item, LAMBDA)
        if one.word:
            parts += ["[", *one.word, "] = ", *item]
        elif n_items(one.item.parts) > 1:
            parts += [" += [", *item, "]"]
        elif type(item[0]) is str and item[0].startswith("*"):
            parts += [" += ", item[0][1:], *item[1:]]
        else:
            parts += [".append(", *item, ")"]
        loop.body.append(Statement(None, Term(parts), is_effect=True))
        one.name.uses += 1
        empty: list[Part] = ["{}"] if one.word else ["[", *one.display.head, "]"]
        begins.append(Statement(one.name, Term(empty), is_start=True))
    return begins


def are_collected(run: Run, draft: Draft, rest: Sequence[Statement]) -> bool:
    """Whether all that turns leave is listed in one place, turn by turn.

    The uses of values in the turns themselves are still counted.
    """
    refs = [ref for turn in run.turns for s in turn for ref in s.term.refs()]
    inside = Counter(id(ref.name) for ref in refs)
    found = _collected(run, draft, rest, inside)
    return len(found) == 1 and found[0].locals == run.left and not found[0].words


def _collected(
    run: Run, draft: Draft, rest: Sequence[Statement], inside: Counter[int]
) -> list[Display]:
    """Find what the values that the turns leave are items of; each is of one at most.

    `inside` are the uses in the turns, as far as they are counted.
    """
    owners = _owners(run, run.left)
    later = {id(name) for statement in rest for name in flat(statement.targets)}
    found: dict[object, Display] = {}
    counts: Counter[int] = Counter()
    for term in terms_of(draft, rest):
        for _, _, display in _displays(term.parts, run.n_turns, owners):
            outer = Term([*display.head, *display.item]).refs()
            if any(id(ref.name) in later for ref in outer):
                continue
            found.setdefault(display.key, display)
            counts.update(_locals(display.item, owners))
    turns = [names_in(turn) for turn in run.turns]
    uses = [[name.uses - inside[id(name)] for name in names] for names in turns]
    whole = [
        display
        for display in found.values()
        if all(turn[i] == counts[i] for turn in uses for i in display.locals)
    ]
    taken = Counter(local for display in whole for local in display.locals)
    return [d for d in whole if all(taken[local] == 1 for local in d.locals)]


def write_collected(
    collections: Sequence[Collection],
    run: Run,
    draft: Draft,
    rest: Sequence[Statement],
) -> None:
    """Write the names of what is collected where it is written item by item."""
    made = {one.display.key: one.name for one in collections}
    if not made:
        return
    left = frozenset([i for one in collections for i in one.display.locals])
    owners = _owners(run, left)
    for term in terms_of(draft, rest):
        found = list(_displays(term.parts, run.n_turns, owners))
        for start, stop, display in reversed(found):
            name = made.get(display.key)
            if name is None:
                continue
            for part in term.parts[start:stop]:
                if type(part) is Ref:
                    part.resolved().name.uses -= 1
            whole: list[Part] = [Ref(name, "", ATOM)]
            is_tuple = display.brackets == "()"
            term.parts[start:stop] = ["tuple(", *whole, ")"] if is_tuple else whole
            name.uses += 1


def _name_of(display: Display, run: Run, draft: Draft) -> Name:
    """Name what is collected as the program did."""
    turns = [names_in(turn) for turn in run.turns]
    ids = {id(names[local]) for names in turns for local in display.locals}
    ids |= {id(ref.name) for ref in Term(list(display.head)).refs()}
    known = draft.collections.get(frozenset(ids))
    made = Name(known or ("values" if display.words else "items"), known is not None)
    n_head = n_items(display.head) if display.head else 0
    n_held = n_head + run.n_turns * n_items(display.item)
    made.held = dict.fromkeys(display.words) or [None] * n_held
    return made


def _owners(run: Run, left: frozenset[int]) -> dict[int, tuple[int, int]]:
    """Return the turn and the number in it of some values of every turn."""
    return {
        id(name): (turn, local)
        for turn, statements in enumerate(run.turns)
        for local, name in enumerate(names_in(statements))
        if local in left
    }


def _displays(
    parts: Sequence[Part], n_turns: int, owners: dict[int, tuple[int, int]]
) -> Iterator[tuple[int, int, Display]]:
    """Yield where parts of an expression are displays of one item for every turn."""
    for start, part in enumerate(parts):
        if type(part) is not str or part not in ("(", "[", "{"):
            continue
        if _is_call(parts[:start], part):
            continue
        for first in _firsts(parts, start, owners):
            found = _found_at(parts, start, first, n_turns, owners)
            if found is not None:
                yield start, *found
                break


def _firsts(
    parts: Sequence[Part], start: int, owners: dict[int, tuple[int, int]]
) -> Iterator[int]:
    """Yield where the items of the turns may begin: first, or after some of no turn."""
    yield start + 1
    pending: list[str] = []
    for position in range(start + 1, len(parts) if parts[start] != "{" else 0):
        part = parts[position]
        if type(part) is Ref and id(part.resolved().name) in owners:
            return
        if part == ", " and not pending:
            yield position + 1
        if not _closes(part, pending):
            return


def _found_at(
    parts: Sequence[Part],
    start: int,
    first: int,
    n_turns: int,
    owners: dict[int, tuple[int, int]],
) -> tuple[int, Display] | None:
    """Return the display whose items begin at a place, and where it ends."""
    head = parts[start + 1 : first - 1]
    for width in range(1, (len(parts) - first) // n_turns + 1):
        if parts[first + width : first + 1 + width] != [", "]:
            continue
        stop = first + n_turns * (width + 1)
        items = [list(parts[first + t * (width + 1) :][:width]) for t in range(n_turns)]
        end = parts[stop - 1 : stop]
        display = _display(str(parts[start]), end, items, owners, head)
        if display is not None:
            return stop, display
    return None


def _is_call(before: Sequence[Part], bracket: str) -> bool:
    """Whether a bracket is that of a call or of an index, by what is before it."""
    last = before[-1] if before and bracket != "{" else ""
    return type(last) is not str or last[-1:].isalnum() or last[-1:] in ("_", ")", "]")


def _display(
    bracket: str,
    end: Sequence[Part],
    items: Sequence[list[Part]],
    owners: dict[int, tuple[int, int]],
    head: Sequence[Part],
) -> Display | None:
    """Return the display of some items; None if they are not alike, or plain values."""
    closing = _CLOSED[_OPEN.index(bracket)]
    if list(end) != [closing] or len({len(item) for item in items}) != 1:
        return None
    words: list[str] = []
    if bracket == "{":
        for item in items:
            key = item.pop(0)
            is_word = isinstance(key, str) and _KEY.fullmatch(key[:-2])
            if not isinstance(key, str) or not is_word or key[-2:] != ": ":
                return None
            words.append(key[:-2])
    elif len(items[0]) == 1:
        return None
    if bracket == "{" and n_items(items[0]) > 1:
        return None
    shapes = {_shape(item, turn, owners): None for turn, item in enumerate(items)}
    found = frozenset(_locals(items[-1], owners))
    if len(shapes) != 1 or not found or not _is_balanced(items[0]):
        return None
    last = tuple(items[-1])
    key = bracket, tuple(words), _shape(head, 0, owners), *shapes
    return Display(bracket + closing, tuple(head), tuple(words), last, found, key)


def _shape(
    item: Sequence[Part], turn: int, owners: dict[int, tuple[int, int]]
) -> object:
    """Return what the items of all turns have to have in common."""
    shape: list[object] = []
    for part in item:
        if type(part) is not Ref:
            shape.append(part)
            continue
        ref = part.resolved()
        made_in, local = owners.get(id(ref.name), (turn, -1))
        is_own = made_in == turn and local >= 0
        shape.append((local if is_own else id(ref.name), is_own, ref.path))
    return tuple(shape)


def _locals(item: Sequence[Part], owners: dict[int, tuple[int, int]]) -> Iterator[int]:
    for part in item:
        if type(part) is Ref and id(part.resolved().name) in owners:
            yield owners[id(part.resolved().name)][1]


def n_items(item: Sequence[Part]) -> int:
    """Count the expressions in parts of a display."""
    text = _QUOTED.sub("", "".join(part for part in item if type(part) is str))
    depth, count = 0, 1
    for char in text:
        depth += (char in _OPEN) - (char in _CLOSED)
        count += char == "," and depth == 0
    return count


def opened(text: str) -> int:
    """Count the brackets that a text opens and does not close."""
    chars = _QUOTED.sub("", text)
    return sum((char in _OPEN) - (char in _CLOSED) for char in chars)


def _is_balanced(item: Sequence[Part]) -> bool:
    """Whether every bracket that is opened in an item is closed there."""
    pending: list[str] = []
    return all(_closes(part, pending) for part in item) and not pending


def _closes(part: Part, pending: list[str]) -> bool:
    """Read the brackets of a part; tell whether it closes none but those pending."""
    for char in _QUOTED.sub("", part) if type(part) is str else "":
        if char in _OPEN:
            pending.append(char)
        elif char in _CLOSED:
            if pending[-1:] != [_OPEN[_CLOSED.index(char)]]:
                return False
            pending.pop()
    return True
