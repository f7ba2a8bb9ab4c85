"""Failures of issue trackers still exist, and `auto()` names them as they were meant."""

import importlib

import jax
import pytest

from benchmarks.reduce.reported.__main__ import call_of, names
from untrace.reduction.applying import program_from
from untrace.reduction.driver import Plan, pin
from untrace.reduction.keeping.automatic import Auto

pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(
        not jax.__version__.startswith("0.10"), reason="looked at on jax 0.10"
    ),
]

ONLY_COMPILED = "nan(jit_only=True"
"""Op by op it is fine."""

KEPT = {
    "angle_of_agreement": ONLY_COMPILED,
    "attention_over_exponential": ONLY_COMPILED,
    "bessel_of_a_strong_field": "inf(",
    "cancelling_charges": "differs(",
    "displacement_of_nothing": "differs(",
    "frozen_layer_in_half_precision": "differs(",
    "gradient_of_a_rounded_power": "differs(",
    "loudness_of_wrapped_samples": ONLY_COMPILED,
    "octaves_above_a_pitch": "differs(",
    "slope_beyond_the_largest_float": "inf(",
    "slope_of_a_tiny_magnitude": "differs(",
    "spread_of_huge_readings": "inf(",
    "tail_of_a_scaled_error": "inf(narrow_only=True",
    "softmax_of_large_scores": ONLY_COMPILED,
    "exponential_of_a_constant_nan": "differs(",
    "gradient_of_overflow": "differs(",
    "logarithm_of_exponential": "differs(",
    "root_of_square": "differs(",
    "subnormal_probability": "inf(narrow_only=True",
    "dilogarithm_of_large_numbers": "nan(narrow_only=True",
}
REFUSED = {
    "root_of_a_singular_system",  # raises in a function of the host, a stand-in here
    "fitted_shape_of_a_beta",  # raises while it is traced
    "radius_of_a_hyperbolic_score",  # gives a wrong number
}
WIDE = {"bessel_of_a_strong_field", "bessel_overflow"}


@pytest.mark.parametrize("name", [n for n in names() if n not in REFUSED])
def test_a_reported_failure_is_named(name):
    package = {"counts_of_mean_zero": "numpyro"}.get(name, "optax")
    pytest.importorskip(package)
    with jax.enable_x64(name in WIDE):
        module = importlib.import_module(f"benchmarks.reduce.reported.{name}")
        jax.config.update("jax_enable_x64", False)  # what it sets is for all threads
        function, _, rest = call_of(name).partition("(")
        args = [getattr(module, word) for word in rest.rstrip(")").split(", ")]
        jaxpr = jax.make_jaxpr(getattr(module, function))(*args)
        values = jax.tree.leaves(args)
        program = program_from(jaxpr, values, ["x"] * len(values), function)
        kept = str(pin(program, Auto(), Plan()).keep)
    assert kept.startswith(KEPT.get(name, "nan("))
