"""What tracers stand for: transformations wrap one value again for each step."""

# These are JAX's private classes; `tests/lifting/test_library_code.py` needs each of them.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import Any

from jax._src import core as _core
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching

_DIFFERENTIATED = (_ad.JVPTracer, _ad.LinearizeTracer)


def is_differentiated(value: Any) -> bool:
    """Whether a value is one that a transformation differentiates by."""
    return isinstance(value, _DIFFERENTIATED)


def is_same_value(first: Any, second: Any) -> bool:
    """Whether two tracers of one trace stand for the same value.

    A function that returns its argument as it is may wrap it anew. Tangents are not
    compared: `jax.lax.stop_gradient` has others.
    """
    while first is not second:
        if type(first) is not type(second) or not isinstance(first, _core.Tracer):
            return False
        if first._trace is not second._trace:
            return False
        if isinstance(first, _batching.BatchTracer):
            if first.batch_dim != second.batch_dim:
                return False
            first, second = first.val, second.val
        elif isinstance(first, _DIFFERENTIATED):
            first, second = first.primal, second.primal
        else:
            return False
    return True
