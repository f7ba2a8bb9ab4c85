"""Which objects can be imported by their module and qualified name."""

from __future__ import annotations

import sys
from typing import Any

from untrace.syntax.names import is_dotted_name


def is_importable(obj: Any) -> bool:
    """Whether `obj` is what its module and qualified name lead to.

    The module must be loaded: a name says nothing of what importing it would do.
    """
    module = getattr(obj, "__module__", None)
    qualname = getattr(obj, "__qualname__", None)
    return module != "__main__" and named(module, qualname) is obj


def named(module: Any, qualname: Any) -> Any:
    """Return what a name leads to in a loaded module; None if it leads nowhere."""
    if not is_dotted_name(module) or not is_dotted_name(qualname):
        return None
    found: Any = sys.modules.get(module)
    for part in qualname.split("."):
        try:
            found = getattr(found, part, None)
        except Exception:  # a module's or class's own `__getattr__` may raise anything
            return None
    return found


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
                named(home, qualname) is obj
            ):
                return home, qualname
    return module, qualname
