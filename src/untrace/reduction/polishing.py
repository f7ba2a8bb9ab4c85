"""The last steps, on the text: public calls for each `bind`, and no file of arrays.

Until here a program was made smaller by its equations. What a person reads may be better
with a few equations more: a public function that does a little beside the primitive, such
as setting a triangle to zeros. So each such call is tried, and numbers that are drawn
from a seed in the place of a file of arrays; the predicate decides, and the text has to
be better.
"""

from __future__ import annotations

import ast
import inspect
import io
import tokenize
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from untrace import jaxapi
from untrace.ir import Equation
from untrace.jaxapi import evaluation
from untrace.parsing import parse
from untrace.reduction.applying import apply
from untrace.reduction.edits import Edits, Rewriting
from untrace.reduction.program import Program, open_equations
from untrace.result import Source
from untrace.verification.retrace import execute, restored_settings

MAX_EQUATIONS = 40
"""Equations of a program whose calls nobody will look at one by one."""


class Look(NamedTuple):
    """How a file reads; the fields are compared from left to right."""

    binds: int
    sidecars: int
    tokens: int


def look(source: Source) -> Look:
    """Measure how a file reads."""
    text = str(source)
    calls = (node.func for node in ast.walk(parse(text)) if isinstance(node, ast.Call))
    binds = sum(isinstance(f, ast.Attribute) and f.attr == "bind" for f in calls)
    kinds = (tokenize.NAME, tokenize.OP, tokenize.NUMBER, tokenize.STRING)
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    n_tokens = sum(token.type in kinds for token in tokens)
    return Look(binds, int(bool(source.module.stored)), n_tokens)


def with_public_calls(
    program: Program, tables: Iterable[Callable[[str], Call | None]]
) -> Iterator[Program | None]:
    """List the programs with other calls in the place of primitives: all, then single.

    Args:
      tables: What to call for which primitives, `public_call` and `shorter_call`.
    """
    eqns = list(open_equations(program.block))
    if len(eqns) > MAX_EQUATIONS:
        return
    for table in tables:
        calls = ((e, table(e.name)) for e in eqns)
        rewritten = {e: _calling(e, call) for e, call in calls if call is not None}
        if rewritten:
            yield apply(program, Edits(rewritten=rewritten))
        if len(rewritten) > 1:
            for eqn, rewriting in rewritten.items():
                yield apply(program, Edits(rewritten={eqn: rewriting}))


def _calling(eqn: Equation, call: Call) -> Rewriting:
    def rewriting(operands: list[Any]) -> Sequence[Any] | None:
        with evaluation.opened_call(eqn):  # the line of the user stays
            try:
                made = call(operands, dict(eqn.params))
            except Exception:  # the function takes less than the primitive
                return None
        return made if isinstance(made, list) else [made]

    return rewriting


# ---- the public functions -------------------------------------------------------------

Params = dict[str, Any]
Call = Callable[[list[Any], Params], Any]


def _scatter(function: Callable[..., Any]) -> Call:
    def call(operands: list[Any], params: Params) -> Any:
        names = ("indices_are_sorted", "unique_indices", "mode")
        return function(
            *operands, params["dimension_numbers"], **{n: params[n] for n in names}
        )

    return call


def _gather(operands: list[Any], params: Params) -> Any:
    names = ("indices_are_sorted", "unique_indices", "mode", "fill_value")
    operand, indices = operands
    return lax.gather(
        operand,
        indices,
        params["dimension_numbers"],
        params["slice_sizes"],
        **{name: params[name] for name in names},
    )


def _while(operands: list[Any], params: Params) -> list[Any]:
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond, body = (
        jaxapi.as_function(params[f"{name}_jaxpr"].jaxpr) for name in ("cond", "body")
    )
    for_cond, for_body = operands[:n_cond], operands[n_cond : n_cond + n_body]
    return list(
        lax.while_loop(
            lambda carry: cond(*for_cond, *carry)[0],
            lambda carry: tuple(body(*for_body, *carry)),
            tuple(operands[n_cond + n_body :]),
        )
    )


def _cond(operands: list[Any], params: Params) -> list[Any]:
    branches = [_unnamed(block.jaxpr) for block in params["branches"]]
    index, *rest = operands
    if len(branches) == 2:
        return list(lax.cond(index != 0, *branches[::-1], *rest))
    return list(lax.switch(index, branches, *rest))


def _unnamed(jaxpr: Any) -> Callable[..., Any]:
    """Return a sub-program as a function that has no name to be written."""
    function = jaxapi.as_function(jaxpr)
    return lambda *x: function(*x)


def _scan(operands: list[Any], params: Params) -> list[Any]:
    n_consts, n_carry = jaxapi.scan_sizes(params)
    body = jaxapi.as_function(params["jaxpr"].jaxpr)
    consts = operands[:n_consts]

    def step(carry: Any, xs: Any) -> Any:
        made = body(*consts, *carry, *xs)
        return tuple(made[:n_carry]), tuple(made[n_carry:])

    carry, ys = lax.scan(
        step,
        tuple(operands[n_consts : n_consts + n_carry]),
        tuple(operands[n_consts + n_carry :]),
        **{name: params[name] for name in ("length", "reverse", "unroll")},
    )
    return [*carry, *ys]


def _at(method: str) -> Call:
    """Return the method of `x.at[...]` for a scatter of numbers at single places."""

    def call(operands: list[Any], params: Params) -> Any:
        operand, indices, updates = operands
        where = params["dimension_numbers"]
        axes = where.scatter_dims_to_operand_dims
        is_plain = not where.update_window_dims and not where.operand_batching_dims
        if not is_plain or axes != tuple(range(jnp.ndim(operand))):
            raise ValueError("it is no scatter of single numbers")
        places = tuple(jnp.asarray(indices)[..., axis] for axis in axes)
        return getattr(jnp.asarray(operand).at[places], method)(updates)

    return call


def _eigh(operands: list[Any], params: Params) -> list[Any]:
    values, vectors = jnp.linalg.eigh(*operands, symmetrize_input=False)
    return [vectors, values]


def _svd(operands: list[Any], params: Params) -> list[Any]:
    if not params["compute_uv"]:
        return [jnp.linalg.svd(*operands, compute_uv=False)]
    u, s, vh = jnp.linalg.svd(*operands, full_matrices=params["full_matrices"])
    return [s, u, vh]


def _linear_solve(operands: list[Any], params: Params) -> list[Any]:
    jaxprs = [None if block is None else block.jaxpr for block in params["jaxprs"]]
    solve = jaxapi.LinearSolve(jaxprs, params["const_lengths"])
    return solve.called(operands, is_symmetric=False)


def _pooled(function: Any, initial: Callable[[Any], Any]) -> Call:
    """Return `lax.reduce_window` with a function and the number it begins with."""

    def call(operands: list[Any], params: Params) -> Any:
        (operand,) = operands
        first = initial(jnp.asarray(operand).dtype)
        return lax.reduce_window(operand, first, function, **params)

    return call


def _least(dtype: Any) -> Any:
    is_float = jnp.issubdtype(dtype, jnp.inexact)
    return np.array(-np.inf if is_float else jnp.iinfo(dtype).min, dtype)


def _largest(dtype: Any) -> Any:
    is_float = jnp.issubdtype(dtype, jnp.inexact)
    return np.array(np.inf if is_float else jnp.iinfo(dtype).max, dtype)


def _sort(operands: list[Any], params: Params) -> list[Any]:
    names = ("dimension", "is_stable", "num_keys")
    return list(lax.sort(tuple(operands), **{name: params[name] for name in names}))


def _sort_one(operands: list[Any], params: Params) -> Any:
    (operand,) = operands
    return jnp.sort(operand, axis=params["dimension"], stable=params["is_stable"])


PUBLIC: dict[str, Call] = {
    "cholesky": lambda operands, _: lax.linalg.cholesky(
        *operands, symmetrize_input=False
    ),
    "eigh": _eigh,
    "svd": _svd,
    "gather": _gather,
    "cond": _cond,
    "while": _while,
    "scan": _scan,
    "sort": _sort,
    "custom_linear_solve": _linear_solve,
    "copy": lambda operands, _: jnp.copy(*operands),
    "add_any": lambda operands, _: lax.add(*operands),
    "reduce_window_max": _pooled(lax.max, _least),
    "reduce_window_min": _pooled(lax.min, _largest),
    "reduce_window_sum": _pooled(lax.add, lambda dtype: np.zeros((), dtype)),
    **{
        f"scatter{kind}": _scatter(getattr(lax, f"scatter{kind.replace('-', '_')}"))
        for kind in ("", "-add", "-sub", "-mul", "-min", "-max")
        if hasattr(lax, f"scatter{kind.replace('-', '_')}")
    },
}
"""What to call in the place of a primitive: functions of its operands and params."""


def public_call(name: str) -> Call | None:
    """Return what to call in the place of a primitive; None if there is nothing.

    Most have a function of their name in `jax.lax`, whose keywords are those of their
    params that it takes.

    >>> public_call("cbrt")([8.0], {})
    Array(2., dtype=float32, weak_type=True)
    """
    function = getattr(lax, name.replace("-", "_"), None) or getattr(
        lax.linalg, name, None
    )
    if name in PUBLIC or not callable(function):
        return PUBLIC.get(name)

    def call(operands: list[Any], params: Params) -> Any:
        taken = inspect.signature(function).parameters
        return function(*operands, **{k: v for k, v in params.items() if k in taken})

    return call


SHORTER: dict[str, Call] = {
    "scatter": _at("set"),
    "scatter-add": _at("add"),
    "scatter-mul": _at("multiply"),
    "scatter-min": _at("min"),
    "scatter-max": _at("max"),
    "sort": _sort_one,
}
"""Likewise, for what can be written without `bind`, but at length."""


def shorter_call(name: str) -> Call | None:
    """Return what is shorter to read than a primitive; None if there is nothing."""
    return SHORTER.get(name)


# ---- inputs ---------------------------------------------------------------------------


def drawn_values(source: Source, program: Program) -> tuple[Any, ...] | None:
    """Return the inputs that a file draws; None if they are no inputs of the program.

    Args:
      source: A file without a sidecar, that draws its large inputs.
      program: The program in it.
    """
    with restored_settings():
        module = execute(str(source), "<reduced program>")
        given = jax.tree.leaves(list(module.example_args().values()))
    avals = [value.aval for value in program.block.inputs]
    if len(given) != len(avals) or any(
        not jaxapi.same_type(jaxapi.aval_of(value), aval)
        for value, aval in zip(given, avals)
    ):
        return None
    return tuple(given)
