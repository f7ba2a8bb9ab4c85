"""A file sets the environment and the configuration that its failure needs."""

import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np

import untrace

X = np.float32([1, 2, 3])
NEEDED = "--xla_cpu_enable_fast_math=true --xla_cpu_fast_math_honor_nans=false"


def _status(path):
    """Run a file without the settings of this process."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("XLA_", "JAX_D"))}
    done = subprocess.run([sys.executable, path], env=clean, capture_output=True)
    return done.returncode, done.stderr.decode()


def test_a_configuration_that_the_failure_needs_is_set(tmp_path):
    jax.config.update("jax_debug_nans", True)
    try:
        made = untrace.reduce(
            lambda x: jnp.log(x - 5) * 2, keep="raises(FloatingPointError)"
        )(X)
    finally:
        jax.config.update("jax_debug_nans", False)
    path = made.save(tmp_path / "repro.py")
    assert "os.environ['JAX_DEBUG_NANS']" in path.read_text().replace('"', "'")
    status, said = _status(path)
    assert status == 1
    assert "FloatingPointError" in said


def test_only_the_flags_that_the_failure_needs_are_set(tmp_path, monkeypatch):
    monkeypatch.setenv(
        "XLA_FLAGS", "--xla_force_host_platform_device_count=3 " + NEEDED
    )
    monkeypatch.setenv("JAX_ENABLE_CHECKS", "false")
    command = (
        f"{sys.executable} -c \"import os; assert 'fast_math=' in "
        "os.environ.get('XLA_FLAGS', ''); assert 'jnp.sin' in open({file}).read()\""
    ).replace("{file}", "'{file}'")
    made = untrace.reduce(lambda x: jnp.sin(x) * 2, keep=untrace.keep.command(command))(
        X
    )
    assert dict(made.keep.runs[0].env) == {"XLA_FLAGS": NEEDED.split()[0]}
    path = made.save(tmp_path / "repro.py")
    assert "fast_math=true" in path.read_text()
