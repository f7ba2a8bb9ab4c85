"""Take any value that stands in a jaxpr apart, one level at a time.

`take_apart` turns a param, a constant or an object inside one into `Parts`: a `kind`,
which holds everything about the value itself, and labelled children. Two values are
the same if their kinds are equal and their children are the same. Comparing,
fingerprinting and equivalence all walk these parts, so they agree by construction on
what counts. Jaxprs and tracers are not taken apart here: what they mean depends on
where they stand, so every walker handles them itself.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import hashlib
import logging
import struct
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from untrace import jaxapi
from untrace.objects import attributes_of
from untrace.verification.surroundings import global_names, names_in

# Where the type of a number counts: params that are compiled as what they are, and what
# functions close over or are given, which counts as a whole.
EXACT_PARAMS = frozenset({"attributes"})
HOLDING_KINDS = frozenset(
    {"function", "partial", "method", "builtin", "WrappedFun", "host call"}
)

Kind = tuple[Any, ...]
Children = tuple[tuple[str, Any], ...]


class Parts(NamedTuple):
    """One level of a value.

    Attributes:
      kind: Text, numbers and tuples of them; equal in every process for equal values.
      children: Label and value of each component, in a fixed order.
      sees_globals: It is a function; what it sees of its module counts, too, where
        another of the same code may see another one (`seen_globals`).
      is_opaque: Nothing can be said about the value, except that it is itself.
      has_equality: Its class is one of JAX or Python and defines `==`, and its fields may
        hold caches: objects that are equal may be taken to be the same. Another class may
        leave out of its `==` what counts.
      exact_type: The dtype of a number of NumPy, or the subclass that a number or text is
        of, which counts where numbers are not only sizes or axes (see `EXACT_PARAMS`).
      witness: A class, module or primitive that `kind` only names, which must be the
        same object in one process.
    """

    kind: Kind
    children: Children = ()
    sees_globals: bool = False
    is_opaque: bool = False
    has_equality: bool = False
    exact_type: str = ""
    witness: Any = None


def take_apart(value: Any) -> Parts:
    """Take one level of `value` apart."""
    kind = type(value)
    return _split_function(kind)(value)


def array_key(value: Any) -> Kind:
    """Describe an array by dtype, shape, weak type and bits (NaN payload, -0.0)."""
    if jaxapi.is_key(value):
        return ("keys", str(value.dtype), array_key(jax.random.key_data(value)))
    array = np.asarray(value)
    weak = bool(getattr(value, "weak_type", False))
    described = ("array", str(array.dtype), array.shape, weak, _digest(array))
    sharding = jaxapi.kept_on(value)
    return described if sharding is None else (*described, stable_text(sharding))


def literal_key(value: Any, aval: Any) -> Kind | None:
    """Describe a literal by the bits it has at the dtype of its aval.

    Whether JAX kept it as a Python number, a numpy scalar or an array of its own does
    not matter. Returns None if the aval is no array type.
    """
    dtype = getattr(aval, "dtype", None)
    if not isinstance(dtype, np.dtype):
        return None
    array = np.asarray(value, dtype=dtype)
    return ("literal", str(dtype), array.shape, _digest(array))


def class_name(kind: type) -> str:
    """Return the full name of a class."""
    return f"{kind.__module__}.{kind.__qualname__}"


def primitive_key(primitive: Any) -> Kind:
    """Describe a primitive by name and class: some are made anew for every call."""
    return ("primitive", primitive.name, class_name(type(primitive)))


def _digest(array: np.ndarray[Any, Any]) -> Any:
    content = np.ascontiguousarray(array).tobytes()
    return content if len(content) <= 32 else hashlib.sha256(content).hexdigest()


# ---- leaves ------------------------------------------------------------------------


def _none(value: Any) -> Parts:
    return Parts((repr(value),))


def _bool(value: Any) -> Parts:
    return Parts(("bool", bool(value)))


def _int(value: Any) -> Parts:
    return Parts(("int", int(value)), exact_type=_below(value, int))


def _numpy_number(value: Any) -> Parts:
    """Take it as Python's: in shapes and axes these come and go without a meaning."""
    return take_apart(value.item())._replace(exact_type=str(value.dtype))


def _float(value: Any) -> Parts:
    return Parts(("float", struct.pack("<d", value)), exact_type=_below(value, float))


def _complex(value: Any) -> Parts:
    bits = struct.pack("<dd", value.real, value.imag)
    return Parts(("complex", bits), exact_type=_below(value, complex))


def _text(value: Any) -> Parts:
    # Of a subclass, too, the text is what is compiled.
    if isinstance(value, str):
        return Parts(("str", str.__str__(value)), exact_type=_below(value, str))
    kind = bytearray if isinstance(value, bytearray) else bytes
    bits = bytes(memoryview(value))
    return Parts((kind.__name__, bits), exact_type=_below(value, kind))


def _below(value: Any, plain: type) -> str:
    """Name the class of a value that is of a subclass."""
    return "" if type(value) is plain else class_name(type(value))


def _enum(value: enum.Enum) -> Parts:
    return Parts(("enum", class_name(type(value)), value.name), witness=type(value))


def _flag(value: enum.Flag) -> Parts:
    # A union of flags has no name of its own on Python 3.10 and earlier spellings.
    return Parts(("flag", class_name(type(value)), value.value), witness=type(value))


def _dtype(value: Any) -> Parts:
    return Parts(("dtype", class_name(type(value)), str(value)))


def _masked(value: Any) -> Parts:
    return Parts(
        ("masked", array_key(np.ma.getdata(value))),
        (("mask", np.ma.getmaskarray(value)), ("fill", np.asarray(value.fill_value))),
    )


def _exception(value: BaseException) -> Parts:
    fields = tuple([(f".{name}", vars(value)[name]) for name in sorted(vars(value))])
    kind = ("exception", class_name(type(value)))
    return Parts(kind, (("args", value.args), *fields), witness=type(value))


def _code(value: types.CodeType) -> Parts:
    return Parts(code_key(value))


def _array(value: Any) -> Parts:
    if value.dtype == object:  # the cores of a mesh; the bits would be addresses
        items = tuple([(f"[{i}]", item) for i, item in enumerate(value.flat)])
        return Parts(("objects", value.shape), items)
    return Parts(array_key(value))


def _class(value: type) -> Parts:
    return Parts(("class", class_name(value)), witness=value)


def _primitive(value: Any) -> Parts:
    return Parts(primitive_key(value), witness=value)


def _device(value: Any) -> Parts:
    return Parts(("device", value.platform, value.id, value.process_index))


def _origin(value: Any) -> Parts:
    return Parts(("origin",))


def _log_record(value: logging.LogRecord) -> Parts:
    # The rest of a record says when and where it was made.
    return Parts(("log record", value.name, value.levelno))


def _module(value: types.ModuleType) -> Parts:
    return Parts(("module", value.__name__), witness=value)


# ---- containers --------------------------------------------------------------------


def _sequence(value: Any) -> Parts:
    items = tuple([(f"[{i}]", item) for i, item in enumerate(value)])
    fields = getattr(value, "_fields", None)
    if fields is not None:
        items = tuple((f".{name}", item) for name, (_, item) in zip(fields, items))
    name = "tuple" if type(value) is tuple else class_name(type(value))
    children = items + _set_on(value)
    return Parts((name, len(items)), children, witness=_subclass(value, tuple, list))


def _subclass(value: Any, *plain: type) -> Any:
    """The class of a container, if it is none of Python's plain ones."""
    return None if type(value) in plain else type(value)


def _mapping(value: Mapping[Any, Any]) -> Parts:
    keyed = sorted(((stable_text(key), key) for key in value), key=lambda pair: pair[0])
    items = tuple((f"[{text}]", value[key]) for text, key in keyed)
    keys = tuple((f"key {text}", key) for text, key in keyed)
    name = "dict" if type(value) is dict else class_name(type(value))
    children = (*keys, *items, *_set_on(value))
    if isinstance(value, collections.defaultdict):
        children += (("default", value.default_factory),)
    kind: Kind = (name, len(keyed))
    if isinstance(value, collections.OrderedDict):  # its order counts in `==`
        kind += (tuple(map(stable_text, value)),)
    return Parts(kind, children, witness=_subclass(value, dict))


_PLAIN = (tuple, list, dict)


def _set_on(value: Any) -> Children:
    """What was set on a container beside its items."""
    fields = attributes_of(value) if _subclass(value, *_PLAIN) else {}
    return tuple([(f".{name}", fields[name]) for name in sorted(fields)])


def _set(value: Any) -> Parts:
    items = sorted((stable_text(item), i, item) for i, item in enumerate(value))
    children = tuple((f"{{{text}}}", item) for text, _, item in items)
    return Parts(
        ("set", len(items)),
        children,
        exact_type=_below(value, set),
        witness=_subclass(value, set, frozenset),
    )


def stable_text(value: Any) -> str:
    """Write a value for sorting, without addresses or iteration order."""
    parts = take_apart(value)
    if parts.is_opaque or not parts.children:
        return repr(parts.kind)
    return repr((parts.kind, [stable_text(child) for _, child in parts.children]))


def _slice(value: slice | range) -> Parts:
    limits = _named(value, ("start", "stop", "step"))
    return Parts((type(value).__name__,), limits)


def _treedef(value: Any) -> Parts:
    node = value.node_data()
    if node is None:
        return Parts(("leaf", value.num_leaves))
    children = tuple((f"/{i}", child) for i, child in enumerate(value.children()))
    parts = (("node", node[0]), ("aux", node[1]), *children)
    return Parts(("treedef", len(children)), parts)


# ---- functions ---------------------------------------------------------------------


def code_key(code: types.CodeType) -> Kind:
    """Describe what a code object does, leaving out lines, files and names of locals."""
    consts = tuple([_code_const(const) for const in code.co_consts])
    return (
        "code",
        code.co_code,
        code.co_exceptiontable,
        code.co_names,
        code.co_freevars,
        consts,
        code.co_varnames[: code.co_argcount + code.co_kwonlyargcount],
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount),
        code.co_flags,
    )


def _code_const(const: Any) -> Any:
    if isinstance(const, types.CodeType):
        return code_key(const)
    return stable_text(const)


def _function(value: types.FunctionType) -> Parts:
    traced = jaxapi.thunk_result(value)
    if traced is not None:
        return Parts(("thunk",), (("jaxpr", traced),))
    code = value.__code__
    cells = value.__closure__ or ()
    closure = [(f"closure {n}", _cell(c)) for n, c in zip(code.co_freevars, cells)]
    defaults = [("defaults", value.__defaults__), ("kwdefaults", value.__kwdefaults__)]
    attributes = [] if jaxapi.is_of_jax(value) else _attributes(value)
    looks_around = bool(global_names(code) & _WHOLE_MODULE)
    return Parts(
        ("function", code_key(code), *_stood_in_for(value)),
        (*closure, *defaults, *attributes),
        sees_globals=True,
        witness=value.__globals__ if looks_around else None,
    )


_WHOLE_MODULE = frozenset({"globals", "eval", "exec", "vars"})
"""What a function may read any name of its module by."""
_SAID = ("__name__", "__qualname__", "__doc__", "__annotations__", "__module__")
"""What a function says of itself, which counts only where its code may read it."""


def _stood_in_for(function: types.FunctionType) -> Kind:
    """What a generated function says of the one whose place it takes, if it takes one."""
    name = jaxapi.stand_in_for(function)
    takes_leaves = jaxapi.leaves_stand_in_for(function) is not None
    return () if name is None else (name, takes_leaves)


def _attributes(function: types.FunctionType) -> list[tuple[str, Any]]:
    """What was set on a function, but for what says which function it wraps."""
    names = sorted(name for name in vars(function) if name != "__wrapped__")
    found = [(f"attribute {name}", vars(function)[name]) for name in names]
    read = names_in(function.__code__)
    said = [name for name in _SAID if name in read]
    return found + [(f"attribute {name}", getattr(function, name)) for name in said]


def _cell(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return ("empty cell",)


def _builtin(value: Any) -> Parts:
    called = getattr(value, "__qualname__", None) or value.__name__
    name = f"{getattr(value, '__module__', None)}.{called}"
    owner = getattr(value, "__self__", None)
    bound = () if isinstance(owner, types.ModuleType | None) else (("self", owner),)
    return Parts(("builtin", name), bound)


def _method(value: types.MethodType) -> Parts:
    return Parts(("method",), (("function", value.__func__), ("self", value.__self__)))


def _partial(value: functools.partial[Any]) -> Parts:
    return Parts(
        ("partial", class_name(type(value))),
        (("func", value.func), ("args", value.args), ("keywords", value.keywords)),
        witness=_subclass(value, functools.partial, jax.tree_util.Partial),
    )


def _wrapped_fun(value: Any) -> Parts:
    return Parts(
        ("WrappedFun",),
        (
            ("f", value.f),
            ("transforms", tuple(value.transforms)),
            ("params", tuple(value.params)),
            ("in_type", value.in_type),
        ),
    )


def _host_call(value: Any) -> Parts:
    """Take what a callback calls, and the trees of what it is given: objects, too."""
    call = jaxapi.host_call(value)
    if call is None:
        return _object(value)
    trees = ("in_tree", call.in_tree), ("static_args", call.static_args)
    return Parts(("host call",), (("function", call.function), *trees))


# ---- objects -----------------------------------------------------------------------


def _mesh(value: Any) -> Parts:
    devices = ("devices", tuple(value.devices.flat))
    axes = _named(value, ("axis_names", "axis_types"))
    return Parts(("mesh", value.devices.shape), (*axes, devices))


def _abstract_mesh(value: Any) -> Parts:
    names = ("axis_names", "axis_sizes", "axis_types", "abstract_device")
    return Parts(("abstract mesh",), _named(value, names))


def _partition_spec(value: Any) -> Parts:
    rest = _named(value, ("unreduced", "reduced", "unreduced_kind"))
    return Parts(("P",), (("partitions", tuple(value._partitions)), *rest))


def _named_sharding(value: Any) -> Parts:
    names = ("mesh", "spec", "memory_kind", "_logical_device_ids")
    return Parts(("NamedSharding",), _named(value, names))


def _single_device(value: Any) -> Parts:
    devices = tuple(sorted(value.device_set, key=lambda device: device.id))
    return Parts(
        ("SingleDeviceSharding",),
        (("devices", devices), ("memory_kind", value.memory_kind)),
    )


def _named(value: Any, names: tuple[str, ...]) -> Children:
    return tuple((name, getattr(value, name, None)) for name in names)


def _exported(value: Any) -> Parts:
    """Take all but how a derivative is made, on demand: calls have it in their rules.

    Where the operations of the module came from is left out.
    """
    left_out = ("_get_vjp", "mlir_module_serialized")
    names = [f.name for f in dataclasses.fields(value) if f.name not in left_out]
    module = ("module", jaxapi.exported_digest(value))
    return Parts(("Exported",), (*_named(value, tuple(names)), module))


def _symbolic_scope(value: Any) -> Parts:
    """Take the constraints; the rest is caches, and where the scope was made."""
    return Parts(("SymbolicScope", *jaxapi.scope_constraints(value)))


_TRUSTED = sys.stdlib_module_names | {"jax", "jaxlib", "ml_dtypes", "numpy"}
# Caches that an object fills while it lives; they are no part of what it is.
_CACHES = frozenset({"__weakref__", "__dict__", "_hash", "_stripped_weak_type"})


def _object(value: Any) -> Parts:
    kind = type(value)
    cached = {
        name
        for base in kind.__mro__
        for name, member in vars(base).items()
        if isinstance(member, functools.cached_property)
    }
    cached |= jaxapi.ORIGIN_FIELDS.get(class_name(kind), frozenset())
    names = [n for n in _field_names(value) if n not in _CACHES and n not in cached]
    fields = tuple((f".{n}", getattr(value, n)) for n in names if hasattr(value, n))
    # The fields of a dataclass say more than its `==`, for which 1 is 1.0 and True; those
    # of a typed primitive more than its own, for which operands of all types are alike.
    says_more = _is_dataclass(kind) or isinstance(value, jaxapi.HiPrimitive)
    has_equality = kind.__eq__ is not object.__eq__ and not says_more
    has_equality = has_equality and kind.__module__.partition(".")[0] in _TRUSTED
    is_opaque = not fields and not _is_value_like(kind)
    text = repr(value) if is_opaque else ""
    return Parts(
        ("object", class_name(kind), tuple(n for n, _ in fields), _no_address(text)),
        fields,
        is_opaque=is_opaque,
        has_equality=has_equality,
        witness=kind,
    )


def _is_dataclass(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)


def _no_address(text: str) -> str:
    return "" if "0x" in text else text


def _field_names(value: Any) -> list[str]:
    kind = type(value)
    if _is_dataclass(kind) and "__dataclass_fields__" in vars(kind):
        return [field.name for field in dataclasses.fields(value)]
    slots = [name for base in kind.__mro__ for name in _slots(base)]
    return sorted({*slots, *attributes_of(value)})


def _slots(base: type) -> list[str]:
    slots = vars(base).get("__slots__", ())
    names = (slots,) if isinstance(slots, str) else tuple(slots)
    mangled = f"_{base.__name__.lstrip('_')}"
    are_private = [name.startswith("__") and not name.endswith("__") for name in names]
    return [f"{mangled}{n}" if p else n for n, p in zip(names, are_private)]


def _is_value_like(kind: type) -> bool:
    """Whether two objects without fields of this class are interchangeable.

    True for empty dataclasses and for classes written in Python that keep no state at
    all (effects, markers such as `UnspecifiedValue`). False for `object()` sentinels
    and for what is implemented in C, where state may hide.
    """
    bases = [base for base in kind.__mro__ if base is not object]
    in_python = all(_is_python_class(base) for base in bases)
    in_python = in_python and not jaxapi.hides_state(kind)
    is_callable = any("__call__" in vars(base) for base in bases)
    return bool(bases) and in_python and not is_callable


def _is_python_class(kind: type) -> bool:
    # Classes of nanobind and pybind11 are heap types too; their metaclass tells.
    is_heap_type = bool(kind.__flags__ & 1 << 9)
    return is_heap_type and not type(kind).__name__.startswith(("nb_", "pybind11_"))


_SPLITTERS: tuple[tuple[Any, Callable[[Any], Parts]], ...] = (
    ((type(None), type(Ellipsis), type(NotImplemented)), _none),
    ((np.bool_, np.integer, np.float64, np.complex128), _numpy_number),
    (bool, _bool),
    (enum.Flag, _flag),
    (enum.Enum, _enum),
    (jaxapi.ORIGIN_TYPES, _origin),
    (int, _int),
    (float, _float),
    (complex, _complex),
    ((str, bytes, bytearray), _text),
    (np.dtype, _dtype),
    (np.ma.MaskedArray, _masked),
    ((np.ndarray, np.generic, jax.Array), _array),
    (type, _class),
    (jaxapi.Primitive, _primitive),
    (jax.Device, _device),
    (types.ModuleType, _module),
    (logging.LogRecord, _log_record),
    (jax.sharding.PartitionSpec, _partition_spec),
    ((tuple, list), _sequence),
    ((dict, types.MappingProxyType, jaxapi.FrozenDict), _mapping),
    ((set, frozenset), _set),
    ((slice, range), _slice),
    (jax.tree_util.PyTreeDef, _treedef),
    (types.FunctionType, _function),
    (types.CodeType, _code),
    (BaseException, _exception),
    ((types.BuiltinFunctionType, types.MethodWrapperType, np.ufunc), _builtin),
    (types.MethodType, _method),
    (functools.partial, _partial),
    (jaxapi.WrappedFun, _wrapped_fun),
    (jaxapi.FlatCallback, _host_call),
    (jaxapi.Exported, _exported),
    (jaxapi.SymbolicScope, _symbolic_scope),
    (jax.sharding.Mesh, _mesh),
    (jax.sharding.AbstractMesh, _abstract_mesh),
    (jax.sharding.NamedSharding, _named_sharding),
    (jax.sharding.SingleDeviceSharding, _single_device),
)


@functools.cache
def _split_function(kind: type) -> Callable[[Any], Parts]:
    for bases, split in _SPLITTERS:
        if issubclass(kind, bases):
            return split
    return _object
