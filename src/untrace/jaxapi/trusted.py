"""What the checker must know of JAX's objects; the writer uses none of it.

Which objects only say to which trace something belongs, which are values that JAX
compares itself, and what a wrapper or a node holds altogether.
"""

# This is a private hook of JAX; `tests/verification` needs it on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import collections
import functools
import types
from collections.abc import Callable
from typing import Any

import jax
from jax._src import core as _core
from jax._src import custom_derivatives as _custom_derivatives
from jax._src import linear_util as _lu
from jax._src.interpreters import ad as _ad

from untrace.jaxapi.comparing import ORIGIN_TYPES
from untrace.jaxapi.rules import MEMOIZED
from untrace.jaxapi.wrappers import inner_code
from untrace.objects import attributes_of, closed_over

# Which trace a wrapper belongs to, where it stores results, where it came from: none of
# it changes what a function computes.
TRACE_TOKENS: tuple[type, ...] = (
    _core.Trace,
    _core.TraceTag,
    _lu.Store,
    _lu.EqualStore,
    *([_lu.InitialResultPaths] if hasattr(_lu, "InitialResultPaths") else []),
    *ORIGIN_TYPES,
)

# Immutable values whose `==` compares all that they are.
VALUE_TYPES: tuple[type, ...] = (
    _core.AbstractValue,
    jax.sharding.Mesh,
    jax.sharding.AbstractMesh,
    jax.sharding.Sharding,
    jax.sharding.PartitionSpec,
)

# Rules of calls of which dead results were removed hold a whole equation, or jaxpr, which
# is another one after every trace, and read one thing of it.
_READ_OF: tuple[tuple[types.CodeType, str, Callable[[Any], Any]], ...] = (
    (
        inner_code(_custom_derivatives._custom_jvp_call_dce, "dce_jvp_jaxpr_thunk"),
        "eqn",
        lambda eqn: eqn.params["symbolic_zeros"],
    ),
    (
        inner_code(_custom_derivatives._custom_vjp_call_dce, "dce_bwd"),
        "call_jaxpr",
        lambda jaxpr: tuple(jaxpr.out_avals),
    ),
)
# Classes implemented in C whose instances hold no more than their items.
_CONTAINERS = (object, tuple, list, dict, collections.OrderedDict)


def hides_state(kind: type) -> bool:
    """Whether instances of a class may hold more than Python shows of them.

    Python's own classes hold a dictionary, weak references and slots; what C adds takes
    more room.
    """
    shown = object.__basicsize__ + 8 * sum(len(_slots(base)) for base in kind.__mro__)
    shown += 8 * (kind.__dictoffset__ != 0) + 8 * (kind.__weakrefoffset__ > 0)
    return kind.__basicsize__ > shown or any(
        not _is_heap_type(base) and base not in _CONTAINERS for base in kind.__mro__
    )


def kept_on(array: Any) -> Any:
    """The sharding of an array that is not where arrays are by default, or None."""
    if not isinstance(array, jax.Array) or isinstance(array, _core.Tracer):
        return None
    sharding = array.sharding
    (usual, *_) = jax.devices()
    if len(sharding.device_set) > 1 or sharding.device_set != {usual}:
        return sharding
    kinds = None, usual.default_memory().kind
    return None if sharding.memory_kind in kinds else sharding


def refuses_derivative(primitive: Any) -> bool:
    """Whether JAX raises where an operand of a primitive has a tangent."""
    if primitive.name in _DIFFERENTIATED:
        return False
    return primitive.name in _REFUSING or primitive not in _ad.primitive_jvps


def derivative_is_of_library(primitive: Any) -> bool:
    """Whether a rule that differentiates a primitive is, or holds, a function not of JAX."""
    parts = [
        table.get(primitive) for table in (_ad.primitive_jvps, _ad.primitive_transposes)
    ]
    seen = set[int]()
    while parts:
        part = parts.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, functools.partial):
            parts += [part.func, *part.args, *part.keywords.values()]
        elif isinstance(part, types.MethodType):
            parts += [part.__func__, type(part.__self__)]
        elif isinstance(part, tuple | list):
            parts.extend(part)
        elif callable(part) and not isinstance(part, types.BuiltinFunctionType):
            is_named = isinstance(part, types.FunctionType | type)
            if not is_of_jax(part if is_named else type(part)):
                return True
            if isinstance(part, types.FunctionType):
                parts += closed_over(part).values()
    return False


# Primitives that JAX differentiates without a rule of their own,
_DIFFERENTIATED = frozenset(
    {"custom_jvp_call", "custom_vjp_call", "core_call", "closed_call"}
)
# and those that have one, which raises.
_REFUSING = frozenset({"pure_callback", "io_callback", "ffi_call", "composite"})


def is_of_jax(value: Any) -> bool:
    """Whether JAX defines a function or class; `functools.wraps` makes none of them JAX's."""
    if isinstance(value, types.FunctionType):
        module = str(value.__globals__.get("__name__", ""))
    else:
        module = getattr(value, "__module__", None) or ""
    return module.split(".", 1)[0] in ("jax", "jaxlib")


def memoized_function(function: types.FunctionType) -> Any:
    """The function whose results JAX keeps in a closure; None for any other."""
    if function.__code__ is not MEMOIZED:
        return None
    held = dict(zip(MEMOIZED.co_freevars, function.__closure__ or ()))
    return held["fn"].cell_contents


def read_of_closure(function: types.FunctionType) -> tuple[Any, ...]:
    """What one of JAX's functions reads of what it closes over.

    A variable without a value is represented by its cell.
    """
    code = function.__code__
    held = dict(zip(code.co_freevars, map(_content, function.__closure__ or ())))
    for known, name, read in _READ_OF:
        if code is known:
            held[name] = read(held[name])
    return tuple(held.values())


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return cell


def whole_fields(value: Any) -> Any:
    """All that a node of a tree, or a record, holds; None for other objects.

    Rules build static arguments that are trees anew, so these are no objects of their
    own. Nor are frozen dataclasses, and those of JAX. Classes implemented in C may hide
    state and count as other objects.
    """
    kind = type(value)
    if not (_is_node(value) or _is_record(kind)):
        return None
    if any(
        not _is_heap_type(base) and base not in _CONTAINERS for base in kind.__mro__
    ):
        return None
    slots = [name for base in kind.__mro__ for name in _slots(base)]
    members = [
        name
        for base in kind.__mro__
        for name, member in vars(base).items()
        if isinstance(member, types.MemberDescriptorType) and not name.startswith("__")
    ]
    names = sorted({*slots, *members, *attributes_of(value)})
    fields = tuple([(name, getattr(value, name, None)) for name in names])
    if isinstance(value, dict):
        return fields, tuple(value.items())
    return (fields, tuple(value)) if isinstance(value, tuple | list) else fields


def _is_node(value: Any) -> bool:
    try:
        return not jax.tree_util.all_leaves([value])
    except Exception:  # flattening runs code of any library
        return False


def _is_record(kind: type) -> bool:
    params = getattr(kind, "__dataclass_params__", None)
    return params is not None and (params.frozen or is_of_jax(kind))


def _is_heap_type(kind: type) -> bool:
    return bool(kind.__flags__ & 1 << 9)


def _slots(base: type) -> tuple[str, ...]:
    slots = vars(base).get("__slots__", ())
    named = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple([name for name in named if name not in ("__dict__", "__weakref__")])
