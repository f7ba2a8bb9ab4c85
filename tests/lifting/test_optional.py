"""A step that only makes text better may raise or write garbage: nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.lifting import optional as optional_module
from untrace.lifting.optional import STRICT

X = np.linspace(0.5, 2.0, 4, dtype=np.float32)


def many(x: Any) -> Any:
    """A loop over many values, of which few are read."""
    carry = tuple(x * i for i in range(14))
    out = jax.lax.fori_loop(0, 3, lambda i, c: tuple(v + c[0] for v in c), carry)
    return out[0] + jnp.sin(out[1]) * 2 + jnp.sin(out[2]) * 3


def unread(x: Any) -> Any:
    """A loop of which no value is read."""
    carry = tuple(x * i for i in range(14))

    def body(c: Any, _: Any) -> Any:
        jax.debug.callback(print_nothing, c[0])
        return tuple(v + 1 for v in c), None

    jax.lax.scan(body, carry, None, length=2)
    return x


def print_nothing(x: Any) -> None:
    pass


def raises(lines: Any, *args: Any, **kwargs: Any) -> Any:
    raise ValueError("injected")


def garbage(lines: Any, *args: Any, **kwargs: Any) -> list[str]:
    return ["this is (no code", *lines]


def wrong(lines: Any, *args: Any, **kwargs: Any) -> list[str]:
    return [line.replace("sin", "cos") for line in lines]


def steps() -> list[Callable[..., Any]]:
    return optional_module.STEPS


@pytest.mark.parametrize("fault", [raises, garbage, wrong])
@pytest.mark.parametrize("step", steps(), ids=lambda step: step.__name__)
@pytest.mark.parametrize("way", ["api", "lax", "jaxpr"])
def test_a_fault_in_a_step_harms_nothing_else(way, step, fault, monkeypatch):
    monkeypatch.delenv(STRICT)
    called = []

    def injected(*args: Any, **kwargs: Any) -> Any:
        called.append(step)
        return fault(*args, **kwargs)

    monkeypatch.setitem(optional_module.REPLACED, step.__name__, injected)
    for program in (many, unread):
        if way == "jaxpr":
            made = untrace.source(jax.make_jaxpr(program)(X), level="api")
        else:
            made = untrace.source(program, level=way)(X)
        assert made.report.is_verified, str(made)
        if called and fault is raises:
            assert "injected" in str(made)


def test_steps_that_fail_raise_in_the_tests(monkeypatch):
    monkeypatch.setitem(optional_module.REPLACED, "kept_whole", raises)
    with pytest.raises(ValueError, match="injected"):
        untrace.source(many, level="lax")(X)


@pytest.mark.parametrize("level", ["api", "lax"])
def test_a_long_tuple_of_which_nothing_is_read(level):
    made = untrace.source(unread, level=level)(X)
    assert made.report.is_verified, str(made)


def test_a_branch_that_does_nothing_with_many_operands():
    values = [jnp.asarray(X) * i for i in range(14)]

    def nothing(*args: Any) -> None:
        pass

    def told(*args: Any) -> None:
        jax.debug.callback(print_nothing, args[0])

    def program(x: Any) -> Any:
        jax.lax.cond(x[0] > 0, told, nothing, *[v * x for v in values])
        return x

    made = untrace.source(program, level="lax")(X)
    assert made.report.strength == "identical", str(made)
    assert "could not be proved" not in str(made)
