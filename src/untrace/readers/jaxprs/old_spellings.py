"""Today's names of primitives and params, for texts of older releases of JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from untrace.readers.jaxprs.syntax import Equation, Name

if TYPE_CHECKING:
    from untrace.readers.jaxprs.building import Builder


def modern(eqn: Equation, builder: Builder) -> Equation:
    """Return an equation as today's JAX would print it."""
    change = _CHANGES.get(eqn.primitive)
    return eqn if change is None else change(eqn)


def _renamed(name: str, **params: str) -> Callable[[Equation], Equation]:
    """Return what renames a primitive and some of its params; to "" is without them."""

    def change(eqn: Equation) -> Equation:
        changed = {
            params.get(key, key): value
            for key, value in eqn.params.items()
            if params.get(key, key)
        }
        return eqn._replace(primitive=name, params=changed)

    return change


_CHANGES: dict[str, Callable[[Equation], Equation]] = {
    "pjit": _renamed("jit", resource_env=""),
    "xla_call": _renamed("jit", call_jaxpr="jaxpr", device="", backend=""),
    "custom_jvp_call_jaxpr": _renamed(
        "custom_jvp_call", fun_jaxpr="call_jaxpr", jvp_jaxpr_thunk=""
    ),
    "custom_vjp_call_jaxpr": _renamed("custom_vjp_call", fun_jaxpr="call_jaxpr"),
}
_ = Name, Any
