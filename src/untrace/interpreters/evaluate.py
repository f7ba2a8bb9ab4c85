"""Evaluate a jaxpr equation by equation: the one loop that all interpreters share.

A handler is called with every equation, as a `Step`, and its operands; what it returns
are the results. `step(*operands)` evaluates the equation as JAX does, and its
sub-programs with the same handler: a `jit` by its body, a `scan` or `while` step by step,
the branch of a `cond` that is taken. Where operands are traced, by `jax.jit`, `jax.vmap`
or `jax.grad` around the evaluation, loops and branches stay what they are: their bodies
are traced anew, once, with the handler, and functions with derivative rules keep them.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp

Handler = Callable[..., Any]
"""Takes a `Step` and its operands. Returns the result of the equation, or all if its
primitive has several."""


class Place(NamedTuple):
    """A sub-program that is evaluated.

    Attributes:
      equation: The equation that has it.
      part: Which one: the number of a loop's turn or of a branch, "cond" for the
        condition of a `while`; None if there is only one, or the number is not known.
    """

    equation: Any
    part: int | str | None = None

    def __str__(self) -> str:
        name = self.equation.params.get("name") or self.equation.primitive.name
        return name if self.part is None else f"{name}[{self.part}]"


class Step:
    """One equation at the moment at which it is evaluated.

    Attributes:
      equation: The equation of the jaxpr (`jax.core.JaxprEqn`).
      path: The sub-programs around it, the outermost first.
    """

    __slots__ = ("_evaluator", "equation", "path")

    def __init__(
        self, equation: Any, path: tuple[Place, ...], evaluator: Evaluator
    ) -> None:
        self.equation = equation
        self.path = path
        self._evaluator = evaluator

    @property
    def primitive(self) -> Any:
        """The primitive that is applied."""
        return self.equation.primitive

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.equation.primitive.name

    @property
    def params(self) -> dict[str, Any]:
        """The params of the equation."""
        return self.equation.params

    def __call__(self, *operands: Any) -> Any:
        """Evaluate the equation at the operands given, sub-programs with the handler."""
        enter = _ENTERED.get(self.equation.primitive.name)
        if enter is None:
            return self.bind(*operands)
        made = enter(self, operands)
        if made is None:
            return self.bind(*operands)
        return made if self.equation.primitive.multiple_results else made[0]

    def bind(self, *operands: Any) -> Any:
        """Evaluate the equation at the operands given as a whole."""
        primitive = self.equation.primitive
        params = primitive.get_bind_params(self.equation.params)
        if isinstance(params, tuple):  # before jax 0.10, which workers may have
            functions, params = params
            operands = (*functions, *operands)
        return primitive.bind(*operands, **params)

    def run(
        self, jaxpr: Any, operands: Sequence[Any], part: int | str | None = None
    ) -> list[Any]:
        """Evaluate a sub-program of the equation with the handler."""
        path = (*self.path, Place(self.equation, part))
        return self._evaluator.run(jaxpr, operands, path)

    def body(
        self, jaxpr: Any, part: int | str | None = None
    ) -> Callable[..., list[Any]]:
        """Return a sub-program as a function of its operands."""
        return lambda *operands: self.run(jaxpr, operands, part)


def evaluate(
    jaxpr: Any,
    args: Sequence[Any],
    handler: Handler | None = None,
    around: Callable[[Any], contextlib.AbstractContextManager[Any]] | None = None,
) -> list[Any]:
    """Evaluate a jaxpr at flat arguments.

    Args:
      jaxpr: Closed, or open without constants.
      args: One value for each input.
      handler: Called with each `Step` and its operands. By default equations are
        evaluated.
      around: Returns the context in which an equation is handled; by default the one
        that it was traced in.

    Returns:
      One value for each output.
    """
    return Evaluator(handler, around).run(jaxpr, args, ())


class Evaluator:
    """Evaluates jaxprs with one handler.

    Args:
      handler: As for `evaluate`.
      around: As for `evaluate`.
    """

    def __init__(
        self,
        handler: Handler | None = None,
        around: Callable[[Any], contextlib.AbstractContextManager[Any]] | None = None,
    ) -> None:
        self._handler = handler or _evaluated
        self._around = around or _own_context
        self._bodies: dict[int, tuple[Any, _Body]] = {}

    def run(
        self, jaxpr: Any, args: Sequence[Any], path: tuple[Place, ...]
    ) -> list[Any]:
        """Evaluate a jaxpr that stands in some place."""
        body = self._body(jaxpr)
        handler, around = self._handler, self._around
        values = body.values.copy()
        for slot, value in zip(body.inputs, args, strict=True):
            values[slot] = value
        for equation, operands, results, is_single, last in body.rows:
            with around(equation):
                made = handler(
                    Step(equation, path, self), *[values[slot] for slot in operands]
                )
            if is_single:
                values[results[0]] = made
            else:
                for slot, value in zip(results, made, strict=True):
                    values[slot] = value
            for slot in last:
                values[slot] = None
        return [values[slot] for slot in body.outputs]

    def _body(self, jaxpr: Any) -> _Body:
        known = self._bodies.get(id(jaxpr))
        if known is None:
            known = self._bodies[id(jaxpr)] = jaxpr, _prepared(jaxpr)
        return known[1]


class _Body(NamedTuple):
    """A jaxpr whose values have numbers.

    Attributes:
      values: Literals and constants at their numbers.
      inputs: The numbers of its inputs.
      rows: Each equation, the numbers of its operands and results, whether its primitive
        has a single result, and the numbers of values that nothing later reads.
      outputs: The numbers of its outputs.
    """

    values: list[Any]
    inputs: list[int]
    rows: list[tuple[Any, list[int], list[int], bool, list[int]]]
    outputs: list[int]


def _prepared(jaxpr: Any) -> _Body:
    body, consts = split(jaxpr)
    values: list[Any] = []
    numbers: dict[Any, int] = {}

    def number(atom: Any) -> int:
        is_literal = hasattr(atom, "val")
        if not is_literal and atom in numbers:
            return numbers[atom]
        values.append(atom.val if is_literal else None)
        if not is_literal:
            numbers[atom] = len(values) - 1
        return len(values) - 1

    for var, const in zip(body.constvars, consts, strict=True):
        values[number(var)] = const
    inputs = [number(var) for var in body.invars]
    rows = [
        (
            equation,
            [number(atom) for atom in equation.invars],
            [number(var) for var in equation.outvars],
            not equation.primitive.multiple_results,
            list[int](),
        )
        for equation in body.eqns
    ]
    outputs = [number(atom) for atom in body.outvars]
    read = set(outputs)
    for _, operands, results, _, last in reversed(rows):
        last += {slot for slot in (*operands, *results) if slot not in read}
        read.update(operands)
    return _Body(values, inputs, rows, outputs)


def split(jaxpr: Any) -> tuple[Any, Sequence[Any]]:
    """Return the open jaxpr and its constants (jax 0.11 made both one class)."""
    return getattr(jaxpr, "jaxpr", jaxpr), getattr(jaxpr, "consts", ())


def all_equations(jaxpr: Any) -> Iterator[Any]:
    """Yield the equations of a jaxpr and of all that are in their params."""
    for equation in split(jaxpr)[0].eqns:
        yield equation
        for param in equation.params.values():
            for part in param if isinstance(param, (tuple, list)) else (param,):
                if hasattr(split(part)[0], "eqns"):
                    yield from all_equations(part)


def _evaluated(step: Step, *operands: Any) -> Any:
    return step(*operands)


def _own_context(equation: Any) -> contextlib.AbstractContextManager[Any]:
    return equation.ctx.manager


# ---- sub-programs ------------------------------------------------------------------


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


_Entered = Callable[[Step, Sequence[Any]], "list[Any] | None"]
_ENTERED: dict[str, _Entered] = {
    **dict.fromkeys(CALLS | _OLD_CALLS, _call),
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "custom_linear_solve": _linear_solve,
    "shard_map": _shard_map,
}
"""How sub-programs are evaluated, by the names of primitives. Others, such as kernels and
the computation of a `reduce`, are evaluated as a whole."""
