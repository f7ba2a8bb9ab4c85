"""Put expressions where their values are used, as the user had written them.

Folding never changes the order of evaluation: with another order, cotangents would be
added in another order too. Pending expressions are kept on a stack; a statement may take
the topmost ones if it evaluates them in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.recorded.functions.returned import MAX_LINE, is_long_tuple
from untrace.lifting.recorded.terms import TUPLE_OF, Literal, Name, Ref, Term
from untrace.lifting.recorded.tree import Draft, Loop, Names, Statement, flat, is_folded
from untrace.optional import gives, optional

# Characters of an expression that is written inside another, as it was in the program:
# one of the user's, one of a library's, and one that a library had given a name.
MAX_OWN, MAX_FOLDED, MAX_FOREIGN = 800, 72, 56
MAX_COMPREHENSION = 110
FOREVER = 1 << 60


def finish(draft: Draft, is_again: bool = False) -> None:
    """Drop statements that nothing uses, fold single uses, note last uses."""
    drop_dead(draft)
    fold(draft)
    note_last_uses(draft, is_again)


def drop_dead(draft: Draft, keeps_turns: bool = False) -> None:
    """Drop the statements whose results nothing uses.

    Args:
      keeps_turns: Keep what the last turn of a loop computes and only the next one would
        need, so that loops have all of their turns.
    """
    dead: list[int] = []
    for position in reversed(range(len(draft.statements))):
        statement = draft.statements[position]
        if statement.loop is not None:
            _drop_in(statement.loop)
        if not (statement.is_effect or _is_used(statement)):
            dead.append(position)
            _count(statement, -1)
    if dead:
        dropped = {*dead}
        if keeps_turns:
            dropped.difference_update(_of_last_turns(draft.statements, dead))
            numbers = {n for n in dead if _is_number(draft.statements[n])}
            dropped -= numbers  # loops may count to them
        statements = enumerate(draft.statements)
        draft.statements = [one for n, one in statements if n not in dropped]


def _is_number(statement: Statement) -> bool:
    """Whether a statement assigns a number to a variable: `n = 3`."""
    is_text = all(isinstance(part, (str, Literal)) for part in statement.term.tokens())
    return is_text and isinstance(statement.targets, Name) and not statement.nested


def _drop_in(loop: Loop) -> None:
    """Drop the statements of a loop whose results nothing uses, unless it has no others."""
    kept: list[Statement] = []
    for statement in reversed(loop.body):
        if statement.loop is not None:
            _drop_in(statement.loop)
        is_other = statement.is_effect or statement.nested is not None
        if is_other or statement.loop is not None or _is_used(statement):
            kept.insert(0, statement)
        else:
            _count(statement, -1)
    loop.body = kept or loop.body


def _of_last_turns(statements: Sequence[Statement], dead: Sequence[int]) -> list[int]:
    """Return which dead statements the turn before has use for.

    With them is what they need. `dead` lists the last ones first.
    """
    alive = {*range(len(statements))} - {*dead}
    latest: dict[object, int] = {}
    of_last_turns: set[int] = set()
    for position, statement in enumerate(statements):
        place = _place_in_loop(statement)
        if place is None:
            continue
        if position not in alive and latest.get(place) in alive:
            of_last_turns.add(position)
        latest[place] = position
    kept: list[int] = []
    for position in dead:
        statement = statements[position]
        if position in of_last_turns or _is_used(statement):
            kept.append(position)
            _count(statement, 1)
    return kept


def _place_in_loop(statement: Statement) -> object:
    """Return where the source has a statement, if that is in a loop."""
    loops = [place.loop for place in statement.trail if place is not None]
    return statement.trail if any(loop is not None for loop in loops) else None


def _is_used(statement: Statement) -> bool:
    return any(name.uses or name.captured for name in flat(statement.targets))


def _count(statement: Statement, n: int) -> None:
    """Count the references of a statement to names."""
    for ref in statement.term.refs():
        ref.name.uses += n


def _return_call(draft: Draft) -> None:
    """Return the last call as it is, if a library names its parts and returns them."""
    last = draft.statements[-1] if draft.statements else Statement()
    names = list(flat(last.targets))
    is_call = isinstance(last.targets, tuple) and not (last.is_row or last.items)
    if draft.result is None or not (is_call and last.is_tuple):
        return
    if any(name.is_given and not name.is_foreign for name in names):
        return
    is_only = all(name.uses == 1 and not name.captured for name in names)
    if is_only and _is_made_of(draft.result, last.targets):
        draft.statements.pop()
        draft.result = last.term


@optional(gives(None))
def fold(draft: Draft) -> None:
    """Put expressions where their values are used."""
    _return_call(draft)
    pending = fold_all(draft.statements)
    if draft.result is not None:
        waiting = list(pending)
        _take(draft.result, pending)
        if is_long_tuple(draft.result):
            _keep_foreign([name for name, _ in waiting])
        if any(name.folded is not None for name, _ in waiting):
            draft.returned_in = waiting[-1][1].items


def fold_all(statements: Sequence[Statement]) -> list[tuple[Name, Statement]]:
    """Fold expressions into statements; return what could be folded after them."""
    pending: list[tuple[Name, Statement]] = []
    for statement in statements:
        if statement.nested is not None:
            if statement.nested.is_run:
                for term in statement.nested.decorators:
                    _take(term, pending)
                pending.clear()
            continue
        if pending and pending[-1][1].items != statement.items:
            pending.clear()
        if statement.loop is not None:
            over = statement.loop.over
            if over.ref is not None and pending and _is_short(pending[-1][1]):
                _take(over, pending)
            fold_all(statement.loop.body)
            pending.clear()
            continue
        if statement.bound:  # what is before it is not evaluated in every turn
            pending.clear()
        if statement.is_start and _only_names(statement, pending):
            continue  # it only gives a variable of the loop another name
        _take(statement.term, pending)
        name = statement.targets
        if (
            isinstance(name, Name)
            and (not name.is_given or name.is_foreign)
            and name.uses == 1
            and not name.captured
            and not statement.is_effect
            and not statement.is_start
        ):
            pending.append((name, statement))
        else:
            pending.clear()
    return pending


def _only_names(start: Statement, pending: Sequence[tuple[Name, Statement]]) -> bool:
    """Whether a variable begins as another that is there, and nothing that waits reads it."""
    first = start.term.ref
    if first is None or any(name is first.name for name, _ in pending):
        return False
    read = [ref.name for _, one in pending for ref in one.term.all_refs()]
    return all(name is not start.targets for name in read)


def _is_short(statement: Statement) -> bool:
    """Whether an expression may stand in the head of a loop."""
    return not statement.bound and statement.term.length() <= MAX_FOREIGN


def _take(term: Term, pending: list[tuple[Name, Statement]]) -> None:
    """Fold the topmost pending expressions into a term that uses them in order."""
    waiting = {id(name): position for position, (name, _) in enumerate(pending)}
    used = [waiting[id(r.name)] for r in term.refs() if id(r.name) in waiting]
    order = {position: index for index, position in enumerate(used)}
    first = after = len(pending)
    while first and order.get(first - 1, after) < order.get(first, len(used)):
        first -= 1
    is_whole = term.ref is not None
    is_full = is_split = False
    for position in range(first, len(pending)):
        name, statement = pending[position]
        unnamed = MAX_FOLDED if name.is_foreign else MAX_OWN
        unnamed = MAX_COMPREHENSION if statement.bound else unnamed
        limit = MAX_FOREIGN if name.is_given else unnamed
        fits = statement.term.length() <= limit
        is_full |= fits and name.is_given and _fills_line(term, statement.term)
        if is_whole or (fits and not (is_full and name.is_given)):
            name.folded = statement.term
        else:  # what was evaluated before it must stay before it
            is_split = True
            for earlier in range(first, position):
                pending[earlier][0].folded = None
    del pending[0 if is_split else first :]


def note_last_uses(draft: Draft, is_again: bool = False) -> None:
    """Note behind which statements values are not read any more.

    Lambdas read what they do in the statements that they stand in. Of a function around
    this one that is done again, more is known already.
    """
    for name in draft.own_locals():
        name.last_use = -1
    found: dict[Name, int] = {}
    for index, statement in enumerate(draft.statements):
        if statement.loop is not None:
            for term in statement.loop.terms():
                _mark(term, index, found)
        elif statement.nested is not None:
            for term in statement.nested.decorators:
                _mark(term, index, found)
        elif not is_folded(statement.targets):
            _mark(statement.term, index, found)
    if draft.result is not None:
        _mark(draft.result, FOREVER, found)
    for name, last_use in found.items():
        name.last_use = max(last_use, name.last_use if is_again else -1)


def _mark(term: Term, index: int, found: dict[Name, int]) -> None:
    for ref in term.refs():
        found[ref.name] = max(found.get(ref.name, -1), index)
        if ref.name.folded is not None:
            _mark(ref.name.folded, index, found)


def _fills_line(around: Term, term: Term) -> bool:
    """Whether one line would be too short for an expression inside another.

    Then values that a library had given a name keep it, all of them. A method of the
    expression only follows it: `(...).reshape(2, -1)` is no expression around it.
    """
    if isinstance(around.parts[0], Ref) and sum(1 for _ in around.refs()) == 1:
        return False
    before = around.length()
    return before <= MAX_LINE < before + term.length()


def _keep_foreign(names: Sequence[Name]) -> None:
    """Keep the names that a library gave, and those of what is evaluated before."""
    last = max([i for i, name in enumerate(names) if name.is_given], default=-1)
    for name in names[: last + 1]:
        name.folded = None


def _is_made_of(term: Term, targets: Names | None) -> bool:
    """Whether an expression is the tuple of what is assigned to targets."""
    group = term.group
    if not isinstance(targets, tuple):
        return term.ref is not None and (term.ref.name, term.ref.path) == (targets, ())
    if group is None or group.kind != TUPLE_OF or len(group.items) != len(targets):
        return False
    return all(map(_is_made_of, group.items, targets))
