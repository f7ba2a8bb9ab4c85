"""Loops that are one expression: comprehensions, and sums of what turns make.

ys = []                                     ys = [jnp.sin(x) for x in xs]
for x in xs:
    ys.append(jnp.sin(x))

total = 0                                   total = sum(jnp.sin(x) for x in xs)
for x in xs:
    total = total + jnp.sin(x)
"""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.recorded.folding import fold_all
from untrace.lifting.recorded.repeats.displays import Collection, n_items
from untrace.lifting.recorded.repeats.lists import left_by, list_of, take_items
from untrace.lifting.recorded.repeats.slots import Run, carried, locals_in
from untrace.lifting.recorded.terms import Name, Part, Ref, Term, placed
from untrace.lifting.recorded.tree import Draft, Loop, Names, Statement, flat
from untrace.syntax.precedence import LAMBDA, OR


def may_be_expression(turn: Sequence[Statement]) -> bool:
    """Whether all that a turn makes before its last value are parts of that."""
    return all(_is_part(statement.targets) for statement in turn[:-1])


def is_expression(run: Run) -> bool:
    """Whether a loop over a run is one of these, as far as is known before."""
    last = run.turns[0][-1]
    if not may_be_expression(run.turns[0]):
        return False
    starts = carried(run)
    if not isinstance(last.targets, Name) or starts:
        return not run.left and list(starts.values()) == ["0"]
    return run.left == frozenset([locals_in(run.turns[0])[id(last.targets)]])


def _is_part(name: Names | None) -> bool:
    """Whether a value is only a part of what a turn makes, without a name."""
    if not isinstance(name, Name) or name.uses != 1:
        return False
    return not name.is_given or name.is_foreign


def total(
    loop: Loop, begins: Sequence[Statement], run: Run, draft: Draft
) -> Statement | None:
    """Write a loop that adds what its turns make to 0, if it does only that."""
    if run.left or len(begins) != 1 or begins[0].term.parts != ["0"]:
        return None
    variable, element = begins[0].targets, _element(loop, draft)
    if not isinstance(variable, Name) or element is None:
        return None
    if element.targets is not variable:
        return None
    first, sign, *others = element.term.parts
    added = Term(others)
    if type(first) is not Ref or (first.name, first.path, sign) != (
        variable,
        "",
        " + ",
    ):
        return None
    if any(ref.name is variable for ref in added.all_refs()):
        return None
    variable.uses -= 1
    whole = placed(added, LAMBDA)
    if len(others) == 1 and type(others[0]) is Ref:
        ref = others[0]
        whole = [Ref(ref.name, ref.path, LAMBDA)]
        if loop.variables == (ref.name,) and not ref.path:
            ref.name.uses -= 1
            return _like(run, variable, Term(["sum(", *loop.over.parts, ")"]))
    return _made(loop, run, variable, ["sum(", *whole], [")"])


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
        return _collection(loop, run, draft, collections[0]) if is_alone else None
    element = _element(loop, draft) if len(run.left) == 1 else None
    if element is None:
        return None
    names = left_by(run, *run.left)
    if element.targets is not names[-1]:
        return None
    parts = placed(element.term, LAMBDA)
    hints = {name.hint for name in names if name.is_given}
    if len(hints) == len(names):
        return _made(loop, run, tuple(names), ["(", *parts], [")"])
    made = list_of(names, draft, rest)
    take_items(names, made)
    return _made(loop, run, made, ["[", *parts], ["]"])


def _collection(
    loop: Loop, run: Run, draft: Draft, one: Collection
) -> Statement | None:
    """Write a list of containers, or a dict, that a loop fills with one item a turn."""
    if n_items(one.item.parts) > 1:  # `features += [jnp.sin(x), jnp.cos(x)]`
        return None
    item = Statement(Name("item"), one.item)
    element = _element(Loop(loop.variables, loop.over, [*loop.body, item]), draft)
    if element is None:
        return None
    parts = placed(element.term, LAMBDA)
    if one.word:
        return _made(loop, run, one.name, ["{", *one.word, ": ", *parts], ["}"])
    if parts[0] != "*":
        return _made(loop, run, one.name, ["[", *parts], ["]"])
    inner = _inner(parts[1:])
    return inner and _made(loop, run, one.name, *inner)


def _inner(parts: Sequence[Part]) -> tuple[list[Part], list[Part]] | None:
    """Split a comprehension behind its element: `[x * y for x in xs for y in ys]`."""
    (whole,) = parts if len(parts) == 1 else (None,)
    name = whole.resolved().name if type(whole) is Ref else None
    made = list(name.folded.parts) if name is not None and name.folded else []
    if made.count(" for ") != 1:
        return None
    place = made.index(" for ")
    return made[:place], made[place:]


def _element(loop: Loop, draft: Draft) -> Statement | None:
    """Return the last statement of a turn, if all others are folded into it."""
    *others, last = loop.body
    if any(not isinstance(statement.targets, Name) for statement in loop.body):
        return None
    fold_all(loop.body)
    targets = [statement.targets for statement in others]
    is_whole = all(isinstance(name, Name) and name.folded for name in targets)
    return last if is_whole else None


def _made(
    loop: Loop, run: Run, targets: Names, parts: list[Part], end: list[Part]
) -> Statement:
    several = loop.variables
    names = several if len(several) > 1 else several[0] if several else None
    variables = _target(names) if names is not None else ["_"]
    over = placed(loop.over, OR)
    term = Term([*parts, " for ", *variables, " in ", *over, *end])
    made = _like(run, targets, term.whole())
    bound = [name for statement in loop.body for name in statement.bound]
    made.bound = (*flat(loop.variables), *bound)
    for name in flat(loop.variables):
        name.uses += 1
    return made


def _like(run: Run, targets: Names, term: Term) -> Statement:
    """Make a statement that stands for all turns of a run."""
    first = run.turns[0][0]
    made = Statement(targets, term, comment=first.comment, origin=first.origin)
    made.site, made.trail = first.site, first.trail
    made.remarks = tuple([one for s in run.turns[0] for one in s.remarks])
    return made


def _target(names: Names) -> list[Part]:
    """Write the variables of a comprehension."""
    if isinstance(names, Name):
        return [Ref(names)]
    parts: list[Part] = []
    for name in names:
        inner = _target(name)
        inner = inner if isinstance(name, Name) else ["(", *inner, ")"]
        parts += [*([", "] if parts else []), *inner]
    return parts
