"""Write statements that repeat as a Python loop, or as a scan (`reroll=`).

`x = layer(params[0], x)`, `x = layer(params[1], x)`, ... becomes

    for layer_params in params:
        x = layer(layer_params, x)

Python runs the same statements, so the equations are the same. By default a loop is
written where the program had one: the statements come from the same places of its code.
"for" asks for a loop wherever stretches are alike, and "scan" for

    layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params[0:12])
    x, _ = jax.lax.scan(lambda carry, item: (layer(item, carry), None), x, layers)

which is another program of the same values: it compiles once for all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from untrace.lifting.recorded.building import display, starred
from untrace.lifting.recorded.repeats.comprehensions import (
    comprehension,
    is_expression,
    is_listed,
    may_be_listed,
    nested_total,
    taken_alone,
    total,
)
from untrace.lifting.recorded.repeats.displays import (
    Collection,
    are_collected,
    collections_of,
    put_into,
    write_collected,
)
from untrace.lifting.recorded.repeats.first_turns import (
    Completion,
    complete_first_turns,
    with_completions,
)
from untrace.lifting.recorded.repeats.joint import joined
from untrace.lifting.recorded.repeats.kept_contexts import are_together
from untrace.lifting.recorded.repeats.lists import (
    leave,
    left_by,
    take_from_end,
    take_variables,
    terms_of,
)
from untrace.lifting.recorded.repeats.loop_headers import Header
from untrace.lifting.recorded.repeats.older import (
    second_variables,
    updated_variables,
)
from untrace.lifting.recorded.repeats.program_turns import (
    are_across,
    are_of_one_loop,
    begins_anew,
)
from untrace.lifting.recorded.repeats.scans import scan_of
from untrace.lifting.recorded.repeats.slots import (
    Run,
    calls_variable,
    carried,
    kind_of,
    names_in,
    plain_text,
)
from untrace.lifting.recorded.repeats.turn_body import TurnBody
from untrace.lifting.recorded.repeats.turns import Search, depth_of, n_next_rows, run_at
from untrace.lifting.recorded.terms import Global, Literal, Name, Ref, Term, Token
from untrace.lifting.recorded.tree import Draft, Loop, Statement, flat
from untrace.optional import gives, optional

MAX_PERIOD = 400
MAX_INNER_TURNS = 16
"""How often what stands in loops of loops comes again before it is no turn's first."""


@optional(gives(None))
def write_loops(draft: Draft, reroll: str) -> None:
    """Replace statements of a function that repeat by loops.

    Args:
      reroll: "auto", "for" or "scan".
    """
    if reroll == "for":  # those of the program, and more
        write_loops(draft, "auto")
    for statement in draft.statements:  # a lambda has its expression folded into it
        statement.term = statement.term.whole()
    completions: list[Completion] = []
    if reroll == "auto":
        sites = [_site(statement, reroll) for statement in draft.statements]
        completions = complete_first_turns(draft.statements, sites, _following(sites))
        draft.statements = with_completions(draft.statements, completions)
    _write_all(draft, reroll, _site)
    if any(map(calls_variable, draft.statements)):
        _write_all(draft, reroll, _site_of_functions)
    left = [one for one in completions if one.made in draft.statements]
    for one in left:
        one.undo()
    if left:
        made = [one.made for one in left]
        draft.statements = [one for one in draft.statements if one not in made]


def _write_all(
    draft: Draft,
    reroll: str,
    site_of: Callable[[Statement, str], object],
) -> None:
    """Write the loops that are expressions, which other loops may hold, and the others."""
    if reroll != "scan":
        _write_loops(draft, reroll, is_listed, site_of)
    _write_loops(draft, reroll, site_of=site_of)


def _any(*_: object) -> bool:
    return True


def _write_loops(
    draft: Draft,
    reroll: str,
    is_wanted: Callable[[Run], bool] = _any,
    site_of: Callable[[Statement, str], object] | None = None,
) -> None:
    statements = draft.statements
    sites = [(site_of or _site)(statement, reroll) for statement in statements]
    following = _following(sites)
    rows = {
        id(name): (statement, index)
        for statement in statements
        if statement.whole is not None and isinstance(statement.targets, tuple)
        for index, name in enumerate(statement.targets)
    }
    may_be_wanted: Callable[[Sequence[Statement], int], bool] = _any
    if is_wanted is is_listed:
        may_be_wanted = partial(may_be_listed, taken=taken_alone(statements))
    search = Search(draft, sites, rows, is_wanted, may_be_wanted)
    made: list[Statement] = []
    position = 0
    while position < len(statements):
        runs = [
            run_at(position, period, search)
            for period in _periods(position, following, statements)
            if period <= MAX_PERIOD
        ]
        found = [run for run in runs if run and not are_across(run.turns)]
        if is_wanted is not _any:
            found = [run for run in found if not _goes_on(run, position, sites)]
        if is_wanted is is_listed:
            found = [run for run in found if _is_one(run, draft, statements[position:])]
        run = max(found, key=_preference, default=None)
        if run is None:
            made.append(statements[position])
            position += 1
            continue
        stretch = statements[position : position + run.n_turns * run.period]
        position += len(stretch)
        scan = scan_of(run) if reroll == "scan" else []
        made += scan or _loop(run, draft, statements[position:])
    draft.statements = made


def _preference(run: Run) -> tuple[int, bool]:
    """Return what is best if it is greatest: loops of all that they can hold."""
    return run.n_turns * run.period, are_of_one_loop(run.turns)


def _site(statement: Statement, reroll: str) -> object:
    """Return what the same statement of another turn has in common with it."""
    if statement.nested is not None or statement.loop is not None:
        return None
    if statement.targets is None or (statement.is_effect and statement.site is None):
        return None
    if reroll == "auto":
        if statement.row is None or not statement.row.is_next:
            return statement.site, _called(statement)
        # JAX takes the rows of all arrays at one place.
        return statement.site, *[(id(r.name), r.path) for r in statement.term.refs()]
    return tuple(map(_kind, statement.term.tokens()))


def _kind(token: Token) -> object:
    """Return what a part of a statement of another turn has in common with this one."""
    if type(token) is Ref:
        return None
    return (type(token) is Literal and kind_of(token)) or plain_text(token)


def _site_of_functions(statement: Statement, reroll: str) -> object:
    """Return the site of a statement in a loop over functions, which calls others."""
    parts, usual = statement.term.parts, _site(statement, reroll)
    is_call = bool(parts) and type(parts[0]) is Global and calls_variable(statement)
    is_other = is_call and statement.row is None and usual is not None
    return (statement.site, is_call) if is_other else usual


def _called(statement: Statement) -> str:
    """Return what a statement calls: one place of the program may make several calls."""
    parts = (p for p in statement.term.tokens() if type(p) is Global and not p.number)
    return next((part.text for part in parts), "")


def _following(sites: Sequence[object]) -> list[int]:
    """Return for every statement the next one of the same site, or 0."""
    latest: dict[object, int] = {}
    found = [0] * len(sites)
    for position in reversed(range(len(sites))):
        if sites[position] is not None:
            found[position] = latest.get(sites[position], 0)
            latest[sites[position]] = position
    return found


def _periods(
    position: int, following: Sequence[int], statements: Sequence[Statement]
) -> Iterator[int]:
    """Yield how many statements a turn may have that begins at a position.

    One that is only in one loop of the program begins the next turn when it comes again,
    by the same calls. In loops of loops it does so, too, where the innermost one begins
    anew.
    """
    first, start = statements[position], position
    is_inner = depth_of(first.trail) > 1
    n_tried = MAX_INNER_TURNS if is_inner else 1
    is_next = True
    while n_tried > 0 and following[position] > 0:
        before, position = statements[position], following[position]
        other = statements[position]
        is_again = is_inner or other.trail == first.trail
        if is_next or (begins_anew(before, other, first) if is_inner else is_again):
            n_tried -= is_again
            yield position - start
        elif position - start > MAX_PERIOD:
            return
        is_next = False


def _goes_on(run: Run, position: int, sites: Sequence[object]) -> bool:
    """Whether a sum goes on behind its turns, in a loop around this one."""
    stop = position + run.n_turns * run.period
    first = sites[position : position + run.period]
    return bool(carried(run)) and list(sites[stop : stop + run.period]) == list(first)


def _is_one(run: Run, draft: Draft, following: Sequence[Statement]) -> bool:
    """Whether a loop over a run can be one expression, by what follows its first turn."""
    rest = following[run.n_turns * run.period :]
    is_one = is_expression(run) or are_collected(run, draft, rest)
    return is_one and are_together(run.turns)


# ---- writing it --------------------------------------------------------------------


def _loop(run: Run, draft: Draft, rest: Sequence[Statement]) -> list[Statement]:
    """Write the loop, and before it what its variables begin with."""
    last = run.turns[-1]
    for turn in run.turns:
        for statement in turn:
            for ref in statement.term.refs():
                ref.name.uses -= 1
    header = Header(run, draft)
    n_rows = n_next_rows(run)
    for statement in last[:n_rows]:
        header.next_row(statement)
    seconds, updated = second_variables(run, draft), updated_variables(run, draft)
    turn = TurnBody(run, header, seconds, updated)
    body = [turn.statement(index) for index in range(n_rows, run.period)]
    body += turn.updates()
    take_from_end(header.ends, terms_of(draft, rest))
    collections = collections_of(run, draft, rest, header.word)
    loop = Loop(*header.finished(), body)
    begins = [turn.starts[key] for key in sorted(turn.starts)]
    for term in [*(one.term for one in (*begins, *body)), loop.over]:
        for ref in term.refs():
            ref.name.uses += 1
    at_once = range(run.at_once.start - n_rows, run.at_once.stop - n_rows)
    loop.body = joined(body, run.turns[0][n_rows:], at_once)
    write_collected(collections, run, draft, rest)
    collections = _with_inner_expressions(run, loop, draft, collections)
    is_together = are_together(run.turns)
    short = total(loop, begins, run) if is_together else None
    if is_together and short is None and not begins:
        short = comprehension(loop, run, draft, rest, collections)
    if short is not None:
        return [short]
    before = [(name, replace(name)) for one in begins for name in flat(one.targets)]
    for begin in begins:
        for variable in flat(begin.targets):
            variable.uses += 2  # of the loop itself
            variable.hint = _hint_of(variable, run)
            variable.is_given, variable.is_foreign = True, False
    begins.sort(key=_keeps_its_name)
    lists = [*leave(run, loop, draft, rest), *put_into(collections, loop)]
    take_variables([name for one in lists for name in flat(one.targets)], rest)
    begins = [one for one in begins if not _is_in_list(one)]
    if _may_hold_loops(loop):
        inside = replace(draft, statements=loop.body, result=None)
        _write_loops(inside, "auto")
        loop.body = inside.statements
        is_total = is_together and not lists
        short = nested_total(loop, begins, run) if is_total else None
        if short is not None:
            for name, saved in before:
                name.is_given, name.is_foreign = saved.is_given, saved.is_foreign
                name.uses = saved.uses - 1
            return [short]
    given = [*begins, *(s for s in loop.body if not s.is_effect)]
    targets = (*loop.variables, *[n for s in given for n in flat(s.targets)])
    # What a list begins with may be what a variable begins as, and becomes it then.
    begun = [one for one in lists if any(True for _ in one.term.refs())]
    empty = [one for one in lists if one not in begun]
    return [*begun, *begins, *empty, Statement(targets, loop=loop)]


def _keeps_its_name(begin: Statement) -> bool:
    """Whether a variable begins as one of its name, which no other may begin as later."""
    (variable,) = flat(begin.targets)
    held = list(begin.term.refs())
    return (
        len(begin.term.parts) == len(held) == 1 and held[0].name.hint == variable.hint
    )


def _hint_of(variable: Name, run: Run) -> str:
    """Return what the program calls what turns hand on: `x = history[-1]` in the next one."""
    position = run.locals_of(-1).get(id(variable))
    if variable.is_given or position is None:
        return variable.hint
    before = names_in(run.turns[-2])[position]
    return before.hint if before.is_given and not before.is_weak else variable.hint


def _is_in_list(begin: Statement) -> bool:
    """Whether what a variable begins as is the first item of a list, as it is the last."""
    if not any(name.alias is not None for name in flat(begin.targets)):
        return False
    for ref in begin.term.refs():
        ref.name.uses -= 1
    return True


def _may_hold_loops(loop: Loop) -> bool:
    """Whether some statements of a loop stand in another one inside of it."""
    return any(depth_of(statement.trail) > 1 for statement in loop.body)


def _with_inner_expressions(
    run: Run, loop: Loop, draft: Draft, collections: Sequence[Collection]
) -> list[Collection]:
    """Write the loops of a turn that are expressions, which the turn may be then, too.

    What a turn adds to a collection, `[f(x, w) for w in ws]`, is among them.
    """
    n_left = len(run.left) + len(collections)
    is_last = all(left_by(run, i)[-1] is loop.body[-1].targets for i in run.left)
    if n_left > 1 or not is_last or not _may_hold_loops(loop):
        return list(collections)
    items = [Statement(Name("item"), _as_list(one)) for one in collections]
    inside = replace(draft, statements=[*loop.body, *items], result=None)
    _write_loops(inside, "auto", is_listed)
    n_body = len(inside.statements) - len(items)
    loop.body = inside.statements[:n_body]
    return [
        replace(one, display=replace(one.display, items=_items_of(item.term)))
        for one, item in zip(collections, items)
    ]


def _as_list(one: Collection) -> Term:
    """Return the list of what a turn adds."""
    return display("[]", one.items)


def _items_of(whole: Term) -> tuple[Term, ...]:
    """Return what a turn adds, of which this is the list."""
    group = whole.group
    return (starred(whole),) if group is None or group.tail else tuple(group.items)
