"""A sample of the transformations of loaded functions; all of it with `-m corpus`."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from tests.corpus import derivatives
from tests.corpus.registry import Program

NAMES = (
    "custom_jvp_static",
    "custom_vjp",
    "custom_vjp_int",
    "fori",
    "grad_remat",
    "grad_scan",
    "losses",
    "nested",
    "remat",
    "solve",
    "static_rules",
)
SAMPLE = [case for case in derivatives.chosen("varied") if case.name[7:] in NAMES]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.name)
def test_transformations_of_a_loaded_function_are_those_of_the_original(
    case: Program,
) -> None:
    outcomes = derivatives.run(case)
    assert len(outcomes) == 5
    assert {"identical", "equivalent", "values"} & {o.verdict for o in outcomes}
    assert not list(filter(derivatives.is_bad, outcomes))


@pytest.mark.corpus
def test_every_transformation_is_that_of_the_original() -> None:
    outcomes = [o for case in derivatives.chosen() for o in derivatives.run(case)]
    assert not list(filter(derivatives.is_bad, outcomes))


def test_values_are_compared_by_what_rounding_explains() -> None:
    one = jnp.array([1.0, np.nan, np.inf], jnp.float32)
    assert derivatives.difference(one, one * np.float32(1 + 1e-6)) == ""
    assert derivatives.difference(one, one * np.float32(1 + 1e-4))
    assert derivatives.difference(one, one.astype(jnp.bfloat16))
    assert derivatives.difference(one, one.at[1].set(0.0))


def test_a_result_may_differ_by_what_rounding_of_the_inputs_does() -> None:
    x = jnp.linspace(0.5, 1.5, 5, dtype=jnp.float32)
    far = jnp.float32(1e4)  # cancels: the result has three digits

    def steep(x: jnp.ndarray) -> jnp.ndarray:
        return jnp.sum((x + far) - far) / 7.0

    def reordered(x: jnp.ndarray) -> jnp.ndarray:
        return (jnp.sum(x + far) - 5 * far) / 7.0

    def other(x: jnp.ndarray) -> jnp.ndarray:
        return 1.01 * steep(x)

    compared = derivatives._compare  # pyright: ignore[reportPrivateUsage]
    assert compared(steep, reordered, (x,))[0] == "values"
    assert compared(steep, other, (x,))[0] == "DIFFERENT"
