"""Settings of JAX under which a call makes other equations: `jax.default_matmul_precision`.

Each is a context manager that a program may enter anywhere. Reading them costs less
than a microsecond, so the recorder does so at every call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from contextvars import ContextVar
from typing import Any

import jax
from jax._src import config as _config
from jax._src import source_info_util as _source_info_util
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

SETTINGS: tuple[str, ...] = (*MANAGERS, "compute_type", "xla_metadata", "scopes")

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


_NOTES_SCOPES: ContextVar[bool] = ContextVar("notes scopes", default=False)


def set_managers() -> list[str]:
    """List the settings that are not what they are in a new process, but for `jit`."""
    values = zip(MANAGERS.items(), _STATES)
    changed = [name for (name, value), state in values if state.value != value]
    return [name for name in changed if name != "disable_jit"]


@contextlib.contextmanager
def default_settings(names: Sequence[str]) -> Generator[None, None, None]:
    """Give settings the values that they have in a new process."""
    with contextlib.ExitStack() as stack:
        for name in names:
            stack.enter_context(getattr(jax, name)(MANAGERS[name]))
        yield


@contextlib.contextmanager
def noting_scopes(is_asked: bool) -> Generator[None, None, None]:
    """Let the scopes of `jax.named_scope` be a setting, which they are not otherwise."""
    token = _NOTES_SCOPES.set(is_asked)
    try:
        yield
    finally:
        _NOTES_SCOPES.reset(token)


def current_setting() -> Setting:
    """Return the settings under which a call is made now."""
    metadata = _xla_metadata_lib.current_xla_metadata()
    entries = None if metadata is None else tuple(sorted(metadata.items()))
    scopes = _current_scopes() if _NOTES_SCOPES.get() else ()
    return (*[state.value for state in _STATES], entries, scopes)


def _current_scopes() -> tuple[str, ...]:
    """The names of the scopes around what is traced now, the outermost first."""
    elements = _source_info_util.current_name_stack().stack
    kind = _source_info_util.Scope
    return tuple([one.name for one in elements if isinstance(one, kind)])
