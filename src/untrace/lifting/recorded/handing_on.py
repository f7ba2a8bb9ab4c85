"""What functions hand on without returning it: they change state in place.

A batch norm puts new statistics into a collection that its module has, and the program
returns the collection. As a function without side effects it returns them, too: of what
is used outside, the largest parts that were made inside.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import jax

from untrace.capture.trees import Leaf, plain
from untrace.lifting.recorded.function_names import snake_case
from untrace.lifting.recorded.values import arrays_in, is_array
from untrace.recovery.record import Body, Call, Target
from untrace.syntax.names import identifier


class Made(NamedTuple):
    """Where an array was made: inside which calls of Python functions, and its name."""

    inside: tuple[Call, ...]
    target: Target


class HandedOn(NamedTuple):
    """What a function returns besides its result, and how it is called there."""

    value: Any
    hint: str


def made_inside(
    body: Body, inside: tuple[Call, ...] = ()
) -> Iterator[tuple[int, Made]]:
    """Yield the arrays of a recording by identity, inner calls first."""
    for item in body.calls:
        around = (*inside, item) if item.is_own else inside
        for run in item.bodies:
            yield from made_inside(run, around)
        if not item.is_own:
            for array in arrays_in(item.result):
                yield id(array), Made(inside, item.target)


def handed_on(
    value: Any, made: Mapping[int, Made], opened: Collection[Call]
) -> dict[Call, list[HandedOn]]:
    """Return what functions have to return besides for a value that is used outside.

    Args:
      value: An array or a tree of arrays.
      made: Where arrays were made, by identity.
      opened: The calls around the place where the value is used.
    """
    found: dict[Call, list[HandedOn]] = {}
    _add(value, "", made, set(opened), found)
    return found


def _add(
    value: Any,
    hint: str,
    made: Mapping[int, Made],
    around: set[Call],
    found: dict[Call, list[HandedOn]],
) -> None:
    arrays: list[Any] = []
    if isinstance(plain(value, is_array, arrays, False), Leaf):
        value = arrays[0]  # of a box, only what it holds
    places = [made[id(array)] for array in arrays if id(array) in made]
    if not places:
        return
    done = set(around)
    if len(places) == len(arrays):
        shared = set(places[0].inside).intersection(*[p.inside for p in places])
        for item in shared - around:
            returned = set(map(id, arrays_in(item.result)))
            is_returned = [id(array) in returned for array in arrays]
            if all(is_returned):
                done.add(item)
            elif not any(is_returned):
                done.add(item)
                name = _name(value, places[0].target) or hint
                found.setdefault(item, []).append(HandedOn(value, name))
    if is_array(value):
        return
    for key, child in _children(value):
        _add(child, key, made, done, found)


def _name(value: Any, target: Target) -> str:
    return target if is_array(value) and isinstance(target, str) else ""


def _children(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a tree, named by the last word of their paths."""
    flat, _ = jax.tree_util.tree_flatten_with_path(
        value, is_leaf=lambda child: child is not value
    )
    for path, child in flat:
        key = getattr(path[0], "key", None) or getattr(path[0], "name", None)
        yield snake_case(identifier(key)) if isinstance(key, str) else "", child
