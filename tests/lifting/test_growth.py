"""What writing costs: steps by the size of a program, counted, and passes over a module."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import untrace
from benchmarks import families
from untrace.lifting.recorded import listing, passes
from untrace.lifting.recorded.repeats import slots, turns
from untrace.lifting.recorded.unify import optional_functions

X = jnp.linspace(0.0, 1.0, 4)


def calls_of(
    module: ModuleType, name: str, run: Callable[[], Any], monkeypatch: Any
) -> int:
    """Count the calls of a function of a module while something runs."""
    n_calls, original = 0, getattr(module, name)

    @functools.wraps(original)
    def counted(*args: Any) -> Any:
        nonlocal n_calls
        n_calls += 1
        return original(*args)

    with monkeypatch.context() as patch:
        patch.setattr(module, name, counted)
        run()
    return n_calls


def products(xs):
    numbers = range(len(xs))
    return sum(jnp.sin(xs[i]) * xs[j] for i in numbers for j in numbers)


def summed(xs):
    numbers = range(len(xs))
    terms = [jnp.sin(xs[i]) * xs[j] for i in numbers for j in numbers]
    return sum(terms)


def ring(xs):
    def turn(held):
        return [jnp.sin(a) + b for a, b in zip(held, held[1:] + held[:1])]

    return jax.lax.fori_loop(0, 3, lambda _, held: turn(held), xs)


def collected(x, n):
    found = []
    for _ in range(n):
        x = x + 0.1
        found.append((x, x * 2))
    return found


def test_values_that_turns_list_are_found_once_a_turn(monkeypatch):
    def listed(n: int) -> int:
        xs = [X + i for i in range(n)]
        source = untrace.source(products)
        return calls_of(slots, "names_in", lambda: source(xs), monkeypatch)

    assert listed(12) < 6 * listed(4)  # of nine times as many turns


def test_turns_whose_values_are_taken_elsewhere_one_by_one_are_not_compared(
    monkeypatch,
):
    def compared(n: int) -> int:
        xs = [X + i for i in range(n)]
        source = untrace.source(summed)
        return calls_of(turns, "slot_of", lambda: source(xs), monkeypatch)

    assert compared(12) < 25 * compared(4)  # of nine times as many turns


def test_turns_of_a_loop_that_goes_on_otherwise_are_looked_at_once(monkeypatch):
    def taken(n: int) -> int:
        xs = [X + i for i in range(n)]
        source = untrace.source(ring)
        return calls_of(turns, "_takes_turn", lambda: source(xs), monkeypatch)

    assert taken(64) < 2.5 * taken(32)


def test_what_goes_on_otherwise_is_written_as_before():
    xs = [X + i for i in range(6)]
    text = str(untrace.source(ring)(xs))
    assert text.count("jnp.sin(") == 6, text
    assert "jnp.sin(held[5]) + held[0]" in text, text


def test_lists_of_what_turns_leave_are_found():
    text = str(untrace.source(lambda x: collected(x, 5))(X))
    assert "append((x, x * 2))" in text, text


class Layer:
    def __init__(self, number: int) -> None:
        self.scale, self.shift = X * number, number

    def __call__(self, x):
        return jnp.tanh(x * self.scale) + self.shift


def test_functions_of_one_name_with_as_many_parameters_are_not_compared(monkeypatch):
    layers = [Layer(i) for i in range(6)]

    def applied(x):
        for layer in layers:
            x = layer(x)
        return x

    run = lambda: untrace.source(applied)(X)
    assert not calls_of(optional_functions, "_lacking", run, monkeypatch)


def test_a_program_is_named_once_however_often_it_is_written(monkeypatch):
    pytest.importorskip("numpyro")
    gradient, args = families.numpyro(2)
    counted: list[str] = []

    def noting(run: Any) -> Any:
        @functools.wraps(run)
        def noted(module: Any) -> None:
            counted.append(run.__name__)
            run(module)

        return noted

    for name in ("SHORTENING", "FINISHING"):
        noted = [noting(run) for run in getattr(passes, name)]
        monkeypatch.setattr(listing, name, noted)
    src = untrace.source(gradient)(*args)
    assert src.report.is_verified
    assert counted.count("inline") > counted.count("name") == 1
