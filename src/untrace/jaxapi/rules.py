"""Derivative rules: tracing those of `custom_jvp_call` and `custom_vjp_call`.

jax 0.12 returns logs beside the cotangents of a backward rule; jax 0.10 makes a plain
function of a forward rule when a dead result was removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import jax
from jax._src import ad_util as _ad_util
from jax._src.interpreters import partial_eval as _pe
from jax._src.linear_util import WrappedFun

from untrace.jaxapi.avals import short_type
from untrace.jaxapi.binds import kept_stores
from untrace.jaxapi.jaxprs import (
    ClosedJaxpr,
    Jaxpr,
    Tracer,
    close_jaxpr,
    is_jaxpr,
    split_jaxpr,
    var_behind,
)
from untrace.jaxapi.tracing import trace_flat

_ZEROS = (_ad_util.Zero, _ad_util.SymbolicZero)
MAX_RULE_DEPTH = 12
MAX_RULE_REPEATS = 2
# Functions of these modules keep traces of rules, and lift rules that were kept.
_KEEPING = (_pe.__name__, "jax._src.custom_derivatives")
SMALL_FUNCTION = 12
"""Equations of a function small enough to be followed beyond `MAX_RULE_REPEATS`."""


def follows_rules(names: list[str], name: str, call_jaxpr: Any) -> bool:
    """Tell whether the rules of `name`, met inside those of `names`, are traced.

    A rule that makes new functions with rules (a fixed point by a fixed point) can be
    traced without end, each time of a larger function; it is followed twice.
    """
    if len(names) >= MAX_RULE_DEPTH:
        return False
    return names.count(name) < MAX_RULE_REPEATS or _has_few_equations(call_jaxpr)


def _has_few_equations(jaxpr: Any) -> bool:
    stack, count = [jaxpr], 0
    while stack and count <= SMALL_FUNCTION:
        body, _ = split_jaxpr(stack.pop())
        count += len(body.eqns)
        if any(eqn.primitive.name == "call_exported" for eqn in body.eqns):
            return False  # it may hold any number of them
        stack += sub_jaxprs(body)
    return count <= SMALL_FUNCTION


def custom_jvp_rule(
    eqn_params: dict[str, Any], n_operands: int
) -> tuple[Any, list[bool]]:
    """Trace the rule of a `custom_jvp_call` with every tangent instantiated.

    Returns:
      The rule as a closed jaxpr over `(*primals, *tangents)` (consts excluded) with
      results `(*primals_out, *nonzero_tangents_out)`, and which output tangents are
      symbolic zeros.
    """
    n = n_operands - eqn_params["num_consts"]
    thunk = eqn_params["jvp_jaxpr_fun"]
    with kept_stores(_behind(thunk)):
        jaxpr, consts, out_zeros = thunk.call_wrapped(*[False] * n)
    return close_jaxpr(jaxpr, consts), list(out_zeros)


def _behind(thunk: Any) -> list[Any]:
    """Return the functions that JAX traces where a rule is asked for.

    It resets what they stored first. If that trace fails, and another one has succeeded
    before, which is kept, the rule could not be used any more.
    """
    found: list[Any] = []
    stack, seen = [thunk], set[int]()
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, WrappedFun):
            found += [value] if value.stores else []
            stack.append(value.f)
        elif getattr(value, "__module__", None) in _KEEPING:
            cells = getattr(value, "__closure__", None) or ()
            stack += [cell.cell_contents for cell in cells]
    return found


def lost_capture(
    rules: Iterable[Any], is_seen: Callable[[Any], bool]
) -> RuntimeError | None:
    """Return the error of rules that close over a value of a trace that has ended.

    A rule may close over a value of the function around its call, such as an argument
    in `nondiff_argnums`. Transforming that function makes a new jaxpr, but the rule
    keeps the value of the old one. JAX traces such rules and cannot run them.

    Args:
      rules: Jaxprs of the rules.
      is_seen: Tells whether a variable belongs to a jaxpr around the call.
    """
    for tracer in _captured(rules):
        if not is_seen(var_behind(tracer)):
            shown = short_type(tracer.aval)
            return RuntimeError(
                f"the derivative rule closes over a {shown} of a trace that has ended; "
                "JAX cannot use it either"
            )
    return None


def _captured(rules: Iterable[Any]) -> Iterator[Any]:
    """List the tracers among the constants of jaxprs and of their sub-programs."""
    stack, seen = [rule for rule in rules if is_jaxpr(rule)], set[int]()
    while stack:
        body, consts = split_jaxpr(stack.pop())
        if id(body) in seen:
            continue
        seen.add(id(body))
        yield from (const for const in consts if isinstance(const, Tracer))
        stack += sub_jaxprs(body)


def sub_jaxprs(body: Any) -> Iterator[Any]:
    """List the jaxprs in the params of the equations of a jaxpr."""
    for eqn in body.eqns:
        for param in eqn.params.values():
            items = param if isinstance(param, tuple) else (param,)
            yield from (item for item in items if is_jaxpr(item))


def has_logs(rules: Any) -> bool:
    """Tell whether a traced backward rule returns logs beside cotangents."""
    return rules.logs is not None and rules.logs.num_leaves > 0


class CustomVJPRules(NamedTuple):
    """The rules of a `custom_vjp_call`, traced.

    `forward` maps the operands without the leading consts to `(*residuals, *results)`,
    where a residual that is an operand is left out. `residuals` says for each residual
    which operand (consts included) it is, or None if `forward` returns it. `backward`
    maps `(*all_residuals, *cotangents)` to the cotangents that are not zeros, followed
    by the leaves of `logs` (jax 0.12), and `zeros` tells for each operand (consts
    excluded) whether its cotangent is a symbolic zero.
    """

    forward: Any
    backward: Any
    residuals: tuple[int | None, ...]
    zeros: tuple[bool, ...]
    logs: Any


def custom_vjp_rules(
    eqn_params: dict[str, Any], operand_avals: Sequence[Any]
) -> CustomVJPRules:
    """Trace both rules of a `custom_vjp_call` with every operand perturbed.

    An integer operand counts as unperturbed, as under `jax.grad`; its cotangent and
    those of integer results have dtype float0.

    Args:
      eqn_params: The params of the equation.
      operand_avals: Avals of all its operands, consts first.
    """
    n_consts = eqn_params["num_consts"]
    perturbed = [_is_perturbable(aval) for aval in operand_avals[n_consts:]]
    thunk = eqn_params["fwd_jaxpr_thunk"]
    # jax 0.10 makes a plain function of it when a dead result was removed.
    call = getattr(thunk, "call_wrapped", thunk)
    with kept_stores(_behind(thunk)):
        forward, consts = call(*perturbed)
    # Only now: the trees are stored while `fwd` runs.
    _, res_tree, sources = eqn_params["out_trees"]()
    n_computed = res_tree.num_leaves - sum(s is not None for s in sources)
    computed = iter([v.aval for v in forward.outvars[:n_computed]])
    residuals = [next(computed) if s is None else operand_avals[s] for s in sources]
    cotangents = [v.aval.to_ct_aval() for v in forward.outvars[n_computed:]]
    backward, zeros, logs = _trace_backward(
        eqn_params["bwd"], [*residuals, *cotangents]
    )
    return CustomVJPRules(
        close_jaxpr(forward, consts), backward, tuple(sources), zeros, logs
    )


def _is_perturbable(aval: Any) -> bool:
    tangent = aval.to_tangent_aval()
    return getattr(tangent, "dtype", None) != jax.dtypes.float0


def _trace_backward(
    bwd: Any, avals: Sequence[Any]
) -> tuple[Any, tuple[bool, ...], Any]:
    zeros: tuple[bool, ...] = ()
    logs: Any = None

    def backward(*args: Any) -> list[Any]:
        nonlocal zeros, logs
        returned = bwd.call_wrapped(*args)
        # jax 0.12 returns (cotangents, logs), jax 0.10 the cotangents.
        has_logs = isinstance(returned, tuple) and len(returned) == 2
        cotangents, logged = (
            returned if has_logs and ClosedJaxpr is Jaxpr else (returned, None)
        )
        zeros = tuple(isinstance(ct, _ZEROS) for ct in cotangents)
        leaves, logs = jax.tree.flatten(logged)
        return [ct for ct in cotangents if not isinstance(ct, _ZEROS)] + leaves

    jaxpr = trace_flat(backward, avals, "backward")
    return jaxpr, zeros, logs
