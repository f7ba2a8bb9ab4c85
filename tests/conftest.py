"""How JAX runs in the tests: on eight simulated devices, compiled fast and at most once."""

from __future__ import annotations

import os

import pytest

_DEVICES = "--xla_force_host_platform_device_count"
_FAST = "--xla_backend_optimization_level=0"  # of LLVM, where half of the time would go

if _DEVICES not in os.environ.get("XLA_FLAGS", ""):  # asked for before JAX is used
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}=8".strip()
# A step that only makes text better must not fail in silence.
os.environ.setdefault("UNTRACE_STRICT", "1")


def pytest_configure(config: pytest.Config) -> None:
    """Compile fast here, and keep what is compiled for the other worker and the next time.

    Processes that tests start compile as users' do: they are asked how long that takes,
    and what it changes. XLA reads its flags once, when the devices are made.
    """
    import jax

    flags = os.environ["XLA_FLAGS"]
    os.environ["XLA_FLAGS"] = (
        f"{_FAST} {flags}"  # those of who runs the tests come last
    )
    jax.devices()
    os.environ["XLA_FLAGS"] = flags
    cache: pytest.Cache | None = getattr(config, "cache", None)
    if cache is not None:  # `-p no:cacheprovider`
        jax.config.update("jax_compilation_cache_dir", str(cache.mkdir("compiled")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
