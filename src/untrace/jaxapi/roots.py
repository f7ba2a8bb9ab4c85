"""The typed primitives of `jax.lax.custom_root`, which came with jax 0.12.

Such a primitive is made for one call and holds Python functions of JAX's making. What
they do is what they trace to, at the types that the primitive keeps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from untrace.jaxapi.jaxprs import close_jaxpr, split_jaxpr


class RootParts(NamedTuple):
    """What a `CustomRoot` or `_RootLinearMap` computes.

    `functions` maps names to closed jaxprs over flat arguments, constants first.
    `arguments` has the types of each argument of the primitive, flat, and `options` what
    else it was made with.
    """

    kind: str
    functions: dict[str, Any]
    arguments: tuple[tuple[Any, ...], ...]
    results: tuple[Any, ...]
    options: tuple[tuple[str, Any], ...]
    effects: Any


def root_parts(primitive: Any) -> RootParts | None:
    """Trace the functions of a primitive of `custom_root`; None for other primitives."""
    kind = type(primitive).__name__
    if kind == "CustomRoot":
        solve_consts, guess, f_consts, tangent_consts = primitive.in_avals
        # Under vmap the root has the type of the result, the guess may not.
        root = primitive.out_aval[0] if primitive.has_aux else primitive.out_aval
        tangent = jax.tree.map(lambda aval: aval.to_tangent_aval(), root)
        functions = {
            "f": _traced(primitive.f, f_consts, root),
            "solve": _traced(primitive.solve, solve_consts, guess),
            "tangent_solve": _traced(
                primitive.tangent_solve, tangent_consts, root, tangent
            ),
        }
        names = ("has_aux",)
    elif kind == "_RootLinearMap":
        consts, point, _ = primitive.in_avals
        functions = {"f": _traced(primitive.f, consts, point)}
        names = ("transposed",)
    else:
        return None
    return RootParts(
        kind,
        functions,
        tuple([tuple(jax.tree.leaves(part)) for part in primitive.in_avals]),
        tuple(jax.tree.leaves(primitive.out_aval)),
        tuple([(name, getattr(primitive, name)) for name in names]),
        primitive.effects,
    )


def _traced(function: Any, *avals: Any) -> Any:
    """Trace a function, and open the call that JAX has wrapped its body in."""
    jaxpr = jax.make_jaxpr(function)(*avals)
    body, consts = split_jaxpr(jaxpr)
    while not consts and _only_calls(body):
        body, consts = split_jaxpr(body.eqns[0].params["call_jaxpr"])
    return close_jaxpr(body, consts)


def _only_calls(body: Any) -> bool:
    """Whether a body is a call of another one of exactly its types."""
    if len(body.eqns) != 1 or "call_jaxpr" not in body.eqns[0].params:
        return False
    (eqn,) = body.eqns
    called, _ = split_jaxpr(eqn.params["call_jaxpr"])
    return (
        [*eqn.invars] == [*body.invars]
        and [*eqn.outvars] == [*body.outvars]
        and [v.aval for v in body.invars] == [v.aval for v in called.invars]
        and [v.aval for v in body.outvars] == [v.aval for v in called.outvars]
    )
