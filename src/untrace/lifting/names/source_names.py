"""Names of results, from the files that their tracebacks lead to.

The frames of an equation are followed from the innermost outwards as long as each
expression is what its function returns. The first variable of the user's file that an
expression is assigned to names its result; else the first of a library's file. All are
hints: what is missing has the name of its primitive, and clashes are numbered.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.ir import Block, Equation, Value
from untrace.lifting.names.source_roles import Role, roles
from untrace.optional import makes, optional

LIBRARIES = ("site-packages", "dist-packages", "/lib/python")


class LibraryName(str):
    """A name that a library gave a variable of its own."""

    __slots__ = ()


def is_library(file: str) -> bool:
    """Whether a file is a library's, not the user's."""
    return any(part in file for part in LIBRARIES)


@dataclass(frozen=True, slots=True)
class Named:
    """The names for the results of an equation.

    Attributes:
      names: One, or one for each result.
      is_unpacked: Whether each is the name of one item of the results.
      place: Where they are assigned; equations that share it belong together.
    """

    names: tuple[str, ...]
    is_unpacked: bool
    place: Any


@optional(makes(dict))
def source_names(block: Block) -> dict[Value, str]:
    """Name the results of a program and its sub-programs, where files tell their names."""
    found: dict[Value, str] = {}
    seen: set[int] = set()
    stack = [block]
    while stack:
        block = stack.pop()
        if id(block) in seen:
            continue
        seen.add(id(block))
        found.update(_names_in(block))
        stack += inner_blocks(block)
    return found


def inner_blocks(block: Block) -> Iterator[Block]:
    """List the sub-programs of a block's equations."""
    for eqn in block.equations:
        for param in eqn.params.values():
            items: Any = param if isinstance(param, tuple) else (param,)
            yield from (item for item in items if isinstance(item, Block))


def _names_in(block: Block) -> Iterator[tuple[Value, str]]:
    named = {id(eqn): _named(eqn) for eqn in block.equations}
    # What only leads to another result of the same statement is not what it is called.
    readers: dict[Any, set[Any]] = collections.defaultdict(set)
    for eqn in block.equations:
        mine = named[id(eqn)]
        if mine is not None:
            for atom in eqn.operands:
                readers[atom].add(mine.place)
    used = _used_elsewhere(block, named)
    turns: collections.Counter[Any] = collections.Counter()
    for eqn in block.equations:
        mine = named[id(eqn)]
        if mine is None:
            continue
        values = [value for value in eqn.results]
        if mine.place in used:
            if not used[mine.place].intersection(values):
                continue
        elif any(mine.place in readers[v] for v in values if v is not None):
            continue
        for value, name in zip(values, _names_of(values, mine, turns)):
            if value is not None and name.strip("_"):
                kind = LibraryName if is_library(mine.place[0]) else str
                yield value, kind(name.lstrip("_"))


def _used_elsewhere(
    block: Block, named: dict[int, Named | None]
) -> dict[Any, set[Any]]:
    """List, by place, the results that the user's code goes on with.

    Differentiation makes other values at the same place: what the backward pass needs.
    """
    places = {
        value: mine.place
        for eqn in block.equations
        if (mine := named[id(eqn)]) is not None
        for value in eqn.results
        if value is not None
    }
    found: dict[Any, set[Any]] = collections.defaultdict(set)
    for eqn in block.equations:
        mine = named[id(eqn)]
        if mine is None and not jaxapi.user_frames(eqn.source_info):
            continue  # of a backward pass
        for atom in eqn.operands:
            place = places.get(atom) if isinstance(atom, Value) else None
            if place is not None and (mine is None or mine.place != place):
                found[place].add(atom)
    return found


def _names_of(
    values: list[Any], mine: Named, turns: collections.Counter[Any]
) -> Iterable[str]:
    if mine.is_unpacked and len(values) == 1:
        turns[mine.place] += 1  # the items are taken one after the other
        return (mine.names[(turns[mine.place] - 1) % len(mine.names)],)
    if len(mine.names) == len(values):
        return mine.names
    return ()


def _named(eqn: Equation) -> Named | None:
    """Find the variables that the results of an equation are assigned to."""
    item: int | None = None
    first: Named | None = None
    for frame in jaxapi.user_frames(eqn.source_info):
        role = roles(frame.file).get(frame.place)
        if role is None:
            break
        if role.targets:
            named = _from_role(role, item, frame)
            if named is not None:
                if not is_library(frame.file):
                    return named
                first = first or named
        if not role.is_returned:
            break
        item = role.item
    return first


def _from_role(role: Role, item: int | None, frame: Any) -> Named | None:
    place = (frame.file, frame.place)
    if item is not None:
        if role.is_unpacked and item < len(role.targets):
            return Named((role.targets[item],), False, (*place, item))
        return None
    return Named(role.targets, role.is_unpacked, place)
