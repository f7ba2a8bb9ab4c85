"""How the tests run: eight simulated devices, fast compilation, a few of the slow tests."""

from __future__ import annotations

import os
import sys
import zlib

import pytest

_DEVICES = "--xla_force_host_platform_device_count"
_FAST = "--xla_backend_optimization_level=0"  # of LLVM, where half of the time would go

if _DEVICES not in os.environ.get("XLA_FLAGS", ""):  # asked for before JAX is used
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {_DEVICES}=8".strip()
# A step that only makes text better must not fail in silence.
os.environ.setdefault("UNTRACE_STRICT", "1")

SLOW = (
    "tests/corpus/test_interpreted.py",
    "tests/corpus/test_loops.py",
    "tests/corpus/test_nan_free.py",
    "tests/corpus/test_packages.py",
    "tests/corpus/test_random.py",
    "tests/corpus/test_readability_programs.py",
    "tests/hostile/",
    "tests/interpreters/test_divergence.py",
    "tests/interpreters/test_inverse",
    "tests/interpreters/test_nan_origin.py",
    "tests/interpreters/test_recompilations.py",
    "tests/lifting/test_optional.py",
    "tests/reduction/",
    "tests/test_documents.py::test_a_failure_is_reduced_from_python",
    "tests/test_house.py::test_types_are_clean",
    "tests/verification/test_attacks.py::test_programs_are_the_same",
    "tests/verification/test_endless_text.py",
    "tests/verification/test_text_mutants.py",
)
"""Where most of the time goes; a run of chosen files passes all of them."""

SHARES = {"few": 16, "half": 2, "all": 1}
"""The slow tests that are passed: every sixteenth, say. In CI, where the oldest Python
passes one half of them and the newer the other, all are."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for all tests."""
    text = "how many of the slow tests are passed (default: few)"
    parser.addoption("--slow", choices=list(SHARES), default="few", help=text)


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
    is_worker = hasattr(
        config, "workerinput"
    )  # which has the options of the first process
    if not is_worker and config.args_source is config.ArgsSource.ARGS:
        config.option.slow = "all"


def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Leave most of the slow tests, or half of them, to others."""
    n_shares = SHARES[config.getoption("slow")]
    share = int(sys.version_info >= (3, 12)) % n_shares
    left = [
        item
        for item in items
        if item.nodeid.startswith(SLOW)
        and zlib.crc32(item.nodeid.encode()) % n_shares != share
    ]
    chosen = set(items).difference(left)
    items[:] = [item for item in items if item in chosen]
    config.hook.pytest_deselected(items=left)
