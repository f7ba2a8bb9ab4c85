"""Values that every turn of a loop leaves: lists that it appends to.

`[y, y_2, y_3]`, wherever it is written, is then the name of the list, and a value that is
used alone is an item of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from untrace.lifting.recorded.building import attribute, call, display, starred
from untrace.lifting.recorded.naming.paths import last_word, words_of
from untrace.lifting.recorded.repeats.slots import Run, carried, names_in
from untrace.lifting.recorded.terms import LIST, Group, Name, Part, Ref, Term
from untrace.lifting.recorded.tree import Draft, Loop, Statement, flat
from untrace.syntax.steps import Item, Path, leads_into


def leave(
    run: Run, loop: Loop, draft: Draft, rest: Sequence[Statement]
) -> list[Statement]:
    """Let a loop append what its turns leave; return the statements before it.

    Args:
      loop: The loop that is made of them.
      rest: The statements after the turns.
    """
    begins: list[Statement] = []
    for local in sorted(run.left):
        names = left_by(run, local)
        begin = _begin(names, draft, rest)
        first = None if begin else _kept_first(run, local, names, draft, rest)
        if first is not None:
            begins.append(_keep_begins(first, names, loop, draft, rest))
            continue
        parts = () if begin else _listed_parts(names, terms_of(draft, rest))
        if parts:
            begins += [
                _append(list_of(names, draft, rest, path), path, names[-1], loop)
                for path in parts
            ]
            continue
        made = list_of([*begin, *names], draft, rest)
        *earlier, last = names
        is_listed = any(name.uses for name in earlier) and local not in carried(run)
        if is_listed and last.uses:
            item = Item(len(begin) + len(earlier))
            _take(last, item, made, terms_of(draft, rest))
        take_items(earlier, made, len(begin))
        made.uses, last.uses = made.uses + 1, last.uses + 1
        place = [last in flat(statement.targets) for statement in loop.body].index(True)
        if _is_only_last(run, local, names, begin):
            last = _read_from_list(last, made, loop.body[place])
        append = _appended(made, last)
        loop.body.insert(place + 1, Statement(None, append, is_effect=True))
        first = [Term([Ref(name)]) for name in begin]
        begins.append(Statement(made, display("[]", first), is_start=True))
        for name in begin:
            name.uses += 1
    return begins


def _append(made: Name, path: Path, last: Name, loop: Loop) -> Statement:
    """Let a loop append a part of what each turn makes; return the statement before it."""
    made.uses, last.uses = made.uses + 1, last.uses + 1
    append = _appended(made, last, path)
    place = [last in flat(statement.targets) for statement in loop.body].index(True)
    loop.body.insert(place + 1, Statement(None, append, is_effect=True))
    return Statement(made, display("[]", []), is_start=True)


def _listed_parts(names: Sequence[Name], terms: Sequence[Term]) -> Sequence[Path]:
    """Return which parts of what turns leave are listed, if nothing else of it is read.

    That of the last turn may be read elsewhere, too.
    """
    found = [
        path
        for term in terms
        for row in _rows(term, len(names))
        if (path := _path(row[0])) and _lists(row, names, path)
    ]
    is_all = all(_count(name, terms) == len(found) for name in names[:-1])
    return list(dict.fromkeys(found)) if is_all else ()


def _path(item: Term) -> Path:
    """Return which part of a name an item is; none if it is all of it, or no part."""
    return item.ref.resolved().path if item.ref is not None else ()


def _rows(term: Term, width: int) -> Iterator[Sequence[Term]]:
    """Yield all that stands side by side in an expression, so many at once."""
    for group in term.groups():
        for start in range(len(group.items) - width + 1):
            yield group.items[start : start + width]


def _appended(made: Name, last: Name, path: Path = ()) -> Term:
    """Write `ys.append(y)`."""
    return call(attribute(Term([Ref(made)]), "append"), [Term([Ref(last, path)])])


def _is_only_last(
    run: Run, local: int, names: Sequence[Name], begin: Sequence[Name]
) -> bool:
    """Whether what turns hand on has no name but that of the last item of a list."""
    start = run.starts.get(local)
    is_begin = len(begin) == 1 and start == (begin[0], ())
    is_carry = local in carried(run) and local not in (*run.older, *run.updated)
    *earlier, last = names  # which is the variable of the loop by now
    is_named = any(name.is_given for name in earlier) or last.captured
    return is_begin and is_carry and not is_named


def _read_from_list(last: Name, made: Name, maker: Statement) -> Name:
    """Let a variable be the last item of a list; return the name of the next one."""
    item = replace(last, uses=1, is_given=False)
    last.alias = made, (Item(-1),)
    made.uses += last.uses - 1
    maker.targets = item
    return item


def _kept_first(
    run: Run,
    local: int,
    names: Sequence[Name],
    draft: Draft,
    rest: Sequence[Statement],
) -> Name | None:
    """What a value begins as, if the list is of what each turn begins with.

    Such are the skips of a U-Net: `skips.append(x)`, and then `x = down(x)`. What the
    first turn begins with is used as often as what the others do.
    """
    begin, path = run.starts.get(local, (None, ()))
    is_other = local not in carried(run) or local in (*run.older, *run.updated)
    if begin is None or path or is_other:
        return None
    if tuple(map(id, names)) in draft.lists or begin.captured:
        return None
    if begin is names[-1]:  # the variable of a loop around this one
        return None
    terms = terms_of(draft, rest)
    if _are_listed(names, terms):
        return None
    counts = [_count(name, terms) for name in (begin, *names[:-1])]
    return begin if counts[0] and len(set(counts)) == 1 else None


def _count(name: Name, terms: Iterable[Term]) -> int:
    return sum(ref.resolved().name is name for term in terms for ref in term.refs())


def _keep_begins(
    first: Name,
    names: Sequence[Name],
    loop: Loop,
    draft: Draft,
    rest: Sequence[Statement],
) -> Statement:
    """Let a loop append what each turn begins with; return the statement before it."""
    *earlier, last = names
    made = list_of([first, *earlier], draft, rest)
    _take(first, Item(0), made, terms_of(draft, rest))
    take_items(earlier, made, 1)
    made.uses, last.uses = made.uses + 1, last.uses + 1
    append = _appended(made, last)
    loop.body.insert(0, Statement(None, append, is_effect=True))
    return Statement(made, display("[]", []), is_start=True)


def left_by(run: Run, local: int) -> list[Name]:
    """Return the names of a value of every turn."""
    return [names_in(turn)[local] for turn in run.turns]


def list_of(
    names: Sequence[Name], draft: Draft, rest: Sequence[Statement], path: Path = ()
) -> Name:
    """Name the list of some values, or of a part of each, and write it where it stood."""
    ids = tuple([id(name) for name in names])
    known = draft.lists.get(ids) if not path else None
    hint = last_word(words_of(path)) if path else names[-1].hint
    plural = hint if hint.endswith("s") else f"{hint}s"
    is_foreign = all(name.is_foreign for name in names)
    made = Name(known or plural, known is not None, is_foreign=is_foreign)
    made.held = list(names)  # as many items, which is what is asked about a list
    for term in terms_of(draft, rest):
        _write_whole(term, names, made, path)
    return made


def _begin(
    names: Sequence[Name], draft: Draft, rest: Sequence[Statement]
) -> list[Name]:
    """Return what the program's list held before the turns, if it is used as a whole."""
    ids = tuple([id(name) for name in names])
    known_lists = {**draft.displayed, **draft.lists}
    keys = [key for key in known_lists if key[-len(ids) :] == ids]
    if not keys or len(keys[0]) == len(ids):
        return []
    terms = terms_of(draft, rest)
    known = {id(ref.name): ref.name for term in terms for ref in term.refs()}
    later = {id(name) for statement in rest for name in flat(statement.targets)}
    whole = [known[key] for key in keys[0] if key in known and key not in later]
    if len(whole) != len(keys[0]):
        return []
    is_used = _are_listed(whole, terms)
    if is_used:
        draft.lists.setdefault(keys[0], known_lists[keys[0]])
    return whole[: -len(names)] if is_used else []


def take_items(names: Iterable[Name], made: Name, start: int = 0) -> None:
    """Let names stand for items of a list."""
    for position, name in enumerate(names, start):
        name.alias = made, (Item(position),)
        made.uses += name.uses


def take_variables(lists: Sequence[Name], rest: Sequence[Statement]) -> None:
    """Let lists be the variables that only hold them after the loop."""
    for statement in rest:
        part, variable = statement.term.ref, statement.targets
        ref = part.resolved() if part is not None else None
        if ref is None or ref.path or ref.name not in lists:
            continue
        if isinstance(variable, Name) and statement.loop is None:
            if variable.is_given:
                ref.name.hint, ref.name.is_given = variable.hint, True
            variable.alias = ref.name, ()
            ref.name.uses += variable.uses
            variable.uses = 0


def _take(name: Name, item: Item, made: Name, terms: Sequence[Term]) -> None:
    """Take a value that has another name, too, from a list."""

    def changed(part: Ref) -> Part:
        ref = part.resolved()
        if ref.name is not name:
            return part
        name.uses, made.uses = name.uses - 1, made.uses + 1
        return Ref(made, (item, *ref.path), ref.level)

    for term in terms:
        term.map_refs(changed)


def take_from_end(
    ends: Sequence[tuple[Name, Path, int]], terms: Sequence[Term]
) -> None:
    """Write `layers[-1]` for the last item of a list of which a loop takes the others."""

    def changed(part: Ref) -> Part:
        ref = part.resolved()
        for name, path, last in ends:
            item = (*path, Item(last))
            if ref.name is name and leads_into(ref.path, item):
                rest = ref.path[len(item) :]
                part = Ref(name, (*path, Item(-1), *rest), ref.level)
        return part

    for term in terms if ends else ():
        term.map_refs(changed)


def terms_of(draft: Draft, rest: Sequence[Statement]) -> list[Term]:
    """List the expressions after a loop."""
    terms = [statement.term for statement in rest]
    return [*terms, draft.result] if draft.result is not None else terms


def _write_whole(
    term: Term, names: Sequence[Name], made: Name, path: Path = ()
) -> None:
    """Write a list where an expression lists its items, one after the other."""
    n = len(names)
    listed = Term([Ref(made)])

    def changed(group: Group) -> Sequence[Part]:
        items, start = group.items, -1
        while (start := start + 1) + n <= len(items):
            if not _lists(items[start : start + n], names, path):
                continue
            made.uses += 1
            for name in names:
                name.uses -= 1
            if len(items) == n and group.is_display:
                is_list = group.kind == LIST
                made_of = listed if is_list else call(Term(["tuple"]), [listed])
                return made_of.parts
            items[start : start + n] = [starred(listed)]
        return [group]

    term.map_groups(changed)


def _are_listed(names: Sequence[Name], terms: Sequence[Term]) -> bool:
    """Whether some names stand side by side, in this order."""
    return any(_lists(r, names) for term in terms for r in _rows(term, len(names)))


def _lists(items: Sequence[Term], names: Sequence[Name], path: Path = ()) -> bool:
    """Whether items are names, or parts of them."""
    refs = [item.ref.resolved() if item.ref is not None else None for item in items]
    return all(
        ref is not None and ref.name is name and ref.path == path
        for ref, name in zip(refs, names)
    )
