"""What tells one derivative rule from another: equal identities, equal traces.

Rules are Python callables, which every trace wraps anew. `identity` looks through the
wrappers of JAX to what they hold in the end: the user's functions, by object, and static
arguments, by their whole value. It decides whether a rule needs to be traced at all, so
nothing is left out of it but what `jaxapi.TRACE_TOKENS` names: which trace a wrapper
belongs to, and where it stores results. What is of no known kind counts by object.
"""

from __future__ import annotations

import functools
import struct
import types
from collections.abc import Hashable, Iterable
from typing import Any

import jax
import numpy as np

from untrace import jaxapi

# Two values of one of these very types are the same exactly if they are equal.
_EXACT = frozenset({int, bool, str, bytes, type(None), type(Ellipsis)})


class Same:
    """A key that is equal to itself only as long as it holds one object.

    It keeps the object alive: an address would be used again.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)

    def __repr__(self) -> str:  # keys of sets are sorted by their text
        return f"Same({id(self.value)})"


def identity(value: Any) -> Hashable:
    """Return a key of a whole value; equal keys mean that no use can tell them apart.

    >>> identity(frozenset({2})) == identity(frozenset({5}))
    False
    >>> identity((1, 2.0)) == identity((1, 2.0)), identity(1) == identity(True)
    (True, False)
    """
    return _Identities().of(value)


def is_looked_into(value: Any) -> bool:
    """Whether what a host function holds is compared by what is in it.

    All else is compared by its identity.
    """
    kind = type(value)
    is_container = kind in _CONTAINERS or _is_record(kind)
    return isinstance(value, _WRAPPERS) or is_container or jaxapi.is_of_jax(kind)


def _is_record(kind: type) -> bool:
    """Whether objects of a class are NamedTuples, and nothing is set on them."""
    has_more = bool(getattr(kind, "__dictoffset__", 0))
    return issubclass(kind, tuple) and hasattr(kind, "_fields") and not has_more


_WRAPPERS: tuple[Any, ...] = (
    *(types.FunctionType, types.MethodType, types.BuiltinFunctionType),
    *(functools.partial, jaxapi.WrappedFun, jaxapi.Tracer, jaxapi.Ref),
    *(jax.Array, *jaxapi.JAXPR_TYPES),
)
_CONTAINERS = frozenset({tuple, list, dict, set, frozenset, np.ndarray})


class _Identities:
    def __init__(self) -> None:
        self._known: dict[int, Hashable] = {}
        self._active: set[int] = set()
        self._alive: list[Any] = []  # what the addresses refer to

    def of(self, value: Any) -> Hashable:
        kind = type(value)
        if kind in _EXACT:
            return kind, value
        if id(value) in self._active:  # a cycle
            return Same(value)
        known = self._known.get(id(value))
        if known is None:
            self._active.add(id(value))
            known = self._known[id(value)] = self._made(value, kind)
            self._alive.append(value)
            self._active.discard(id(value))
        return known

    def all(self, values: Iterable[Any]) -> Hashable:
        return tuple([self.of(value) for value in values])

    def _made(self, value: Any, kind: type) -> Hashable:
        if kind is float:
            return kind, struct.pack("<d", value)
        if kind is complex:
            return kind, struct.pack("<dd", value.real, value.imag)
        if kind in (tuple, list):
            return kind, self.all(value)
        if kind is frozenset:
            return kind, frozenset([self.of(item) for item in value])
        if kind in (slice, range):
            return kind, self.all((value.start, value.stop, value.step))
        if isinstance(value, np.generic) and value.dtype != object:
            return kind, str(value.dtype), value.tobytes()
        if isinstance(value, jaxapi.TRACE_TOKENS):
            return (kind,)
        if isinstance(value, jaxapi.VALUE_TYPES):  # compared by JAX as what they are
            return kind, value
        return self._wrapper(value, kind)

    def _wrapper(self, value: Any, kind: type) -> Hashable:
        """Look through what JAX and Python wrap functions and their arguments in."""
        if jaxapi.is_value_box(value):
            return kind, self.of(value.val)
        if isinstance(value, jaxapi.WrappedFun):
            held = (value.f, value.transforms, value.params, value.in_type)
            return kind, self.all(held)
        if isinstance(value, functools.partial):
            keywords = tuple(value.keywords.items())
            return kind, self.all((value.func, value.args, keywords))
        if kind is types.MethodType:
            return kind, self.all((value.__func__, value.__self__))
        if kind is types.FunctionType and jaxapi.is_of_jax(value):
            return self._jax_function(value)
        if kind is jaxapi.PyTreeDef:
            return kind, self._treedef(value)
        fields = jaxapi.whole_fields(value)
        return Same(value) if fields is None else (kind, self.of(fields))

    def _jax_function(self, function: types.FunctionType) -> Hashable:
        memoized = jaxapi.memoized_function(function)
        if memoized is not None:  # the rest is a cache, which fills while it is called
            return "memoized", self.of(memoized)
        held = jaxapi.read_of_closure(function)
        defaults = (
            function.__defaults__,
            tuple((function.__kwdefaults__ or {}).items()),
        )
        return Same(function.__code__), self.all(held), self.all(defaults)

    def _treedef(self, treedef: Any) -> Hashable:
        node = treedef.node_data()
        if node is None:
            return ("leaf", treedef.num_leaves)
        kind, rest = node
        children = tuple([self._treedef(child) for child in treedef.children()])
        return Same(kind), self.of(rest), children
