"""Linear systems solved by `jax.lax.custom_linear_solve`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.sparse.linalg as sparse
import numpy as np
import pytest
from jax import lax

import untrace

A = np.float32([[3, 1], [1, 2]])
B = np.float32([1, 2])


def recovered(function: Any, *args: Any) -> str:
    """Recover a program and check it; return the text."""
    src = untrace.source(function, level="lax")(*args)
    assert src.report.strength == "identical", f"{src.report}\n{src}"
    return str(src)


def halved(a: Any, b: Any, **options: Any) -> Any:
    """Solve a system, as if it were easy."""
    return lax.custom_linear_solve(
        lambda x: a @ x, b, lambda _, b: b / 2, lambda _, b: b / 3, **options
    )


def doubled(_: Any, b: Any) -> Any:
    """Solve a system, as if it were easy."""
    return b * 2


def pair(a: Any, b: Any) -> Any:
    """Solve for two vectors."""
    solve = lambda _, b: (b[1] * 2, b[0])
    return lax.custom_linear_solve(lambda x: (a @ x[0], x[1]), (b, b), solve, solve)


@pytest.mark.parametrize(
    ("function", "options"),
    [
        (halved, "transpose_solve"),
        (lambda a, b: halved(a, b, symmetric=True), "symmetric=True"),
        (pair, "transpose_solve"),
        (
            lambda a, b: lax.custom_linear_solve(lambda x: a @ x, b, doubled),
            "b, doubled",
        ),
        (lambda a, b: sparse.cg(lambda x: a @ x, b)[0], "symmetric=True"),
    ],
)
def test_a_solve_is_written_as_the_call(function: Any, options: str) -> None:
    text = recovered(function, A, B)
    assert "linear_solve_p.bind" not in text
    assert "custom_linear_solve(" in text and options in text


def test_another_map_in_the_place_of_the_transpose_is_kept() -> None:
    def function(a: Any, b: Any) -> Any:
        (eqn,) = jax.make_jaxpr(halved)(a, b).jaxpr.eqns
        jaxprs = eqn.params["jaxprs"]
        params = {**eqn.params, "jaxprs": jaxprs._replace(vecmat=jaxprs.matvec)}
        return eqn.primitive.bind(a, a + 1, b, **params)

    assert "linear_solve_p.bind" in recovered(function, A, B)


def test_a_batch_and_derivatives_come_back() -> None:
    recovered(jnp.linalg.solve, A, B)  # whose transposed map no call gives
    recovered(jax.grad(lambda a, b: (halved(a, b) ** 2).sum(), (0, 1)), A, B)
    recovered(jax.grad(lambda a, b: jnp.linalg.solve(a, b).sum()), A, B)
    recovered(jax.vmap(halved), jnp.stack([A, A]), jnp.stack([B, B]))
    recovered(jax.vmap(jnp.linalg.solve, (None, 0)), A, jnp.stack([B, B]))
    recovered(lambda a, b: jax.jvp(halved, (a, b), (a, b)), A, B)
    recovered(jax.hessian(lambda b: (halved(A, b) ** 3).sum()), B)
