"""What a Python frame inside JAX calls: the hooks of the recorder.

A call of the public API under a trace enters Python, so its frame shows the function
and its actual arguments. `call_readers` maps code objects to functions that read them
from a frame. The wrappers that transformations return are opened through their
closures, since `__wrapped__` would skip the transformation.
"""

# These are JAX's private hooks; `tests/recovery` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
from jax._src import ad_checkpoint as _ad_checkpoint
from jax._src import api as _api
from jax._src import array as _array
from jax._src import config as _config
from jax._src import core as _core
from jax._src import custom_derivatives as _custom_derivatives
from jax._src import debugging as _debugging
from jax._src import pjit as _pjit
from jax._src import shard_map as _shard_map
from jax._src import source_info_util as _source_info_util
from jax._src import traceback_util as _traceback_util
from jax._src import tree_util as _tree_util
from jax._src.numpy import array_methods as _array_methods
from jax._src.numpy import scalar_types as _scalar_types
from jax._src.numpy import ufunc_api as _ufunc_api
from jax._src.numpy import vectorize as _vectorize


class Operator(NamedTuple):
    """A Python operator on arrays, by the name of its method: `__add__`."""

    name: str


class Method(NamedTuple):
    """A method of an array: `x.sum()`."""

    name: str


class Property(NamedTuple):
    """A property of an array: `x.T`."""

    name: str


class Update(NamedTuple):
    """An indexed update: `x.at[i].set(v)`."""

    name: str


@dataclass(frozen=True, eq=False, slots=True)
class Transformed:
    """A function that a transformation made: `jax.vmap(f, in_axes=1)`.

    Attributes:
      maker: Module and name of the transformation.
      function: What was transformed.
      options: Keyword arguments that are not the default.
      static: Positions and names of arguments that are no arrays.
    """

    maker: tuple[str, str]
    function: Any
    options: Mapping[str, Any]
    static: tuple[tuple[int, ...], tuple[str, ...]] = ((), ())


class Called(NamedTuple):
    """A function and its actual arguments.

    `is_first` tells that the frame returns the result and more, for the fast path of
    `jax.jit`.
    """

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    is_first: bool = False


Reader = Callable[[types.FrameType], Called | None]

FUNCTION_RESULTS: tuple[type, ...] = (_api.VJP, jax.tree_util.Partial)
"""What `jax.vjp` and `jax.linearize` return as functions."""

SCOPE_FILES = (contextlib.__file__, _source_info_util.__file__, _config.__file__)
"""Files whose wrappers only enter a context, such as `jax.named_scope` or a setting."""

UFUNC = _ufunc_api.ufunc
CUSTOM_JVP = _custom_derivatives.custom_jvp
CUSTOM_VJP = _custom_derivatives.custom_vjp


# ---- transformations ---------------------------------------------------------------


def open_boundary(function: Any) -> Any:
    """Remove the wrappers that only filter tracebacks."""
    while type(function) is types.FunctionType and function.__code__ is _BOUNDARY:
        function = _closure(function)["fun"]
    return function


def transformed(function: Any) -> Transformed | None:
    """Tell which transformation made a function, or return None."""
    if isinstance(function, _JITTED):
        info = function._jit_info  # pyright: ignore[reportAttributeAccessIssue]
        return _jitted(function.__wrapped__, info)
    function = open_boundary(function)
    if type(function) is not types.FunctionType:
        return None
    maker = _makers().get(function.__code__)
    return maker.read(_closure(function)) if maker is not None else None


def wrapper_code(function: Any) -> types.CodeType | None:
    """Return the code whose frames show the calls of what a transformation made.

    All functions that were made in the same way share it.
    """
    if isinstance(function, (CUSTOM_JVP, CUSTOM_VJP)):
        return open_boundary(type(function).__call__).__code__
    plain = open_boundary(function)
    return plain.__code__ if type(plain) is types.FunctionType else None


@dataclass(frozen=True, slots=True)
class _Maker:
    """How the closure of a transformation's wrapper holds what it was made of."""

    home: tuple[str, str]
    signature: inspect.Signature
    through: str = ""

    def read(self, cells: Mapping[str, Any]) -> Transformed:
        if self.through:  # `grad` wraps what `value_and_grad` returns
            cells = _closure(open_boundary(cells[self.through]))
        function = next(cells[n] for n in ("fun", "f", "pyfunc", "func") if n in cells)
        options = {
            name: cells[name]
            for name, parameter in self.signature.parameters.items()
            if name in cells
            and (parameter.default is not parameter.empty or name == "out_specs")
            and not _is_default(cells[name], parameter.default)
        }
        options.pop("fun", None)
        options.pop("f", None)
        names = getattr(cells.get("mesh"), "axis_names", None)
        if names is not None and options.get("axis_names") == frozenset(names):
            del options["axis_names"]
        static = options.pop("static_argnums", ())
        static = (static,) if isinstance(static, int) else tuple(static)
        return Transformed(self.home, function, options, (static, ()))


def _is_default(value: Any, default: Any) -> bool:
    if type(value) is object:  # a sentinel such as "no axis name"
        return True
    return value is default or (type(value) is type(default) and value == default)


def _makers() -> dict[types.CodeType, _Maker]:
    if not _MAKERS:
        for home, maker, wrapper, through in [
            (("jax", "value_and_grad"), jax.value_and_grad, "value_and_grad_f", ""),
            (("jax", "grad"), jax.grad, "grad_f", "value_and_grad_f"),
            (("jax", "grad"), jax.grad, "grad_f_aux", "value_and_grad_f"),
            (("jax", "vmap"), jax.vmap, "vmap_f", ""),
            (("jax", "jacfwd"), jax.jacfwd, "jacfun", ""),
            (("jax", "jacrev"), jax.jacrev, "jacfun", ""),
            (("jax", "checkpoint"), _ad_checkpoint.checkpoint, "fun_remat", ""),
            (("jax.numpy", "vectorize"), _vectorize.vectorize, "wrapped", ""),
        ]:
            plain = open_boundary(maker)
            _MAKERS[_inner_code(plain, wrapper)] = _Maker(
                home, inspect.signature(plain), through
            )
        _MAKERS[_inner_code(_shard_map._shard_map, "wrapped")] = _Maker(
            ("jax", "shard_map"), inspect.signature(jax.shard_map)
        )
    return _MAKERS


_MAKERS: dict[types.CodeType, _Maker] = {}


def elementwise_rules(function: Any) -> list[Any]:
    """Return the functions that were given to `defjvps`, if they were."""
    rule = getattr(function, "jvp", None)
    code = getattr(rule, "__code__", None)
    if code is not _inner_code(CUSTOM_JVP.defjvps, "jvp"):
        return []
    return list(_closure(rule)["jvps"])


def gradient_function(function: Any) -> Any:
    """Return what `jax.custom_gradient` was given; None if that made no function.

    Its options, which came with jax 0.12, make functions of another kind.
    """
    if not isinstance(function, CUSTOM_VJP):
        return None
    if getattr(function.fwd, "__code__", None) is not _GRADIENT_FORWARD:
        return None
    held = _closure(function.fwd)
    return None if held.get("with_logs") else held.get("fun")


def _jitted(function: Any, info: Any) -> Transformed:
    options: dict[str, Any] = {}
    if info.donate_argnums or info.donate_argnames:
        name = "donate_argnums" if info.donate_argnums else "donate_argnames"
        options[name] = getattr(info, name)
    if info.keep_unused:
        options["keep_unused"] = True
    if info.inline != _plain_jit_info().inline:
        options["inline"] = info.inline
    for name in ("in_shardings", "out_shardings"):
        leaves = getattr(info, f"{name}_leaves")
        tree = getattr(info, f"{name}_treedef")
        value = jax.tree.unflatten(tree, leaves)
        if any(not _is_unspecified(leaf) for leaf in leaves):
            options[name] = value
    if info.compiler_options_kvs:
        options["compiler_options"] = dict(info.compiler_options_kvs)
    static = tuple(info.static_argnums or ()), tuple(info.static_argnames or ())
    return Transformed(("jax", "jit"), function, options, static)


@functools.cache
def _plain_jit_info() -> Any:
    return jax.jit(lambda: None)._jit_info  # pyright: ignore


def _is_unspecified(sharding: Any) -> bool:
    return type(sharding).__name__ == "UnspecifiedValue"


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
        if isinstance(value, _JITTED):
            jitted.setdefault(id(value.__wrapped__), value)
            continue
        plain = open_boundary(value)
        if not isinstance(plain, types.FunctionType) or plain.__code__ in readers:
            continue
        if not is_inside_jax(plain):
            continue  # such as `typing.cast`, which a module of JAX imports
        if is_wrapper(plain.__code__) or (plain.__closure__ and name != "map"):
            continue  # its code is shared with other functions
        readers[plain.__code__] = functools.partial(_read_plain, value, plain)
    readers.update(_method_readers())
    cache_miss = _inner_code(_pjit._cpp_pjit, "cache_miss")
    readers[cache_miss] = functools.partial(_read_jitted, jitted)
    for code, maker in _makers().items():
        readers[code] = functools.partial(_read_transformed, maker)
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


def bound_arguments(
    code: types.CodeType, values: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Split the arguments that a frame starts with into positional and keyword ones."""
    n, n_keyword = code.co_argcount, code.co_kwonlyargcount
    names = code.co_varnames
    args = [values[name] for name in names[:n]]
    kwargs = {name: values[name] for name in names[n : n + n_keyword]}
    position = n + n_keyword
    if code.co_flags & inspect.CO_VARARGS:
        args += values[names[position]]
        position += 1
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(values[names[position]])
    return tuple(args), kwargs


def _read_plain(value: Any, plain: Any, frame: types.FrameType) -> Called:
    args, kwargs = bound_arguments(plain.__code__, frame.f_locals)
    return Called(value, args, kwargs)


def _read_jitted(jitted: Mapping[int, Any], frame: types.FrameType) -> Called:
    values = frame.f_locals
    function = jitted.get(id(values["fun"]))
    if function is None:
        function = _jitted(values["fun"], values["jit_info"])
    return Called(function, values["args"], dict(values["kwargs"]), is_first=True)


def _read_transformed(maker: _Maker, frame: types.FrameType) -> Called:
    values = frame.f_locals
    kwargs = dict(values.get("kwargs") or {})
    return Called(maker.read(values), values["args"], kwargs)


def _read_self(frame: types.FrameType) -> Called:
    values = frame.f_locals
    args, kwargs = bound_arguments(frame.f_code, values)
    return Called(args[0], args[1:], kwargs)


def _read_linearized(frame: types.FrameType) -> Called | None:
    """Read a call of the function that `jax.linearize` returns; of no other `Partial`."""
    values = frame.f_locals
    shim = values["self"]
    if getattr(shim.fun, "func", None) is not _api._lift_linearized:
        return None
    n_residuals = _api._lift_linearized.__code__.co_argcount - len(shim.fun.args)
    return Called(shim, values["args"][n_residuals:], {})


def is_linearized(function: Any) -> bool:
    """Tell whether a function is what `jax.linearize` returns, without its residuals."""
    return isinstance(function, _tree_util._HashableCallableShim)


def _read_transposed(frame: types.FrameType) -> Called | None:
    """Read a call of the function that `jax.linear_transpose` returns."""
    back = frame.f_back
    if back is None or not is_wrapper(back.f_code):
        return None
    return Called(back.f_locals["fun"], (frame.f_locals["out_cotangent"],), {})


def is_transposed(function: Any) -> bool:
    """Tell whether a function is what `jax.linear_transpose` returns, as above."""
    return getattr(function, "__code__", None) is _TRANSPOSED


def plain_map(function: Any) -> Any:
    """Return the function by which a call of a linear map is known: no residuals."""
    return open_boundary(function.func)


def _read_ufunc(frame: types.FrameType) -> Called:
    values = frame.f_locals
    return Called(values["self"], values["args"], {})


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
    args, kwargs = bound_arguments(plain.__code__, frame.f_locals)
    args, later = _as_written(plain, args)
    return Called(kind, args, {**later, **_without_defaults(plain, kwargs)})


def _as_written(
    plain: Any, args: tuple[Any, ...]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Give arguments by keyword after the first that is its default."""
    names = plain.__code__.co_varnames[: len(args)]
    values = plain.__defaults__ or ()
    defaults = dict(zip(names[plain.__code__.co_argcount - len(values) :], values))
    n = 0
    while n < len(args) and not (
        names[n] in defaults and _is_default(args[n], defaults[names[n]])
    ):
        n += 1
    later = {
        name: arg
        for name, arg in zip(names[n:], args[n:])
        if not _is_default(arg, defaults[name])
    }
    return args[:n], later


def _read_update(name: str, plain: Any, frame: types.FrameType) -> Called:
    args, kwargs = bound_arguments(plain.__code__, frame.f_locals)
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
        if key not in parameters or not _is_default(value, parameters[key].default)
    }


def _without_defaults(plain: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    defaults = plain.__kwdefaults__ or {}
    return {
        name: value
        for name, value in kwargs.items()
        if name not in defaults or not _is_default(value, defaults[name])
    }


def _read_bind(frame: types.FrameType) -> Called:
    values = frame.f_locals
    return Called(values["self"], values["args"], dict(values["params"]))


def _method_readers() -> dict[types.CodeType, Reader]:
    methods = _array_methods
    readers: dict[types.CodeType, Reader] = {
        _inner_code(methods._forward_operator_to_aval, "op"): _read_operator,
        _inner_code(methods._forward_method_to_aval, "meth"): _read_method,
        _inner_code(methods._forward_property_to_aval, "prop"): _read_property,
        _ufunc_api.ufunc.__call__.__code__: _read_ufunc,
        _scalar_types._ScalarMeta.__call__.__code__: _read_self,
        open_boundary(CUSTOM_JVP.__call__).__code__: _read_self,
        open_boundary(CUSTOM_VJP.__call__).__code__: _read_self,
        _api.VJP.__call__.__code__: _read_self,
        _tree_util._HashableCallableShim.__call__.__code__: _read_linearized,
        _TRANSPOSED: _read_transposed,
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
    for name, function in vars(methods._IndexUpdateRef).items():
        if type(function) is types.FunctionType and not name.startswith("_"):
            readers[function.__code__] = functools.partial(_read_update, name, function)
    return readers


def is_inside_jax(function: Any) -> bool:
    """Tell whether a function is one of JAX's own."""
    return str(getattr(function, "__module__", "")).startswith("jax.")


def is_debugging(function: Any) -> bool:
    """Tell whether a function is one of `jax.debug`, called for its effect."""
    return getattr(function, "__module__", "") == _debugging.__name__


def is_tree_function(function: Any) -> bool:
    """Tell whether a function only takes trees apart or puts them together."""
    module = str(getattr(function, "__module__", ""))
    return module.startswith(("jax._src.tree", "jax.tree"))


def is_wrapper(code: types.CodeType) -> bool:
    """Tell whether a frame only passes a call on."""
    return code is _BOUNDARY


def _closure(function: Any) -> dict[str, Any]:
    """Return what a function closes over; a variable without a value is left out."""
    found: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        with contextlib.suppress(ValueError):
            found[name] = cell.cell_contents
    return found


def _inner_code(function: Any, name: str) -> types.CodeType:
    """Find the code of a function that is defined inside another."""
    function = open_boundary(inspect.unwrap(function))
    return _find_code(function.__code__, name)


def _find_code(code: types.CodeType, name: str) -> types.CodeType:
    stack = [code]
    while stack:
        current = stack.pop()
        for const in current.co_consts:
            if isinstance(const, types.CodeType):
                if const.co_name == name:
                    return const
                stack.append(const)
    raise LookupError(f"{code.co_name} has no inner function {name}")


_JITTED: Any = type(jax.jit(lambda: None))
_BOUNDARY = _find_code(
    _traceback_util.api_boundary.__code__, "reraise_with_filtered_traceback"
)
_GRADIENT_FORWARD = _inner_code(_custom_derivatives.custom_gradient, "fwd")
_TRANSPOSED = _inner_code(_api.linear_transpose, "transposed_fun")


# ---- caches ------------------------------------------------------------------------


@dataclass(slots=True)
class _Token:
    """A state that takes part in JAX's trace caches and says nothing else."""

    state: Any = field(default=None)

    def fresh(self) -> Any:
        if self.state is None:
            self.state = _config.string_or_object_state(
                name="untrace_recording",
                default=None,
                help="Set while calls are recorded, so that cached traces are not used.",
                include_in_trace_context=True,
            )
        return self.state(object())


_token = _Token()


def without_trace_caches() -> Any:
    """Return a context in which functions are traced anew, once each."""
    return _token.fresh()
