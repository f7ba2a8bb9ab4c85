"""Functions in params, which are not printed: what they are where that is certain.

The rule of a derivative is that of the function of JAX that the call is of (see
`library`). Any other rule says, when it is asked, that it is not known.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NoReturn

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.errors import LoadError
from untrace.jaxapi import unprinted
from untrace.readers.jaxprs.bodies import CALLS
from untrace.readers.jaxprs.callbacks import CALLBACKS, with_callback
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.syntax import Equation


def with_rules(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    """Return the params of an equation with the functions that they hold."""
    if eqn.primitive == "reduce" and "jaxpr" in params:
        name = getattr(eqn.params.get("computation"), "text", "")
        return {**params, "computation": _computation(params["jaxpr"], name)}
    if eqn.primitive in CALLBACKS:
        return with_callback(eqn, params, avals, builder)
    if eqn.primitive == "custom_vmap_call" and "call" in params:
        return {**params, **_batched(eqn, params, avals, builder)}
    if CALLS.get(eqn.primitive) and params.get(CALLS[eqn.primitive]) is None:
        builder.fail(f"`{eqn.primitive}` calls no jaxpr", eqn.at)
    if eqn.primitive not in ("custom_jvp_call", "custom_vjp_call"):
        return params
    called = params["call_jaxpr"]
    name = str(eqn.params.get("name", "")).strip("<>") or unprinted.only_call(called)
    name = name or "function"
    call = unprinted.renamed(called, name)
    made = builder.library.params(eqn.primitive, name, call, avals)
    made = made or _unknown(eqn, name, call, avals)
    if made is None:
        builder.fail(f"`{eqn.primitive}` cannot be made of what it calls", eqn.at)
    kept = {k: params[k] for k in ("symbolic_zeros", "num_consts") if k in params}
    return {**made, "call_jaxpr": call, **kept}


def _computation(jaxpr: Any, shown: str) -> Any:
    """Return what a `reduce` computes as the function that it prints."""

    def computation(*args: Any) -> Any:
        found = jaxapi.as_function(jaxpr)(*jax.tree.leaves(args))
        return found[0] if len(found) == 1 else tuple(found)

    named = _FUNCTION.match(shown)
    computation.__qualname__ = named[1] if named else "computation"
    return computation


_FUNCTION = re.compile(r"<function (\S+)")


def _unknown(eqn: Equation, name: str, call: Any, avals: Sequence[Any]) -> Any:
    """Return the params of a call whose rules say that they are not known."""
    n_consts = eqn.params.get("num_consts", 0)

    def function(*args: Any) -> Any:
        # Rules do not see what the function closes over.
        closed_over = [jnp.zeros(a.shape, a.dtype) for a in avals[:n_consts]]
        return jaxapi.as_function(call)(*closed_over, *args)

    function.__name__ = name
    rules = [_refusing(name, eqn.params.get(kind)) for kind in ("jvp", "fwd", "bwd")]
    given = avals[n_consts:]
    if eqn.primitive == "custom_jvp_call":
        with_jvp = jax.custom_jvp(function)
        with_jvp.defjvp(rules[0])
        return unprinted.rule_params(with_jvp, given, eqn.primitive)
    with_vjp = jax.custom_vjp(function)
    with_vjp.defvjp(*rules[1:])
    return unprinted.rule_params(with_vjp, given, eqn.primitive)


def _batched(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    """Return the params of `custom_vmap` that are not printed, or not as they are."""
    call = params["call"]
    function = jax.custom_batching.custom_vmap(lambda *args: _of(call, args))
    shown = getattr(eqn.params.get("rule"), "text", "")
    named = _FUNCTION.match(shown)
    name = named[1] if named else "rule"
    function.def_vmap(_refusing(name, None, "the batching rule", "batching rules"))
    made = unprinted.rule_params(function, avals, eqn.primitive)
    if made is None:
        builder.fail(f"`{eqn.primitive}` cannot be made of what it calls", eqn.at)
    trees = {
        key: params[key]
        for key in ("in_tree", "out_tree")
        if getattr(params.get(key), "num_leaves", -1) == made[key].num_leaves
    }
    made = {key: made[key] for key in ("in_tree", "out_tree", "rule")}
    return {**made, **trees}


def _of(call: Any, args: Sequence[Any]) -> Any:
    results = jaxapi.as_function(call)(*args)
    return results[0] if len(results) == 1 else tuple(results)


def _refusing(
    name: str,
    called: Any,
    what: str = "the derivative",
    kind: str = "derivative rules",
) -> Any:
    """Return a rule that is not known, under the name that is printed."""

    def refuse(*args: Any) -> NoReturn:
        raise LoadError(
            f"{what} of `{name}` is not known: the printed jaxpr, from which it "
            f"was read, does not hold {kind}"
        )

    refuse.__name__ = getattr(called, "text", name if called is None else "rule")
    return refuse
