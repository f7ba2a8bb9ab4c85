"""What a callable is made of: transformations, bound arguments, the code in the end."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from untrace import jaxapi, objects
from untrace.recovery.classifying import is_handed_over, is_inside_jax
from untrace.recovery.record import Body


@dataclass(frozen=TYPE_CHECKING, eq=False, slots=True)
class Layer:
    """A callable with one wrapper taken off.

    Attributes:
      kind: "transformed", "partial", "method", "custom", "wrapper" or "function".
      value: The wrapper: a `Transformed`, a partial, a bound method, ...
      inner: What it wraps.
    """

    kind: str
    value: Any
    inner: Any


def peel(function: Any) -> Layer | None:
    """Take one wrapper off a callable; None if it is no callable that we know."""
    if type(function) is types.FunctionType:
        return _peel_function(function)
    if isinstance(function, jaxapi.Transformed):
        return Layer("transformed", function, function.function)
    if isinstance(function, functools.partial):
        return Layer("partial", function, function.func)
    if isinstance(function, types.MethodType):
        return Layer("method", function, function.__func__)
    if isinstance(function, (jaxapi.CUSTOM_JVP, jaxapi.CUSTOM_VJP)):
        given = jaxapi.gradient_function(function)
        return Layer("custom", function, function.fun if given is None else given)
    if isinstance(function, jaxapi.CUSTOM_VMAP):
        return Layer("custom", function, function.fun)
    made = jaxapi.transformed(function)
    if made is not None:
        return Layer("transformed", made, made.function)
    if isinstance(function, type):
        return None
    partial = jaxapi.inner_partial(function)
    if partial is not None:
        return Layer("partial", partial, partial.func)
    call = _plain_method(type(function))
    if call is not None:
        return Layer("method", types.MethodType(call, function), call)
    return None


def _peel_function(function: types.FunctionType) -> Layer:
    code = function.__code__
    inner = getattr(function, "__wrapped__", None)
    if type(inner) is types.FunctionType and is_handed_over(inner.__code__):
        return Layer("wrapper", function, inner)
    if not is_inside_jax(code) and code.co_filename not in jaxapi.SCOPE_FILES:
        return Layer("function", function, None)  # no wrapper of JAX or Python
    made = jaxapi.transformed(function)
    if made is not None:
        return Layer("transformed", made, made.function)
    plain = jaxapi.open_boundary(function)
    inner = getattr(plain, "__wrapped__", None)
    if inner is not None and plain.__code__.co_filename in jaxapi.SCOPE_FILES:
        return Layer("wrapper", plain, inner)  # `jax.named_scope` as a decorator
    return Layer("function", plain, None)


@functools.lru_cache(maxsize=1024)
def _plain_method(kind: type) -> Any:
    """Return the `__call__` of a class; frameworks put theirs into descriptors."""
    found = inspect.getattr_static(kind, "__call__", None)
    if jaxapi.transformed(found) is not None:
        return found
    for name in ("", "method", "__func__", "__wrapped__"):
        inner = getattr(found, name, None) if name else found
        if isinstance(inner, types.FunctionType):
            return inner
    return None


def innermost(function: Any) -> types.FunctionType | None:
    """Return the Python function inside all wrappers."""
    return opened(function)[0]


def running(
    frame: types.FrameType, functions: Sequence[types.FunctionType]
) -> types.FunctionType:
    """Return which of some functions of one code a frame runs.

    What they close over tells, and their defaults (`lambda x, w=w: x @ w`). It is the last
    of those that are alike.
    """
    if len(functions) == 1:
        return functions[0]
    values, code = frame.f_locals, frame.f_code
    names = code.co_varnames[: code.co_argcount]

    def has(function: types.FunctionType) -> bool:
        cells = zip(code.co_freevars, map(_content, function.__closure__ or ()))
        defaults = function.__defaults__ or ()
        given = zip(names[len(names) - len(defaults) :], defaults)
        keywords = (function.__kwdefaults__ or {}).items()
        held = [*cells, *given, *keywords]
        return all(values.get(name, values) is value for name, value in held)

    return next(filter(has, reversed(functions)), functions[-1])


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return cell


def is_function(value: Any) -> bool:
    """Whether a value is a function, wrapped or not; no other callable object."""
    if isinstance(value, types.BuiltinFunctionType):
        return True
    if not callable(value) or isinstance(value, type):
        return False
    layer = peel(value)
    if layer is None:
        return isinstance(value, jaxapi.UFUNC)
    return layer.kind != "method" or isinstance(value, types.MethodType)


def function_key(function: Any) -> Any:
    """Return what identifies a function; transformations make theirs anew every time."""
    made = function
    if not isinstance(made, jaxapi.Transformed):
        made = jaxapi.transformed(function)
    if made is None:
        return id(function)
    return made.maker, id(made.function), repr(made.options)


def already_bound(function: Any) -> tuple[int, frozenset[str]]:
    """Count the positional arguments that are bound already; name the keyword ones."""
    n_bound = 0
    keywords: set[str] = set()
    for _ in range(64):
        layer = peel(function)
        if layer is None or layer.kind == "function":
            break
        if layer.kind == "partial":
            n_bound += len(layer.value.args)
            keywords |= set(layer.value.keywords)
        elif layer.kind == "method":
            n_bound += 1
        function = layer.inner
    return n_bound, frozenset(keywords)


def n_bound_starred(function: Any, code: types.CodeType) -> int:
    """Count the arguments that are bound already and that `*args` takes, such as `self`."""
    return max(0, already_bound(function)[0] - code.co_argcount)


def bound_arguments(function: Any) -> list[Any]:
    """Return the arguments that partials inside a callable have bound."""
    found: list[Any] = []
    for _ in range(64):
        layer = peel(function)
        if layer is None or layer.kind == "function":
            break
        if layer.kind == "partial":
            found += [*layer.value.args, *layer.value.keywords.values()]
        function = layer.inner
    return found


def index_maps(function: Any) -> list[Any]:
    """Return the functions that tell which blocks the kernel inside a callable gets."""
    for _ in range(64):
        layer = peel(function)
        if layer is None or layer.kind == "function":
            break
        if layer.kind == "transformed" and layer.value.maker == jaxapi.KERNEL_HOME:
            return list(jaxapi.index_maps(layer.value.options))
        function = layer.inner
    return []


def positional(function: Any, run: Body) -> list[Any]:
    """Return the positional arguments that a run of a function was given."""
    n_bound, keywords = already_bound(function)
    values, _ = jaxapi.bound_arguments(run.code, run.parameters)
    names = run.code.co_varnames[: run.code.co_argcount]
    named = [v for n, v in zip(names, values) if n not in keywords]
    return [*named, *values[len(names) :]][n_bound:]


def signature_of(function: types.FunctionType) -> inspect.Signature:
    """Return the signature of a function; those of JAX are called many times."""
    code = getattr(function, "__code__", None)
    is_known = code is not None and is_inside_jax(code)  # others are not kept alive
    return _known_signature(function) if is_known else inspect.signature(function)


@functools.lru_cache(maxsize=1024)
def _known_signature(function: types.FunctionType) -> inspect.Signature:
    return inspect.signature(function)


def given_arguments(
    function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return arguments by the names of the parameters that take them, where known."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # it has no signature
        parameters = ()
    names = [p.name for p in parameters if p.kind in _POSITIONAL][: len(args)]
    n_more = len(args) - len(names)
    names += ["x"] if n_more == 1 else [f"x_{i}" for i in range(n_more)]
    return {**dict(zip(names, args)), **kwargs}


_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)


def rules(function: Any) -> list[Any]:
    """Return the rules of a custom function, which are called at any later time."""
    if isinstance(function, jaxapi.CUSTOM_JVP):
        several = jaxapi.elementwise_rules(function)
        return several or ([function.jvp] if function.jvp is not None else [])
    if isinstance(function, jaxapi.CUSTOM_VJP):
        return [rule for rule in (function.fwd, function.bwd) if rule is not None]
    if isinstance(function, jaxapi.CUSTOM_VMAP) and function.vmap_rule is not None:
        return [function.vmap_rule]
    return []


def opened(function: Any) -> tuple[types.FunctionType | None, list[Any]]:
    """Return the Python function inside all wrappers, and the rules of custom ones."""
    found: list[Any] = []
    for _ in range(64):
        layer = peel(function)
        if layer is None:
            break
        if layer.kind == "function":
            return layer.value, found
        if layer.kind == "custom":
            found += [rule for rule in rules(function) if rule is not None]
        function = layer.inner
    return None, found


def closed_over(function: Any) -> dict[str, Any]:
    """Return the variables that the Python function inside all wrappers closes over."""
    return objects.closed_over(innermost(function))


def starred(code: types.CodeType) -> tuple[str, ...]:
    """Return the names of the starred parameters of a function."""
    first = code.co_argcount + code.co_kwonlyargcount
    flags = inspect.CO_VARARGS, inspect.CO_VARKEYWORDS
    n_stars = sum(bool(code.co_flags & flag) for flag in flags)
    return code.co_varnames[first : first + n_stars]
