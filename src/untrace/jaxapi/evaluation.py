"""Evaluating equations one by one while JAX traces, and removing dead ones.

`bind` does for one equation what JAX's own evaluation of jaxprs does: the primitive is
bound under the equation's context, name stack and traceback.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Generator, Mapping, Sequence
from typing import Any

from jax._src import callback as _callback
from jax._src import core as _core
from jax._src import source_info_util as _source_info_util
from jax._src.interpreters import partial_eval as _pe

from untrace.jaxapi.contexts import manual_region
from untrace.jaxapi.frames import forward_frames
from untrace.jaxapi.jaxprs import close_jaxpr, split_jaxpr
from untrace.jaxapi.process import Shared

eval_jaxpr: Any = _core.eval_jaxpr


def quiet_callbacks() -> contextlib.AbstractContextManager[None]:
    """Keep JAX from logging what host functions raise, which reaches the caller anyway."""
    return _is_quiet.entered()


def _set_quiet(is_quiet: bool) -> None:
    _callback.logger.disabled = is_quiet


_is_quiet = Shared[bool](
    lambda: _callback.logger.disabled, _set_quiet, lambda before, _: True
)


def bind(eqn: Any, params: Mapping[str, Any], operands: Sequence[Any]) -> Sequence[Any]:
    """Bind the primitive of an equation (an `ir.Equation`) to other params and operands.

    Args:
      eqn: Gives the primitive, the context and where it came from.
      params: As they stand in a jaxpr, with jaxprs for sub-programs.
      operands: Arrays or tracers.

    Returns:
      The results, one or many.
    """
    primitive, info = eqn.primitive, eqn.source_info
    stack = _source_info_util.current_name_stack() + info.name_stack
    traceback = info.traceback if forward_frames(info) else _outer.get()
    with (
        _source_info_util.user_context(traceback or info.traceback, name_stack=stack),
        eqn.context.manager,
    ):
        found = primitive.bind(*operands, **primitive.get_bind_params(dict(params)))
    return found if primitive.multiple_results else [found]


@contextlib.contextmanager
def opened_call(eqn: Any) -> Generator[None]:
    """Bind the equations of a sub-program as parts of the equation that calls it.

    Those of JAX's own functions hold no line of the user's; the call does.
    """
    info = eqn.source_info
    stack = _source_info_util.current_name_stack() + info.name_stack
    traceback = info.traceback if forward_frames(info) else _outer.get()
    token = _outer.set(traceback)
    try:
        with _source_info_util.user_context(traceback, name_stack=stack):
            yield
    finally:
        _outer.reset(token)


_outer: contextvars.ContextVar[Any] = contextvars.ContextVar("outer", default=None)
"""The traceback of the call whose equations are bound."""


def aval(value: Any) -> Any:
    """Return the type of an array, a scalar or a tracer."""
    return _core.typeof(value)


def without_leading_axis(aval_: Any) -> Any:
    """Return the type of one step of a stacked value."""
    return _core.mapped_aval(aval_.shape[0], 0, aval_)


def sub_program_region(eqn: Any) -> contextlib.AbstractContextManager[None]:
    """Enter the state in which the sub-programs of an equation are traced."""
    if eqn.name == "shard_map":
        return manual_region(eqn.params, eqn.context)
    return eqn.context.manager


def without_dead_code(jaxpr: Any) -> tuple[Any, list[bool]]:
    """Remove what no output and no effect of a closed jaxpr needs, at any depth.

    Constants become leading inputs first.

    Returns:
      A closed jaxpr without constants, and which inputs (former constants first) are
      left.
    """
    body, consts = split_jaxpr(jaxpr)
    if consts:
        body = _pe.convert_constvars_jaxpr(body)
    used_outputs = [True] * len(body.outvars)
    body, used = _pe.dce_jaxpr(body, used_outputs)
    return close_jaxpr(body), list(used)
