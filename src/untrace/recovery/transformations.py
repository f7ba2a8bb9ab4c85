"""Which transformations the user can name, and which of them a function or a call is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from untrace import jaxapi
from untrace.recovery.functions import Layer, peel

_MADE = ["grad", "value_and_grad", "jacfwd", "jacrev", "vmap", "checkpoint", "jit"]
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cond": jax.lax.cond,
    "fori_loop": jax.lax.fori_loop,
    "jvp": jax.jvp,
    "linearize": jax.linearize,
    "map": jax.lax.map,
    "scan": jax.lax.scan,
    "switch": jax.lax.switch,
    "vjp": jax.vjp,
    "while_loop": jax.lax.while_loop,
}
EXPANDABLE = frozenset({*_MADE, *_FUNCTIONS, "hessian", "custom_jvp", "custom_vjp"})
"""What `expand` can name: by the name of the public function."""


_KINDS = {"value_and_grad": ("grad",)}
"""What is a kind of another: who wants to see gradients wants to see these."""


def names_of(function: Any) -> frozenset[str]:
    """Return what a function is called as a transformation: no name for most.

    A function of `jax.nn` or `jax.numpy` may be jitted or have derivative rules; whether
    it is public is for the caller to know.
    """
    for kind, name in (
        (jaxapi.CUSTOM_JVP, "custom_jvp"),
        (jaxapi.CUSTOM_VJP, "custom_vjp"),
    ):
        if isinstance(function, kind):
            return frozenset({name})
    if jaxapi.is_linearized(function):
        return frozenset({"linearize"})
    if isinstance(function, jaxapi.FUNCTION_RESULTS):
        return frozenset({"vjp"})
    for name, public in _FUNCTIONS.items():
        if function is public:
            return frozenset({name})
    layer = peel(function)
    if layer is None or layer.kind != "transformed":
        return frozenset()
    name = layer.value.maker[1]
    is_hessian = name == "jacfwd" and "jacrev" in names_of(layer.inner)
    more = ("hessian",) if is_hessian else _KINDS.get(name, ())
    return frozenset({name, *more})


def opened_layer(function: Any, names: frozenset[str], skipped: int = 0) -> Any:
    """Return the outermost function inside wrappers that is one of some transformations.

    Functions that are jitted are not looked for: they are functions without it, too.

    Args:
      function: A callable.
      names: The transformations.
      skipped: How many layers to go inwards first.
    """
    wanted = names - {"jit"}
    layer: Layer | None = peel(function)
    while layer is not None:
        if skipped <= 0 and names_of(function) & wanted:
            return function
        skipped -= 1
        function = layer.inner
        layer = peel(function) if function is not None else None
    return None
