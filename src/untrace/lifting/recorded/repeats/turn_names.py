"""Choose names inside of a turn of a loop: which values may have a variable's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Loop


def taken_up(loop: Loop, index: int, holders: Mapping[str, Name]) -> dict[int, str]:
    """Return the names of values that become a variable of a loop later in the turn.

    They may have its name, `v = a @ v` before `v = v / norm(v)`, if its old value is not
    read any more then, nor they when it has its new one.
    """
    reads: dict[int, list[int]] = {}
    for position, statement in enumerate(loop.body):
        inner = statement.loop.terms() if statement.loop is not None else ()
        for term in (statement.term, *inner):
            for ref in _deep_refs(term):
                reads.setdefault(id(ref.name), []).append(position)
    found: dict[int, str] = {}
    targets = [statement.targets for statement in loop.body]
    for end, variable in enumerate(targets):
        if not isinstance(variable, Name) or variable.captured:
            continue
        if holders.get(variable.text) is not variable:
            continue
        last = max([i for i in reads.get(id(variable), []) if i <= end], default=-1)
        for position, name in enumerate(targets[:end]):
            if not isinstance(name, Name) or name.hint != variable.hint:
                continue
            known = reads.get(id(name), [])
            if any(read <= position for read in known):  # in the next turn
                continue
            until = max(known, default=position)
            is_inside = name.last_use <= index and not name.captured
            if last <= position and until <= end and is_inside:
                found[id(name)], last = variable.text, until
    return found


def _deep_refs(term: Term) -> Iterator[Ref]:
    """Yield the references of an expression and of what is folded into it."""
    for ref in term.refs():
        yield ref
        if ref.name.folded is not None:
            yield from _deep_refs(ref.name.folded)
