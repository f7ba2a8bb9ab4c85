"""Record functions that the run did not need: derivative rules, traced apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.recovery.functions import innermost, peel, positional, rules
from untrace.recovery.record import Body
from untrace.recovery.recorder import Readers, Recorder


def trace_rules(
    function: Any,
    body: Body,
    readers: Readers,
    zeros: Sequence[bool] = (),
) -> list[Body | None]:
    """Trace the rules of a custom function at the types that it was called with.

    Args:
      function: A `jax.custom_jvp` or `jax.custom_vjp`.
      body: A run of the function itself or of its forward rule.
      readers: How to read calls from frames.
      zeros: Which leaves of the tangents are symbolic zeros, for a `jax.custom_jvp`
        that is told; those of integers if empty.

    Returns:
      A run of each rule; None for an argument without one.
    """
    fixed = set(function.nondiff_argnums)
    values = positional(function, body)
    static = [v for i, v in enumerate(values) if i in fixed]
    dynamic = [struct(v) for i, v in enumerate(values) if i not in fixed]
    if isinstance(function, jaxapi.CUSTOM_JVP):
        primals = tuple(dynamic)
        if jaxapi.elementwise_rules(function):
            out = struct(body.result)
            return [
                None
                if rule is None
                else run_apart(rule, (_tangent(x), out, *primals), readers)
                for rule, x in zip(rules(function), primals)
            ]
        (rule,) = rules(function)
        args = primals, jax.tree.map(_tangent, primals)
        if function.symbolic_zeros and not zeros:
            zeros = [not can for can in perturbable(primals)]
        passed = partial(_with_zeros, zeros) if any(zeros) else tuple
        return [run_apart(rule, args, readers, static, given=passed)]
    fwd, bwd = rules(function)
    ordered = list(dynamic)
    for i in sorted(fixed):
        ordered.insert(i, values[i])
    first = run_apart(fwd, tuple(dynamic), readers, ordered=ordered, fixed=fixed)
    out, residuals = first.result
    second = run_apart(bwd, (struct(residuals), struct(out)), readers, static)
    return [first, second]


def perturbable(tree: Any) -> tuple[bool, ...]:
    """Which leaves of a tree have tangents that are not trivial."""
    leaves = jax.tree.leaves(tree)
    return tuple([jaxapi.is_perturbable(jax.typeof(leaf)) for leaf in leaves])


class ToldRules(NamedTuple):
    """Rules of a `jax.custom_vjp` in a case in which they are told what there is.

    Attributes:
      forward: A run of the forward rule.
      backward: Runs of the backward rule after it, by which leaves of the results have
        cotangents; what it raised where it cannot be traced.
    """

    forward: Body
    backward: dict[tuple[bool, ...], Body | Exception]


def trace_told_rules(
    function: Any,
    body: Body,
    readers: Readers,
    given: Sequence[bool],
    cotangents: Iterable[tuple[bool, ...]],
) -> ToldRules:
    """Trace the rules of a `jax.custom_vjp` that are told of symbolic zeros.

    Args:
      function: What has the rules.
      body: A run of the function itself or of its forward rule.
      readers: How to read calls from frames.
      given: Which leaves of the arguments are perturbed.
      cotangents: Which leaves of the results have cotangents, in each case.
    """
    fixed = set(function.nondiff_argnums)
    values = positional(function, body)
    static = [v for i, v in enumerate(values) if i in fixed]
    dynamic = [struct(v) for i, v in enumerate(values) if i not in fixed]
    leaves, tree = jax.tree.flatten(tuple(dynamic))
    fwd, bwd = rules(function)

    def pairs(arrays: tuple[Any, ...]) -> tuple[Any, ...]:
        passed: list[Any] = list(tree.unflatten(map(_PRIMAL, arrays, given)))
        for i in sorted(fixed):
            passed.insert(i, values[i])
        return tuple(passed)

    first = run_apart(fwd, tuple(leaves), readers, given=pairs)
    out, residuals = first.result
    known, residual_tree = jax.tree.flatten(residuals)
    # Rules branch on residuals whose value is known when the forward rule is traced.
    traced = [isinstance(leaf, jaxapi.Tracer) for leaf in known]
    saved = [struct(leaf) for leaf, is_traced in zip(known, traced) if is_traced]
    results, out_tree = jax.tree.flatten(struct(out))
    backward: dict[tuple[bool, ...], Body | Exception] = {}
    for each in cotangents:

        def restored(
            arrays: tuple[Any, ...], each: tuple[bool, ...] = each
        ) -> tuple[Any, ...]:
            rest = iter(arrays)
            kept = [next(rest) if t else leaf for leaf, t in zip(known, traced)]
            zeros = map(_zero_cotangent, results)
            passed = [next(rest) if has else z for z, has in zip(zeros, each)]
            return residual_tree.unflatten(kept), out_tree.unflatten(passed)

        taken = [result for result, has in zip(results, each, strict=True) if has]
        try:
            backward[each] = run_apart(
                bwd, (*saved, *taken), readers, static, given=restored
            )
        except LiftingError:
            raise
        except Exception as error:  # the user's code, which may raise anything
            backward[each] = error
    return ToldRules(first, backward)


def _zero_cotangent(struct: Any) -> Any:
    return jax.custom_derivatives.SymbolicZero(jaxapi.cotangent_type(struct))


_PRIMAL = jax.custom_derivatives.CustomVJPPrimal


def trace_primal(function: Any, args: Sequence[Any], readers: Readers) -> Body:
    """Trace a custom function itself, at the types of some arguments."""
    fixed: set[int] = set(getattr(function, "nondiff_argnums", ()))
    dynamic = [struct(v) for i, v in enumerate(args) if i not in fixed]
    return run_apart(
        function.fun, tuple(dynamic), readers, ordered=list(args), fixed=fixed
    )


def trace_gradient(function: Any, run: Body, readers: Readers) -> tuple[Body, Body]:
    """Trace a function for `jax.custom_gradient`, and the rule that it returns.

    Args:
      function: What it was given.
      run: A run of the function, which shows the types.
      readers: How to read calls from frames.

    Returns:
      Runs of the function and of the rule, whose arrays are of one trace.
    """
    args = tuple(map(struct, run.parameters.values()))
    root = Body(None, run.code, {})

    def traced(cotangent: Any, *args: Any) -> Any:
        with Recorder(readers, is_short=True).recording(root):
            _, rule = function(*args)
            return rule(cotangent)

    jax.eval_shape(traced, struct(run.result[0]), *args)
    runs = [item.bodies[0] for item in root.calls if item.is_own]
    codes = [run.code for run in runs]
    plain = innermost(runs[0].result[1]) if runs else None
    if codes != [run.code, getattr(plain, "__code__", None)]:
        name = getattr(function, "__name__", type(function).__name__)
        raise LiftingError(f"the gradient of `{name}` could not be traced apart")
    return runs[0], runs[1]


def run_apart(
    rule: Callable[..., Any],
    args: tuple[Any, ...],
    readers: Readers,
    static: list[Any] | None = None,
    *,
    ordered: list[Any] | None = None,
    fixed: set[int] | None = None,
    given: Callable[[tuple[Any, ...]], tuple[Any, ...]] = tuple,
) -> Body:
    """Trace a function at some types under a recorder of its own.

    `given` makes its arguments of those that are traced.
    """
    bodies: list[Body] = []
    run = _without_jit(rule)

    def traced(*values: Any) -> None:
        rest = iter(values)
        if ordered is not None:
            passed = [
                v if i in (fixed or ()) else next(rest) for i, v in enumerate(ordered)
            ]
        else:
            passed = [*(static or []), *given(values)]
        root = Body(None, traced.__code__, {})
        recorder = Recorder(readers, is_short=True)
        with recorder.recording(root):
            run(*passed)  # what it returns may hold symbolic zeros
        bodies.extend(c.bodies[0] for c in root.calls if c.is_own)

    jax.eval_shape(traced, *args)
    plain = innermost(rule)
    for body in bodies:
        if plain is not None and body.code is plain.__code__:
            return body
    name = getattr(rule, "__name__", type(rule).__name__)
    raise LiftingError(f"the derivative rule `{name}` could not be traced apart")


def _without_jit(function: Any) -> Any:
    """The function inside `jax.jit`, which does not run what it has traced before."""
    layer = peel(function)
    while layer is not None and getattr(layer.value, "maker", None) == ("jax", "jit"):
        function, layer = layer.inner, peel(layer.inner)
    return function


def _with_zeros(zeros: Sequence[bool], args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Put symbolic zeros among the tangents that a rule is given."""
    primals, tangents = args
    leaves, tree = jax.tree.flatten(tangents)
    zero = jax.custom_derivatives.SymbolicZero.from_primal_value
    pairs = zip(zeros, jax.tree.leaves(primals), leaves, strict=True)
    return primals, tree.unflatten([zero(p) if z else t for z, p, t in pairs])


def struct(value: Any) -> Any:
    """Return the types of the arrays in a value."""
    return jax.tree.map(_leaf_struct, value)


def _leaf_struct(leaf: Any) -> Any:
    aval = jax.typeof(leaf)
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=aval.weak_type)


def _tangent(struct: Any) -> Any:
    is_real = jnp.issubdtype(struct.dtype, jnp.inexact)
    return jax.ShapeDtypeStruct(
        struct.shape, struct.dtype if is_real else jax.dtypes.float0
    )
