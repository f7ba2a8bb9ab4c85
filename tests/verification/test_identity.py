"""Equal identities mean that no use can tell two values apart."""

import enum
import functools
import struct
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.verification.identity import identity


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


class Shade(enum.Enum):
    RED = 1


def made(x: Any = 0, *, key: Any = 0) -> Any:
    return x, key


NAN = struct.unpack("<d", b"\1\0\0\0\0\0\xf8\x7f")[0]
# No value of this list is the same as any other.
VALUES = [
    *(1, True, 1.0, 1 + 0j, "1", b"1", np.int32(1), np.int64(1), np.float32(1)),
    *(0.0, -0.0, float("nan"), NAN, 0j, complex(-0.0, 0.0), None, ..., NotImplemented),
    *(frozenset({1}), frozenset({True}), frozenset({2}), frozenset(), frozenset({"1"})),
    *(range(1), range(2), range(0, 2, 2), slice(1), slice(True), slice(0, 1)),
    *((1,), (1, 1), [1], (True,), ((1,),), (), [], ((), ())),
    *(np.dtype("f4"), np.dtype("f8"), np.float32, np.float64, int, bool, Colour),
    *(Colour.RED, Colour.BLUE, Shade.RED, jax.lax.Precision.HIGH),
    *(jax.lax.Precision.HIGHEST, np, jnp, functools),
    *(made, functools.partial(made), functools.partial(made, 1), jnp.sin),
    *(functools.partial(made, True), functools.partial(made, key=1)),
    *(jax.tree_util.Partial(made, 1), jax.tree.structure((1, 2))),
    *(jax.tree.structure([1, 2]), jax.tree.structure({1: 2}), {1: 2}, {True: 2}),
    *({1: 2, 3: 4}, {3: 4, 1: 2}, jax.tree.structure({True: 2}), object(), object()),
    *(np.ones(2), np.ones(2), np.random.default_rng(0), np.random.default_rng(0)),
]


def test_different_values_have_different_identities() -> None:
    keys = [identity(value) for value in VALUES]
    for i, (key, value) in enumerate(zip(keys, VALUES)):
        same = [VALUES[j] for j, other in enumerate(keys) if other == key and i != j]
        assert not same, f"{value!r} and {same!r}"


@pytest.mark.parametrize(
    "make",
    [
        lambda: (1, "a", 2.5, frozenset({1, 2})),
        lambda: functools.partial(made, (1, 2), key=slice(3)),
        lambda: jax.tree.structure({"a": (1, [2])}),
        lambda: jax.core.ShapedArray((2,), np.dtype("f4")),
    ],
)
def test_values_made_anew_have_one_identity(make: Any) -> None:
    assert identity(make()) == identity(make())
    assert hash(identity(make())) == hash(identity(make()))


def test_objects_are_kept_as_long_as_their_identity() -> None:
    first = identity(np.ones(2))  # nothing else holds the array
    assert all(identity(np.ones(2)) != first for _ in range(100))


# ---- in programs: two calls of one function with another static argument -----------


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def scale(x: Any, static: Any) -> Any:
    return x * 1.0


def forward(x: Any, static: Any) -> Any:
    return x * 1.0, None


def backward(static: Any, residuals: None, cotangent: Any) -> Any:
    return (cotangent * FACTORS[static],)


scale.defvjp(forward, backward)


@functools.partial(jax.custom_jvp, nondiff_argnums=(1,))
def push(x: Any, static: Any) -> Any:
    return x * 1.0


@push.defjvp
def push_jvp(static: Any, primals: Any, tangents: Any) -> Any:
    return primals[0] * 1.0, tangents[0] * FACTORS[static]


FACTORS = {
    frozenset({2}): 2.0,
    frozenset({5}): 5.0,
    b"a": 2.0,
    b"b": 5.0,
    range(2): 2.0,
    range(5): 5.0,
    np.dtype("f4"): 2.0,
    np.dtype("i4"): 5.0,
    jax.lax.Precision.HIGH: 2.0,
    jax.lax.Precision.HIGHEST: 5.0,
    jnp.sin: 2.0,
    jnp.cos: 5.0,
    (1, (2,)): 2.0,
    (1, (3,)): 5.0,
    Colour.RED: 2.0,
    Colour.BLUE: 5.0,
    Ellipsis: 2.0,
    None: 5.0,
}
PAIRS = list(zip(*[iter(FACTORS)] * 2))


@pytest.mark.parametrize("level", ["lax", "api"])
@pytest.mark.parametrize("rule", [scale, push])
@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_rules_of_other_static_arguments_stay_apart(
    pair: Any, rule: Any, level: str
) -> None:
    def function(x: Any) -> Any:
        return rule(rule(x, pair[0]), pair[1])

    for src in (
        untrace.source(function, level=level)(1.0),
        untrace.source(jax.make_jaxpr(function)(1.0), level=level),
        untrace.source(jax.jit(function).trace(1.0), level=level),
        untrace.source(function, expand="custom_vjp")(1.0),
    ):
        assert src.report.is_verified
        assert jax.grad(src.load())(1.0) == 10.0
