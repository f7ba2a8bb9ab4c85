"""What objects hold beside their arrays counts by what it is, whatever a class calls equal."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

import untrace

X = np.ones(3, np.float32)


class Config:
    """Known by its name, as in a registry."""

    def __init__(self, name: str, tolerance: float) -> None:
        self.name, self.tolerance = name, tolerance

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)


class Text(str):
    __slots__ = ()
    factor = 3


STATIC = {"static": True}
USUAL = Config("solver", 1e-3)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    x: Any
    config: Any = dataclasses.field(default=USUAL, metadata=STATIC)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Counted:
    x: Any
    n: Any = dataclasses.field(default=100, metadata=STATIC)


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Named:
    x: Any
    name: Any = dataclasses.field(default="a", metadata=STATIC)


def step(state: State) -> State:
    return dataclasses.replace(state, x=state.x * state.config.tolerance)


def recovered(function: Any, arg: Any, level: str) -> tuple[Any, Any]:
    src = untrace.source(function, keep_types=True, level=level)(arg)
    space: dict[str, Any] = {}
    exec(str(src), space)
    return src.report, space[src.module.name](arg)


@pytest.mark.filterwarnings("ignore::untrace.UnverifiedWarning")
@pytest.mark.parametrize("level", ["api", "lax"])
def test_returned_objects_hold_what_they_held(level: str) -> None:
    state = State(X, Config("solver", 1e-6))
    report, got = recovered(step, state, level)
    assert not report.is_verified or got.config.tolerance == 1e-6
    report, got = recovered(lambda x: Counted(x * 2.0, np.int8(100)), X, level)
    assert not report.is_verified or type(got.n) is np.int8
    report, got = recovered(lambda x: Named(x * 2.0, Text("a")), X, level)
    assert not report.is_verified or type(got.name) is Text


def scale(counted: Counted) -> Any:
    return counted.x * float(counted.n * counted.n)


@pytest.mark.parametrize(
    ("function", "traced", "given"),
    [
        (
            lambda s: s.x * s.config.tolerance,
            State(X, Config("a", 1e-6)),
            State(X, Config("a", 1e-3)),
        ),
        (scale, Counted(X, 100), Counted(X, np.int8(100))),
        (
            lambda s: s.x * getattr(s.name, "factor", 1),
            Named(X, "a"),
            Named(X, Text("a")),
        ),
    ],
)
def test_loaded_functions_refuse_what_only_looks_the_same(
    function: Callable[..., Any], traced: Any, given: Any
) -> None:
    loaded = untrace.source(function)(traced).load()
    again = dataclasses.replace(traced)
    assert np.array_equal(loaded(traced), function(traced))
    assert np.array_equal(loaded(again), function(traced))
    with pytest.raises(untrace.UntraceError, match="another tree"):
        loaded(given)


def test_static_arguments_count_by_their_types() -> None:
    def f(x: Any, n: Any) -> Any:
        return x * float(n * n)

    loaded = untrace.source(f, static_argnums=1)(X, 100).load()
    assert np.array_equal(loaded(X, 100), f(X, 100))
    with pytest.raises(untrace.UntraceError, match="fixed at 100"):
        loaded(X, np.int8(100))


def test_results_that_only_look_the_same_differ() -> None:
    first, second = (lambda x, t=t: State(x, Config("solver", t)) for t in (1e-3, 1e-6))
    for pair in ((first, second), (second, first)):
        assert untrace.diff(*pair)(X).verdict == "different"


def test_objects_whose_equality_raises_are_compared() -> None:
    def made() -> Callable[[Any], Any]:
        weights = sparse.BCOO.fromdense(jnp.ones(3))

        def host(x: Any) -> Any:
            return np.asarray(weights.todense()) * x

        return lambda x: jax.pure_callback(host, jax.ShapeDtypeStruct((3,), "f4"), x)

    verdicts = ("equal", "equivalent", "different")
    assert untrace.diff(made(), made())(X).verdict in verdicts


def test_the_header_says_what_is_fixed_in_objects_that_a_file_takes() -> None:
    state = State(X, Config("solver", 1e-6))
    notes = untrace.source(step, keep_types=True)(state).report.notes
    assert "What State has beside arrays is fixed at what it was." in notes
    assert not any("is fixed at" in n for n in untrace.source(step)(state).report.notes)
    plain = untrace.source(lambda p: p["x"] * 2, keep_types=True)({"x": X})
    assert not any("is fixed at" in note for note in plain.report.notes)
