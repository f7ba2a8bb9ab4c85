"""Name parts of parameters as the user did: `axial = state.thick.axial`, if they are read twice.

A part that is read once is written where it is read, as are those that the program had no
variable for. The variable is assigned before the statement that reads it first.
"""

from __future__ import annotations

from collections.abc import Iterator

from untrace.lifting.recorded.naming.paths import part_of
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Draft, Statement, flat
from untrace.optional import gives, optional
from untrace.recovery.unpacking import named_parts

MIN_READS = 2


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
        way = written.get(hint, "")
        if name is not None and is_free and way and path.endswith(way):
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


def _name_part(owner: Name, path: str, hint: str, draft: Draft) -> None:
    """Assign a variable before the first statement that reads a part, if two do so."""
    reads: list[tuple[Term, int, int]] = []
    for index, statement in enumerate(draft.statements):
        reads += [(t, n, index) for t in _terms(statement) for n in _at(t, owner, path)]
    if draft.result is not None and reads:
        result = draft.result
        reads += [(result, n, len(draft.statements)) for n in _at(result, owner, path)]
    if len(reads) < MIN_READS:
        return
    made = Name(hint, is_given=True, uses=len(reads), held=part_of(owner.held, path))
    for term, position, _ in reads:
        ref = term.parts[position]
        assert type(ref) is Ref
        ref = ref.resolved()
        rest = ref.path.removeprefix(path)
        term.parts[position] = Ref(made, rest, ref.level)
    owner.uses -= len(reads) - 1
    place = _start(reads[0][2], draft)
    draft.statements.insert(place, Statement(made, Term([Ref(owner, path)])))


def _at(term: Term, owner: Name, path: str) -> list[int]:
    """Return where a term reads a part of a name."""
    found: list[int] = []
    for position, part in enumerate(term.parts):
        ref = part.resolved() if type(part) is Ref else None
        if ref is None or ref.name is not owner or not ref.path.startswith(path):
            continue
        if ref.path[len(path) : len(path) + 1] in ("", ".", "["):
            found.append(position)
    return found


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
