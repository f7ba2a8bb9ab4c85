"""What equations have inside, and how it is evaluated with a handler.

Where operands are known, a `jit` is its body, a `scan` or `while` goes turn by turn, and
of a `cond` the branch is entered that is taken. Where they are traced, the equation stays
what it is, and its bodies are traced anew.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import jax
import jax.core
import jax.numpy as jnp


class Step(Protocol):
    """What is asked of an equation that is evaluated (see `evaluate.Step`)."""

    equation: Any

    @property
    def primitive(self) -> Any: ...

    @property
    def name(self) -> str: ...

    @property
    def params(self) -> dict[str, Any]: ...

    def run(
        self, jaxpr: Any, operands: Sequence[Any], part: int | str | None = None
    ) -> list[Any]: ...

    def body(
        self, jaxpr: Any, part: int | str | None = None
    ) -> Callable[..., list[Any]]: ...


def split(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """Return the open jaxpr and its constants (jax 0.11 made both one class)."""
    return getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())


def all_equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr and of all that are in their params."""
    for equation in split(jaxpr)[0].eqns:
        yield equation
        yield from inner_equations(equation)


def inner_equations(equation: Any) -> Iterator[Any]:
    """Yield the equations of all jaxprs that are in the params of one."""
    for param in equation.params.values():
        for part in param if isinstance(param, (tuple, list)) else (param,):
            if hasattr(split(part)[0], "eqns"):
                yield from all_equations(part)


def is_traced(values: Sequence[Any]) -> bool:
    """Return whether one of the values is not known."""
    return any(isinstance(value, jax.core.Tracer) for value in values)


def _traced_anew(step: Step, key: str, operands: Sequence[Any]) -> dict[str, Any]:
    """Return the params of a step with a sub-program as the handler makes it.

    Raises:
      ValueError: If the handler makes it of other values than its operands.
    """
    jaxpr = step.params[key]
    made: Any = jax.make_jaxpr(step.body(jaxpr))(*operands)
    body, consts = split(made)
    is_open = split(jaxpr)[0] is jaxpr and body is not made
    if is_traced(consts) or (is_open and consts):
        raise ValueError(
            f"in the body of `{step.name}` the handler uses arrays from outside of it; "
            "compute them from the operands, or bind the step as a whole"
        )
    return {**step.params, key: body if is_open else made}


_CALLS = """jit closed_call core_call checkpoint remat2 custom_jvp_call custom_vjp_call
custom_lin custom_vmap_call composite"""
CALLS = frozenset(_CALLS.split())
"""The primitives that call a body with their operands."""

# What some of them were called before jax 0.10, which a worker may have.
_OLD_CALLS = frozenset({"pjit", "remat", "custom_vjp_call_jaxpr"})
_BODIES = ("jaxpr", "call_jaxpr", "call", "fun_jaxpr")


def body_param(equation: Any) -> str | None:
    """Return the param of a call that holds its body; None if an equation is no call."""
    if equation.primitive.name not in CALLS | _OLD_CALLS:
        return None
    return next((key for key in _BODIES if key in equation.params), None)


def is_entered(equation: Any) -> bool:
    """Return whether an equation is evaluated by its sub-programs."""
    name = equation.primitive.name
    is_call = name in CALLS | _OLD_CALLS
    return name in ENTERED and (not is_call or body_param(equation) is not None)


def _call(step: Step, operands: Sequence[Any]) -> list[Any] | None:
    """Evaluate a call; while it is traced it stays one, with its derivative rules."""
    key = body_param(step.equation)
    if key is None:
        return None
    if not is_traced(operands):
        return step.run(step.params[key], operands)
    params = _traced_anew(step, key, operands)
    primitive = step.primitive
    return primitive.bind(*operands, **primitive.get_bind_params(params))


def _cond(step: Step, operands: Sequence[Any]) -> list[Any]:
    index, *rest = operands
    branches = step.params["branches"]
    if not isinstance(index, jax.core.Tracer):
        chosen = max(0, min(int(index), len(branches) - 1))
        return step.run(branches[chosen], rest, chosen)
    bodies = [step.body(branch, i) for i, branch in enumerate(branches)]
    return jax.lax.switch(index, bodies, *rest)


def _while(step: Step, operands: Sequence[Any]) -> list[Any]:
    params = step.params
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    of_cond, of_body = operands[:n_cond], operands[n_cond : n_cond + n_body]
    carry = list(operands[n_cond + n_body :])
    cond, body = params["cond_jaxpr"], params["body_jaxpr"]

    def holds(carry: list[Any]) -> Any:
        return step.run(cond, [*of_cond, *carry], "cond")[0]

    def turn(carry: list[Any], holds: Any, part: int | None) -> list[Any]:
        made = step.run(body, [*of_body, *carry], part)
        if not jnp.ndim(holds):
            return made
        return rows_where(holds, made, carry)

    if is_traced(operands):
        is_batched = bool(cond.out_avals[0].shape)
        return jax.lax.while_loop(
            lambda carry: holds(carry).any() if is_batched else holds(carry),
            lambda carry: turn(carry, holds(carry) if is_batched else True, None),
            carry,
        )
    turns = 0
    while jnp.any(going := holds(carry)):
        carry = turn(carry, going, turns)
        turns += 1
    return carry


def rows_where(holds: Any, ones: Sequence[Any], others: Sequence[Any]) -> list[Any]:
    """Select rows of a batch; those of a loop that are done stay as they are."""
    return [
        jnp.where(holds.reshape(holds.shape + (1,) * (x.ndim - holds.ndim)), x, y)
        for x, y in zip(ones, others, strict=True)
    ]


def _scan(step: Step, operands: Sequence[Any]) -> list[Any]:
    params = step.params
    n_consts, n_carry = scan_sizes(params)
    consts, carry = operands[:n_consts], list(operands[n_consts : n_consts + n_carry])
    rows, body = operands[n_consts + n_carry :], params["jaxpr"]

    def turn(carry: list[Any], row: list[Any], part: int | None) -> list[Any]:
        return step.run(body, [*consts, *carry, *row], part)

    if is_traced(operands) or not params["length"]:

        def traced(carry: list[Any], row: list[Any]) -> tuple[list[Any], list[Any]]:
            made = turn(carry, row, None)
            return made[:n_carry], made[n_carry:]

        carry, stacked = jax.lax.scan(
            traced,
            carry,
            list(rows),
            params["length"],
            params["reverse"],
            params["unroll"],
        )
        return [*carry, *stacked]
    made: dict[int, list[Any]] = {}
    order = range(params["length"])
    for i in reversed(order) if params["reverse"] else order:
        results = turn(carry, [row[i] for row in rows], i)
        carry, made[i] = results[:n_carry], results[n_carry:]
    columns = zip(*[made[i] for i in order])
    return [*carry, *[jnp.stack(column) for column in columns]]


def scan_sizes(params: Any) -> tuple[int, int]:
    """Return the number of constants and of carried values of a `scan`."""
    if "num_consts" in params:
        return params["num_consts"], params["num_carry"]
    consts, carry, _ = params["ft_in"].unpack()  # jax 0.12 keeps trees
    return len(consts), len(carry)


def _linear_solve(step: Step, operands: Sequence[Any]) -> list[Any] | None:
    """Evaluate the solver; while it is traced, its transposes are needed as well."""
    return None if is_traced(operands) else step.run(*solver(step.params, operands))


def solver(params: Any, operands: Sequence[Any]) -> tuple[Any, list[Any]]:
    """Return the program that solves a linear system, and its operands."""
    sizes = params["const_lengths"]
    start = sizes.matvec + sizes.vecmat
    consts = operands[start : start + sizes.solve]
    return params["jaxprs"].solve, [*consts, *operands[sum(sizes) :]]


def _shard_map(step: Step, operands: Sequence[Any]) -> list[Any]:
    """Evaluate the body, traced, on all devices of a mesh: op by op, as JAX does."""
    params = step.params
    mapped: Any = jax.shard_map(
        step.body(params["jaxpr"]),
        mesh=params["mesh"],
        in_specs=tuple(params["in_specs"]),
        out_specs=list(params["out_specs"]),
        axis_names=set(params["newly_manual_axes"]),
        check_vma=params["check_vma"],
    )
    return mapped(*operands)


Entered = Callable[[Step, Sequence[Any]], "list[Any] | None"]
ENTERED: dict[str, Entered] = {
    **dict.fromkeys(CALLS | _OLD_CALLS, _call),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "custom_linear_solve": _linear_solve,
    "shard_map": _shard_map,
}
"""How sub-programs are evaluated, by the names of primitives. Others, such as kernels and
the computation of a `reduce`, are evaluated as a whole."""
