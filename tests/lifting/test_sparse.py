"""Sparse matrices come back as such, with their operators and methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import sparse

import untrace

V = np.ones(3, np.float32)
MATRIX = sparse.BCOO.fromdense(jnp.diag(jnp.arange(1.0, 4.0)))


def recover(function: Callable[..., Any], *args: Any, **options: Any) -> str:
    src = untrace.source(function, **options)(*args)
    assert src.report.is_verified, f"{src.report}\n{src}"
    assert "from its equations" not in str(src), str(src)
    return str(src)


def test_operators_and_methods() -> None:
    text = recover(lambda m, v: (m * 2.0).todense() @ v + m.T @ v, MATRIX, V)
    assert "return (m * 2.0).todense() @ v + m.T @ v\n" in text
    assert "from jax.experimental.sparse import BCOO\n" in text
    assert "shape=(3, 3)" in text
    assert "class BCOO" not in text


@pytest.mark.parametrize(
    "line",
    [
        "v @ m",
        "-m @ v",
        "(m + m).todense()",
        "m[1].todense()",
        "m.sum(0).todense()",
        "m.reshape(9).todense()",
        "m.astype(jnp.int32).todense()",
        "m.transpose((1, 0)).todense()",
    ],
)
def test_line(line: str) -> None:
    function = eval(f"lambda m, v: {line}", {"jnp": jnp})
    assert f"return {line}\n" in recover(function, MATRIX, V)


@pytest.mark.parametrize(
    "matrix",
    [
        sparse.BCSR.from_bcoo(MATRIX),
        sparse.COO.fromdense(MATRIX.todense()),
        sparse.CSR.fromdense(MATRIX.todense()),
        sparse.CSC.fromdense(MATRIX.todense()),
    ],
    ids=lambda matrix: type(matrix).__name__,
)
def test_other_formats(matrix: Any) -> None:
    text = recover(lambda m, v: m @ v, matrix, V)
    assert "return m @ v\n" in text
    assert f"import {type(matrix).__name__}\n" in text


def test_matrix_that_the_program_makes_of_arrays() -> None:
    def loss(data: Any, m: Any, v: Any) -> Any:
        return jnp.sum((sparse.BCOO((data, m.indices), shape=m.shape) @ v) ** 2)

    text = recover(lambda m, v: jax.grad(loss)(m.data, m, v), MATRIX, V)
    assert "BCOO((data, m.indices), shape=(3, 3)) @ v" in text
    assert "jax.grad(loss)(m.data" in text


def test_matrices_that_share_arrays_are_told_apart() -> None:
    def wide(m: Any) -> Any:
        larger = sparse.BCOO((m.data, m.indices), shape=(4, 5))
        return larger.todense(), m.todense()

    text = recover(wide, MATRIX)
    assert "BCOO((m.data, m.indices), shape=(4, 5)).todense(), m.todense()" in text


def test_transformations_of_functions_of_matrices() -> None:
    def product(m: Any, v: Any) -> Any:
        return jnp.sum(jnp.sin(m @ v))

    text = recover(lambda m, v: sparse.sparsify(product)(m, v), MATRIX, V)
    assert "sparsify(product)(m, v)" in text
    text = recover(lambda m, v: sparse.grad(product)(m.todense(), v), MATRIX, V)
    assert "grad(product)(m.todense(), v)" in text


def test_matrix_is_returned() -> None:
    text = recover(lambda m: (m * 2.0, m.data), MATRIX)
    assert "return m * 2.0, m.data" in text


def test_matrix_at_level_lax() -> None:
    text = str(untrace.source(lambda m, v: m @ v, level="lax")(MATRIX, V))
    assert "BCOO(\n" in text
    assert "shape=(3, 3)" in text


def test_dense_operators_stay_what_they_are() -> None:
    text = recover(lambda v: jax.vmap(jnp.subtract)(v, v * 2), V)
    assert "jax.vmap(jnp.subtract)(v, v * 2)" in text
