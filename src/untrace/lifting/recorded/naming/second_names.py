"""Give a value a second variable where the user did: `residual = x`, and then `x = norm(x)`.

Without it the new `x` would have to be called otherwise, as long as the old one is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from untrace.lifting.recorded.folding import note_last_uses
from untrace.lifting.recorded.terms import Name, Part, Ref, Term
from untrace.lifting.recorded.tree import Draft, Statement, flat, is_folded
from untrace.optional import gives, optional
from untrace.recovery.record import Place
from untrace.recovery.second_variables import SecondVariable, second_variables
from untrace.syntax.names import identifier


@optional(gives(None))
def give_second_names(draft: Draft) -> None:
    """Write the assignments of the program that keep what a variable held before."""
    known = second_variables(draft.code) if draft.code is not None else ()
    if not known:
        return
    holders = {name.hint: name for name in _parameters(draft)}
    index = 0
    while index < len(draft.statements):
        statement = draft.statements[index]
        for name in _plain_targets(statement):
            holder = holders.get(name.hint)
            second = _second(holder, index, draft, known) if holder else ""
            if holder is not None and second and holder.last_use > index:
                kept = Name(second, is_given=True)
                draft.statements.insert(index, _keeping(kept, holder, statement))
                index += 1
                _read_instead(holder, kept, draft, index)
                holders[second] = kept
                note_last_uses(draft)
            holders[name.hint] = name
        index += 1


def _parameters(draft: Draft) -> Iterator[Name]:
    """Yield the parameters that are read; which others there are is not known yet."""
    for part in draft.parts():
        if type(part) is Ref and part.resolved().name.is_parameter:
            yield part.resolved().name


def _plain_targets(statement: Statement) -> Iterator[Name]:
    """Yield the variables of the user that a statement assigns to."""
    if statement.loop is None and statement.nested is None:
        for name in flat(statement.targets):
            is_own = name.is_given and not (name.is_weak or name.is_foreign)
            if is_own and name.alias is None:
                yield name


def _second(
    holder: Name, index: int, draft: Draft, known: Sequence[SecondVariable]
) -> str:
    """Return which variable took what another held, before a statement; "" if none did."""
    statement = draft.statements[index]
    if holder.captured:
        return ""
    if statement.is_start:  # a loop that follows gives it its next values
        following = (one.loop for one in draft.statements[index:])
        loop = next((loop for loop in following if loop is not None), None)
        statement = loop.body[0] if loop is not None and loop.body else statement
    places = [one for one in (*statement.trail, statement.site) if type(one) is Place]
    here = [place.offset for place in places if place.code is draft.code]
    found = [
        one.name
        for one in known
        if here and one.offset < here[0] and identifier(one.first) == holder.hint
    ]
    return identifier(found[-1]) if found else ""


def _keeping(kept: Name, holder: Name, statement: Statement) -> Statement:
    """Write `kept = holder` before a statement."""
    holder.uses += 1
    made = Statement(kept, Term([Ref(holder)]), context=statement.context)
    made.turn, made.origin = statement.turn, statement.origin
    return made


def _read_instead(holder: Name, kept: Name, draft: Draft, index: int) -> None:
    """Let what comes after a statement read another variable."""
    for statement in draft.statements[index + 1 :]:
        if statement.loop is not None:
            for term in statement.loop.terms():
                _replace(term, holder, kept)
        elif not is_folded(statement.targets):
            _replace(statement.term, holder, kept)
    if draft.result is not None:
        _replace(draft.result, holder, kept)
    holder.last_use = index


def _replace(term: Term, holder: Name, kept: Name) -> None:
    def changed(part: Ref) -> Part:
        ref = part.resolved()
        if ref.name is holder:
            holder.uses -= 1
            kept.uses += 1
            return Ref(kept, ref.path, ref.level)
        if ref.name.folded is not None:
            _replace(ref.name.folded, holder, kept)
        return part

    term.map_refs(changed)
