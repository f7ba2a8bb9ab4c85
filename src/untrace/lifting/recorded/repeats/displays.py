"""Lists and dicts of what turns make, where the items are containers or have keys.

`[(w, b), (w_2, b_2)]` after a loop that leaves `w` and `b` is the list of what every turn
appends, `(w, b)`, and `{"a": y, "b": y_2}` the dict of what every turn puts under a key.
Only values are collected that are used nowhere else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from untrace.lifting.recorded.building import (
    attribute,
    call,
    dict_of,
    display,
    indexed,
    joined,
    without_lead,
)
from untrace.lifting.recorded.repeats.lists import terms_of
from untrace.lifting.recorded.repeats.slots import Run, names_in
from untrace.lifting.recorded.terms import (
    DICT,
    KEY,
    TUPLE_OF,
    Group,
    Name,
    Part,
    Ref,
    Term,
    placed,
    update,
)
from untrace.lifting.recorded.tree import Draft, Loop, Statement, flat
from untrace.syntax.precedence import LAMBDA


@dataclass(frozen=True, eq=False, slots=True)
class Display:
    """A list, tuple or dict of one item for every turn.

    Attributes:
      kind: Which of these.
      head: What a list begins with that is of no turn.
      words: The keys, if it is a dict.
      items: What is of the last turn: one expression, mostly.
      locals: Which values of a turn it holds.
      key: What it has in common with a display of the same.
    """

    kind: int
    head: tuple[Term, ...]
    words: tuple[Any, ...]
    items: tuple[Term, ...]
    locals: frozenset[int]
    key: object


@dataclass(frozen=True, eq=False, slots=True)
class Collection:
    """A list or dict that a loop fills.

    Attributes:
      display: How it was written item by item.
      word: The key of a turn's item, if it is a dict.
    """

    name: Name
    display: Display
    word: Term | None

    @property
    def items(self) -> Sequence[Term]:
        """What a turn adds."""
        return self.display.items


def collections_of(
    run: Run,
    draft: Draft,
    rest: Sequence[Statement],
    word: Callable[[Sequence[Any]], list[Part] | None],
) -> list[Collection]:
    """Find the lists and dicts of what the turns leave; the run leaves the others.

    The uses of values in the turns themselves are not counted any more.

    Args:
      rest: The statements after the turns.
      word: Writes the key of a dict, if the loop has a variable for it.
    """
    found: list[Collection] = []
    for one in _collected(run, draft, rest, Counter()):
        key = word(one.words) if one.words else []
        if key is not None:
            name = _name_of(one, run, draft)
            found.append(Collection(name, one, Term(key) if key else None))
    taken = [local for one in found for local in one.display.locals]
    run.left -= frozenset(taken)
    for one in found:
        word_of = [one.word] if one.word is not None else []
        for term in (*one.items, *word_of, *one.display.head):
            for ref in term.refs():
                ref.name.uses += 1
    return found


def put_into(collections: Sequence[Collection], loop: Loop) -> list[Statement]:
    """Let a loop fill lists and dicts; return the statements before it."""
    begins: list[Statement] = []
    for one in collections:
        whole = Term([Ref(one.name)])
        loop.body.append(Statement(None, _added(whole, one), is_effect=True))
        one.name.uses += 1
        empty = dict_of([]) if one.word else display("[]", one.display.head)
        begins.append(Statement(one.name, empty, is_start=True))
    return begins


def _added(whole: Term, one: Collection) -> Term:
    """Write what adds the items of a turn to a list or dict."""
    first = one.items[0]
    if one.word:
        return update(indexed(whole, [one.word]), first)
    if len(one.items) > 1:
        return Term([*whole.parts, " += ", *display("[]", one.items).parts])
    if first.is_starred:
        return Term([*whole.parts, " += ", *placed(without_lead(first), LAMBDA)])
    return call(attribute(whole, "append"), [first])


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
        for group in term.groups():
            one = _display(group, run.n_turns, owners)
            if one is None:
                continue
            outer = [ref for item in (*one.head, *one.items) for ref in item.refs()]
            if any(id(ref.name) in later for ref in outer):
                continue
            found.setdefault(one.key, one)
            counts.update(_locals(one.items, owners))
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

    def changed(group: Group) -> Sequence[Part]:
        one = _display(group, run.n_turns, owners)
        name = made.get(one.key) if one is not None else None
        if name is None:
            return [group]
        for ref in Term([group]).refs():
            ref.name.uses -= 1
        name.uses += 1
        whole = Term([Ref(name)])
        is_tuple = group.kind == TUPLE_OF
        return (call(Term(["tuple"]), [whole]) if is_tuple else whole).parts

    for term in terms_of(draft, rest):
        term.map_groups(changed)


def _name_of(display: Display, run: Run, draft: Draft) -> Name:
    """Name what is collected as the program did."""
    turns = [names_in(turn) for turn in run.turns]
    ids = {id(names[local]) for names in turns for local in display.locals}
    ids |= {id(ref.name) for item in display.head for ref in item.refs()}
    known = draft.collections.get(frozenset(ids))
    made = Name(known or ("values" if display.words else "items"), known is not None)
    n_held = len(display.head) + run.n_turns * len(display.items)
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


def _display(
    group: Group, n_turns: int, owners: dict[int, tuple[int, int]]
) -> Display | None:
    """Return what a group is as a display of one item, or a few, for every turn, if it is."""
    if not group.is_display:
        return None
    n_others = 0 if group.kind == DICT else len(group.items)
    for n_head, item in enumerate(group.items[: n_others + 1]):
        if (len(group.items) - n_head) % n_turns == 0:
            made = _display_behind(n_head, group, n_turns, owners)
            if made is not None:
                return made
        if any(id(ref.name) in owners for ref in item.refs()):
            break
    return None


def _display_behind(
    n_head: int, group: Group, n_turns: int, owners: dict[int, tuple[int, int]]
) -> Display | None:
    """Return the display whose items begin behind some that are of no turn.

    Returns:
      It; None if items are not alike, or plain values.
    """
    head, rest = group.items[:n_head], group.items[n_head:]
    n = len(rest) // n_turns
    turns = [rest[turn * n : (turn + 1) * n] for turn in range(n_turns)]
    words: list[Any] = []
    if group.kind == DICT:
        leads = [item.lead for item in rest]
        words = [lead.word for lead in leads if lead and lead.kind == KEY]
        is_plain = all(type(word) in (str, int) for word in words)
        if n > 1 or len(words) < len(rest) or not is_plain:
            return None
        turns = [[without_lead(item)] for item in rest]
    elif n == 1 and len(turns[0][0].tokens()) == 1 and turns[0][0].lead is None:
        return None
    shapes = {_shape(items, turn, owners): None for turn, items in enumerate(turns)}
    found = frozenset(_locals(turns[-1], owners))
    if len(shapes) != 1 or not found:
        return None
    key = group.kind, tuple(words), _shape(head, 0, owners), *shapes
    last = tuple(turns[-1])
    return Display(group.kind, tuple(head), tuple(words), last, found, key)


def _shape(
    items: Sequence[Term], turn: int, owners: dict[int, tuple[int, int]]
) -> object:
    """Return what the items of all turns have to have in common."""
    shape: list[object] = [len(items)]
    for part in joined(items).tokens():
        if type(part) is not Ref:
            shape.append(part)
            continue
        ref = part.resolved()
        made_in, local = owners.get(id(ref.name), (turn, -1))
        is_own = made_in == turn and local >= 0
        shape.append((local if is_own else id(ref.name), is_own, ref.path))
    return tuple(shape)


def _locals(items: Sequence[Term], owners: dict[int, tuple[int, int]]) -> Iterator[int]:
    for ref in (ref for item in items for ref in item.refs()):
        if id(ref.name) in owners:
            yield owners[id(ref.name)][1]
