"""Name parts of parameters as the user did: `axial = state.thick.axial`, if they are read twice.

A part that is read once is written where it is read, as are those that the program had no
variable for. The variable is assigned before the statement that reads it first. Parts of
results that the program took at once, `i = jnp.where(x)[0]`, are taken so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from untrace.capture.dict_keys import spelled
from untrace.lifting.recorded.naming.paths import part_of
from untrace.lifting.recorded.terms import Name, Part, Ref, Term, placed
from untrace.lifting.recorded.tree import Draft, Statement, flat
from untrace.optional import gives, optional
from untrace.recovery.unpacking import named_parts, part_taken
from untrace.syntax.names import identifier
from untrace.syntax.precedence import ATOM
from untrace.syntax.steps import Attribute, Item, Path, ends_with, leads_into

MIN_READS = 2


@optional(gives(None))
def name_taken(draft: Draft) -> None:
    """Take the part of a result that the user's function took where it was made."""
    ways: dict[Name, list[Path]] = {}
    for part in draft.parts():
        if type(part) is Ref:
            ref = part.resolved()
            ways.setdefault(ref.name, []).append(ref.path)
    for statement in draft.statements:
        name = statement.targets
        places = [one for one in statement.trail if one and one.is_users]
        if not isinstance(name, Name) or not places:
            continue
        if name.is_foreign or not name.is_given:
            place = places[-1]  # below it, a library's functions only hand it on
            steps, hint = part_taken(place.code, place.offset)
            path = _path(steps, name.held)
            rest = {w for w in ways.get(name, ()) if not leads_into(w, path)}
            part = part_of(name.held, path)
            if path and all(part_of(name.held, way) is part for way in rest):
                _take((path, *rest), hint, name, statement)


def _path(steps: Path, value: Any) -> Path:
    """Return the path along keys; none if they do not lead through containers."""
    path: Path = ()
    for one in steps:
        key = one.key if type(one) is Item else None
        if type(key) is int and isinstance(value, (tuple, list)) and value:
            key %= len(value)
        elif type(key) is not str or type(value) is not dict:
            return ()
        fields = getattr(value, "_fields", ())
        step = Attribute(fields[key]) if fields else Item(key)
        path, value = (*path, step), part_of(value, (step,))
    return path


def _take(paths: Sequence[Path], hint: str, name: Name, statement: Statement) -> None:
    """Let a statement assign a part of what a name stands for to a variable.

    Several paths lead to it where a function returns one array twice.
    """
    path = paths[0]
    made = Name(identifier(hint), True, uses=name.uses, captured=name.captured)
    made.held = part_of(name.held, path)
    name.members = dict.fromkeys(paths, made)
    statement.targets = made
    statement.term = Term([*placed(statement.term, ATOM), spelled(path)])


@optional(gives(None))
def name_parts(draft: Draft) -> None:
    """Assign the variables that the user's function had for parts of its parameters."""
    if not draft.parts_held or draft.code is None:
        return
    written = named_parts(draft.code)
    known = [name.hint for name in draft.locals()]
    names = {id(one.name): one.name for one in draft.parameters}
    for ref in _all_refs(draft):
        names.setdefault(id(ref.name), ref.name)
    for (owner, path), hint in draft.parts_held.items():
        name = names.get(owner)
        is_free = name is not None and name.is_parameter and hint not in known
        way = written.get(hint, ())
        if name is not None and is_free and way and ends_with(path, way):
            _name_part(name, path, hint, draft)


def _all_refs(draft: Draft) -> Iterator[Ref]:
    for statement in draft.statements:
        for term in _terms(statement):
            yield from (ref.resolved() for ref in term.refs())


def _terms(statement: Statement) -> list[Term]:
    if statement.nested is not None:
        return []
    if statement.loop is not None:
        return list(statement.loop.terms())
    return [statement.term]


def _name_part(owner: Name, path: Path, hint: str, draft: Draft) -> None:
    """Assign a variable before the first statement that reads a part, if two do so."""
    reads: list[tuple[Term, int]] = []
    for index, statement in enumerate(draft.statements):
        for term in _terms(statement):
            reads += [(term, index)] * _count(term, owner, path)
    if draft.result is not None and reads:
        n_reads = _count(draft.result, owner, path)
        reads += [(draft.result, len(draft.statements))] * n_reads
    if len(reads) < MIN_READS:
        return
    made = Name(hint, is_given=True, uses=len(reads), held=part_of(owner.held, path))

    def changed(part: Ref) -> Part:
        ref = part.resolved()
        is_read = _reads(ref, owner, path)
        return Ref(made, ref.path[len(path) :], ref.level) if is_read else part

    for term, _ in reads:
        term.map_refs(changed)
    owner.uses -= len(reads) - 1
    place = _start(reads[0][1], draft)
    draft.statements.insert(place, Statement(made, Term([Ref(owner, path)])))


def _count(term: Term, owner: Name, path: Path) -> int:
    """Return how often a term reads a part of a name."""
    return sum(_reads(ref, owner, path) for ref in term.refs())


def _reads(ref: Ref, owner: Name, path: Path) -> bool:
    """Whether a reference is to a part of a name, or to what is in that."""
    return ref.name is owner and leads_into(ref.path, path)


def _start(index: int, draft: Draft) -> int:
    """Return where the expression begins that a statement ends."""
    while index and _is_part(draft.statements[index - 1]):
        index -= 1
    return index


def _is_part(statement: Statement) -> bool:
    """Whether a statement may be folded into the next one."""
    names = list(flat(statement.targets))
    is_own = all(name.is_given and not name.is_foreign for name in names)
    return statement.loop is None and statement.nested is None and not is_own
