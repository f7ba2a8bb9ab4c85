# `UNSPECIFIED` is re-exported without saying so.
# pyright: reportPrivateImportUsage=false
"""What params of `jit` are when nothing was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jax._src import sharding_impls as _sharding_impls

UNSPECIFIED: Any = _sharding_impls.UNSPECIFIED


def default_inline(inline: Any) -> Any:
    """Return the default of `inline`, which jax 0.12 keeps as an enumeration."""
    return False if isinstance(inline, bool) else type(inline).AUTO


def resized(params: Mapping[str, Any], n_in: int, n_out: int) -> dict[str, Any]:
    """Return params of `jit` for other numbers of inputs and outputs.

    What is said of single ones is left out where their number changes.
    """
    plain = {
        "in_shardings": (UNSPECIFIED, n_in),
        "out_shardings": (UNSPECIFIED, n_out),
        "in_layouts": (None, n_in),
        "out_layouts": (None, n_out),
        "donated_invars": (False, n_in),
    }
    made = dict(params)
    for key, (default, n) in plain.items():
        if key in made and len(made[key]) != n:
            made[key] = (default,) * n
    return made
