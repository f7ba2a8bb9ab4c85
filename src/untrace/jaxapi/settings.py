"""Settings of JAX under which a call makes other equations: `jax.default_matmul_precision`.

Each is a context manager that a program may enter anywhere. Reading them costs less
than a microsecond, so the recorder does so at every call.
"""

from __future__ import annotations

from typing import Any

from jax._src import config as _config
from jax._src import xla_metadata_lib as _xla_metadata_lib

Setting = tuple[Any, ...]
"""The values of `SETTINGS`, in this order."""

MANAGERS: dict[str, Any] = {
    "default_matmul_precision": None,
    "default_prng_impl": "threefry2x32",
    "disable_jit": False,
    "enable_custom_prng": False,
    "enable_x64": False,
    "numpy_dtype_promotion": "standard",
    "numpy_rank_promotion": "allow",
    "softmax_custom_jvp": False,
    "threefry_partitionable": True,
}
"""Those that are attributes of `jax`, with their values in a new process."""

SETTINGS: tuple[str, ...] = (*MANAGERS, "compute_type", "xla_metadata")

STRICTER: frozenset[tuple[str, Any]] = frozenset(
    {
        ("numpy_dtype_promotion", "strict"),
        ("numpy_rank_promotion", "raise"),
        ("numpy_rank_promotion", "warn"),
    }
)
"""Values that only forbid: what is traced under them is the same without."""

_STATES: tuple[Any, ...] = (
    *[getattr(_config, name) for name in MANAGERS],
    _config.compute_on_context_manager,
)


def current_setting() -> Setting:
    """Return the settings under which a call is made now."""
    metadata = _xla_metadata_lib.current_xla_metadata()
    entries = None if metadata is None else tuple(sorted(metadata.items()))
    return (*[state.value for state in _STATES], entries)
