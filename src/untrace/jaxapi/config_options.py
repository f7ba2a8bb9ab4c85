# The options themselves have no public list.
# pyright: reportPrivateUsage=false
"""The options of `jax.config` that change a program that is written down.

What is traced, or computed, under another value than that of a clean process is stated
in the header of a file; the file enters what it is traced under by itself. All others are
in `tests/other_options.py`: a new JAX release with an option that nobody knows fails a test.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

from jax._src import config as _config

from untrace.jaxapi.settings import MANAGERS

TRACING: dict[str, Any] = {
    **MANAGERS,
    # without a public manager
    "auto_pcast": True,
    "custom_jvp3": False,
    "custom_vjp3": False,
    "eager_constant_folding": False,
    "error_checking_behavior_divide": "ignore",
    "error_checking_behavior_nan": "ignore",
    "error_checking_behavior_oob": "ignore",
    "explicit_x64_dtypes": "warn",
    "high_dynamic_range_gumbel": False,
    "random_seed_offset": 0,
    "remat3": False,
    "remat_barrier_no_cotangents": False,
    "scan3": False,
    "use_direct_linearize": True,
    "use_emit_pipeline_primitive": False,
    "use_simplified_jaxpr_constants": False,
}
"""Options that change which equations are traced, with their values in a clean process."""

RESULTS: dict[str, Any] = {
    "accurate_erf_inv": False,
    "bcoo_cusparse_lowering": False,
    "disable_most_optimizations": False,
    "exec_time_optimization_effort": 0.0,
    "optimization_level": "UNKNOWN",
    "threefry_gpu_kernel_lowering": False,
    "use_hlo_logistic_lowering": None,
    "use_magma": "auto",
}
"""Options that change what the same equations are compiled to, and so rounding."""

_HOLDERS: dict[str, Any] = {
    name.removeprefix("jax_"): holder
    for name, holder in _config.config._value_holders.items()
}
OPTIONS: frozenset[str] = frozenset(_HOLDERS)
"""The options that this JAX has, without `jax_`."""

_ATTRIBUTES: dict[int, str] = {
    id(value): name for name, value in vars(_config).items() if name[0] != "_"
}

PRIVATE_MANAGERS: frozenset[str] = frozenset(
    _ATTRIBUTES[id(_HOLDERS[name])]
    for name in TRACING.keys() & OPTIONS - MANAGERS.keys()
    if id(_HOLDERS[name]) in _ATTRIBUTES
)
"""Names in `jax._src.config` of the managers of options that have no public ones."""


def changed_settings() -> dict[str, Any]:
    """Return the options that change equations or results and are not as in a clean process."""
    return {**dict(_changed(TRACING)), **dict(_changed(RESULTS))}


def environment_settings() -> dict[str, str]:
    """Return what this process was told beyond its environment, as variables of one.

    Those are options that make a program fail or compute otherwise and that no file
    enters by itself: `jax.config.update("jax_debug_nans", True)` is `JAX_DEBUG_NANS`.
    """
    checks = ("debug_nans", "debug_infs", "debug_key_reuse", "enable_checks")
    clean = {**RESULTS, **dict.fromkeys(checks, False), "num_cpu_devices": -1}
    return {
        f"JAX_{name.upper()}": str(value)
        for name, value in _changed(clean)
        if isinstance(value, (bool, int, float, str))
    }


def private_managers() -> dict[str, Any]:
    """Return the changed options that are entered by managers of `jax._src.config` alone.

    Returns:
      The names of the managers in that module, and the values.
    """
    return {
        _ATTRIBUTES[id(_HOLDERS[name])]: value
        for name, value in _changed(TRACING)
        if _ATTRIBUTES.get(id(_HOLDERS[name])) in PRIVATE_MANAGERS
    }


def _changed(options: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, clean in options.items():
        holder = _HOLDERS.get(name)
        if holder is not None and (value := _plain(holder.value)) != clean:
            yield name, value


def _plain(value: Any) -> Any:
    return value.name.lower() if isinstance(value, enum.Enum) else value
