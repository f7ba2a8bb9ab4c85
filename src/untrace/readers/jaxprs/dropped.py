"""Tell the results of a jaxpr apart that JAX calls `_`, all of them.

It does so for variables of a function that is called, if nothing outside uses them. Where
several are called so, types tell which one is which result; between those of one type
the order of their equations does, and it makes no difference to what is computed.
"""

from __future__ import annotations

from typing import Any

from untrace.readers.jaxprs.bodies import CALLS
from untrace.readers.jaxprs.syntax import Block, Blocks, Equation, Name, Printed

DROPPED = "_"


def with_names_of_dropped(tree: Printed) -> Printed:
    """Return a tree in which results of called jaxprs have names, where that is certain."""
    return tree._replace(
        block=_renamed(tree.block),
        shared={name: _renamed(block) for name, block in tree.shared.items()},
    )


def _renamed(block: Block) -> Block:
    """Return a jaxpr with names in those that it calls; itself if all have them."""
    equations = [_in_equation(eqn) for eqn in block.equations]
    if all(new is old for new, old in zip(equations, block.equations)):
        return block
    return block._replace(equations=equations)


def _in_equation(eqn: Equation) -> Equation:
    changed: dict[str, Any] = {}
    for name, value in eqn.params.items():
        made = value
        if isinstance(value, Block):
            made = _renamed(value)
            if name == CALLS.get(eqn.primitive):
                made = _called(made, eqn)
        elif isinstance(value, Blocks):
            items = [_renamed(i) if isinstance(i, Block) else i for i in value.items]
            if any(new is not old for new, old in zip(items, value.items)):
                made = value._replace(items=tuple(items))
        if made is not value:
            changed[name] = made
    return eqn._replace(params={**eqn.params, **changed}) if changed else eqn


def _called(block: Block, eqn: Equation) -> Block:
    """Return a jaxpr that an equation calls, whose results have names."""
    unnamed = [
        position
        for position, (atom, binder) in enumerate(zip(block.outvars, eqn.binders))
        if _is_dropped(atom) and binder.name == DROPPED
    ]
    free = [
        (row, column)
        for row, inner in enumerate(block.equations)
        for column, binder in enumerate(inner.binders)
        if binder.name == DROPPED
    ]
    used = any(_is_dropped(atom) for e in block.equations for atom in e.operands)
    if used or not unnamed or len(free) < 2:
        return block
    equations, outvars = [*block.equations], [*block.outvars]
    for position in unnamed:
        kind = eqn.binders[position].type
        place = next((p for p in free if _binder(equations, p).type == kind), None)
        if place is None:
            return block
        free.remove(place)
        row, column = place
        binders = [*equations[row].binders]
        name = f"_{position}"
        binders[column] = binders[column]._replace(name=name)
        equations[row] = equations[row]._replace(binders=binders)
        outvars[position] = outvars[position]._replace(text=name)
    return block._replace(equations=equations, outvars=outvars)


def _binder(equations: list[Equation], place: tuple[int, int]) -> Any:
    return equations[place[0]].binders[place[1]]


def _is_dropped(atom: Any) -> bool:
    return isinstance(atom, Name) and atom.text == DROPPED
