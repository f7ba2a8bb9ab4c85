"""Custom calls that JAX itself makes; all others are refused, and never run."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NoReturn

import jax
from jax import lax
from jax.experimental import io_callback

from untrace.errors import LoadError
from untrace.jaxapi.module_types import Record
from untrace.readers.stablehlo.calls import Call
from untrace.readers.stablehlo.identities import HOST_CALL, ORDER
from untrace.readers.stablehlo.shapes import struct
from untrace.readers.stablehlo.tokens import DEBUG, IO

Template = Callable[..., Any]

_LAPACK = re.compile(r"lapack_[sdcz][a-z0-9]+_ffi")


def custom_call(call: Call, *operands: Any) -> Any:
    """State a custom call by its target."""
    target = str(call["call_target_name"])
    if target in TARGETS:
        return TARGETS[target](call, *operands)
    if _LAPACK.fullmatch(target):
        return foreign_call(call, *operands)
    raise call.refused(
        f"calls `{target}`, which lives outside the module",
        "Only functions that JAX brings along are called (LAPACK, ApproxTopK, those that "
        "mark shardings); kernels and libraries of others cannot be read "
        "from a module.",
    )


def foreign_call(call: Call, *operands: Any) -> Any:
    """State the call of a function of LAPACK, as `jax.ffi.ffi_call` makes it."""
    call.ignore("backend_config", "output_operand_aliases", "called_computations")
    attributes = call.get("mhlo.backend_config") or Record("dict", ())
    if call.get("has_side_effect"):
        raise call.refused("calls a function with side effects")
    call.ignore("api_version")
    types = [struct(kind) for kind in call.types]
    called = jax.ffi.ffi_call(
        str(call["call_target_name"]),
        types,
        input_layouts=_layouts(call.get("operand_layouts")),
        output_layouts=_layouts(call.get("result_layouts")),
    )
    return called(*operands, **attributes.plain())


def _layouts(given: Any) -> Any:
    """Return layouts from the slowest axis to the fastest."""
    return None if given is None else [tuple(map(int, one[::-1])) for one in given]


def approx_top_k(call: Call, *operands: Any) -> Any:
    """State what no call of `approx_max_k` or `approx_min_k` was found for."""
    raise call.refused(
        "selects by a function that `jax.lax.approx_max_k` does not have"
    )


def same(call: Call, x: Any) -> Any:
    """State an annotation of where a value is."""
    call.ignore("backend_config", "has_side_effect", "api_version")
    return x


def dynamic_reduce_window(call: Call, x: Any, init: Any) -> Any:
    """State a reduction of windows whose sizes are operands, by a function by its name."""
    call.ignore("called_computations", "api_version", "backend_config")
    (block,) = call.blocks.values()
    function = call.monoid(block)
    if function is None:
        raise call.refused("reduces by a function that is none of JAX's own")
    sizes = [call.constant(i) for i in range(2, 6)]
    padding = [tuple(pair) for pair in call.constant(6)]
    window, strides, *dilations = sizes
    return lax.reduce_window(x, init, function, window, strides, padding, *dilations)


def host_call(call: Call, *operands: Any) -> Any:
    """State the call of a function on the host, which is not in the module.

    Those of one number are one function; a stand-in says that it is not known.
    """
    call.ignore("backend_config", "operand_layouts", "result_layouts", "api_version")
    given = call["mhlo.backend_config"]
    number = given.plain().get("index") if isinstance(given, Record) else None
    if number is None:
        raise call.refused("calls a function on the host that has no number")
    host = _unknown_host_function(int(number))
    types = [struct(kind) for kind in call.types]
    order = call.get(ORDER)
    if order not in (None, IO, DEBUG):
        raise call.refused("is ordered by effects that JAX does not have")
    is_effect = call.get("has_side_effect")
    if order == DEBUG and not types:
        jax.debug.callback(host, *operands, ordered=True)
        return []
    if order is not None:
        return io_callback(host, types, *operands, ordered=True)
    if not is_effect:
        return jax.pure_callback(host, types, *operands)
    if types:
        return io_callback(host, types, *operands)
    jax.debug.callback(host, *operands)
    return []


@functools.lru_cache(maxsize=1024)
def _unknown_host_function(number: int) -> Callable[..., NoReturn]:
    def unknown(*_: Any) -> NoReturn:
        raise LoadError(
            "a function that the program calls on the host is not known: the module, "
            "from which it was read, does not hold functions of the host"
        )

    unknown.__name__ = unknown.__qualname__ = f"unknown_host_function_{number}"
    return unknown


def shape_assertion(call: Call, *_: Any) -> Any:
    """State nothing: JAX makes what checks the sizes again when it exports the program."""
    call.ignore("error_message", "has_side_effect", "api_version", "backend_config")
    return []


def _mhlo(function: Callable[..., Any]) -> Template:
    """State what older releases of the exchange format kept under a name of MHLO."""

    def template(call: Call, *operands: Any) -> Any:
        call.ignore("mhlo.version", "backend_config", "api_version", "has_side_effect")
        given = call.get("mhlo.attributes") or Record("dict", ())
        attributes = dict(given.plain())
        attributes.pop("result_accuracy", None)
        return function(*operands, **attributes)

    return template


def _top_k(x: Any, k: Any, largest: bool = True) -> Any:
    return lax.top_k(x, int(k)) if largest else (None, None)


TARGETS: dict[str, Template] = {
    "ApproxTopK": approx_top_k,
    "Sharding": same,
    "annotate_device_placement": same,
    HOST_CALL: host_call,
    "shape_assertion": shape_assertion,
    "stablehlo.dynamic_reduce_window": dynamic_reduce_window,
    "mhlo.acos": _mhlo(lax.acos),
    "mhlo.acosh": _mhlo(lax.acosh),
    "mhlo.asin": _mhlo(lax.asin),
    "mhlo.asinh": _mhlo(lax.asinh),
    "mhlo.atanh": _mhlo(lax.atanh),
    "mhlo.cosh": _mhlo(lax.cosh),
    "mhlo.erf": _mhlo(lax.erf),
    "mhlo.sinh": _mhlo(lax.sinh),
    "mhlo.tan": _mhlo(lax.tan),
    "mhlo.topk": _mhlo(_top_k),
}
