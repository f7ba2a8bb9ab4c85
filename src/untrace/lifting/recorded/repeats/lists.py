"""Values that every turn of a loop leaves: lists that it appends to.

`[y, y_2, y_3]`, wherever it is written, is then the name of the list, and a value that is
used alone is an item of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from untrace.lifting.recorded.naming.paths import last_word, steps
from untrace.lifting.recorded.repeats.slots import Run, carried, names_in
from untrace.lifting.recorded.terms import Name, Part, Ref, Term, display
from untrace.lifting.recorded.tree import Draft, Loop, Statement, flat
from untrace.syntax.names import identifier
from untrace.syntax.precedence import ATOM, LAMBDA


def leave(
    run: Run, loop: Loop, draft: Draft, rest: Sequence[Statement]
) -> list[Statement]:
    """Let a loop append what its turns leave; return the statements before it.

    Args:
      run: The turns.
      loop: The loop that is made of them.
      draft: The function.
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
            item = f"[{len(begin) + len(earlier)}]"
            _take(last, item, made, terms_of(draft, rest))
        take_items(earlier, made, len(begin))
        made.uses, last.uses = made.uses + 1, last.uses + 1
        place = [last in flat(statement.targets) for statement in loop.body].index(True)
        if _is_only_last(run, local, names, begin):
            last = _read_from_list(last, made, loop.body[place])
        append = Term([Ref(made), ".append(", Ref(last, "", LAMBDA), ")"])
        loop.body.insert(place + 1, Statement(None, append, is_effect=True))
        first = [Term([Ref(name)]) for name in begin]
        begins.append(Statement(made, display("[]", first), is_start=True))
        for name in begin:
            name.uses += 1
    return begins


def _append(made: Name, path: str, last: Name, loop: Loop) -> Statement:
    """Let a loop append a part of what each turn makes; return the statement before it."""
    made.uses, last.uses = made.uses + 1, last.uses + 1
    append = Term([Ref(made), ".append(", Ref(last, path, LAMBDA), ")"])
    place = [last in flat(statement.targets) for statement in loop.body].index(True)
    loop.body.insert(place + 1, Statement(None, append, is_effect=True))
    return Statement(made, display("[]", []), is_start=True)


def _listed_parts(names: Sequence[Name], terms: Sequence[Term]) -> Sequence[str]:
    """Return which parts of what turns leave are listed, if nothing else of it is read.

    That of the last turn may be read elsewhere, too.
    """
    width = 2 * len(names) - 1
    found: list[str] = []
    for term in terms:
        for start, part in enumerate(term.parts):
            ref = part.resolved() if type(part) is Ref else None
            stretch = term.parts[start : start + width]
            if ref is not None and ref.path and ref.name is names[0]:
                found += [ref.path] * (
                    len(stretch) == width and _lists(stretch, names, ref.path)
                )
    is_all = all(_count(name, terms) == len(found) for name in names[:-1])
    return list(dict.fromkeys(found)) if is_all else ()


def _is_only_last(
    run: Run, local: int, names: Sequence[Name], begin: Sequence[Name]
) -> bool:
    """Whether what turns hand on has no name but that of the last item of a list."""
    start = run.starts.get(local)
    is_begin = len(begin) == 1 and start == (begin[0], "")
    is_carry = local in carried(run) and local not in (*run.older, *run.updated)
    *earlier, last = names  # which is the variable of the loop by now
    is_named = any(name.is_given for name in earlier) or last.captured
    return is_begin and is_carry and not is_named


def _read_from_list(last: Name, made: Name, maker: Statement) -> Name:
    """Let a variable be the last item of a list; return the name of the next one."""
    item = replace(last, uses=1, is_given=False)
    last.alias = made, "[-1]"
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
    begin, path = run.starts.get(local, (None, ""))
    is_other = local not in carried(run) or local in (*run.older, *run.updated)
    if begin is None or path or is_other:
        return None
    if tuple(map(id, names)) in draft.lists or begin.captured:
        return None
    if begin is names[-1]:  # the variable of a loop around this one
        return None
    terms = terms_of(draft, rest)
    width = 2 * len(names) - 1
    if any(
        _lists(term.parts[start : start + width], names)
        for term in terms
        for start in range(len(term.parts) - width + 1)
    ):
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
    _take(first, "[0]", made, terms_of(draft, rest))
    take_items(earlier, made, 1)
    made.uses, last.uses = made.uses + 1, last.uses + 1
    append = Term([Ref(made), ".append(", Ref(last, "", LAMBDA), ")"])
    loop.body.insert(0, Statement(None, append, is_effect=True))
    return Statement(made, display("[]", []), is_start=True)


def left_by(run: Run, local: int) -> list[Name]:
    """Return the names of a value of every turn."""
    return [names_in(turn)[local] for turn in run.turns]


def list_of(
    names: Sequence[Name], draft: Draft, rest: Sequence[Statement], path: str = ""
) -> Name:
    """Name the list of some values, or of a part of each, and write it where it stood."""
    ids = tuple([id(name) for name in names])
    known = draft.lists.get(ids) if not path else None
    hint = identifier(last_word(steps(path))) if path else names[-1].hint
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
    width = 2 * len(whole) - 1
    is_used = any(
        _lists(term.parts[start : start + width], whole)
        for term in terms
        for start in range(len(term.parts) - width + 1)
    )
    if is_used:
        draft.lists.setdefault(keys[0], known_lists[keys[0]])
    return whole[: -len(names)] if is_used else []


def take_items(names: Iterable[Name], made: Name, start: int = 0) -> None:
    """Let names stand for items of a list."""
    for position, name in enumerate(names, start):
        name.alias = made, f"[{position}]"
        made.uses += name.uses


def take_variables(lists: Sequence[Name], rest: Sequence[Statement]) -> None:
    """Let lists be the variables that only hold them after the loop."""
    for statement in rest:
        parts, variable = statement.term.parts, statement.targets
        ref = parts[0].resolved() if parts and type(parts[0]) is Ref else None
        if ref is None or len(parts) > 1 or ref.path or ref.name not in lists:
            continue
        if isinstance(variable, Name) and statement.loop is None:
            if variable.is_given:
                ref.name.hint, ref.name.is_given = variable.hint, True
            variable.alias = ref.name, ""
            ref.name.uses += variable.uses
            variable.uses = 0


def _take(name: Name, item: str, made: Name, terms: Sequence[Term]) -> None:
    """Take a value that has another name, too, from a list."""
    for term in terms:
        for position, part in enumerate(term.parts):
            ref = part.resolved() if type(part) is Ref else None
            if ref is not None and ref.name is name:
                term.parts[position] = Ref(made, item + ref.path, ref.level)
                name.uses, made.uses = name.uses - 1, made.uses + 1


def take_from_end(ends: Sequence[tuple[Name, str, int]], terms: Sequence[Term]) -> None:
    """Write `layers[-1]` for the last item of a list of which a loop takes the others."""
    for term in terms:
        for position, part in enumerate(term.parts):
            ref = part.resolved() if type(part) is Ref else None
            for name, path, last in ends:
                item = f"{path}[{last}]"
                if ref is not None and ref.name is name and ref.path.startswith(item):
                    rest = f"{path}[-1]{ref.path.removeprefix(item)}"
                    term.parts[position] = Ref(name, rest, ref.level)


def terms_of(draft: Draft, rest: Sequence[Statement]) -> list[Term]:
    """List the expressions after a loop."""
    terms = [statement.term for statement in rest]
    return [*terms, draft.result] if draft.result is not None else terms


def _write_whole(term: Term, names: Sequence[Name], made: Name, path: str = "") -> None:
    """Write a list where an expression lists its items, one after the other."""
    parts, width = term.parts, 2 * len(names) - 1
    start = 0
    while start + width <= len(parts):
        stop = start + width
        if _lists(parts[start:stop], names, path):
            around = parts[start - 1 : start], parts[stop : stop + 1]
            is_display = not _is_applied(parts[: start - 1])
            if around == (["["], ["]"]) and is_display:
                parts[start - 1 : stop + 1] = [Ref(made)]
            elif around == (["("], [")"]) and is_display:
                parts[start - 1 : stop + 1] = ["tuple(", Ref(made), ")"]
            else:
                parts[start:stop] = ["*", Ref(made, "", ATOM)]
            made.uses += 1
            for name in names:
                name.uses -= 1
        start += 1


def _lists(parts: Sequence[Part], names: Sequence[Name], path: str = "") -> bool:
    """Whether parts of an expression are names, or parts of them, with commas between."""
    refs = [part.resolved() if type(part) is Ref else None for part in parts[::2]]
    return all(comma == ", " for comma in parts[1::2]) and all(
        ref is not None and ref.name is name and ref.path == path
        for ref, name in zip(refs, names)
    )


def _is_applied(before: Sequence[Part]) -> bool:
    """Whether a bracket is that of a call or of an index, by what is before it."""
    if not before:
        return False
    last = before[-1]
    if type(last) is not str:
        return True
    return last[-1:].isalnum() or last[-1:] in ("_", ")", "]")
