"""Statements of a loop's turn that are assigned at once: `a, b = f(b), g(a)`.

A turn that needs the value of the turn before after it has made its own one cannot be
written statement by statement. All statements from the one that makes the value to the
last that needs the old one become one assignment, with what they use folded in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from untrace.lifting.recorded.building import joined as joined_terms
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Statement, defined, flat


def assigned_at_once(
    turn: Sequence[Statement], needed: Sequence[tuple[int, int]]
) -> range | None:
    """Return which statements of a turn are one assignment; none of them mostly.

    Args:
      needed: Which statement needs the value of the turn before of which local one.

    Returns:
      The statements; None if they cannot be one.
    """
    makers = _makers(turn)
    late = [(makers[local], user) for user, local in needed if makers[local] < user]
    if not late:
        return range(0)
    first, last = min(made for made, _ in late), max(user for _, user in late)
    while last + 1 < len(turn) and _is_taken(turn[last], turn[last + 1]):
        last += 1
    group = turn[first : last + 1]
    return range(first, last + 1) if _are_apart(group) else None


def updated_last(
    turn: Sequence[Statement], needed: Sequence[tuple[int, int]]
) -> frozenset[int]:
    """Return which local values are made before the last need of those that they replace.

    Their variables can have them where the turn ends: `rz = rz_new`.
    """
    makers = _makers(turn)
    return frozenset([local for user, local in needed if makers[local] < user])


def _makers(turn: Sequence[Statement]) -> list[int]:
    """Return which statement makes each value of a turn."""
    return [n for n, statement in enumerate(turn) for _ in defined(statement)]


def _is_taken(statement: Statement, following: Statement) -> bool:
    """Whether a value has no name and is a part of the next one."""
    return _is_part(statement) and any(
        ref.name is statement.targets for ref in following.term.refs()
    )


def _is_part(statement: Statement) -> bool:
    name = statement.targets
    return (
        isinstance(name, Name)
        and (not name.is_given or name.is_foreign)
        and name.uses == 1
        and not name.captured
    )


def _are_apart(group: Sequence[Statement]) -> bool:
    """Whether what is assigned does not depend on what else is, in this order."""
    pending: list[int] = []
    known = {id(name) for statement in group for name in flat(statement.targets)}
    for statement in group:
        used = [id(r.name) for r in statement.term.refs() if id(r.name) in known]
        if used != pending[len(pending) - len(used) :]:
            return False
        del pending[len(pending) - len(used) :]
        if not isinstance(statement.targets, Name):
            return False
        if _is_used(statement, group):
            if not _is_part(statement):
                return False
            pending.append(id(statement.targets))
        elif pending:
            return False
    return not pending


def _is_used(statement: Statement, group: Sequence[Statement]) -> bool:
    refs: Iterator[Ref] = (ref for other in group for ref in other.term.refs())
    return any(ref.name is statement.targets for ref in refs)


def joined(
    body: Sequence[Statement], turn: Sequence[Statement], group: range
) -> list[Statement]:
    """Make one assignment of some statements of a loop's body.

    `turn` is the first turn, where what a statement makes has no name of a carry.
    """
    if len(group) == 0:
        return list(body)
    statements, first = (s[group.start : group.stop] for s in (body, turn))
    finals: list[Name] = []
    made_at_once: list[Term] = []
    for statement, begin in zip(statements, first):
        name = statement.targets
        assert isinstance(name, Name)
        if _is_used(begin, first):
            name.folded = statement.term
            continue
        made_at_once.append(statement.term)
        finals.append(name)
    made = Statement(tuple(finals), joined_terms(made_at_once))
    made.comment, made.origin = statements[0].comment, statements[0].origin
    made.remarks = tuple([one for s in statements for one in s.remarks])
    return [*body[: group.start], made, *body[group.stop :]]
