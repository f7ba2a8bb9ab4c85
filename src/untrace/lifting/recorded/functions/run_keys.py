"""Tell which runs of a function did the same, without writing them.

A function that is mapped over a tree runs once for each leaf. Runs that made the same
calls at the same places, with the same constants and with arrays of the same types that
came from the same places, have the same text.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from untrace import jaxapi
from untrace.lifting.recorded.naming.values import is_array
from untrace.recovery.record import Body, Call

_PLAIN = (bool, int, str, type(None))


def distinct(runs: Iterable[Body]) -> Iterator[Body]:
    """Yield the runs that did something else than those before them."""
    seen: set[Hashable] = set()
    for run in runs:
        key = _Keys().body(run)
        if key not in seen:
            seen.add(key)
            yield run


class _Keys:
    """Identifies what a run did; the arrays that it made are numbered."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def body(self, run: Body) -> Hashable:
        """Return the key of a run."""
        given = tuple([(k, self._made(v)) for k, v in run.parameters.items()])
        calls = tuple(map(self._call, run.calls))
        held = tuple([(name, self._value(value)) for name, value in run.locals.items()])
        opened = run.opened is not None and self._call(run.opened)
        return (
            run.code,
            run.setting,
            given,
            calls,
            self._value(run.result),
            held,
            opened,
        )

    def _call(self, item: Call) -> Hashable:
        args = tuple(map(self._value, item.args))
        kwargs = tuple([(k, self._value(v)) for k, v in item.kwargs.items()])
        bodies = tuple(map(self.body, item.bodies))
        arrays = tuple([(self._number(key), name) for key, name in item.arrays])
        names = item.numbers, item.held, item.constants, arrays, repr(item.formulas)
        is_sign = isinstance(item.function, tuple)  # an operator or a method
        function = item.function if is_sign else id(item.function)
        where = item.place, repr(item.target), item.setting
        return function, where, args, kwargs, bodies, names, self._made(item.result)

    def _number(self, key: int) -> int:
        """Return the number of an array; that of one from outside is its `id`."""
        return self._numbers.get(key, -key)

    def _made(self, value: Any) -> Hashable:
        """Return the key of a value that begins here; its arrays get numbers."""
        if not is_array(value):
            return self._parts(value, self._made)
        if not isinstance(value, jaxapi.Tracer):  # JAX may have made it before
            return self._value(value)
        number = self._numbers.setdefault(id(value), len(self._numbers))
        is_weak = getattr(getattr(value, "aval", None), "weak_type", False)
        return number, value.shape, value.dtype, is_weak

    def _value(self, value: Any) -> Hashable:
        """Return the key of a value that is used; an array of outside is itself."""
        if is_array(value):
            return "array", self._number(id(value))
        return self._parts(value, self._value)

    def _parts(self, value: Any, key: Any) -> Hashable:
        kind = type(value)
        if kind in _PLAIN:
            return kind, value
        if kind is float or kind is np.float64:
            return kind, value.hex()
        if kind in (tuple, list):
            return kind, tuple(map(key, value))
        if kind is dict:
            return kind, tuple([(name, key(held)) for name, held in value.items()])
        return (np.dtype, value) if isinstance(value, np.dtype) else id(value)
