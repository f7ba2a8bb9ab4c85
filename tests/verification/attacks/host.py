"""What host functions hold: two values of each kind."""

from __future__ import annotations

import array
import collections
import copy
import dataclasses
import decimal
import enum
import functools
import io
import itertools
import random
import re
import struct
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tests.verification.attacks.pairs import F32, differs


def pure(host: Any, *args: Any, **options: Any) -> Any:
    """A program that calls a host function."""
    return lambda x: jax.pure_callback(host, F32, x, *args, **options)


def holding(value: Any) -> Callable[[Any], Any]:
    """A host function that closes over a value and uses all of it."""

    def host(x: Any) -> Any:
        return np.asarray(x) * np.float32(len(repr(copy.copy(value))))

    return host


def held(kind: str, a: Any, b: Any) -> None:
    """Register two host functions that close over other values."""
    differs(
        f"host function holding {kind}",
        pure(holding(a)),
        pure(holding(b)),
        because=f"{kind}: {a!r} and {b!r}",
    )


class Plain:
    def __init__(self, n: Any) -> None:
        self.n = n


class SameHash(Plain):
    """A class whose `==` looks at nothing."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SameHash)

    def __hash__(self) -> int:
        return 0


class HashField:
    """A field with the name of a cache."""

    def __init__(self, n: Any) -> None:
        self._hash = n


class Mangled:
    __slots__ = ("__n", "m")

    def __init__(self, n: Any) -> None:
        self.__n = n
        self.m = 0


class Cached:
    @functools.cached_property
    def n(self) -> int:
        return 0


class Pair(NamedTuple):
    a: int
    b: int


class Other(NamedTuple):
    a: int
    b: int


class Open(Pair):
    """A subclass of a NamedTuple on which more can be set."""


def with_attribute(n: int) -> Any:
    made = Open(1, 2)
    made.n = n
    return made


def cached(n: int) -> Any:
    made = Cached()
    made.n = n
    return made


@dataclasses.dataclass
class Late:
    """A dataclass with an attribute that is no field."""

    n: int

    def __post_init__(self) -> None:
        self.later = self.n * 2


def late(n: int) -> Any:
    made = Late(1)
    made.later = n
    return made


class Derived(Late):
    """A subclass of a dataclass that is none."""

    def __init__(self, m: int) -> None:
        super().__init__(1)
        self.m = m


class Named(dict[str, int]):
    """A dictionary with an attribute."""

    def __init__(self, n: int) -> None:
        super().__init__(a=1)
        self.n = n


class Meters(float):
    pass


class Length(int):
    def __repr__(self) -> str:
        return f"Length({int(self)})"


class Items(list[int]):
    def __init__(self, n: int) -> None:
        super().__init__([1])
        self.n = n


class Failure(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 1


class Queue(collections.deque[int]):
    pass


def local_class(n: int) -> type:
    class Local:
        def __call__(self) -> int:
            return n

    return Local


def local_partial(n: int) -> Any:
    class Local(functools.partial[Any]):
        def __call__(self, x: Any) -> Any:
            return np.asarray(super().__call__(x)) * np.float32(n)

    return Local(np.asarray)


def local_enum(n: int) -> Any:
    class Kind(enum.Enum):
        A = n

    return Kind.A


def module(n: int) -> types.ModuleType:
    made = types.ModuleType("constants")
    made.n = n  # type: ignore[attr-defined]
    return made


def function_with(n: int) -> Any:
    def f() -> int:
        return 0

    f.n = n  # type: ignore[attr-defined]
    return f


def masked(*mask: bool) -> Any:
    return np.ma.masked_array([1.0, 2.0], mask=mask)


held("an integer", 2, 3)
held("1 or True", 1, True)
held("1 or 1.0", 1, 1.0)
held("a sign of zero", 0.0, -0.0)
held("a numpy float or a number", np.float64(2), 2.0)
held("a numpy integer or a number", np.int64(2), 2)
held("numpy integers of two widths", np.int8(2), np.int64(2))
held("a numpy bool or a bool", np.bool_(True), True)
held("a float subclass or a float", Meters(2), 2.0)
held("an int subclass or an int", Length(2), 2)
held("a string", "a", "b")
held("bytes", b"a", b"b")
held("a bytearray", bytearray(b"a"), bytearray(b"b"))
held("a bytearray that reads like an address", bytearray(b"0x1"), bytearray(b"0x2"))
held("a list or a tuple", [1], (1,))
held("a set", {1}, {2})
held("a set or a frozenset", {1}, frozenset({1}))
held("a dictionary", {"a": 1}, {"a": 2})
held("a dictionary in another order", {"a": 1, "b": 2}, {"b": 2, "a": 1})
held(
    "an ordered dictionary",
    *[collections.OrderedDict(i) for i in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])],
)
held("a defaultdict", collections.defaultdict(int), collections.defaultdict(list))
held("a counter", collections.Counter("aab"), collections.Counter("abb"))
held("a chain map", collections.ChainMap({"a": 1}), collections.ChainMap({"a": 2}))
held("a deque", collections.deque([1]), collections.deque([2]))
held("a subclass of deque", Queue([1]), Queue([2]))
held("a range", range(3), range(4))
held("equal ranges with other ends", range(0, 4, 3), range(0, 5, 3))
held("a slice", slice(1), slice(2))
held("a decimal", decimal.Decimal("1.0"), decimal.Decimal("1.5"))
held("equal decimals", decimal.Decimal("1.0"), decimal.Decimal("1.00"))
held("an array of bytes", array.array("i", [1]), array.array("i", [2]))
held("a regular expression", re.compile("a"), re.compile("b"))
held("a struct", struct.Struct("<f"), struct.Struct("<d"))
held("a stream", io.BytesIO(b"a"), io.BytesIO(b"b"))
held("a random.Random", random.Random(0), random.Random(1))
held("a np.random.Generator", np.random.default_rng(0), np.random.default_rng(1))
held("a np.random.RandomState", np.random.RandomState(0), np.random.RandomState(1))
held("a count", itertools.count(1), itertools.count(2))
held("an iterator", iter([1]), iter([2]))
held("an exception", ValueError("a"), ValueError("b"))
held("an exception with an attribute", Failure("a"), Failure("b"))
held("an object", Plain(2), Plain(3))
held("an object whose == looks at nothing", SameHash(2), SameHash(3))
held("an object with a field _hash", HashField(2), HashField(3))
held("an object with mangled slots", Mangled(2), Mangled(3))
held("an object whose cached property is set", cached(2), cached(3))
held("a dataclass", Late(2), Late(3))
held("a dataclass with another attribute", late(2), late(3))
held("a subclass of a dataclass", Derived(2), Derived(3))
held("a dictionary with an attribute", Named(2), Named(3))
held("a list with an attribute", Items(2), Items(3))
held("a named tuple", Pair(1, 2), Pair(1, 3))
held("a named tuple or another", Pair(1, 2), Other(1, 2))
held("a named tuple or a tuple", Pair(1, 2), (1, 2))
held("a named tuple with an attribute", *[with_attribute(n) for n in (1, 2)])
held("a namespace", types.SimpleNamespace(n=2), types.SimpleNamespace(n=3))
held("a local class", local_class(2), local_class(3))
held("an object of a local class", local_class(2)(), local_class(3)())
held("a member of a local enum", local_enum(2), local_enum(3))
held("a module made by hand", module(2), module(3))
held("a function with an attribute", function_with(2), function_with(3))
held("a ufunc", np.sin, np.cos)
held(
    "a ufunc made of a function",
    *[np.frompyfunc(lambda x, n=n: x + n, 1, 1) for n in (1, 2)],
)
held("a vectorized function", *[np.vectorize(lambda x, n=n: x + n) for n in (1, 2)])
held("a cached function", *[functools.cache(lambda x, n=n: x + n) for n in (1, 2)])
held("a partial", functools.partial(min, 1), functools.partial(min, 2))
held("a partial of a local class", local_partial(2), local_partial(3))
differs(
    "host function of a local class", pure(local_partial(2)), pure(local_partial(3))
)
held("a set or a frozen one", {1}, frozenset({1}))
held("a numpy array", np.arange(3), np.arange(1, 4))
held("a masked array", masked(True, False), masked(False, True))
held("a matrix or an array", np.eye(2).view(np.matrix), np.eye(2))
held("a structured dtype", np.dtype([("a", "f4")]), np.dtype([("b", "f4")]))
held("an array of objects", np.array([1, "a"], object), np.array([1, "b"], object))
held("a jax array or a numpy array", jnp.arange(3), np.arange(3, dtype=np.int32))
held("code", compile("1", "f", "eval"), compile("2", "f", "eval"))
