# `jax._src.lib` re-exports without saying so.
# pyright: reportPrivateImportUsage=false
"""What comparing two programs needs: what only says where something came from, keys.

The same names serve all supported JAX releases.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import jax
import numpy as _np
from jax._src import core as _core
from jax._src import dtypes as _dtypes
from jax._src import linear_util as _lu
from jax._src import source_info_util as _source_info_util
from jax._src.lib import xla_client as _xla_client

from untrace.jaxapi.batching import CUSTOM_VMAP
from untrace.jaxapi.exports import Exported
from untrace.jaxapi.jaxprs import Tracer
from untrace.jaxapi.params import PyTreeDef, boxed_value, is_value_box, node_parts
from untrace.jaxapi.state import LEAVES_MARK
from untrace.jaxapi.wrappers import CUSTOM_JVP, CUSTOM_VJP

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
        {"debug", "__wrapped__", "__untrace_stand_in__", LEAVES_MARK, "__type_params__"}
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


def rule_identity(function: Any) -> Any:
    """Return what tells one derivative rule from another, for the writer.

    Every trace wraps a rule in new closures, so the objects say nothing; what they
    close over in the end, the user's functions and static arguments, does. The checker
    has an identity of its own (`verification.identity`), so that a fault in this one is
    seen.
    """
    return _Identities().of(function)


class _Identities:
    """The identities of all that one rule holds; it may hold itself."""

    def __init__(self) -> None:
        self._known: dict[int, Any] = {}
        self._active: list[int] = []
        self._alive: list[Any] = []  # what the addresses refer to

    def of(self, value: Any) -> Any:
        if type(value) in _PLAIN:
            return type(value), repr(value)
        if id(value) in self._active:
            return "cycle", len(self._active) - self._active.index(id(value))
        if id(value) not in self._known:
            self._alive.append(value)
            self._active.append(id(value))
            self._known[id(value)] = self._made(value, type(value))
            self._active.pop()
        return self._known[id(value)]

    def all(self, parts: Iterable[Any]) -> Any:
        return tuple([self.of(part) for part in parts])

    def _made(self, value: Any, kind: type) -> Any:
        if isinstance(value, _lu.WrappedFun):
            return self.all([value.f, *value.transforms, value.params])
        if isinstance(value, (tuple, list)):
            return kind, self.all(value)
        if isinstance(value, functools.partial):
            return self.all([value.func, value.args, *value.keywords.items()])
        if kind in (slice, range):
            return kind, self.all([value.start, value.stop, value.step])
        if kind is frozenset:
            return kind, frozenset(self.all(value))
        if isinstance(value, _BOOKKEEPING):
            return kind
        if isinstance(value, (_core.AbstractValue, PyTreeDef)):
            return kind, value, str(value)  # a tree of 1 equals one of True
        if isinstance(value, (Tracer, jax.Array, _np.ndarray, _np.generic, Exported)):
            return id(value)
        if is_value_box(value):
            return self.of(boxed_value(value))
        if isinstance(value, (CUSTOM_JVP, CUSTOM_VJP, CUSTOM_VMAP)):
            held = {k: v for k, v in vars(value).items() if not k.startswith("__")}
            return kind, self.all(held.items())
        parts = node_parts(value)
        return self._function(value) if parts is None else (kind, self.of(parts))

    def _function(self, function: Any) -> Any:
        code = getattr(function, "__code__", None)
        if code is None:
            called = getattr(function, "__wrapped__", None)
            return id(function) if called is None else self.of(called)
        cells = zip(code.co_freevars, function.__closure__ or ())
        left_out = _LEFT_OUT.get(code.co_name, ())
        held = [cell for name, cell in cells if name not in left_out]
        closed = self.all([c.cell_contents for c in held if not _is_empty_cell(c)])
        keywords = tuple((function.__kwdefaults__ or {}).items())
        return code, closed, self.all([function.__defaults__, keywords])


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
