"""Primitives made for operands of certain types are told apart by these types."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace import jaxapi
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent
from untrace.verification.identity import identity

X, Y = np.eye(2, 3) > 0, np.eye(3, 2) > 0


def _both(x: Any, y: Any) -> Any:
    return jnp.nonzero(x, size=4), jnp.nonzero(y, size=4)


def _typed() -> Any:
    traced = jax.make_jaxpr(_both)(X, Y)
    body, _ = jaxapi.split_jaxpr(traced)
    if any("_prim" not in eqn.params for eqn in body.eqns):
        pytest.skip("this JAX has no typed primitive for `nonzero`")
    return traced


def test_types_of_operands_count() -> None:
    traced = _typed()
    body, consts = jaxapi.split_jaxpr(traced)
    first, second = body.eqns
    assert first.params["_prim"] == second.params["_prim"]  # JAX takes them for one
    wrong = second.replace(params={**second.params, "_prim": first.params["_prim"]})
    other = jaxapi.close_jaxpr(body.replace(eqns=[first, wrong]), consts)
    for check in (compare, equivalent):
        assert check(traced, jax.make_jaxpr(_both)(X, Y)) is None
        assert check(traced, other) is not None
        assert check(other, traced) is not None
    assert identity(first.params["_prim"]) != identity(second.params["_prim"])


@pytest.mark.parametrize("level", ["lax", "api"])
def test_each_is_written_for_its_operands(level: str) -> None:
    src = untrace.source(_typed(), level=level)
    assert src.report.is_verified, str(src.report)
    wanted, made = _both(X, Y), src.load()(X, Y)
    for one, other in zip(jax.tree.leaves(wanted), jax.tree.leaves(made), strict=True):
        np.testing.assert_array_equal(one, other)
