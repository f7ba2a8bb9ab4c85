"""What the primitives of libraries compute, in equations of JAX's own primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax

from untrace.jaxapi.avals import same_aval
from untrace.jaxapi.jaxprs import split_jaxpr
from untrace.jaxapi.tracing import trace_flat

_JAX = frozenset({"jax", "jaxlib"})
MAX_KNOWN = 4096
_known: dict[Any, Any] = {}


def library_of(primitive: Any) -> str:
    """Return the package that implements a primitive; "" if JAX does, or nobody."""
    impl = primitive.impl
    while isinstance(impl, functools.partial):
        impl = impl.func  # pyright: ignore[reportUnknownVariableType,reportUnknownMemberType]
    module = getattr(impl, "__module__", None) or "jax"  # pyright: ignore[reportUnknownArgumentType]
    root = str(module).partition(".")[0]
    return "" if root in _JAX else root


def implementation(
    primitive: Any,
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> Any:
    """Return what a library's primitive computes, if that is known for certain.

    Its implementation is traced at the types of an equation. It has to make the types of
    the results, to have no effects, and to be compiled to the same StableHLO as the
    primitive. How the primitive is batched or differentiated does not follow.

    Returns:
      A closed jaxpr; None if there is none, or the primitive is one of JAX's.
    """
    if not library_of(primitive):
        return None
    key = (primitive, tuple(sorted(params.items())), tuple(avals), tuple(out_avals))
    try:
        known = key in _known
    except TypeError:  # a param that cannot be hashed
        return _implementation(primitive, params, avals, out_avals)
    if not known:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[key] = _implementation(primitive, params, avals, out_avals)
    return _known[key]


def _implementation(
    primitive: Any,
    params: Mapping[str, Any],
    avals: Sequence[Any],
    out_avals: Sequence[Any],
) -> Any:
    def impl(*args: Any) -> list[Any]:
        return jax.tree.leaves(primitive.impl(*args, **params))

    def bind(*args: Any) -> list[Any]:
        return jax.tree.leaves(primitive.bind(*args, **params))

    try:
        jaxpr = trace_flat(impl, avals)
        if split_jaxpr(jaxpr)[0].effects or len(jaxpr.out_avals) != len(out_avals):
            return None
        if not all(map(same_aval, jaxpr.out_avals, out_avals)):
            return None
        return jaxpr if _lowered(impl, avals) == _lowered(bind, avals) else None
    except Exception:  # code of a library, which may want other things than tracers
        return None


def _lowered(function: Callable[..., Any], avals: Sequence[Any]) -> str:
    """Return the StableHLO of a function, whatever it is called."""

    def opened(*args: Any) -> Any:
        return function(*args)

    structs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
    return jax.jit(opened, keep_unused=True).lower(*structs).as_text()
