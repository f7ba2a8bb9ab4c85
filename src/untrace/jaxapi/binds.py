"""Primitives as they are bound: the frames that show it, and binding them again.

Every application of a primitive passes through a method `bind_with_trace`, whose frame
shows at which trace it is applied. `jax.grad` and others bind primitives at the trace
around them and at traces of their own.
"""

# These are JAX's private hooks; `tests/recovery` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import contextlib
import types
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from jax._src import config as _config
from jax._src import core as _core
from jax._src import linear_util as _linear_util
from jax._src import source_info_util as _source_info_util


def current_trace() -> Any:
    """Return the trace at which primitives are bound now."""
    return _core.trace_ctx.trace


def is_eager() -> bool:
    """Whether what is known is computed at once: `jax.ensure_compile_time_eval`."""
    return bool(_config.eager_constant_folding.value)


def current_axes() -> Any:
    """Return the named axes that are in scope now."""
    return _core.trace_ctx.axis_env


def outside_traces() -> Any:
    """Return a context in which nothing enters a trace; what takes tracers raises."""
    return _core.set_current_trace(_core.eval_trace)


@contextlib.contextmanager
def under_axes(axes: Any) -> Generator[None, None, None]:
    """Let the named axes be in scope that were at another time."""
    before = _core.trace_ctx.axis_env
    _core.trace_ctx.set_axis_env(axes)
    try:
        yield
    finally:
        _core.trace_ctx.set_axis_env(before)


def bind_codes() -> Iterator[types.CodeType]:
    """Yield the code of the methods that bind primitives."""
    stack: list[type[Any]] = [_core.Primitive]
    while stack:
        kind = stack.pop()
        stack += kind.__subclasses__()
        method = vars(kind).get("bind_with_trace")
        if isinstance(method, types.FunctionType):
            yield method.__code__


def read_bind(
    frame: types.FrameType,
) -> tuple[Any, Any, Sequence[Any], Mapping[str, Any]]:
    """Read from the frame of such a method at which trace what is bound to what."""
    values = frame.f_locals
    # JAX 0.12 takes the function of a `shard_map` out of them.
    params = dict(values["params"])
    return values["trace"], values["self"], values["args"], params


def bind_again(primitive: Any, args: Any, params: Mapping[str, Any]) -> list[Any]:
    """Bind a primitive once more, to other operands; return its results.

    Functions among the params have been traced before: what they stored then is
    forgotten, since they store it again. What is not stored again comes back: JAX keeps
    the traces of rules that were run, and does not run these again.
    """
    functions = list(_wrapped(params))
    with kept_stores(functions):
        for store in filter(None, chain(*(each.stores for each in functions))):
            store.reset()
        out = primitive.bind(*args, **params)
    return list(out) if primitive.multiple_results else [out]


@contextlib.contextmanager
def kept_stores(functions: Iterable[Any]) -> Generator[None]:
    """Put back what functions stored and what is not stored again."""
    stores = [s for each in functions for s in each.stores if s is not None]
    held = [(store, store.val) for store in stores if is_full(store)]
    try:
        yield
    finally:
        for store, value in held:
            if not is_full(store):
                store.store(value)


def is_full(store: Any) -> bool:
    """Whether something was stored."""
    # An `EqualStore` does not say itself whether it is empty.
    return bool(getattr(store, "_store", store))


def _wrapped(params: Mapping[str, Any]) -> Iterator[Any]:
    for param in params.values():
        for item in param if isinstance(param, tuple) else (param,):  # pyright: ignore[reportUnknownVariableType]
            if isinstance(item, _linear_util.WrappedFun):
                yield item


def no_source_info() -> Any:
    """Return the source information of an equation that nobody wrote."""
    return _source_info_util.new_source_info()
