"""Find the primitive that first makes a NaN or an infinity out of better operands.

The program is run once more with a flag for every intermediate: 0 finite, 1 infinite,
2 NaN. A result is *made worse* by an equation whose operands all have smaller flags.
From a bad output we go back through the bad operands to the equation that made it
worse, and into its sub-program with the operands that it had. Run by path; see `wire`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_lin": "call_jaxpr",
}
_MAX_STEPS = 100_000


def blame(function: Callable[..., Any], args: Sequence[Any]) -> str | None:
    """Return the name of the primitive to blame, or None if none is found.

    Args:
      function: A function of flat positional arguments.
      args: Their values.
    """
    closed = jax.make_jaxpr(function)(*args)
    return _in_body(closed, list(args))


def evaluate(closed: Any, args: Sequence[Any]) -> list[Any]:
    """Evaluate a jaxpr equation by equation."""
    body, consts = _split(closed)
    return list(jax.core.eval_jaxpr(body, consts, *args))


def _in_body(closed: Any, args: list[Any]) -> str | None:
    body, consts = _split(closed)
    eqns = list(body.eqns)
    values = _values(body, consts, args)
    flags = {value: _badness(array) for value, array in values.items()}
    culprit = _walk_back(body, eqns, flags)
    if culprit is None:
        return None
    eqn = eqns[culprit]
    operands = [v.val if _is_literal(v) else values[v] for v in eqn.invars]
    return _inside(eqn, operands) or eqn.primitive.name


def _walk_back(body: Any, eqns: list[Any], flags: dict[Any, int]) -> int | None:
    """Return the index of the equation that made the worst output worse."""
    makers: dict[Any, int] = {}
    for index, eqn in enumerate(eqns):
        graded = [(v, _flag(v, flags)) for v in eqn.invars]
        graded.sort(key=lambda pair: -pair[1])
        before = [makers[v] for v, bad in graded if bad and _known(v, makers)]
        worst = graded[0][1] if graded else 0
        for result in eqn.outvars:
            bad = flags.get(result, 0) if _is_kept(result) else 0
            if bad and before:
                makers[result] = before[0]
            elif bad > worst:
                makers[result] = index
    ends = [(flags.get(v, 0), v) for v in body.outvars if not _is_literal(v)]
    for bad, value in sorted(ends, key=lambda pair: -pair[0]):
        if bad and value in makers:
            return makers[value]
    return None


def _known(value: Any, makers: dict[Any, int]) -> bool:
    return not _is_literal(value) and value in makers


def _flag(value: Any, flags: dict[Any, int]) -> int:
    return int(_badness(value.val)) if _is_literal(value) else flags.get(value, 0)


def _values(body: Any, consts: list[Any], args: list[Any]) -> dict[Any, Any]:
    """Compute all intermediates of a body, in one compilation."""
    results = [v for eqn in body.eqns for v in eqn.outvars if _is_kept(v)]
    part = body.replace(outvars=results, debug_info=_info(body, results))

    def run(*values: Any) -> list[Any]:
        return list(jax.core.eval_jaxpr(part, consts, *values))

    known = dict(zip([*body.constvars, *body.invars], [*consts, *args]))
    return {**known, **dict(zip(results, jax.jit(run)(*args)))}


def _info(body: Any, wanted: list[Any]) -> Any:
    """Name as many results as there are: JAX checks the number."""
    info = body.debug_info
    try:
        return info._replace(result_paths=("",) * len(wanted))
    except (AttributeError, TypeError, ValueError):
        return info


def _inside(eqn: Any, operands: list[Any]) -> str | None:
    """Look into the sub-program of an equation, if it is one that we can run."""
    name, params = eqn.primitive.name, eqn.params
    if name in _CALLS and _CALLS[name] in params:
        return _in_body(params[_CALLS[name]], operands)
    if name == "cond":
        index = max(0, min(int(operands[0]), len(params["branches"]) - 1))
        return _in_body(params["branches"][index], operands[1:])
    if name == "custom_linear_solve":
        sizes = params["const_lengths"]
        start = sizes.matvec + sizes.vecmat
        consts = operands[start : start + sizes.solve]
        return _in_body(params["jaxprs"].solve, [*consts, *operands[sum(sizes) :]])
    if name == "while":
        return _in_steps(params["body_jaxpr"], _while_steps(params, operands))
    if name == "scan":
        return _in_steps(params["jaxpr"], _scan_steps(params, operands))
    return None


def _in_steps(closed: Any, steps: Iterator[tuple[list[Any], list[Any]]]) -> str | None:
    """Look into the first step of a loop that makes something worse."""
    for operands, results in steps:
        worst = max((_badness(x) for x in operands), default=0)
        if any(_badness(x) > worst for x in results):
            return _in_body(closed, operands)
    return None


def _while_steps(
    params: Any, operands: list[Any]
) -> Iterator[tuple[list[Any], list[Any]]]:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond, body = _runner(params["cond_jaxpr"]), _runner(params["body_jaxpr"])
    of_cond, of_body = operands[:n_cond], operands[n_cond : n_cond + n_body]
    carry = operands[n_cond + n_body :]
    for _ in range(_MAX_STEPS):
        if not bool(cond(*of_cond, *carry)[0]):
            return
        results = body(*of_body, *carry)
        yield [*of_body, *carry], results
        carry = results


def _scan_steps(
    params: Any, operands: list[Any]
) -> Iterator[tuple[list[Any], list[Any]]]:
    n_consts, n_carry = _scan_sizes(params)
    consts, carry = operands[:n_consts], operands[n_consts : n_consts + n_carry]
    rows, length = operands[n_consts + n_carry :], params["length"]
    body = _runner(params["jaxpr"])
    order = range(length - 1, -1, -1) if params["reverse"] else range(length)
    for step in order:
        given = [*consts, *carry, *(row[step] for row in rows)]
        results = body(*given)
        yield given, results
        carry = results[:n_carry]


def _scan_sizes(params: Any) -> tuple[int, int]:
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()  # jax 0.12 keeps trees
    return len(consts), len(carry)


def _runner(closed: Any) -> Callable[..., list[Any]]:
    body, consts = _split(closed)
    return jax.jit(lambda *args: jax.core.eval_jaxpr(body, consts, *args))


def _split(closed: Any) -> tuple[Any, list[Any]]:
    """Return the open jaxpr and its constants (jax 0.11 made both one class)."""
    return getattr(closed, "jaxpr", closed), list(getattr(closed, "consts", ()))


def _is_literal(value: Any) -> bool:
    return hasattr(value, "val")


def _is_kept(value: Any) -> bool:
    return type(value).__name__ != "DropVar"


def _badness(value: Any) -> int:
    """Return 0 if all elements are finite, 1 if some are infinite, 2 if one is NaN."""
    dtype = jnp.result_type(value)
    if not jnp.issubdtype(dtype, jnp.inexact):
        return 0
    array = np.asarray(value)
    if array.dtype.kind not in "fc":  # the small types of ml_dtypes
        array = array.astype(np.float32)
    return 2 if np.isnan(array).any() else int(np.isinf(array).any())
