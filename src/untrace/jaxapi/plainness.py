# `UNSPECIFIED` is re-exported without saying so.
# pyright: reportPrivateImportUsage=false
"""What params of `jit` are when nothing was asked for."""

from __future__ import annotations

from typing import Any

from jax._src import sharding_impls as _sharding_impls

UNSPECIFIED: Any = _sharding_impls.UNSPECIFIED


def default_inline(inline: Any) -> Any:
    """Return the default of `inline`, which jax 0.12 keeps as an enumeration."""
    return False if isinstance(inline, bool) else type(inline).AUTO
