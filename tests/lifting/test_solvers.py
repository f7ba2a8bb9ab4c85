"""Solvers of libraries come back from their calls, whose primitives are in loops and rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.recorded import FROM_EQUATIONS

TIMES = np.linspace(0.0, 4.0, 30, dtype=np.float32)
START = dict.fromkeys(("a", "rate", "shift"), np.float32(1.0))


def least_squares(params: Any, data: Any) -> Any:
    """The loop of this one has an operand that only dead code reads."""
    optx = pytest.importorskip("optimistix")

    def model(params: Any, data: Any) -> Any:
        x, y = data
        return params["a"] * jnp.exp(-params["rate"] * x) + params["shift"] - y

    solver = optx.LevenbergMarquardt(rtol=1e-6, atol=1e-6)
    return optx.least_squares(model, solver, params, args=data).value


def gradient_of_a_solve(y: Any) -> Any:
    diffrax = pytest.importorskip("diffrax")
    term = diffrax.ODETerm(lambda t, y, args: -y)

    def last(y: Any) -> Any:
        return diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, 1.0, 0.1, y, max_steps=16
        ).ys[0]

    return jax.grad(last)(y)


SOLVES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "least squares": (least_squares, (START, (TIMES, 2.5 * np.exp(-TIMES) + 0.5))),
    "gradient of a solve": (gradient_of_a_solve, (np.float32(0.5),)),
}


@pytest.mark.parametrize("name", SOLVES)
def test_solvers_come_back_from_their_calls(name: str) -> None:
    solve, args = SOLVES[name]
    src = untrace.source(solve)(*args)
    assert src.report.is_verified, str(src.report)
    assert not any(FROM_EQUATIONS in note for note in src.report.notes), str(src.report)
