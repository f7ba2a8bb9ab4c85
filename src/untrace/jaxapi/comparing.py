# `jax._src.lib` re-exports without saying so.
# pyright: reportPrivateImportUsage=false
"""What comparing two programs needs: what only says where something came from, keys.

The same names serve all supported JAX releases.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as _np
from jax._src import core as _core
from jax._src import dtypes as _dtypes
from jax._src import linear_util as _lu
from jax._src import source_info_util as _source_info_util
from jax._src.lib import xla_client as _xla_client

from untrace.jaxapi.exports import Exported
from untrace.jaxapi.jaxprs import Tracer
from untrace.jaxapi.params import PyTreeDef, boxed_value, is_value_box, node_parts

# What only says where something came from; never part of a computation.
ORIGIN_TYPES: tuple[type, ...] = (
    _core.DebugInfo,
    _xla_client.Traceback,
    _source_info_util.SourceInfo,
    type(_source_info_util.new_source_info().name_stack),
)
# Fields that only say where something came from, by class; not imported for the name.
ORIGIN_FIELDS: dict[str, frozenset[str]] = {
    "jax._src.pallas.core.BlockMapping": frozenset({"origin"}),
    # `functools.update_wrapper` copies all that a rule says of itself.
    "jax._src.custom_batching.ClosedRule": frozenset(
        {"debug", "__wrapped__", "__untrace_stand_in__", "__type_params__"}
        | {*functools.WRAPPER_ASSIGNMENTS}
    ),
}


def array_key(array: Any) -> Any:
    """Return a key that is equal for bitwise equal constants of one type."""
    aval = _core.typeof(array)
    if _dtypes.issubdtype(aval.dtype, _dtypes.extended):
        return id(array)
    data = _np.asarray(array)
    return aval, data.tobytes() if data.size <= 1024 else id(array)


def rule_identity(function: Any, depth: int = 0) -> Any:
    """Return what tells one derivative rule from another, for the writer.

    Every trace wraps a rule in new closures, so the objects say nothing; what they
    close over in the end, the user's functions and static arguments, does. The checker
    has an identity of its own (`verification.identity`), so that a fault in this one is
    seen.
    """

    def within(parts: Any) -> Any:
        return tuple([rule_identity(part, depth + 1) for part in parts])

    kind = type(function)
    if isinstance(function, _lu.WrappedFun):
        return within([function.f, *function.transforms, function.params])
    if isinstance(function, (tuple, list)):
        return kind, within(function)
    if isinstance(function, functools.partial):
        return within([function.func, function.args, *function.keywords.items()])
    if kind in _PLAIN:
        return kind, repr(function)
    if kind in (slice, range):
        return kind, within([function.start, function.stop, function.step])
    if kind is frozenset:
        return kind, frozenset(within(function))
    if isinstance(function, _BOOKKEEPING):
        return kind
    if isinstance(function, (_core.AbstractValue, PyTreeDef)):
        return kind, function, str(function)  # a tree of 1 equals one of True
    if isinstance(function, (Tracer, jax.Array, _np.ndarray, _np.generic, Exported)):
        return id(function)
    if is_value_box(function):
        return rule_identity(boxed_value(function), depth + 1)
    parts = node_parts(function)
    if parts is not None:
        return kind, rule_identity(parts, depth + 1)
    code = getattr(function, "__code__", None)
    if code is None:
        called = getattr(function, "__wrapped__", None)
        return id(function) if called is None else rule_identity(called, depth + 1)
    if depth > 40:
        return id(function)
    cells = zip(code.co_freevars, function.__closure__ or ())
    held = [cell for name, cell in cells if name not in _LEFT_OUT.get(code.co_name, ())]
    defaults = (function.__defaults__, tuple((function.__kwdefaults__ or {}).items()))
    closed = within([cell.cell_contents for cell in held if not _is_empty_cell(cell)])
    return code, closed, within(defaults)


_PLAIN = frozenset({int, str, bool, float, complex, bytes, type(None)})
# Which trace a wrapper belongs to, and where it stores results.
_BOOKKEEPING = (_core.Trace, _core.TraceTag, _lu.Store, _lu.EqualStore, *ORIGIN_TYPES)
# What JAX's own closures remember, or hold of an equation from which dead results were
# removed, by function: the rest says the same, and does not change with every trace.
_LEFT_OUT = {
    "memoized": ("cells", "sentinel"),
    "dce_jvp_jaxpr_thunk": ("eqn",),
    "dce_bwd": ("call_jaxpr",),
}


def _is_empty_cell(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018  # reading it is the test
    except ValueError:
        return True
    return False
