"""What a function differentiates: the values of its losses instead of their gradients."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import jax
from jax._src import api as _api


class _Reached(BaseException):
    """The loss was reached; nothing after it is of interest."""

    def __init__(self, values: Any) -> None:
        super().__init__()
        self.values = values


def loss_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the same arguments that returns the first loss itself.

    What `function` does up to its first `jax.grad` or `jax.value_and_grad` is done, and
    then the function that is differentiated there is called. Functions of `jax.jit` that
    lead there are called as they stand.

    Raises:
      LookupError: When it is called, if it differentiates nothing.
    """

    @functools.wraps(function)
    def loss(*args: Any, **kwargs: Any) -> Any:
        try:
            with _instead_of_vjp(), jax.disable_jit():
                function(*args, **kwargs)
        except _Reached as reached:
            return reached.values
        raise LookupError("nothing is differentiated")

    return loss


@contextmanager
def _instead_of_vjp() -> Generator[None]:
    """Leave the function that JAX differentiates in this thread with its values."""
    original, thread = _api.vjp, threading.get_ident()

    def vjp(
        fun: Callable[..., Any], *primals: Any, has_aux: bool = False, **options: Any
    ) -> Any:
        if threading.get_ident() != thread:
            return original(fun, *primals, has_aux=has_aux, **options)
        with jax.disable_jit(False):
            found = fun(*primals)
        raise _Reached(found[0] if has_aux else found)

    _api.vjp = vjp
    try:
        yield
    finally:
        _api.vjp = original
