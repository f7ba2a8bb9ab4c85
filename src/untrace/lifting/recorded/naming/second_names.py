"""Give a value a second variable where the user did: `residual = x`, and then `x = norm(x)`.

Without it the new `x` would have to be called otherwise, as long as the old one is needed.
The same is done with `shape = x.shape` where no more is needed of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from untrace.lifting.recorded.folding import note_last_uses
from untrace.lifting.recorded.terms import Name, Part, Ref, Term, Token, Update
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
            second = _second(holder, index, draft, known) if holder else None
            if holder is not None and second and holder.last_use > index:
                kept = Name(identifier(second.name), is_given=True)
                made = _keeping(kept, holder, second.path, statement)
                draft.statements.insert(index, made)
                index += 1
                _read_instead(holder, kept, second.path, draft, index)
                if not second.path:
                    holders[kept.hint] = kept
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
) -> SecondVariable | None:
    """Return which variable took what another held, before a statement."""
    statement = draft.statements[index]
    if holder.captured:
        return None
    if statement.is_start:  # a loop that follows gives it its next values
        following = (one.loop for one in draft.statements[index:])
        loop = next((loop for loop in following if loop is not None), None)
        statement = loop.body[0] if loop is not None and loop.body else statement
    places = [one for one in (*statement.trail, statement.site) if type(one) is Place]
    here = [place.offset for place in places if place.code is draft.code]
    found = [
        one
        for one in known
        if here and one.offset < here[0] and identifier(one.first) == holder.hint
    ]
    if found and found[-1].path and not _is_shape_alone(holder, draft, index):
        return None
    return found[-1] if found else None


def _is_shape_alone(holder: Name, draft: Draft, index: int) -> bool:
    """Whether what comes after a statement reads no more of a value than its shape."""
    for term in _terms_after(draft, index):
        tokens = [*term.all_parts(), ""]
        for token, following in itertools.pairwise(tokens):
            if type(token) is not Ref or not _reads(token, holder):
                continue
            is_shape = type(following) is str and _is_shape(following)
            if isinstance(term, Update) or token.resolved().path or not is_shape:
                return False
    return True


def _is_shape(text: str) -> bool:
    return text.startswith(".shape") and not text[6:7].isidentifier()


def _terms_after(draft: Draft, index: int) -> Iterator[Term]:
    """Yield the expressions behind a statement that are not folded into others."""
    for statement in draft.statements[index + 1 :]:
        if statement.loop is not None:
            yield from statement.loop.terms()
        elif not is_folded(statement.targets):
            yield statement.term
    if draft.result is not None:
        yield draft.result


def _keeping(kept: Name, holder: Name, path: str, statement: Statement) -> Statement:
    """Write `kept = holder` before a statement, or `kept = holder.shape`."""
    holder.uses += 1
    term = Term([Ref(holder), path] if path else [Ref(holder)])
    made = Statement(kept, term, context=statement.context)
    made.turn, made.origin = statement.turn, statement.origin
    return made


def _read_instead(
    holder: Name, kept: Name, path: str, draft: Draft, index: int
) -> None:
    """Let what comes after a statement read another variable."""
    for term in _terms_after(draft, index):
        _replace(term, holder, kept, path)
    holder.last_use = index


def _replace(term: Term, holder: Name, kept: Name, path: str) -> None:
    """Let an expression read another variable for what a path leads to from one."""

    def changed(part: Ref) -> Part:
        ref = part.resolved()
        if ref.name is holder:
            holder.uses -= 1
            kept.uses += 1
            return Ref(kept, ref.path, ref.level)
        if ref.name.folded is not None:
            _replace(ref.name.folded, holder, kept, path)
        return part

    if path and not isinstance(term, Update):
        read = [_reads(token, holder) for token in term.tokens()]
        pairs = zip(term.tokens(), [False, *read])
        left = [t.removeprefix(path) if b and type(t) is str else t for t, b in pairs]
        term.parts = term.of_parts([[token] for token in left]).parts
    term.map_refs(changed)


def _reads(token: Token, holder: Name) -> bool:
    return type(token) is Ref and token.resolved().name is holder
