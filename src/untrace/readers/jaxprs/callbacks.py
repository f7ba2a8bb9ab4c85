"""Make calls of host functions, which are printed as addresses.

A function that says that it is not known stands in for each: the program can be traced,
read and shown, and what is written of it has a place where the true one belongs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
from jax.experimental import io_callback

from untrace.errors import LoadError
from untrace.jaxapi import unprinted
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.syntax import Equation

CALLBACKS: dict[str, Callable[[Any, Any, Sequence[Any], bool], Any]] = {
    "pure_callback": lambda host, results, args, _: jax.pure_callback(
        host, results, *args
    ),
    "io_callback": lambda host, results, args, is_ordered: io_callback(
        host, results, *args, ordered=is_ordered
    ),
    "debug_callback": lambda host, _, args, is_ordered: jax.debug.callback(
        host, *args, ordered=is_ordered
    ),
}


def with_callback(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    """Return the params of a call of a host function, which is not known."""
    results = [builder.type(binder.type, binder.at) for binder in eqn.binders]
    structs = [jax.ShapeDtypeStruct(one.shape, one.dtype) for one in results]
    call = CALLBACKS[eqn.primitive]
    effect = params.get("effect")  # as its class is called
    is_ordered = params.get("ordered") is True or "Ordered" in str(effect)

    def called(*args: Any) -> Any:
        return call(unknown_host_function, structs, args, is_ordered)

    made = unprinted.rule_params(called, avals, eqn.primitive)
    if made is None:
        builder.fail(f"`{eqn.primitive}` cannot be made with these operands", eqn.at)
    plain = {
        name: value
        for name, value in params.items()
        if name in made
        and name != "effect"
        and isinstance(value, bool | int | str | type(None))
    }
    return {**made, **plain}


def unknown_host_function(*_: Any) -> NoReturn:
    """Stand in for a function of the host that is printed as an address."""
    raise LoadError(
        "a function that the program calls on the host is not known: the printed jaxpr, "
        "from which it was read, does not hold functions"
    )
