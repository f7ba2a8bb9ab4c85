"""Write turns that differ in one number as `jax.lax.scan` over stacked parameters.

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params[0:12])
    x, _ = jax.lax.scan(lambda carry, item: (layer(item, carry), None), x, stacked)

is another program of the same values than `x = layer(params[0], x)` and so on. Turns of
several statements are a function inside.
"""

from __future__ import annotations

from dataclasses import replace

from untrace.lifting.heads import Parameter
from untrace.lifting.recorded.building import (
    call,
    display,
    keyword,
    literal_term,
    starred,
)
from untrace.lifting.recorded.folding import finish
from untrace.lifting.recorded.repeats.slots import (
    Run,
    after_index,
    carried,
    first_parts,
    names_in,
)
from untrace.lifting.recorded.terms import Name, Part, Ref, Term, Token
from untrace.lifting.recorded.tree import Draft, Names, Statement
from untrace.syntax.precedence import LAMBDA
from untrace.syntax.steps import Slice


def scan_of(run: Run) -> list[Statement]:
    """Return the run as a scan over stacked trees; nothing if it has another form."""
    starts = carried(run)
    if len(starts) != 1 or not run.left <= starts.keys() or not _is_plain(run):
        return []
    ((local, start),) = starts.items()
    stacked = {
        (part.name, part.path[: slot.start], slot.first)
        for part, slot in first_parts(run)
        if type(part) is Ref and slot.kind == "index"
    }
    if type(start) is not Ref or len(stacked) > 1:
        return []
    for turn in run.turns:
        for statement in turn:
            for ref in statement.term.refs():
                ref.name.uses -= 1
    begins: list[Statement] = []
    over = keyword("length", literal_term(run.n_turns))
    item = Name("item" if stacked else "_", True, "item" if stacked else "_")
    for name, path, first in stacked:
        items = Name("stacked", True, uses=1)
        name.uses += 1
        stack = Term(["lambda *leaves: jnp.stack(leaves)"], LAMBDA)
        bounds = Slice(first, first + run.n_turns)
        taken = starred(Term([Ref(name, (*path, bounds))]))
        term = call(Term(["jax.tree.map"]), [stack, taken])
        begins.append(Statement(items, term))
        over = Term([Ref(items)])
    carry = Name("carry", True, "carry")
    if run.period == 1:
        made = display("()", [_moved(run, 0, carry, item, {}), Term(["None"])])
        step = Term([f"lambda carry, {item.text}: ", *made.parts], LAMBDA)
    else:
        carry = replace(names_in(run.turns[0])[local], uses=0)
        function = Name("step", True, uses=1)
        nested = _nested(run, local, carry, item)
        begins.append(Statement(function, nested=nested))
        step = Term([Ref(function)])
    start.resolved().name.uses += 1
    scan = call(Term(["jax.lax.scan"]), [step, Term([start]), over])
    last = names_in(run.turns[-1])[local]
    return [*begins, Statement((last, Name("_")), scan)]


def _is_plain(run: Run) -> bool:
    """Whether turns take items of one list, in order, and what the turn before made."""
    kinds = {"same", "carry", "index", "local"}
    others = [s.nested or s.loop or s.bound or s.is_effect for s in run.turns[0]]
    return (
        not any(others)
        and all(type(statement.term) is Term for statement in run.turns[0])
        and not any(name.captured for turn in run.turns for name in names_in(turn))
        and all(
            slot.kind in kinds
            and (slot.kind != "carry" or not slot.path)
            and slot.step > 0
            and (slot.kind != "index" or _is_own(part, run))
            for part, slot in first_parts(run)
        )
    )


def _is_own(part: Token, run: Run) -> bool:
    """Whether an item is written as a part of its list already."""
    return type(part) is Ref and id(part.resolved().name) not in run.draft.origins


def _nested(run: Run, local: int, carry: Name, item: Name) -> Draft:
    """Return the function of one turn."""
    names = names_in(run.turns[0])
    copies = {id(name): replace(name, uses=0) for name in names}
    known = {index: copies[id(name)] for index, name in enumerate(names)}
    made = Draft("step", [Parameter(carry), Parameter(item)])
    for index, statement in enumerate(run.turns[0]):
        term = _moved(run, index, carry, item, known)
        targets = _copied(statement.targets, copies)
        made.statements.append(replace(statement, targets=targets, term=term))
    known[local].uses += 1
    made.result = display("()", [Term([Ref(known[local])]), Term(["None"])])
    finish(made)
    return made


def _moved(
    run: Run, index: int, carry: Name, item: Name, known: dict[int, Name]
) -> Term:
    """Return the expression of a statement of the first turn as that of the function."""
    term = run.turns[0][index].term
    pieces: list[list[Part]] = []
    for part, slot in zip(term.tokens(), run.slots[index]):
        if type(part) is Ref:
            ref = part.resolved()
            if slot.kind == "carry":
                ref = Ref(carry, (), ref.level)
            elif slot.kind == "index":
                ref = Ref(item, after_index(ref.path, slot), ref.level)
            elif slot.kind == "local":
                ref = Ref(known[slot.local], ref.path, ref.level)
            else:
                ref.name.captured |= run.period > 1
            ref.name.uses += 1
            part = ref
        pieces.append([part])
    return term.of_parts(pieces)


def _copied(targets: Names | None, copies: dict[int, Name]) -> Names | None:
    if isinstance(targets, Name):
        return copies[id(targets)]
    return tuple([_copied(one, copies) or () for one in targets or ()])
