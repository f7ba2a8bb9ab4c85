"""Find the runs that show what a jitted function does that JAX had traced before.

JAX runs `f` once for `jit(f)(x, 2)`, `jit(f)(x, 3)`, `jit(f)(y, 2)` at each of its static
arguments, trees and types. The last of these calls shows no run: it is the first one's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.lifting.recorded.naming.values import is_array, type_of
from untrace.recovery.functions import innermost
from untrace.recovery.record import Body, Call


class TracedBefore:
    """The calls of jitted functions that ran, by the functions."""

    def __init__(self, recording: Body) -> None:
        self._ran: dict[Any, list[Call]] = {}
        self._around: dict[
            int, tuple[Call, ...]
        ] = {}  # by the address of a call that shows no run
        for item, around in _calls(recording, ()):
            if not _is_jitted(item):
                continue
            if item.bodies:
                self._ran.setdefault(innermost(item.function), []).append(item)
            else:
                self._around[id(item)] = around

    def runs(self, item: Call) -> Sequence[Body]:
        """Return the runs of the call that JAX knew one by, which shows none itself.

        Numbers that are traced may be others there; static ones are the same. It is no
        call that this one is made in, which had not ended.
        """
        if not _is_jitted(item):
            return ()
        around = set(map(id, self._around.get(id(item), ())))
        ran = self._ran.get(innermost(item.function), [])
        ran = [known for known in ran if id(known) not in around]
        for are_same in (_are_same, _are_alike):
            for known in reversed(ran):
                if _agree(item, known, are_same):
                    return known.bodies
        return ()


def _is_jitted(item: Call) -> bool:
    made = item.function
    return isinstance(made, jaxapi.Transformed) and made.maker[1] in ("jit", "pmap")


def _agree(first: Call, second: Call, are_same: Any) -> bool:
    """Whether two calls were given trees of one structure with the same leaves.

    `are_same` is asked about those that are traced; what is fixed has to be equal.
    """
    given, others = _given(first), _given(second)
    positions, names = first.function.static
    fixed = {*positions, *names}
    if given.keys() != others.keys():
        return False
    for key, value in given.items():
        one, structure = jax.tree.flatten(value)
        other, other_structure = jax.tree.flatten(others[key])
        is_same = _are_same if key in fixed else are_same
        if structure != other_structure or not all(map(is_same, one, other)):
            return False
    return True


def _given(item: Call) -> dict[int | str, Any]:
    """Return the arguments of a call by their positions and names."""
    return {**dict(enumerate(item.args)), **item.kwargs}


def _are_same(one: Any, other: Any) -> bool:
    if is_array(one) or is_array(other):
        return is_array(one) and is_array(other) and type_of(one) == type_of(other)
    return one is other or (type(one) is type(other) and _equal(one, other))


def _are_alike(one: Any, other: Any) -> bool:
    is_number = type(one) in (bool, int, float, complex) and type(one) is type(other)
    return is_number or _are_same(one, other)


def _equal(one: Any, other: Any) -> bool:
    try:
        return bool(one == other)
    except Exception:  # what objects of the user do is not known
        return False


def _calls(
    body: Body, around: tuple[Call, ...]
) -> Iterator[tuple[Call, tuple[Call, ...]]]:
    """Yield the calls in a run, each with the jitted ones that it is made in."""
    for item in body.calls:
        yield item, around
        inside = (*around, item) if _is_jitted(item) else around
        for run in item.bodies:
            yield from _calls(run, inside)
