"""Choose names inside of a turn of a loop: which values may have a variable's name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Loop, flat


def taken_up(loop: Loop, index: int, holders: Mapping[str, Name]) -> dict[int, Name]:
    """Return the values of a turn that may have the name of a variable of the loop.

    Those become the variable later in the turn, `v = a @ v` before `v = v / norm(v)`, if
    its old value is not read any more then, nor they when it has its new one; or they are
    called like what the loop is over, which the next turn has another one of:
    `x, s = layer(s, x)` for every `s` of a list. Others are called like an earlier value of
    the turn that is not read any more, `h = relu(h)`.
    """
    reads = _reads(loop)
    found: dict[int, Name] = {}
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
            until = _until(name, position, index, reads)
            if until is not None and last <= position and until <= end:
                found[id(name)], last = variable, until
    for variable in flat(loop.variables):
        last = max(reads.get(id(variable), []), default=-1)
        is_one = variable.uses > 0 and variable.folded is None
        if variable.captured or variable.last_use > index or not is_one:
            continue
        for position, target in enumerate(targets):
            for name in flat(target):
                until = _until(name, position, index, reads)
                is_free = name.hint == variable.hint and id(name) not in found
                if is_free and until is not None and last <= position:
                    found[id(name)], last = variable, until
    return found | _called_again(loop, index, reads, found)


def _called_again(
    loop: Loop,
    index: int,
    reads: Mapping[int, list[int]],
    taken: Mapping[int, Name],
) -> dict[int, Name]:
    """Return the values of a turn that have the name of an earlier one of it."""
    found: dict[int, Name] = {}
    latest: dict[str, tuple[Name, int]] = {}
    for position, statement in enumerate(loop.body):
        if statement.loop is not None:
            inner = _called_again(statement.loop, index, _reads(statement.loop), taken)
            outside = {key for key, places in reads.items() if {*places} - {position}}
            found |= {
                key: first
                for key, first in inner.items()
                if not {key, id(first)} & outside
            }
            continue
        for name in flat(statement.targets):
            is_own = name.is_given and not (name.is_weak or name.is_foreign)
            is_free = name.folded is None and name.alias is None and name.uses > 0
            if not (is_own and is_free) or id(name) in taken or name.captured:
                continue
            is_carry = any(read <= position for read in reads.get(id(name), []))
            first, until = latest.pop(name.hint, (name, -1))
            if first is not name and not is_carry and until <= position:
                found[id(name)] = first
            last = _until(name, position, index, reads)
            if last is not None:
                latest[name.hint] = found.get(id(name), name), last
    return found


def _until(
    name: Name, position: int, index: int, reads: Mapping[int, list[int]]
) -> int | None:
    """Return where in its turn a value is read for the last time; None if also elsewhere."""
    known = reads.get(id(name), [])
    is_inside = name.last_use <= index and not name.captured
    if not is_inside or any(read <= position for read in known):  # in the next turn
        return None
    return max(known, default=position)


def _reads(loop: Loop) -> dict[int, list[int]]:
    """Return at which statements of a turn names are read."""
    reads: dict[int, list[int]] = {}
    for position, statement in enumerate(loop.body):
        inner = statement.loop.terms() if statement.loop is not None else ()
        for term in (statement.term, *inner):
            for ref in _deep_refs(term):
                reads.setdefault(id(ref.name), []).append(position)
    return reads


def _deep_refs(term: Term) -> Iterator[Ref]:
    """Yield the references of an expression and of what is folded into it."""
    for ref in term.refs():
        yield ref
        if ref.name.folded is not None:
            yield from _deep_refs(ref.name.folded)
