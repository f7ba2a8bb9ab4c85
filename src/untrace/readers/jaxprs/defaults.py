"""Params that JAX does not print where they say nothing, and what else tells them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from untrace.jaxapi import printed, unprinted
from untrace.readers.jaxprs.bodies import scan_split
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.syntax import Call, Equation, Raw

_SOMETIMES = ("eig", "eigh", "svd")
"""Primitives that are also bound without what JAX prints if it is there."""


def with_defaults(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    """Return the params of an equation with those that are not printed.

    Raises:
      ParseError: If one is not known that the equation needs.
    """
    special = _SPECIAL.get(eqn.primitive)
    if special is not None:
        params = special(eqn, params, avals, builder)
    silent = unprinted.silent_params(eqn.primitive)
    if eqn.primitive not in _SOMETIMES or not printed.accepts(
        printed.primitive_named(eqn.primitive), avals, params
    ):
        params = {**silent, **params}
    for name, value in params.items():
        unknown = _unknown_in(value)
        if unknown is not None:
            is_raw = isinstance(unknown, Raw)
            shown = unknown.text if is_raw else f"{unknown.name}(...)"
            inside = "" if unknown is value else "..."
            builder.fail(
                f"what `{name}={inside}{shown[:60]}` of `{eqn.primitive}` is, is not "
                "printed",
                unknown.at,
                "Programs that hold functions or objects of their own cannot be read "
                "from their text alone.",
            )
    return params


def _unknown_in(value: Any) -> Raw | Call | None:
    """Return what in a value is known only by how it is printed, if there is such."""
    if isinstance(value, Raw | Call):
        return value
    if type(value) is tuple:
        items: tuple[Any, ...] = value  # pyright: ignore[reportUnknownVariableType]
        return next((one for one in map(_unknown_in, items) if one is not None), None)
    return None


def _broadcast(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    """The shape is that of the result."""
    if "shape" in params or not eqn.binders or not eqn.binders[0].type:
        return params
    binder = eqn.binders[0]
    return {**params, "shape": builder.type(binder.type, binder.at).shape}


def _jit(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    unknown = {
        name: value
        for name, value in unprinted.jit_defaults(len(avals), len(eqn.binders)).items()
        if name not in params
    }
    return {"name": "function", **params, **unknown}


def _scan(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    split = scan_split(eqn.params)
    if split is None:
        builder.fail("how this `scan` splits its operands is not printed", eqn.at)
    kept = {k: params[k] for k in ("jaxpr", "length", "reverse") if k in params}
    n_consts, n_carry = split
    rest, stacked = len(avals) - n_consts - n_carry, len(eqn.binders) - n_carry
    if rest < 0 or stacked < 0 or min(split) < 0:
        builder.fail("this `scan` has fewer operands than it says", eqn.at)
    sizes = unprinted.scan_split(n_consts, n_carry, rest, stacked)
    return {**kept, "unroll": params.get("unroll", 1), **sizes}


def _custom_call(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    kept = {k: v for k, v in params.items() if k not in ("name", "jvp", "fwd")}
    return {"num_consts": 0, **kept}


def _convert(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    """JAX converts what has the type already only to give it a sharding.

    One that makes nothing weak comes from a batch of vectors, and names their axis, too.
    """
    aval = avals[0] if avals else None
    if aval is None or "sharding" in params or printed.is_weak(aval):
        return params
    if getattr(aval, "dtype", None) != params.get("new_dtype"):
        return params
    n_axes = len(aval.shape) + (params.get("weak_type") is False)
    return {**params, "sharding": unprinted.replicated(n_axes)}


def _custom_lin(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    builder.fail(
        f"what `bwd={getattr(eqn.params.get('bwd'), 'text', '')}` of `custom_lin` computes, is not printed",
        eqn.at,
        "It stands for the backward rule of a `custom_vjp`: print the jaxpr of the "
        "function, or of its gradient.",
    )


def _reshard(
    eqn: Equation, params: dict[str, Any], avals: Sequence[Any], builder: Making
) -> dict[str, Any]:
    """The type of the result says how it is sharded, over the mesh that is entered."""
    if "dst_sharding" in params:
        return params
    if not printed.mesh_axes() or not eqn.binders or not eqn.binders[0].type:
        builder.fail(
            "the mesh of this `reshard` is not printed",
            eqn.at,
            "Enter it by `jax.set_mesh` or `jax.sharding.use_abstract_mesh`.",
        )
    binder = eqn.binders[0]
    sharding = builder.type(binder.type, binder.at).sharding
    return {"concrete_mesh": None, **params, "dst_sharding": sharding}


Special = Callable[[Equation, dict[str, Any], Sequence[Any], Any], dict[str, Any]]
_SPECIAL: dict[str, Special] = {
    "broadcast_in_dim": _broadcast,
    "jit": _jit,
    "scan": _scan,
    "convert_element_type": _convert,
    "custom_jvp_call": _custom_call,
    "custom_lin": _custom_lin,
    "custom_vjp_call": _custom_call,
    "reshard": _reshard,
}
