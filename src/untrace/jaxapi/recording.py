"""What a Python frame inside JAX calls: the hooks of the recorder.

A call of the public API under a trace enters Python, so its frame shows the function
and its actual arguments. `call_readers` maps code objects to functions that read them
from a frame.
"""

# These are JAX's private hooks; `tests/recovery` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import importlib
import inspect
import threading
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jax._src import api as _api
from jax._src import array as _array
from jax._src import config as _config
from jax._src import core as _core
from jax._src import debugging as _debugging
from jax._src import pjit as _pjit
from jax._src.numpy import array_methods as _array_methods
from jax._src.numpy import scalar_types as _scalar_types
from jax._src.numpy import ufunc_api as _ufunc_api

from untrace.jaxapi.batching import CUSTOM_VMAP
from untrace.jaxapi.called import (
    Called,
    Method,
    Operator,
    Property,
    Reader,
    Update,
    bound_arguments,
)
from untrace.jaxapi.kernel_calls import WHEN_HOME, pallas_module
from untrace.jaxapi.made import made_readers
from untrace.jaxapi.matrices import (
    sparse_methods,
    sparse_module,
    sparsified_operators,
)
from untrace.jaxapi.wrappers import (
    CUSTOM_JVP,
    CUSTOM_VJP,
    FUNCTION_RESULTS,
    JITTED,
    Maker,
    Transformed,
    inner_code,
    is_default,
    is_wrapper,
    makers,
    open_boundary,
    read_jit,
    transformed,
)

# ---- readers -----------------------------------------------------------------------


def call_readers(
    public: Iterator[tuple[Any, tuple[str, str]]],
) -> dict[types.CodeType, Reader]:
    """Return the function that reads a call from a frame, by the frame's code.

    Args:
      public: The public objects of JAX with their homes.
    """
    readers: dict[types.CodeType, Reader] = {}
    jitted: dict[int, Any] = {}
    for value, (module, name) in public:
        if not module.startswith("jax") or inspect.isclass(value):
            continue
        if module in _MACHINERY or name in _ABOUT_TYPES:
            continue
        if isinstance(value, JITTED):
            jitted.setdefault(id(value.__wrapped__), value)
            continue
        plain = open_boundary(value)
        if not isinstance(plain, types.FunctionType) or plain.__code__ in readers:
            continue
        if not is_inside_jax(plain):
            continue  # such as `typing.cast`, which a module of JAX imports
        if is_wrapper(plain.__code__) or (plain.__closure__ and name != "map"):
            continue  # its code is shared with other functions
        readers[plain.__code__] = functools.partial(_read_plain, value)
    # What an operator of concrete arrays runs may have no public name: that of `-x`.
    operators: dict[str, Any] = _array_methods._array_operators
    for name, value in operators.items():
        if isinstance(value, JITTED):
            jitted.setdefault(id(value.__wrapped__), Operator(f"__{name}__"))
    readers.update(_method_readers())
    cache_miss = inner_code(_pjit._cpp_pjit, "cache_miss")
    readers[cache_miss] = functools.partial(_read_jitted, jitted)
    of_sparse = _sparse_operators()
    if pallas_module() is not None:
        readers[inner_code(_pallas_when(), "_wrapped")] = _read_when
    for code, maker in makers().values():
        readers[code] = functools.partial(_read_transformed, maker, of_sparse)
    return readers


# What JAX calls all the time and programs do not compute with: watching costs time.
_MACHINERY = frozenset(
    {
        "jax.api_util",
        "jax.dtypes",
        "jax.extend.backend",
        "jax.extend.core",
        "jax.extend.linear_util",
        "jax.extend.source_info_util",
        "jax.interpreters.mlir",
        "jax.interpreters.partial_eval",
        "jax.monitoring",
        "jax.profiler",
    }
)
_ABOUT_TYPES = frozenset(
    {
        "broadcast_shapes",
        "dtype",
        "get_abstract_mesh",
        "get_mesh",
        "iscomplexobj",
        "isdtype",
        "issubdtype",
        "keystr",
        "ndim",
        "promote_types",
        "result_type",
        "shape",
        "size",
        "typeof",
    }
)


def _read_plain(value: Any, frame: types.FrameType) -> Called:
    args, kwargs = bound_arguments(frame.f_code, frame.f_locals)
    return Called(value, args, kwargs)


def _read_jitted(jitted: Mapping[int, Any], frame: types.FrameType) -> Called:
    values = frame.f_locals
    function = jitted.get(id(values["fun"]))
    if function is None:
        function = read_jit(values["fun"], values["jit_info"])
    return Called(function, values["args"], dict(values["kwargs"]), is_first=True)


def _read_transformed(
    maker: Maker, operators: Mapping[int, Operator], frame: types.FrameType
) -> Called:
    values = frame.f_locals
    kwargs = dict(values.get("kwargs") or values.get("params") or {})
    made = maker.read(values)
    is_sparse = made.maker[1] == "sparsify"
    function = operators.get(id(made.function), made) if is_sparse else made
    return Called(function, values["args"], kwargs)


def _pallas_when() -> Any:
    return importlib.import_module("jax.experimental.pallas").when


def _read_when(frame: types.FrameType) -> Called:
    """Read what `pl.when` does with the function that it decorates."""
    values = frame.f_locals
    options = {"condition": values["condition"]}
    return Called(Transformed(WHEN_HOME, values["f"], options), (), {})


def _read_self(frame: types.FrameType) -> Called:
    values = frame.f_locals
    args, kwargs = bound_arguments(frame.f_code, values)
    return Called(args[0], args[1:], kwargs)


def _read_ufunc(frame: types.FrameType) -> Called:
    values = frame.f_locals
    function = values["self"]
    return Called(transformed(function) or function, values["args"], {})


def _read_operator(frame: types.FrameType) -> Called:
    values = frame.f_locals
    name = f"__{values['name']}__"
    return Called(Operator(name), (values["self"], *values["args"]), {})


def _read_method(frame: types.FrameType) -> Called:
    values = frame.f_locals
    args = (values["self"], *values["args"])
    return Called(Method(values["name"]), args, dict(values["kwargs"]))


def _read_property(frame: types.FrameType) -> Called:
    values = frame.f_locals
    return Called(Property(values["name"]), (values["self"],), {})


def _read_concrete(kind: Any, plain: Any, frame: types.FrameType) -> Called:
    args, kwargs = bound_arguments(frame.f_code, frame.f_locals)
    args, later = _as_written(plain, args)
    return Called(kind, args, {**later, **_without_defaults(plain, kwargs)})


def _as_written(
    plain: Any, args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Give arguments by keyword after the first that is its default."""
    if len(args) > plain.__code__.co_argcount:
        return args, {}
    names = plain.__code__.co_varnames[: len(args)]
    values = plain.__defaults__ or ()
    defaults = dict(zip(names[plain.__code__.co_argcount - len(values) :], values))
    n = 0
    while n < len(args) and not (
        names[n] in defaults and is_default(args[n], defaults[names[n]])
    ):
        n += 1
    later = {
        name: arg
        for name, arg in zip(names[n:], args[n:])
        if not is_default(arg, defaults[name])
    }
    return args[:n], later


def _read_update(name: str, plain: Any, frame: types.FrameType) -> Called:
    args, kwargs = bound_arguments(frame.f_code, frame.f_locals)
    ref, *values = args
    kwargs = _without_defaults(plain, kwargs)
    return Called(Update(name), (ref.array, ref.index, *values), kwargs)


def without_method_defaults(name: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Leave out the keyword arguments of an array's method that are the default."""
    function = _array_methods._array_methods.get(name)
    if not isinstance(function, types.FunctionType):
        return kwargs
    parameters = inspect.signature(function).parameters
    return {
        key: value
        for key, value in kwargs.items()
        if key not in parameters or not is_default(value, parameters[key].default)
    }


def _without_defaults(plain: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    defaults = plain.__kwdefaults__ or {}
    return {
        name: value
        for name, value in kwargs.items()
        if name not in defaults or not is_default(value, defaults[name])
    }


def _read_bind(frame: types.FrameType) -> Called:
    values = frame.f_locals
    return Called(values["self"], values["args"], dict(values["params"]))


def _method_readers() -> dict[types.CodeType, Reader]:
    methods = _array_methods
    readers: dict[types.CodeType, Reader] = {
        inner_code(methods._forward_operator_to_aval, "op"): _read_operator,
        inner_code(methods._forward_method_to_aval, "meth"): _read_method,
        inner_code(methods._forward_property_to_aval, "prop"): _read_property,
        _ufunc_api.ufunc.__call__.__code__: _read_ufunc,
        _scalar_types._ScalarMeta.__call__.__code__: _read_self,
        open_boundary(CUSTOM_JVP.__call__).__code__: _read_self,
        open_boundary(CUSTOM_VJP.__call__).__code__: _read_self,
        open_boundary(CUSTOM_VMAP.__call__).__code__: _read_self,
        _api.VJP.__call__.__code__: _read_self,
        _core.Primitive.bind.__code__: _read_bind,
    }
    # Operators and methods of concrete arrays do not pass through a tracer's.
    for name, function in methods._array_operators.items():
        if type(function) is types.FunctionType and not function.__closure__:
            kind = Operator(f"__{name}__")
            readers.setdefault(
                function.__code__, functools.partial(_read_concrete, kind, function)
            )
    getitem = _array.ArrayImpl.__getitem__
    readers[getitem.__code__] = functools.partial(
        _read_concrete, Operator("__getitem__"), getitem
    )
    for name, function in methods._array_methods.items():
        if type(function) is types.FunctionType and not name.startswith("_"):
            readers.setdefault(
                function.__code__,
                functools.partial(_read_concrete, Method(name), function),
            )
    properties: dict[str, Any] = methods._array_properties
    for name, function in properties.items():
        if type(function) is types.FunctionType:
            kind = Property(name)
            readers.setdefault(
                function.__code__, functools.partial(_read_concrete, kind, function)
            )
    for name, function in vars(methods._IndexUpdateRef).items():
        if type(function) is types.FunctionType and not name.startswith("_"):
            readers[function.__code__] = functools.partial(_read_update, name, function)
    readers.update(_sparse_readers())
    readers.update(made_readers())
    return readers


def _sparse_operators() -> dict[int, Operator]:
    """Return the operators of sparse matrices, by what computes them for dense arrays."""
    found: dict[int, Operator] = {}
    for name, function in sparsified_operators():
        made = transformed(function)
        if made is not None:
            found[id(made.function)] = Operator(name)
    return found


def _sparse_readers() -> Iterator[tuple[types.CodeType, Reader]]:
    for name, function in sparse_methods():
        kind = Operator(name) if name.startswith("__") else Method(name)
        yield function.__code__, functools.partial(_read_concrete, kind, function)
    sparse = sparse_module()
    if sparse is not None:
        plain = sparse.JAXSparse.T.fget
        yield (
            plain.__code__,
            functools.partial(_read_concrete, Property("T"), plain),
        )


def is_inside_jax(function: Any) -> bool:
    """Whether a function is one of JAX's own."""
    return str(getattr(function, "__module__", "")).startswith("jax.")


def is_debugging(function: Any) -> bool:
    """Whether a function is one of `jax.debug`, called for its effect."""
    return getattr(function, "__module__", "") == _debugging.__name__


def is_tree_function(function: Any) -> bool:
    """Whether a function only takes trees apart or puts them together."""
    if type(function) is not types.FunctionType:
        return False
    return str(function.__module__).startswith(("jax._src.tree", "jax.tree"))


# ---- caches ------------------------------------------------------------------------


@functools.cache
def _token() -> Any:
    """A state that takes part in JAX's trace caches and says nothing else."""
    return _config.string_or_object_state(
        name="untrace_recording",
        default=None,
        help="Set while calls are recorded, so that cached traces are not used.",
        include_in_trace_context=True,
    )


def without_trace_caches() -> Any:
    """Return a context in which functions are traced anew, once each."""
    with _lock:
        return _token()(object())


def use_trace_caches() -> Callable[[], None]:
    """Let cached traces be used after all; return what ends that."""
    state = _token()
    return functools.partial(
        state.set_local, state.swap_local(_config.config_ext.unset)
    )


def runs_jax_alone(function: Any) -> bool:
    """Whether a public function, operator or method runs no code but JAX's.

    It does run others' where it is given functions, which is not asked here.
    """
    is_result = isinstance(function, (*FUNCTION_RESULTS, Transformed))
    return isinstance(function, tuple) or (not is_result and is_inside_jax(function))


_lock = threading.Lock()
