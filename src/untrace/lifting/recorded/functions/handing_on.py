"""What functions hand on without returning it: they change state in place.

A batch norm puts new statistics into a collection that its module has, and the program
returns the collection. As a function without side effects it returns them, too: of what
is used outside, the largest parts that were made inside.
"""

from __future__ import annotations

import itertools
import types
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from untrace.capture.attributes import Attributes
from untrace.capture.trees import Leaf, plain
from untrace.lifting.recorded.functions.function_names import snake_case
from untrace.lifting.recorded.naming.paths import key_name, last_word
from untrace.lifting.recorded.naming.values import arrays_in, is_array
from untrace.recovery.record import RETURNED, Body, Call, calls_around
from untrace.syntax.steps import common


class Made(NamedTuple):
    """Where an array was made.

    Attributes:
      inside: The calls of Python functions around.
      name: What it was called there, or "".
      whole: The largest tree that it was made in.
      whole_name: What that was called.
    """

    inside: tuple[Call, ...]
    name: str
    whole: Any
    whole_name: str


class HandedOn(NamedTuple):
    """What a function returns besides its result, and how it is called there.

    Attributes:
      value: An array or a tree of arrays.
      hint: What to call it.
      way: The keys that lead to it in the nested dicts that the caller puts it into.
    """

    value: Any
    hint: str
    way: tuple[Any, ...] = ()


class Returned(dict[Call, frozenset[int]]):
    """The arrays that calls return, by identity, once somebody has asked."""

    def __missing__(self, item: Call) -> frozenset[int]:
        self[item] = found = frozenset(_ids(item.result))
        return found


def made_inside(body: Body) -> dict[int, Made]:
    """Return where the arrays of a recording were made, by identity."""
    found: dict[int, Made] = {}
    held: dict[int, list[int]] = {}  # in each result, which the recording keeps alive
    for item, inside in calls_around(body, of_python=True):
        name = item.target if isinstance(item.target, str) else ""
        name = "" if name == RETURNED else name
        arrays = arrays_in(item.result)
        ids = held[id(item.result)] = list(map(id, arrays))
        given = _ids((item.args, item.kwargs))  # such as what `jnp.asarray` returns
        for array in arrays:
            known = found.get(id(array))
            if known is None:
                if not item.is_own and id(array) not in given:
                    found[id(array)] = Made(inside, name, item.result, name)
            elif item.is_own:  # it may have returned what has no name there
                is_whole = name and ids == held[id(known.whole)]
                whole_name = name if is_whole else known.whole_name
                found[id(array)] = known._replace(whole_name=whole_name)
            elif known.inside == inside:  # such as a run of what `jax.tree.map` mapped
                found[id(array)] = Made(inside, known.name, item.result, name)
    return found


def _ids(value: Any) -> list[int]:
    return list(map(id, arrays_in(value)))


def used_outside(
    body: Body,
    made: Mapping[int, Made],
    codes: Collection[types.CodeType],
    returned: Returned,
) -> list[tuple[Any, tuple[Call, ...]]]:
    """List what calls are given that some functions made without returning it.

    Each value comes with the calls of Python functions around the place where it is used,
    the largest trees first.
    """
    found: list[tuple[Any, tuple[Call, ...]]] = []

    def is_hidden(array: int, around: Collection[Call]) -> bool:
        for item in made[array].inside if array in made else ():
            if item.bodies[0].code not in codes or item in around:
                continue
            if array not in returned[item]:
                return True
        return False

    for item, around in calls_around(body, of_python=True):
        taken = item.bodies[0].parameters.values() if item.is_own else ()
        for value in (*item.args, *item.kwargs.values(), *taken):
            if any(is_hidden(array, around) for array in _ids(value)):
                found.append((value, around))
    return sorted(found, key=lambda pair: -len(_ids(pair[0])))


def handed_on(
    value: Any,
    opened: Collection[Call],
    made: Mapping[int, Made],
    whole: Callable[[Any], Any],
    attributes: Attributes,
    returned: Returned,
) -> dict[Call, list[HandedOn]]:
    """Return what functions have to return besides for a value that is used outside.

    Args:
      value: An array or a tree of arrays.
      opened: The calls around the place where the value is used.
      made: Where arrays were made, by identity.
      whole: Returns the tree that a flat list of leaves stands for.
      attributes: Those of the objects that functions were given.
      returned: What calls return.
    """
    found: dict[Call, list[HandedOn]] = {}

    def named(array: Any, hint: str) -> str:
        place = made[id(array)]
        own = place.name if is_array(place.whole) else ""  # else that of a list
        found = own or hint or _attribute(array, place.inside, attributes)
        return found or place.name

    _add(HandedOn(value, ""), made, returned, set(opened), whole, named, found)
    return {item: _nested(_whole(parts, made)) for item, parts in found.items()}


def _whole(parts: Sequence[HandedOn], made: Mapping[int, Made]) -> list[HandedOn]:
    """Return trees that were made at once for parts that are all of them."""
    rest = {array: part for part in parts for array in _ids(part.value)}
    kept: list[HandedOn] = []
    for place in {id(made[a].whole): made[a] for a in rest}.values():
        held = _ids(place.whole)
        if len(held) > 1 and set(held) <= rest.keys():
            rest = {array: part for array, part in rest.items() if array not in held}
            kept.append(HandedOn(place.whole, place.whole_name))
    return [*kept, *(p for p in parts if not rest.keys().isdisjoint(_ids(p.value)))]


def _nested(parts: Sequence[HandedOn]) -> list[HandedOn]:
    """Put what is part of one state into nested dicts, as the caller does."""
    inside = [part for part in parts if part.way]
    if len(inside) < 2:
        return list(parts)
    shared = common([part.way for part in inside])
    if len(shared) == min(len(part.way) for part in inside):
        shared = shared[:-1]
    state: dict[Any, Any] = {}
    for part in inside:
        around = state
        *outer, last = part.way[len(shared) :]
        for key in outer:
            around = around.setdefault(key, {})
        around[last] = part.value
    hint = f"{snake_case(last_word([*map(str, shared)]))}_state" if shared else "state"
    return [HandedOn(state, hint), *(part for part in parts if not part.way)]


def _add(
    part: HandedOn,
    made: Mapping[int, Made],
    returned: Returned,
    around: set[Call],
    whole: Callable[[Any], Any],
    named: Callable[[Any, str], str],
    found: dict[Call, list[HandedOn]],
) -> None:
    while type(part.value) is dict and len(part.value) == 1:
        (part,) = _children(part)
    value, hint, way = part
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
            is_returned = [id(array) in returned[item] for array in arrays]
            if all(is_returned):
                done.add(item)
            elif not any(is_returned):
                done.add(item)
                name = named(value, hint) if is_array(value) else hint
                found.setdefault(item, []).append(HandedOn(value, name, way))
    if is_array(value):
        return
    for inner in _children(part._replace(value=whole(value))):
        _add(inner, made, returned, done, whole, named, found)


def _attribute(array: Any, inside: Sequence[Call], attributes: Attributes) -> str:
    """Return the attribute that holds an array, of what functions made or were given."""
    for item in reversed(inside):
        given = [run.parameters.values() for run in item.bodies]
        word = attributes.holding(array, [item.result, *itertools.chain(*given)])
        if word:
            return word
    return ""


def _children(part: HandedOn) -> Iterator[HandedOn]:
    """Yield the parts of a tree, named by the last word of their paths."""
    flat, _ = jax.tree_util.tree_flatten_with_path(
        part.value, is_leaf=lambda child: child is not part.value
    )
    for path, child in flat:
        key = getattr(path[0], "key", None)
        word = key or getattr(path[0], "name", None)
        hint = snake_case(key_name(word)) if isinstance(word, str) else ""
        yield HandedOn(child, hint, () if key is None else (*part.way, key))
