"""Calls that make JAX compile again, one cause each, and calls that do not."""

from __future__ import annotations

import collections
import contextlib
import enum
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.layout import Format, Layout
from jax.sharding import NamedSharding, PartitionSpec, SingleDeviceSharding


@dataclass(frozen=True)
class Planted:
    """Two calls, between which one thing differs.

    Attributes:
      kind: The kind of cause; "" if JAX does not compile again.
      where: The path that is named.
      make: Returns the function, jitted or one that makes jitted functions.
      first: The positional and keyword arguments of the first call.
      second: Those of the second.
      before: A context that the first call is made in.
      after: A context that the second call is made in.
    """

    kind: str
    where: str
    make: Callable[[], Any]
    first: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
    second: Callable[[], tuple[tuple[Any, ...], dict[str, Any]]]
    before: Callable[[], Any] = contextlib.nullcontext
    after: Callable[[], Any] = contextlib.nullcontext


PLANTED: dict[str, Planted] = {}


def args(*values: Any, **named: Any) -> Callable[[], Any]:
    return lambda: (values, named)


def plant(
    name: str,
    kind: str,
    where: str,
    make: Callable[[], Any],
    first: Callable[[], Any],
    second: Callable[[], Any],
    before: Callable[[], Any] = contextlib.nullcontext,
    after: Callable[[], Any] = contextlib.nullcontext,
) -> None:
    assert name not in PLANTED
    PLANTED[name] = Planted(kind, where, make, first, second, before, after)


def total(tree: Any) -> Any:
    return sum(jnp.sum(leaf * 1.0) for leaf in jax.tree.leaves(tree))


def of_tree(**options: Any) -> Callable[[], Any]:
    return lambda: jax.jit(lambda tree: total(tree), **options)


def of_two() -> Any:
    return jax.jit(lambda x, y=1.0: total((x, y)))


def ones(*shape: int, dtype: Any = np.float32) -> Any:
    return jnp.ones(shape, dtype)


class State(NamedTuple):
    mean: Any
    count: Any


class Other(NamedTuple):
    mean: Any
    count: Any


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["w"], meta_fields=["name"]
)
@dataclass
class Module:
    w: Any
    name: str


# ---- shapes, dtypes, weak types

plant("rows", "shape", "tree", of_tree(), args(ones(8, 3)), args(ones(7, 3)))
plant("columns", "shape", "tree", of_tree(), args(ones(8, 3)), args(ones(8, 4)))
plant("axes", "shape", "tree", of_tree(), args(ones(8)), args(ones(8, 1)))
plant("scalar", "shape", "tree", of_tree(), args(ones()), args(ones(1)))
plant("empty", "shape", "tree", of_tree(), args(ones(0)), args(ones(1)))
plant(
    "in a dict",
    "shape",
    "tree['dense']['kernel']",
    of_tree(),
    args({"dense": {"kernel": ones(2, 3), "bias": ones(3)}}),
    args({"dense": {"kernel": ones(5, 3), "bias": ones(3)}}),
)
plant(
    "in a list",
    "shape",
    "tree[1]",
    of_tree(),
    args([ones(2), ones(3)]),
    args([ones(2), ones(4)]),
)
plant(
    "in a field",
    "shape",
    "tree.mean",
    of_tree(),
    args(State(ones(2), 1)),
    args(State(ones(3), 1)),
)
plant(
    "in a module",
    "shape",
    "tree.w",
    of_tree(),
    args(Module(ones(2), "a")),
    args(Module(ones(3), "a")),
)
plant(
    "by keyword",
    "shape",
    "y",
    of_two,
    args(ones(2), y=ones(2)),
    args(ones(2), y=ones(3)),
)
plant(
    "in rest",
    "shape",
    "rest[1]",
    lambda: jax.jit(lambda *rest: total(rest)),
    args(ones(2), ones(2)),
    args(ones(2), ones(3)),
)
plant(
    "half", "dtype", "tree", of_tree(), args(ones(3)), args(ones(3, dtype=np.float16))
)
plant(
    "integers", "dtype", "tree", of_tree(), args(ones(3)), args(ones(3, dtype=np.int32))
)
plant("bools", "dtype", "tree", of_tree(), args(ones(3)), args(ones(3, dtype=bool)))
plant(
    "complex",
    "dtype",
    "tree",
    of_tree(),
    args(ones(3)),
    args(ones(3, dtype=np.complex64)),
)
plant(
    "bytes",
    "dtype",
    "tree['x']",
    of_tree(),
    args({"x": np.ones(3, np.uint8)}),
    args({"x": np.ones(3, np.int8)}),
)
plant("int for float", "dtype", "y", of_two, args(ones(2), 1.0), args(ones(2), 1))
plant(
    "old keys",
    "shape",
    "key",
    lambda: jax.jit(lambda key: jax.random.normal(key)),
    lambda: ((jax.random.key(0),), {}),
    lambda: ((jax.random.PRNGKey(0),), {}),
)
plant(
    "number",
    "weak type",
    "y",
    of_two,
    args(ones(2), 0.5),
    args(ones(2), jnp.float32(0.5)),
)
plant(
    "numpy number",
    "weak type",
    "y",
    of_two,
    args(ones(2), 0.5),
    args(ones(2), np.float32(0.5)),
)
plant(
    "count",
    "weak type",
    "tree.count",
    of_tree(),
    args(State(ones(2), 1)),
    args(State(ones(2), jnp.int32(1))),
)
plant(
    "weak array", "weak type", "tree", of_tree(), args(ones(3)), args(jnp.full(3, 1.0))
)

# ---- static arguments


class Mode(enum.Enum):
    TRAIN = 1
    TEST = 2


class Config:
    def __init__(self, n: int) -> None:
        self.n = n


@dataclass(frozen=True)
class Frozen:
    n: int


def static(where: str = "n") -> Callable[[], Any]:
    return lambda: jax.jit(lambda x, n: total(x), static_argnames=where)


def by_number() -> Any:
    return jax.jit(lambda n, x: total(x), static_argnums=0)


STATIC = "static argument"
plant("static number", STATIC, "n", by_number, args(2, ones(3)), args(3, ones(3)))
plant("static by name", STATIC, "n", static(), args(ones(3), n=2), args(ones(3), n=3))
plant("static by place", STATIC, "n", static(), args(ones(3), 2), args(ones(3), 3))
plant(
    "static text", STATIC, "n", static(), args(ones(3), "relu"), args(ones(3), "gelu")
)
plant(
    "static shape", STATIC, "n", static(), args(ones(3), (2, 3)), args(ones(3), (3, 2))
)
plant(
    "static enum",
    STATIC,
    "n",
    static(),
    args(ones(3), Mode.TRAIN),
    args(ones(3), Mode.TEST),
)
plant("static none", STATIC, "n", static(), args(ones(3), None), args(ones(3), 1))
plant(
    "static dtype",
    STATIC,
    "n",
    static(),
    args(ones(3), jnp.float32),
    args(ones(3), jnp.bfloat16),
)
plant(
    "static lambda", STATIC, "n", static(), *[lambda: ((ones(3), lambda v: v), {})] * 2
)
plant(
    "static object",
    STATIC,
    "n",
    static(),
    args(ones(3), Config(2)),
    args(ones(3), Config(2)),
)
plant(
    "static dataclass",
    STATIC,
    "n",
    static(),
    args(ones(3), Frozen(2)),
    args(ones(3), Frozen(3)),
)

# ---- trees

plant(
    "new key",
    "structure",
    "tree",
    of_tree(),
    args({"a": 1.0}),
    args({"a": 1.0, "b": 1.0}),
)
plant(
    "lost key",
    "structure",
    "tree['x']",
    of_tree(),
    args({"x": {"a": 1.0, "b": 1.0}}),
    args({"x": {"a": 1.0}}),
)
plant(
    "list for tuple", "structure", "tree", of_tree(), args((1.0, 2.0)), args([1.0, 2.0])
)
plant(
    "length",
    "structure",
    "tree['x']",
    of_tree(),
    args({"x": [1.0]}),
    args({"x": [1.0, 2.0]}),
)
plant("none", "structure", "tree[1]", of_tree(), args((1.0, None)), args((1.0, 2.0)))
plant(
    "field of another class",
    "structure",
    "tree",
    of_tree(),
    args(State(1.0, 2.0)),
    args(Other(1.0, 2.0)),
)
plant(
    "ordered",
    "structure",
    "tree",
    of_tree(),
    args({"a": 1.0}),
    args(collections.OrderedDict(a=1.0)),
)
plant(
    "static field",
    "structure",
    "tree",
    of_tree(),
    args(Module(ones(2), "a")),
    args(Module(ones(2), "b")),
)
plant("default given", "structure", "y", of_two, args(ones(2)), args(ones(2), 1.0))
plant("default left out", "structure", "y", of_two, args(ones(2), 1.0), args(ones(2)))
plant("keyword", "keyword", "y", of_two, args(ones(2), 1.0), args(ones(2), y=1.0))
plant("position", "keyword", "y", of_two, args(ones(2), y=1.0), args(ones(2), 1.0))

# ---- places


def device(number: int) -> Any:
    return jax.devices()[number]


def mesh(n: int = 8) -> Any:
    kinds = (jax.sharding.AxisType.Auto,)
    return jax.make_mesh((n,), ("d",), axis_types=kinds, devices=jax.devices()[:n])


def put(where: Callable[[], Any], shape: tuple[int, ...] = (8, 2)) -> Callable[[], Any]:
    return lambda: ((jax.device_put(np.ones(shape, np.float32), where()),), {})


def sharded(*spec: Any, n: int = 8) -> Callable[[], Any]:
    return lambda: NamedSharding(mesh(n), PartitionSpec(*spec))


def transposed() -> Any:
    return Format(Layout((1, 0)), SingleDeviceSharding(device(0)))


def usual() -> Any:
    return Format(Layout((0, 1)), SingleDeviceSharding(device(0)))


plant(
    "committed",
    "committed",
    "tree",
    of_tree(),
    args(ones(8, 2)),
    put(lambda: device(0)),
)
plant(
    "not committed",
    "committed",
    "tree",
    of_tree(),
    put(lambda: device(0)),
    args(np.ones((8, 2), np.float32)),
)
plant(
    "device",
    "device",
    "tree",
    of_tree(),
    put(lambda: device(0)),
    put(lambda: device(1)),
)
plant("spec", "sharding", "tree", of_tree(), put(sharded("d")), put(sharded()))
plant(
    "mesh of an array",
    "sharding",
    "tree",
    of_tree(),
    put(sharded("d")),
    put(sharded("d", n=4)),
)
plant("layout", "layout", "tree", of_tree(), put(usual), put(transposed))

# ---- functions


def jit_anew(**options: Any) -> Callable[[], Any]:
    def run(x: Any, s: Any = 2.0) -> Any:
        return jax.jit(lambda v: v * s, **options)(x)

    return lambda: run


def inner_def() -> Any:
    def run(x: Any) -> Any:
        @jax.jit
        def inner(v: Any) -> Any:
            return v + 1

        return inner(x)

    return run


def scaled(v: Any, s: Any) -> Any:
    return v * s


def partial_anew() -> Any:
    return lambda x, s: jax.jit(functools.partial(scaled, s=s))(x)


def default_anew() -> Any:
    def run(x: Any, n: Any) -> Any:
        def inner(v: Any, m: Any = n) -> Any:
            return v * m

        return jax.jit(inner)(x)

    return run


class Model:
    def __init__(self, s: float) -> None:
        self.s = s

    def __call__(self, x: Any) -> Any:
        return jax.jit(self.apply)(x)

    def apply(self, x: Any) -> Any:
        return x * self.s


def method_of_new() -> Any:
    return lambda x, s: Model(s)(x)


plant("lambda", "function", "<lambda>", jit_anew(), args(ones(3)), args(ones(3)))
plant("inner function", "function", "inner", inner_def, args(ones(3)), args(ones(3)))
plant(
    "partial",
    "function",
    "scaled",
    partial_anew,
    args(ones(3), 2.0),
    args(ones(3), 2.0),
)
plant(
    "method", "function", "apply", method_of_new, args(ones(3), 2.0), args(ones(3), 3.0)
)
plant(
    "closed number", "closure", "s", jit_anew(), args(ones(3), 2.0), args(ones(3), 3.0)
)
plant(
    "closed array",
    "closure",
    "s",
    jit_anew(),
    args(ones(3), np.ones(3)),
    args(ones(3), np.zeros(3)),
)
plant(
    "partial argument",
    "closure",
    "s",
    partial_anew,
    args(ones(3), 2.0),
    args(ones(3), 3.0),
)
plant(
    "default",
    "closure",
    "default 0",
    default_anew,
    args(ones(3), 2.0),
    args(ones(3), 3.0),
)

# ---- what jit is told


def again(*each: dict[str, Any]) -> Callable[[], Any]:
    """A function that is jitted with other options in each call."""

    def make() -> Any:
        def body(x: Any) -> Any:
            return x + 1

        options = iter(each)
        return lambda x: jax.jit(body, **next(options))(x)

    return make


X = np.ones((8, 2), np.float32)
plant(
    "donation",
    "donation",
    "donate_argnums",
    again({}, {"donate_argnums": 0}),
    args(X),
    args(X),
)
plant(
    "out_shardings",
    "option",
    "out_shardings",
    again({}, {"out_shardings": SingleDeviceSharding(jax.devices()[1])}),
    args(X),
    args(X),
)
plant(
    "compiler options",
    "option",
    "compiler_options",
    again({}, {"compiler_options": {"xla_embed_ir_in_executable": True}}),
    args(X),
    args(X),
)

# ---- settings


def config(name: str, kind: str, where: str, after: Callable[[], Any]) -> None:
    x = np.ones((8, 8), np.float32)
    make = lambda: jax.jit(lambda x: total(x @ x))
    plant(name, kind, where, make, args(x), args(x), contextlib.nullcontext, after)


config("x64", "config", "jax_enable_x64", lambda: jax.enable_x64(True))
config(
    "matmul",
    "config",
    "jax_default_matmul_precision",
    lambda: jax.default_matmul_precision("float32"),
)
config(
    "ranks",
    "config",
    "jax_numpy_rank_promotion",
    lambda: jax.numpy_rank_promotion("raise"),
)
config(
    "promotion",
    "config",
    "jax_numpy_dtype_promotion",
    lambda: jax.numpy_dtype_promotion("strict"),
)
config(
    "threefry",
    "config",
    "jax_threefry_partitionable",
    lambda: jax.threefry_partitionable(False),
)
config(
    "default device",
    "default device",
    "jax_default_device",
    lambda: jax.default_device(jax.devices()[1]),
)
config("mesh", "mesh", "mesh", lambda: jax.set_mesh(mesh()))

# ---- what is not compiled again

plant("same", "", "", of_tree(), args(ones(3)), args(ones(3)))
plant("values", "", "", of_two, args(ones(3), 1.0), args(ones(3) * 2, 2.0))
plant("numpy", "", "", of_tree(), args(np.ones(3, np.float32)), args(ones(3)))
plant("wide numpy", "", "", of_tree(), args(np.ones(3)), args(ones(3)))
plant("equal static", "", "", static(), args(ones(3), (1, 2)), args(ones(3), (1, 2)))
plant(
    "equal frozen", "", "", static(), args(ones(3), Frozen(1)), args(ones(3), Frozen(1))
)
plant(
    "order of keys",
    "",
    "",
    of_tree(),
    args({"a": 1.0, "b": 2.0}),
    args({"b": 2.0, "a": 1.0}),
)
plant("jitted again", "", "", again({}, {}), args(X), args(X))
