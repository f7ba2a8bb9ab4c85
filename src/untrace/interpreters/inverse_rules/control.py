"""Loops are run backwards, branches solved one by one, mapped bodies on each device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp

from untrace.interpreters.inverse_rules.loops import placed_like, solve_scan
from untrace.interpreters.inverse_rules.table import lost, solves
from untrace.interpreters.inverse_rules.while_loops import Loop
from untrace.interpreters.inverting.body import (
    Solved,
    bundled,
    planned,
    solve_body,
    unbundled,
)
from untrace.interpreters.inverting.lazy import Lazy
from untrace.interpreters.inverting.step import WAITS, NotInvertible, Step
from untrace.recovery.classifying import recorded


@solves(
    "scan",
    "a turn can be solved for what it carries in (the loop runs backwards), or for its "
    "rows (it runs forwards)",
)
def _scan(step: Step) -> None:
    solve_scan(step)


def item(whole: Lazy, i: int) -> Lazy:
    """Return one of several values that are computed together."""
    return Lazy(lambda values: values[i], [whole])


def learn_together(
    step: Step, whole: Lazy, gains: Sequence[tuple[bool, int]], solved: Solved
) -> None:
    """Learn operands (True) and results from values computed together, log |det| last."""
    for k, (is_operand, i) in enumerate(gains):
        if is_operand:
            step.network.learn(step.operands[i], item(whole, k))
        else:
            step.make(i, item(whole, k))
    note_log_det(step, item(whole, len(gains)), solved)


def note_log_det(step: Step, lazy: Lazy, solved: Solved) -> None:
    """Note log |det| of a sub-program that was solved."""
    missing = solved.without_formula()
    step.network.log_dets += [(node, None) for node in missing]
    if solved.network.log_dets and not missing:
        step.network.log_dets.append((step.node, lazy))


# ---- branches ----------------------------------------------------------------------


@solves("cond", "the branch that was taken is known, and can be solved")
def _cond(step: Step) -> None:
    index, branches = step.operand(0), step.params["branches"]
    platforms = step.params.get("branches_platforms")
    if platforms and None in platforms:  # they compute the same on several platforms
        default = branches[platforms.index(None)]
        step.network.open(step.node, default, step.operands[1:])
        return
    if index is None:
        raise NotInvertible("which branch was taken is not known from its results")
    inputs = [cell.whole for cell in step.operands[1:]]
    flags = [cell.is_known for cell in step.results]
    plans = [planned(step.network, branch, inputs, flags) for branch in branches]
    gains = [
        (True, i + 1)
        for i, lazy in enumerate(inputs)
        if lazy is None and all(plan.inputs[i] is not None for plan in plans)
    ]
    gains += [
        (False, i)
        for i, is_known in enumerate(flags)
        if not is_known and all(plan.outputs[i] is not None for plan in plans)
    ]
    if not gains:
        raise NotInvertible(
            WAITS if not any(flags) else "one of its branches cannot be solved"
        )
    known = [lazy for lazy in inputs if lazy is not None]
    results = [cell.whole for cell in step.results]
    made = [lazy for lazy in results if lazy is not None]
    longest = max(plans, key=lambda plan: len(plan.network.log_dets))
    for plan in plans:
        if plan.without_formula():
            longest = plan
    has_term = bool(longest.network.log_dets) and not longest.without_formula()

    def branch(k: int) -> Any:
        @recorded
        def inverse_branch(given: Any) -> Any:
            values = unbundled(given, len(known) + len(made))
            solved = solve_body(
                step.network,
                branches[k],
                placed_like(inputs, values[: len(known)]),
                placed_like(results, values[len(known) :]),
            )
            found = [
                solved.inputs[i - 1] if is_operand else solved.outputs[i]
                for is_operand, i in gains
            ]
            term = [solved.log_det()] if has_term else []
            return bundled([*[each.value for each in found if each], *term])

        return inverse_branch

    def run(index: Any, *values: Any) -> Any:
        if index.dtype == jnp.bool_:
            index = index.astype(jnp.int32)
        solvers = [branch(k) for k in range(len(branches))]
        found = jax.lax.switch(index, solvers, bundled(values))
        return unbundled(found, len(gains) + has_term)

    whole = Lazy(run, [index, *known, *made])
    learn_together(step, whole, gains, longest)


# ---- loops with a condition --------------------------------------------------------


@solves("while", "a counter ends it, and a turn can be solved for what it carries in")
def _while(step: Step) -> None:
    Loop(step).solve()


# ---- devices -----------------------------------------------------------------------


@solves("shard_map", "its body can be solved on each device")
def _shard_map(step: Step) -> None:
    params = step.params
    body, mesh = params["jaxpr"], params["mesh"]
    inputs = [cell.whole for cell in step.operands]
    results = [cell.whole for cell in step.results]
    if any(each is None for each in results):
        raise NotInvertible(WAITS)
    hidden = [None if lazy is None else True for lazy in inputs]
    plan = planned(step.network, body, hidden, [True] * len(results))
    gains = [
        i
        for i, lazy in enumerate(inputs)
        if lazy is None and plan.inputs[i] is not None
    ]
    if not gains:
        raise NotInvertible("its body cannot be solved")
    known = [lazy for lazy in inputs if lazy is not None]
    made = [lazy for lazy in results if lazy is not None]
    in_specs, out_specs = list(params["in_specs"]), list(params["out_specs"])
    known_specs = [spec for spec, lazy in zip(in_specs, inputs) if lazy is not None]

    # Each device has a part of what is solved, and of log |det|: all parts together.
    axes = tuple(params["newly_manual_axes"])
    is_apart = all(set(_axes(in_specs[i])) == set(axes) for i in gains)
    has_term = is_apart and bool(plan.network.log_dets) and not plan.without_formula()

    @recorded
    def inverse_on_device(*values: Any) -> Any:
        rest = iter(values)
        given = [None if each is None else Lazy.of(next(rest)) for each in inputs]
        solved = solve_body(step.network, body, given, [Lazy.of(v) for v in rest])
        found = [each.value for i in gains if (each := solved.inputs[i])]
        return tuple(found), solved.log_det()[None] if has_term else None

    def run(*values: Any) -> Any:
        mapped: Any = jax.shard_map(
            inverse_on_device,
            mesh=mesh,
            in_specs=(*known_specs, *out_specs),
            out_specs=(
                tuple([in_specs[i] for i in gains]),
                jax.P(axes) if has_term else None,
            ),
            axis_names=set(axes),
            check_vma=params["check_vma"],
        )
        made, terms = jax.jit(mapped)(*values)
        return [*made, jnp.sum(terms) if has_term else None]

    whole = Lazy(run, [*known, *made])
    for k, i in enumerate(gains):
        step.network.learn(step.operands[i], item(whole, k))
    if not is_apart and plan.network.log_dets:
        step.network.log_dets.append((step.node, None))
    note_log_det(step, item(whole, len(gains)), plan)


def _axes(spec: Any) -> list[Any]:
    """List the axes of the mesh over which a value is split."""
    return [
        axis
        for part in spec
        if part is not None
        for axis in (part if isinstance(part, tuple) else (part,))
    ]


@solves("ppermute", "every device sends to another one")
def _ppermute(step: Step) -> None:
    sends, name = step.params["perm"], step.params["axis_name"]
    y = step.needed_result()
    axis = name[0] if isinstance(name, tuple) and len(name) == 1 else name
    if len({b for _, b in sends}) != len(sends):
        raise NotInvertible("not injective: two devices send to one")
    back = [(b, a) for a, b in sends]
    step.solve(0, lambda y: jax.lax.ppermute(y, axis, back), y, log_det=0.0)


@solves("all_to_all", "it is tiled")
def _all_to_all(step: Step) -> None:
    params = step.params
    if not params["tiled"] or params["axis_index_groups"]:
        raise NotInvertible("only tiled exchanges of all devices are inverted")
    name = params["axis_name"]
    axis = name[0] if isinstance(name, tuple) and len(name) == 1 else name

    def back(y: Any) -> Any:
        split, concat = params["concat_axis"], params["split_axis"]
        return jax.lax.all_to_all(y, axis, split, concat, tiled=True)

    step.solve(0, back, step.needed_result(), log_det=0.0)


lost(
    "psum psum_invariant pmax pmin all_gather reduce_scatter unreduced_psum "
    "unreduced_pmax unreduced_pmin unreduced_reduce_scatter all_gather_invariant "
    "all_gather_reduced",
    "information lost: values of several devices become one",
)
lost(
    "preduced reduced_vary_cast vary_unreduced_cast",
    "how devices share a value is not taken back",
)
lost("axis_index platform_index", "it computes nothing of values")
lost("ragged_all_to_all", "no formula for its inverse")
lost(
    "pure_callback io_callback debug_callback debug_print buffer_callback "
    "inspect_sharding",
    "a function of the host",
)
lost("ffi_call", "native code: register an inverse for the function that calls it")
lost("check", "it computes nothing of values")

# ---- what is not followed ----------------------------------------------------------

lost(
    "pallas_call core_map",
    "a kernel: register an inverse for the function that calls it",
)
lost(
    "program_id num_programs multiple_of dma_start dma_wait masked_load masked_swap",
    "a part of a kernel",
)
lost(
    "new_ref empty_ref free_ref freeze get swap addupdate run_state run_scoped",
    "a mutable array: what is written to it is not followed",
)
lost("compute_on call_hi_primitive", "its body is not followed")
