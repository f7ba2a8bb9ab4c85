"""Settings of JAX that change a program stand in its header and are entered by the file."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests import other_options
from untrace.isolated import verify_isolated
from untrace.jaxapi import config_options
from untrace.static_check import check_file

GROUPS = (
    {*config_options.TRACING},
    {*config_options.RESULTS},
    other_options.EQUATIONS,
    other_options.CHECKS,
    other_options.NEITHER,
)


def test_every_option_of_jax_is_known_for_what_it_changes():
    known = [name for group in GROUPS for name in group]
    assert len(known) == len(set(known))
    assert not config_options.OPTIONS - set(known)


def test_nothing_is_changed_in_a_clean_process():
    text = "from untrace import jaxapi; print(jaxapi.changed_settings())"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert done.stdout.strip() == "{}", done.stderr


def draw(key, x):
    return jax.random.gumbel(jax.random.fold_in(key, 3), x.shape) + x @ x


def seeded(x):
    return x + jax.random.normal(jax.random.PRNGKey(1), x.shape)


def normalized(x):
    return jax.grad(lambda x: jnp.sum(jax.nn.softmax(x) ** 2))(x)


@pytest.mark.parametrize(
    ("option", "value", "function"),
    [
        ("default_prng_impl", "rbg", seeded),
        ("default_prng_impl", "unsafe_rbg", seeded),
        ("threefry_partitionable", False, seeded),
        ("enable_custom_prng", True, seeded),
        ("random_seed_offset", 7, seeded),
        ("default_matmul_precision", "float32", draw),
        ("high_dynamic_range_gumbel", True, draw),
        ("softmax_custom_jvp", True, normalized),
        ("use_direct_linearize", False, normalized),
        ("disable_jit", True, normalized),
        ("enable_x64", True, normalized),
    ],
)
@pytest.mark.parametrize("level", ["api", "lax"])
def test_settings_are_stated_and_entered(option, value, function, level, tmp_path):
    before = getattr(jax.config, f"jax_{option}")
    jax.config.update(f"jax_{option}", value)
    try:
        args = (jax.random.key(0), np.ones((3, 3), np.float32))
        args = args if function is draw else args[1:]
        src = untrace.source(function, level=level)(*args)
        path = src.save(tmp_path / "saved.py")
    finally:
        jax.config.update(f"jax_{option}", before)
    assert src.report.is_verified
    assert f"Settings: {option}={value!r}." in str(src)
    if option != "enable_x64":
        assert "Call it within `tracing_context()`" in str(src)
    assert verify_isolated(path).is_verified
    assert check_file(path.read_bytes()) == []


def test_options_that_change_results_alone_are_stated():
    jax.config.update("jax_disable_most_optimizations", True)
    try:
        src = untrace.source(normalized)(jnp.ones(3))
    finally:
        jax.config.update("jax_disable_most_optimizations", False)
    assert "Settings: disable_most_optimizations=True." in str(src)
    assert "tracing_context" not in str(src)


def test_nothing_is_said_of_the_settings_of_a_clean_process():
    with jax.numpy_rank_promotion("raise"):  # only forbids
        assert "Settings" not in str(untrace.source(normalized)(jnp.ones(3)))
