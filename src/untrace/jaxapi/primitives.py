"""The names of primitives: those of JAX's own mean one thing, whatever others call theirs."""

# This is a private hook of JAX; `tests/lifting/test_opened.py` needs it on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import importlib.util
from typing import Any

import jax.extend.core.primitives as _public
from jax._src import core as _core
from jax._src.interpreters import mlir as _mlir

_EVALUATION = "jax._src.lax.eval_jaxpr"

# What traces to a `closed_call` before jax 0.11, which binds a call like any other.
EVAL_JAXPR: Any = (
    importlib.import_module(_EVALUATION).eval_jaxpr_p
    if importlib.util.find_spec(_EVALUATION)
    else None
)


def _is_compiled_by_jax(primitive: Any) -> bool:
    entry = _mlir._lowerings[primitive]
    rule = getattr(entry, "rule", entry)
    function = getattr(rule, "func", rule)
    return str(getattr(function, "__module__", "")).startswith(("jax.", "jaxlib."))


_OWN: dict[str, Any] = {
    **{one.name: one for one in _mlir._lowerings if _is_compiled_by_jax(one)},
    **{one.name: one for one in (_core.closed_call_p, _core.call_p)},
    **{
        one.name: one
        for one in vars(_public).values()
        if isinstance(one, _core.Primitive)
    },
}


def own_primitives() -> dict[str, Any]:
    """The primitives of JAX itself, by their names."""
    return _OWN


def primitive_name(primitive: Any) -> str:
    """The name of a primitive; another's that is called like one of JAX's has its own.

    >>> primitive_name(_core.Primitive("slice")), primitive_name(_public.slice_p)
    ('slice (not of JAX)', 'slice')
    """
    name: str = primitive.name
    known = _OWN.get(name)
    return name if known is None or known is primitive else f"{name} (not of JAX)"
