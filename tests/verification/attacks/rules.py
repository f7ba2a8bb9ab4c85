"""Derivative rules: static arguments of every kind, closures, defaults, two uses of one."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import math
import operator
import re
import types
import zlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.verification.attacks.pairs import X, Y, differs


def weight(static: Any) -> float:
    """A number that is another one for every other static argument."""
    text = re.sub(r" at 0x[0-9a-f]+", "", f"{type(static)} {static!r}")
    if isinstance(static, np.ndarray | np.generic):
        text += f" {static.dtype} {static.tobytes()!r}"
    if isinstance(static, types.BuiltinMethodType):
        text += repr(static.__self__)
    return 1.0 + zlib.crc32(text.encode()) % 9973 / 8


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def pulled(x: Any, static: Any) -> Any:
    return jnp.sin(x)


pulled.defvjp(
    lambda x, static: (jnp.sin(x), None),
    lambda static, _, ct: (ct * weight(static),),
)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def pushed(x: Any, static: Any) -> Any:
    return jnp.sin(x)


pushed.defjvp(lambda static, p, t: (jnp.sin(*p), t[0] * weight(static)))


def static(kind: str, a: Any, b: Any) -> None:
    """Register two values of a static argument: alone, and after another use."""
    what = f"static argument of a custom_{{}}, {kind}"
    for derivative, f in (("vjp", pulled), ("jvp", pushed)):
        name = what.format(derivative)
        differs(name, lambda x: f(x, a), lambda x: f(x, b))
        differs(f"{name}, of a second use", *_second_use(f, a, b))


def _second_use(f: Any, a: Any, b: Any) -> Any:
    return (lambda x: f(f(x, a), a)), (lambda x: f(f(x, a), b))


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass(frozen=True)
class Config:
    n: Any
    rest: Any = ()


class Point(collections.namedtuple("Point", "x y")):
    __slots__ = ()


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Static:
    n: Any


class Counting:
    """A callable with state."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __call__(self, x: Any) -> Any:
        return x * self.n

    def __repr__(self) -> str:
        return f"Counting({self.n})"

    def method(self, x: Any) -> Any:
        return x * self.n


def double(x: Any, n: Any = 2) -> Any:
    return x * n


def triple(x: Any, n: Any = 3) -> Any:
    return x * n


QUIET, LOUD = np.uint32([0x7FC00000, 0x7FC00001]).view(np.float32)

static("frozenset", frozenset({2}), frozenset({5}))
static("frozenset of strings", frozenset({"a", "b"}), frozenset({"a", "c"}))
static("bytes", b"ab", b"ac")
static("range", range(3), range(4))
static("range, step alone", range(0, 4, 2), range(0, 4, 3))
static("slice", slice(1, 2), slice(1, 3))
static("dtype", np.dtype("float32"), np.dtype("int32"))
static("dtype, byte order", np.dtype("<f4"), np.dtype(">f4"))
static("scalar type of numpy", np.float32, np.int32)
static("scalar type of jax.numpy", jnp.float32, jnp.bfloat16)
static("lax.Precision", lax.Precision.HIGHEST, lax.Precision.DEFAULT)
static(
    "lax.GatherScatterMode",
    lax.GatherScatterMode.CLIP,
    lax.GatherScatterMode.FILL_OR_DROP,
)
static(
    "lax.RoundingMethod",
    lax.RoundingMethod.TO_NEAREST_EVEN,
    lax.RoundingMethod.AWAY_FROM_ZERO,
)
static("enum of the user", Color.RED, Color.BLUE)
static("flag", Access.READ, Access.READ | Access.WRITE)
static("Ellipsis or None", ..., None)
static("NotImplemented or None", NotImplemented, None)
static("None or False", None, False)
static("class", int, float)
static("class of the user", Counting, Config)
static("module", math, operator)
static("string", "sum", "mean")
static("string or bytes", "a", b"a")
static("empty string or None", "", None)
static("sign of zero", 0.0, -0.0)
static("sign of zero, complex", 0j, -0j)
static("NaN or infinity", math.nan, math.inf)
static("NaN payload", QUIET, LOUD)
static("1 or True", 1, True)
static("1 or 1.0", 1, 1.0)
static("1.0 or complex", 1.0, 1 + 0j)
static("0 or False", 0, False)
static("large integers", 2**70, 2**70 + 1)
static("float, last bit", 0.1, np.nextafter(0.1, 1).item())
static("tuple", (1, 2), (1, 3))
static("tuple, where it is nested", (1, (2, 3)), ((1, 2), 3))
static("tuple, how often", (2, 2, 3), (2, 3, 3))
static("tuple, depth", (1,), ((1,),))
static("tuple, order", (1, 2), (2, 1))
static("tuple of a list", ([1, 2],), ((1, 2),))
static("tuple of bytes", (1, (b"a",)), (1, (b"b",)))
static("tuple of 1 and True", (1, True), (True, 1))
static("empty tuple or None", (), None)
static("namedtuple", Point(1, 2), Point(1, 3))
static("namedtuple or tuple", Point(1, 2), (1, 2))
static("partial", functools.partial(double, n=2), functools.partial(double, n=3))
static(
    "partial of positions", functools.partial(double, 2), functools.partial(double, 3)
)
static(
    "partial of another function", functools.partial(double), functools.partial(triple)
)
static(
    "partial of a frozenset",
    functools.partial(double, n=frozenset({1})),
    functools.partial(double, n=frozenset({2})),
)
static(
    "tree_util.Partial",
    jax.tree_util.Partial(double, 2),
    jax.tree_util.Partial(double, 3),
)
static("bound method", Counting(2).method, Counting(3).method)
static("bound method of a builtin", "ab".join, "ac".join)
static("callable with state", Counting(2), Counting(3))
static("function", double, triple)
static("builtin function", math.sin, math.cos)
static("ufunc", np.sin, np.cos)
static("jax.numpy function", jnp.sin, jnp.cos)
static("numpy scalar", np.float32(2), np.float32(3))
static("numpy scalar, width", np.int32(2), np.int64(2))
static("numpy scalar or number", np.float64(2), 2.0)
static("numpy bool or bool", np.bool_(True), True)
static("numpy array", np.arange(3), np.arange(1, 4))
static("numpy array, dtype", np.arange(3, dtype=np.int32), np.arange(3, dtype=np.int64))
static("dataclass", Config(2), Config(3))
static("dataclass, 1 or True", Config(1), Config(True))
static("dataclass of a frozenset", Config(2, frozenset({1})), Config(2, frozenset({2})))
static("registered static", Static(2), Static(3))
static("registered static of bytes", Static(b"a"), Static(b"b"))
static("treedef", jax.tree.structure((1, 2)), jax.tree.structure([1, 2]))
static("treedef, keys", jax.tree.structure({"a": 1}), jax.tree.structure({"b": 1}))
static("decimal", decimal.Decimal("1.0"), decimal.Decimal("1.5"))
static("decimal, digits", decimal.Decimal("1.0"), decimal.Decimal("1.00"))
static("fraction", fractions.Fraction(1, 2), fractions.Fraction(1, 3))
static("date", datetime.date(2020, 1, 1), datetime.date(2020, 1, 2))
static("regular expression", re.compile("a"), re.compile("b"))
static("partition spec", jax.P("a"), jax.P("b"))
static(
    "shape and type",
    jax.ShapeDtypeStruct((2,), np.float32),
    jax.ShapeDtypeStruct((3,), np.float32),
)
static(
    "mapping proxy", types.MappingProxyType({"a": 1}), types.MappingProxyType({"a": 2})
)
static("dictionary", {"a": 1}, {"a": 2})
static("set", {1}, {2})
static("bytearray", bytearray(b"a"), bytearray(b"b"))
static("device", jax.devices()[0], jax.devices()[1])
static("primitive", lax.sin_p, lax.cos_p)
static("abstract value", jax.typeof(X), jax.typeof(Y.astype(np.int32)))
