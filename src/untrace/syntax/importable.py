"""Which objects can be imported by their module and qualified name."""

from __future__ import annotations

import importlib
import sys
from typing import Any


def is_importable(obj: Any) -> bool:
    """Tell whether `obj` is what its module and qualified name lead to."""
    module = getattr(obj, "__module__", None)
    qualname = getattr(obj, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(qualname, str):
        return False
    if module == "__main__" or "<" in qualname:
        return False
    try:
        found: Any = sys.modules.get(module) or importlib.import_module(module)
    except ImportError:
        return False
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found is obj


def public_home(obj: Any) -> tuple[str, str]:
    """Return the module and qualified name to import `obj` from, preferring public ones.

    `optax._src.base.EmptyState` is `optax.EmptyState` to its users, and
    `jax.experimental.sparse.bcoo.BCOO` is `jax.experimental.sparse.BCOO`.
    """
    module, qualname = obj.__module__, obj.__qualname__
    parts = module.split(".")
    if "." not in qualname:
        for length in range(1, len(parts)):
            home = ".".join(parts[:length])
            if not any(part.startswith("_") for part in parts[:length]) and (
                getattr(sys.modules.get(home), qualname, None) is obj
            ):
                return home, qualname
    return module, qualname
