"""Write functions of libraries where they are called, once all functions are written.

The statements of a function take the place of its call. Its parameters stand for what
the call passed, and the names that the call assigned to for what the function returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from untrace.lifting.printing import Function
from untrace.lifting.recorded.folding import finish
from untrace.lifting.recorded.functions.needs import Kept, References, called_once
from untrace.lifting.recorded.functions.taking_apart import members_of, take_apart
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Draft, Names, Statement, flat
from untrace.optional import gives, optional
from untrace.recovery.record import Call


def inline_single_calls(
    references: References,
    functions: Sequence[Function],
    drafts: Mapping[Function, Draft],
    write_again: Callable[[Sequence[Function]], None],
) -> set[Call]:
    """Write functions where they are called, if they are better written there.

    Args:
      references: What the program refers to; calls that are no more are taken out.
      functions: All functions of the module.
      drafts: Their trees.
      write_again: Writes the text of functions whose trees have changed.

    Returns:
      The calls of which that is so, but that could not be, and of what was written in
      their functions.
    """
    left: dict[Call, Kept] = {}
    inside: dict[Draft, list[Kept]] = {}
    while True:
        groups = called_once(references, [drafts[f] for f in functions if f in drafts])
        groups = [group for group in groups if group[0].item not in left]
        if not groups:
            missed = list(left.values())
            for kept in missed:  # which grows
                missed += inside.get(kept.draft, [])
            return {kept.item for kept in missed}
        shown = {id(one) for f in functions if f in drafts for one in drafts[f].all()}
        for group in groups:
            failed = [kept for kept in group if not inline(kept)]
            if any(k.home.is_lambda or id(k.home) in shown for k in failed):
                left.update({kept.item: kept for kept in group})
            else:
                for kept in group:
                    inside.setdefault(kept.home, []).append(kept)
                references.kept[:] = [k for k in references.kept if k not in group]
        write_again(functions)


@optional(gives(False))
def inline(kept: Kept) -> bool:
    """Write a function where it is called.

    Returns:
      Whether it could be: what is passed by position is known, the call is a statement
      of its own, in no loop and no lambda, and no number of theirs is a parameter by its
      place.
    """
    home, call, draft = kept.home, kept.statement, kept.draft
    if home.is_lambda:
        return False
    position = next((i for i, s in enumerate(home.statements) if s is call), None)
    is_plain = all(not p.stars and not p.is_keyword for p in draft.parameters)
    is_same = is_plain and len(kept.arguments) == len(draft.parameters)
    if position is None or not is_same or draft.returned_in or draft.result is None:
        return False
    if kept.parts != call.term.tokens():  # a loop was written meanwhile
        return False
    if home.gives_numbers or draft.gives_numbers:
        return False
    _unfold(home)
    _unfold(draft)
    inner: list[Statement] = []
    for parameter, argument in zip(draft.parameters, kept.arguments):
        inner += _passed(parameter.name, argument, draft)
    for statement in draft.statements:
        statement.context = (*call.items, *statement.items)
        for name in flat(statement.targets):
            name.is_weak = True
    inner += draft.statements
    inner += _returned(call, draft.result, home)
    home.statements[position : position + 1] = inner
    finish(home, is_again=True)
    return True


def _unfold(draft: Draft) -> None:
    """Write every expression of a function as a statement again."""
    for statement in draft.statements:
        name = statement.targets
        if isinstance(name, Name) and name.folded is statement.term:
            name.folded = None


def _passed(name: Name, argument: Term, draft: Draft) -> Iterator[Statement]:
    """Let a parameter stand for what is passed, or assign it."""
    ref = _reference(argument)
    if ref is not None:
        _stand(name, ref)
    elif parts := take_apart(name, argument, draft):
        for part, made in parts:
            yield from _passed(part, made, draft)
    elif not any(argument.refs()):  # a number, mostly
        name.folded = argument
    elif name.uses or name.captured:
        name.is_parameter, name.is_weak = False, True
        yield Statement(name, argument)


def _returned(call: Statement, result: Term, home: Draft) -> Iterator[Statement]:
    """Let the names that a call assigned to stand for the result, or assign it."""
    for names, term in _pairs(call.targets, result):
        ref = _reference(term)
        if isinstance(names, Name) and ref is not None:
            if not ref.path:
                _name_after(ref.name, names)
            _stand(names, ref)
        elif isinstance(names, Name) and (parts := _parts_of(names, term, home)):
            for part, made in parts:
                yield from _passed(part, made, home)
        else:
            made = replace(call, targets=names, term=term)
            made.is_row = made.is_row and names is call.targets
            yield made


def _parts_of(name: Name, term: Term, home: Draft) -> list[tuple[Name, Term]]:
    """Return the parts of what a library's code names only to take it apart."""
    is_users = name.is_given and not (name.is_foreign or name.is_weak)
    return [] if is_users else take_apart(name, term, home)


def _reference(term: Term) -> Ref | None:
    """Return the reference that an expression is, if it is one."""
    return None if term.ref is None else term.ref.resolved()


def _pairs(names: Names | None, term: Term) -> Iterator[tuple[Names | None, Term]]:
    """Yield names with the expressions of the tuple that is assigned to them."""
    members = members_of(term) if isinstance(names, tuple) else []
    if isinstance(names, tuple) and len(members) == len(names):
        for inner, member in zip(names, members):
            yield from _pairs(inner, member)
    else:
        yield names, term


def _stand(name: Name, ref: Ref) -> None:
    """Let a name stand for what a reference, which it is the only use of, refers to."""
    name.alias = ref.name, ref.path
    ref.name.uses += name.uses - 1
    ref.name.captured |= name.captured


def _name_after(inner: Name, outer: Name) -> None:
    """Call what a function returned as its caller did, if it did."""
    is_free = inner.is_weak or not inner.is_given
    if is_free and not inner.is_parameter:
        inner.is_given = outer.is_given
        if outer.is_given:
            inner.hint, inner.is_weak = outer.hint, outer.is_weak
            inner.is_foreign = outer.is_foreign
