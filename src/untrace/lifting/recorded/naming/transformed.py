"""Names of functions that transformations made: `grad_of_loss`, `vmap_of_grad_of_loss`."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.lifting.spelling.homes import public_name
from untrace.optional import gives, optional
from untrace.recovery.functions import innermost, peel
from untrace.recovery.transformations import names_of
from untrace.syntax.names import identifier

MAYBE_PUBLIC = frozenset({"jit", "custom_jvp", "custom_vjp"})
"""What JAX's own functions may be, too."""

_SAME_NAME = frozenset({*MAYBE_PUBLIC, "checkpoint", "pmap"})
"""What is written as a decorator, if at all: the function keeps its name."""


_SPECIAL = frozenset({"hessian", "value_and_grad"})
"""What is also known by a more general name."""


@optional(gives("function"))
def opened_name(function: Any, args: Sequence[Any] = ()) -> str:
    """Name the function that is made of what a transformation does.

    >>> import jax
    >>> opened_name(jax.vmap(jax.grad(abs)))
    'vmap_of_grad_of_abs'
    """
    names = names_of(function)
    if jaxapi.is_linearized(function) or isinstance(function, jaxapi.FUNCTION_RESULTS):
        return "linear_map" if "linearize" in names else "pullback"
    if not names or (names & MAYBE_PUBLIC and public_name(function) is not None):
        plain_one = innermost(function) or function
        name = getattr(plain_one, "__name__", type(plain_one).__name__).strip("<>_")
        return "function" if name == "lambda" else name
    inner = _inner(function, args)
    if "hessian" in names:
        inner = _inner(inner, ())
    while names_of(inner) & _SAME_NAME and public_name(inner) is None:
        inner = _inner(inner, ())
    word = next(iter(_SPECIAL & names or names))
    return identifier(f"{word}_of_{opened_name(inner)}", "function")


@optional(gives(None))
def program_name(function: Any) -> str | None:
    """Name a program that is one transformed function; None if it has its own name.

    >>> import jax
    >>> program_name(jax.jit(jax.value_and_grad(abs)))
    'value_and_grad_of_abs'
    """
    args: tuple[Any, ...] = ()
    while True:
        if isinstance(function, functools.partial):
            args = (*function.args, *args)
            function = function.func
        elif names_of(function) & _SAME_NAME:
            function = _inner(function, args)
        else:
            break
    if not names_of(function) or _inner(function, args) is None:
        return None
    return opened_name(function, args)


def _inner(function: Any, args: Sequence[Any]) -> Any:
    """Return what a transformation was given: before the call, or with its arguments."""
    layer = peel(function)
    inner = layer.inner if layer is not None else None
    return next(filter(callable, args), None) if inner is None else inner
