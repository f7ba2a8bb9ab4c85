"""Loops that are one expression: comprehensions, and sums of what turns make.

ys = []                                     ys = [jnp.sin(x) for x in xs]
for x in xs:
    ys.append(jnp.sin(x))

total = 0                                   total = sum(jnp.sin(x) for x in xs)
for x in xs:
    total = total + jnp.sin(x)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from untrace.lifting.recorded.building import (
    call,
    display,
    items_of,
    starred,
    without_lead,
)
from untrace.lifting.recorded.folding import fold_all
from untrace.lifting.recorded.repeats.displays import Collection
from untrace.lifting.recorded.repeats.lists import left_by, list_of, take_items
from untrace.lifting.recorded.repeats.slots import ZERO, Run, carried, locals_in
from untrace.lifting.recorded.terms import (
    BARE,
    CALL,
    DICT,
    LIST,
    PARENS,
    TUPLE_OF,
    Group,
    Name,
    Part,
    Ref,
    Term,
    placed,
)
from untrace.lifting.recorded.tree import Draft, Loop, Names, Statement, flat
from untrace.syntax.precedence import LAMBDA, OR


def may_be_listed(
    turn: Sequence[Statement], stop: int, taken: Mapping[int, int]
) -> bool:
    """Whether all that a turn makes before its last value may be parts of that, or of a list.

    Args:
      turn: The statements of the turn.
      stop: Where the next turn ends.
      taken: Where values are taken alone (`taken_alone`).
    """
    return all(
        taken.get(id(statement.targets), 0) < stop and _is_part(statement.targets)
        for statement in turn[:-1]
    )


def taken_alone(statements: Sequence[Statement]) -> dict[int, int]:
    """Return where values are taken, and not as items of a display, by the `id` of names."""
    return {
        id(ref.name): position
        for position, statement in enumerate(statements)
        if not any(group.is_display for group in statement.term.groups())
        for ref in statement.term.refs()
    }


def is_expression(run: Run) -> bool:
    """Whether a loop over a run is one of these, as far as is known before."""
    last = run.turns[0][-1]
    if not all(_is_part(statement.targets) for statement in run.turns[0][:-1]):
        return False
    starts = carried(run)
    if not isinstance(last.targets, Name) or starts:
        return not run.left and list(starts.values()) == [ZERO]
    return run.left == frozenset([locals_in(run.turns[0])[id(last.targets)]])


def is_listed(run: Run) -> bool:
    """Whether a loop over a run may be one of these, or the list of several values."""
    return is_expression(run) or (bool(run.left) and not carried(run))


def _is_part(name: Names | None) -> bool:
    """Whether a value is only a part of what a turn makes, without a name."""
    if not isinstance(name, Name) or name.uses != 1:
        return False
    return not name.is_given or name.is_foreign


def total(loop: Loop, begins: Sequence[Statement], run: Run) -> Statement | None:
    """Write a loop that adds what its turns make to 0, if it does only that."""
    variable = _begun_at_0(begins)
    element = None if run.left or variable is None else _element(loop)
    if element is None or variable is None:
        return None
    added = _added(element, variable)
    if added is None:
        return None
    variable.uses -= 1
    ref = added.ref
    if ref is not None and loop.variables == (ref.name,) and not ref.path:
        ref.name.uses -= 1
        return _like(run, variable, call(Term(["sum"]), [loop.over]))
    return _made([loop], run, variable, CALL, added, ["sum"])


def nested_total(loop: Loop, begins: Sequence[Statement], run: Run) -> Statement | None:
    """Write loops in loops that add to 0 as `sum(f(x, w) for x in xs for w in ws)`.

    The program had a generator there, whose items it added outside of the loops.
    """
    variable = _begun_at_0(begins)
    loops = [loop]
    while (inner := _only_loop(loops[-1].body)) is not None:
        loops.append(inner)
    body = loops[-1].body
    is_outside = _depth(body[-1]) < max(map(_depth, body))
    if run.left or variable is None or len(loops) == 1 or not is_outside:
        return None
    element = _element(loops[-1])
    added = None if element is None else _added(element, variable)
    if added is None:
        return None
    return _made(loops, run, variable, CALL, added, ["sum"])


def _begun_at_0(begins: Sequence[Statement]) -> Name | None:
    """Return the variable of a loop, if it has one, which begins as 0."""
    if len(begins) != 1 or begins[0].term.parts != [ZERO]:
        return None
    variable = begins[0].targets
    return variable if isinstance(variable, Name) else None


def _added(element: Statement, variable: Name) -> Term | None:
    """Return what a turn adds to a variable, if it does only that."""
    if element.targets is not variable or len(element.term.parts) < 3:
        return None
    first, sign, *others = element.term.parts
    added = Term(list(others))
    is_sum = type(first) is Ref and (first.name, first.path) == (variable, ())
    if not is_sum or sign != " + ":
        return None
    if any(ref.name is variable for ref in added.all_refs()):
        return None
    if (ref := added.ref) is not None:
        return Term([Ref(ref.name, ref.path, LAMBDA)])
    return added


def _only_loop(body: Sequence[Statement]) -> Loop | None:
    """Return the loop that is all of a loop's turn, but for `total = total`."""
    rest = [one for one in body if not (one.is_start and _is_itself(one))]
    return rest[0].loop if len(rest) == 1 else None


def _is_itself(statement: Statement) -> bool:
    part = statement.term.ref
    return part is not None and (part.name, part.path) == (statement.targets, ())


def _depth(statement: Statement) -> int:
    """Return how many loops of the program a statement stands in."""
    return sum(place.depth for place in statement.trail if place is not None)


def comprehension(
    loop: Loop,
    run: Run,
    draft: Draft,
    rest: Sequence[Statement],
    collections: Sequence[Collection],
) -> Statement | None:
    """Write a loop whose turns make one value each, if that is one expression."""
    if collections:
        is_alone = len(collections) == 1 and not run.left
        return _collection(loop, run, collections[0]) if is_alone else None
    element = _element(loop) if len(run.left) == 1 else None
    if element is None:
        return None
    names = left_by(run, *run.left)
    if element.targets is not names[-1]:
        return None
    hints = {name.hint for name in names if name.is_given}
    if len(hints) == len(names):
        return _made([loop], run, tuple(names), TUPLE_OF, element.term)
    made = list_of(names, draft, rest)
    take_items(names, made)
    return _made([loop], run, made, LIST, element.term)


def _collection(loop: Loop, run: Run, one: Collection) -> Statement | None:
    """Write a list of containers, or a dict, that a loop fills with one item a turn."""
    if len(one.items) > 1:  # `features += [jnp.sin(x), jnp.cos(x)]`
        return None
    item = Statement(Name("item"), without_lead(one.items[0]))
    element = _element(Loop(loop.variables, loop.over, [*loop.body, item]))
    if element is None:
        return None
    if one.word:
        pair = Term([*one.word.parts, ": ", *placed(element.term, LAMBDA)])
        return _made([loop], run, one.name, DICT, pair)
    if not one.items[0].is_starred:
        made = _made([loop], run, one.name, LIST, element.term)
        return _with_head(made, one)
    inner = element.term.opened().group  # `[x * y for x in xs for y in ys]`
    if inner is None or not inner.tail:
        return None
    made = _made([loop], run, one.name, LIST, inner.items[0], inner=inner.tail)
    return _with_head(made, one)


def _with_head(made: Statement, one: Collection) -> Statement:
    """Let a list begin with what is of no turn, `[x, *[jnp.sin(y) for y in ys]]`."""
    if one.display.head:
        made.term = display("[]", [*one.display.head, starred(made.term)]).whole()
    return made


def _element(loop: Loop) -> Statement | None:
    """Return the last statement of a turn, if all others are folded into it."""
    *others, last = loop.body
    if any(not isinstance(statement.targets, Name) for statement in loop.body):
        return None
    fold_all(loop.body)
    targets = [statement.targets for statement in others]
    is_whole = all(isinstance(name, Name) and name.folded for name in targets)
    return last if is_whole else None


def _made(
    loops: Sequence[Loop],
    run: Run,
    targets: Names,
    kind: int,
    element: Term,
    before: Sequence[Part] = (),
    inner: Sequence[Part] = (),
) -> Statement:
    """Make the expression of a loop, and of those that are its only statements.

    Args:
      loops: The loops, the outermost first.
      run: The turns of that.
      targets: What the expression is assigned to.
      kind: What it makes.
      element: What each turn makes.
      before: What stands before its brackets.
      inner: The loops inside of these that the element has already.
    """
    tail, bound = list[Part](), list[Name]()
    for loop in loops:
        several = loop.variables
        names = several if len(several) > 1 else several[0] if several else None
        variables = _target(names) if names is not None else ["_"]
        tail += [" for ", *variables, " in ", *placed(loop.over, OR)]
        bound += flat(loop.variables)
    whole = Group(kind, items_of([element]), [*tail, *inner])
    made = _like(run, targets, Term([*before, whole]).whole())
    for name in bound:
        name.uses += 1
    inside = [n for loop in loops for statement in loop.body for n in statement.bound]
    made.bound = (*bound, *inside)
    return made


def _like(run: Run, targets: Names, term: Term) -> Statement:
    """Make a statement that stands for all turns of a run."""
    first = run.turns[0][0]
    made = Statement(targets, term, comment=first.comment, origin=first.origin)
    made.site, made.trail = first.site, first.trail
    made.context = first.context  # that of all of them: see `are_together`
    made.remarks = tuple([one for s in run.turns[0] for one in s.remarks])
    return made


def _target(names: Names) -> list[Part]:
    """Write the variables of a comprehension."""
    if isinstance(names, Name):
        return [Ref(names)]
    items = [Term(_target(name)) for name in names]
    nested = [
        item if isinstance(name, Name) else Term([Group(PARENS, [item])])
        for name, item in zip(names, items)
    ]
    return [Group(BARE, nested)]
