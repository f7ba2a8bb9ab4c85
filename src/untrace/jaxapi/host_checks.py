"""Checks at run time by `equinox.error_if`: functions that may raise on the host.

Such a check is a function with a derivative rule that returns what it is given. In an
equation it is known by the host function that raises, which closes over the messages.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from untrace.jaxapi.jaxprs import split_jaxpr
from untrace.jaxapi.state import function_origin, host_call
from untrace.objects import closed_over

_CHECK = "equinox._errors._error"
_RAISES = f"{_CHECK}.<locals>.raises"


class ErrorCheck(NamedTuple):
    """What a check was given: `x`, unless `pred` is true; `index` is None for 0."""

    x: Any
    pred: Any
    index: Any
    message: str | None


def error_check(function: Any, args: Any) -> ErrorCheck | None:
    """Read a call of the function behind `equinox.error_if`; None for any other."""
    plain = closed_over(getattr(function, "fun", None)).get("fn")
    if plain is None or function_origin(plain) != _CHECK or len(args) != 2:
        return None
    (static, settings), (given, _) = args
    if settings["on_error"] != "raise" or static[2] not in (None, 0):
        return None
    x, pred, index = given
    return ErrorCheck(x, pred, index, _only(settings["msgs"]))


def is_error_function(function: Any) -> bool:
    """Whether a host function belongs to such a check."""
    return function_origin(function).startswith(f"{_CHECK}.<locals>.")


def checked_message(call_jaxpr: Any) -> tuple[str | None] | None:
    """Return the only message of the check that a function makes, in a tuple.

    None if the function makes no check, or one that `jax.vmap` has made another of: its
    host functions return less then. The message is None if there are several.
    """
    body, _ = split_jaxpr(call_jaxpr)
    if [eqn.primitive.name for eqn in body.eqns[-1:]] != ["cond"]:
        return None
    for branch in body.eqns[-1].params["branches"]:
        inner, _ = split_jaxpr(branch)
        for eqn in inner.eqns:
            callback = eqn.params.get("callback")
            call = host_call(callback) if callback is not None else None
            if call is not None and function_origin(call.function) == _RAISES:
                if _shapes(eqn.outvars) != _shapes(body.outvars):
                    return None
                return (_only(closed_over(call.function)["msgs"]),)
    return None


def _shapes(variables: Any) -> list[tuple[int, ...]]:
    return [variable.aval.shape for variable in variables]


def _only(messages: Any) -> str | None:
    """Return the only message that a check has; those of tables are left to libraries."""
    return messages[0] if len(messages) == 1 else None
