"""Functions that JAX makes while it traces: linear maps, and converted functions.

They are values of the program, which are named where they are returned or passed. Most
of them hold arrays of their own that are no arguments of a call as it is written, and are
wrapped anew, so a call is known by what all the wrappers of a function share.
"""

# These are JAX's private hooks; `tests/recovery` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import types
from typing import Any

import jax
from jax._src import api as _api
from jax._src import custom_derivatives as _custom_derivatives
from jax._src import tree_util as _tree_util
from jax._src.lax.control_flow import solves as _solves

from untrace.jaxapi.called import Called, Reader
from untrace.jaxapi.jaxprs import is_jaxpr
from untrace.jaxapi.wrappers import inner_code, is_wrapper, open_boundary
from untrace.objects import attribute_of, closed_over


def made_readers() -> dict[types.CodeType, Reader]:
    """Return how the frames are read in which these functions run."""
    readers: dict[types.CodeType, Reader] = {
        _tree_util._HashableCallableShim.__call__.__code__: _read_linearized,
        _TRANSPOSED: _read_transposed,
        **dict.fromkeys(_converted_codes(), _read_converted),
    }
    if _ROOT_MAP is not None:
        readers[_ROOT_MAP.__call__.__code__] = _read_root_map
    return readers


def is_made(function: Any) -> bool:
    """Whether something is what such a function is known by."""
    is_transposed = attribute_of(function, "__code__") is _TRANSPOSED
    return is_linearized(function) or is_transposed or is_converted(function)


def is_converted(function: Any) -> bool:
    """Whether something is what a function is known by that was converted.

    What it closed over may have been bound to its first parameters.
    """
    return is_jaxpr(function) or _is_root_map(function)


def converted(function: Any) -> Any:
    """Return what a converted function is known by; None for other values."""
    while isinstance(function, functools.partial):
        function = function.func
    if _is_root_map(function):
        return function
    code = attribute_of(function, "__code__")
    if code not in _converted_codes():
        return None
    return closed_over(function)["jaxpr"]


@functools.cache
def _converted_codes() -> tuple[types.CodeType, ...]:
    convert = _custom_derivatives._closure_convert_for_avals
    codes = [inner_code(convert, "converted_fun")]
    traced: Any = jax.jit(lambda: None).trace()
    if hasattr(traced, "closure_convert"):  # since jax 0.12
        codes.append(traced.closure_convert()[1].__code__)
    return tuple(codes)


def _read_converted(frame: types.FrameType) -> Called:
    values = frame.f_locals
    kwargs = dict(values.get("kwargs") or {})
    args = values.get("args_hconsts")
    args = (values["consts"], *values["args"]) if args is None else args
    return Called(values["jaxpr"], tuple(args), kwargs)


def _is_root_map(function: Any) -> bool:
    return _ROOT_MAP is not None and isinstance(function, _ROOT_MAP)


def _read_root_map(frame: types.FrameType) -> Called | None:
    """Read a call of the linear map that `jax.lax.custom_root` passes; of no other."""
    values = frame.f_locals
    made = values["self"]
    return Called(made, values["args"], {}) if _is_root_map(made) else None


def _read_linearized(frame: types.FrameType) -> Called | None:
    """Read a call of the function that `jax.linearize` returns; of no other `Partial`."""
    values = frame.f_locals
    shim = values["self"]
    if not is_linearized(shim):
        return None
    return Called(shim, values["args"], {})


def is_linearized(function: Any) -> bool:
    """Whether a function is what `jax.linearize` returns, without its residuals."""
    is_shim = isinstance(function, _tree_util._HashableCallableShim)
    return is_shim and getattr(function.fun, "func", None) is _api._lift_linearized


def n_residuals(function: Any) -> int:
    """Return how many of the arguments of what `jax.linearize` returns are residuals."""
    return _api._lift_linearized.__code__.co_argcount - len(function.fun.args)


def inner_partial(function: Any) -> functools.partial[Any] | None:
    """Return the `Partial` that another one is made of, by what that holds for it."""
    if not isinstance(function, _tree_util._HashableCallableShim):
        return None
    is_own = isinstance(function.fun, functools.partial) and not is_linearized(function)
    return function.fun if is_own else None


def _read_transposed(frame: types.FrameType) -> Called | None:
    """Read a call of the function that `jax.linear_transpose` returns."""
    back = frame.f_back
    if back is None or not is_wrapper(back.f_code):
        return None
    return Called(back.f_locals["fun"], (frame.f_locals["out_cotangent"],), {})


def plain_map(function: Any) -> Any:
    """Return the function by which a call of a linear map is known: no residuals."""
    return open_boundary(function.func)


_ROOT_MAP: Any = getattr(_solves, "_RootLinearMap", None)  # since jax 0.12
_TRANSPOSED = inner_code(_api.linear_transpose, "transposed_fun")
