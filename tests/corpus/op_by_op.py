"""The reference for evaluation equation by equation: JAX's own, under `jax.disable_jit()`.

`jax.core.eval_jaxpr` runs a loop or branch as one compiled program, in which XLA rounds in
its own way. Here each equation that has no body is one compiled program, and the others
are what JAX makes of `jax.lax.scan`, `while_loop` and `switch` where nothing is compiled:
loops of Python. No code is shared with `untrace.interpreters.evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

Flat = Callable[..., list[Any]]


def op_by_op(jaxpr: Any, args: Sequence[Any]) -> list[Any]:
    """Evaluate a closed jaxpr at flat arguments, each equation by itself."""
    with jax.disable_jit():
        return _function(jaxpr)(*args)


def _function(jaxpr: Any) -> Flat:
    """Return a jaxpr, closed or open without constants, as a function."""
    body, consts = getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())

    def run(*args: Any) -> list[Any]:
        values = dict(zip([*body.constvars, *body.invars], [*consts, *args]))

        def read(atom: Any) -> Any:
            return atom.val if hasattr(atom, "val") else values[atom]

        for eqn in body.eqns:
            with eqn.ctx.manager:
                results = _results(eqn, [read(atom) for atom in eqn.invars])
            values.update(zip(eqn.outvars, results, strict=True))
        return [read(atom) for atom in body.outvars]

    return run


def _results(eqn: Any, operands: list[Any]) -> Sequence[Any]:
    name, params = eqn.primitive.name, eqn.params
    if name in _LOOPS and params.get("length") != 0:  # disable_jit refuses length 0
        return _LOOPS[name](params, operands)
    for key in ("jaxpr", "call_jaxpr"):
        if key in params and name in _CALLS:
            return _function(params[key])(*operands)
    with jax.disable_jit(False):  # one equation is one program, whatever it is made of
        made = eqn.primitive.bind(*operands, **eqn.primitive.get_bind_params(params))
    return made if eqn.primitive.multiple_results else [made]


_CALLS = {
    "checkpoint",
    "closed_call",
    "composite",
    "core_call",
    "custom_jvp_call",
    "custom_vjp_call",
    "jit",
    "remat2",
}


def _cond(params: Any, operands: list[Any]) -> list[Any]:
    branches = [_function(branch) for branch in params["branches"]]
    return jax.lax.switch(operands[0], branches, *operands[1:])


def _while(params: Any, operands: list[Any]) -> list[Any]:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body = operands[:n_cond], operands[n_cond : n_cond + n_body]
    condition, body = _function(params["cond_jaxpr"]), _function(params["body_jaxpr"])

    def holds(carry: list[Any]) -> Any:
        return condition(*of_cond, *carry)[0]

    def turn(carry: list[Any]) -> list[Any]:
        """One turn; of a batch, of those elements whose loop goes on."""
        goes_on = holds(carry)
        made = body(*of_body, *carry)
        if not jnp.ndim(goes_on):
            return made
        return [
            jnp.where(jnp.expand_dims(goes_on, range(goes_on.ndim, x.ndim)), x, y)
            for x, y in zip(made, carry)
        ]

    return jax.lax.while_loop(
        lambda c: jnp.any(holds(c)), turn, operands[-_n(params) :]
    )


def _n(params: Any) -> int:
    return len(params["body_jaxpr"].out_avals)


def _scan(params: Any, operands: list[Any]) -> list[Any]:
    body = _function(params["jaxpr"])
    n_consts, n_carry = _sizes(params)
    consts, rest = operands[:n_consts], operands[n_consts:]

    def turn(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
        made = body(*consts, *carry, *row)
        return made[:n_carry], made[n_carry:]

    carry, rows = jax.lax.scan(
        turn,
        rest[:n_carry],
        rest[n_carry:],
        length=params["length"],
        reverse=params["reverse"],
    )
    return [*carry, *rows]


def _sizes(params: Any) -> tuple[int, int]:
    """Return how many constants and carried values a scan has."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()  # jax 0.12
    return len(consts), len(carry)


def _solve(params: Any, operands: list[Any]) -> list[Any]:
    sizes = params["const_lengths"]
    start = sizes.matvec + sizes.vecmat
    consts = operands[start : start + sizes.solve]
    return _function(params["jaxprs"].solve)(*consts, *operands[sum(sizes) :])


_LOOPS: dict[str, Callable[[Any, list[Any]], Sequence[Any]]] = {
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "custom_linear_solve": _solve,
}
