"""Batching rules of the user's own: custom_vmap.

The rule is a Python function of the axis size and of which arguments are batched; it is
no part of the traced program. It is imported where it can be, else a stand-in of the
same name takes its place and the report says so.
"""

from __future__ import annotations

from untrace.ir import Block, Equation
from untrace.lifting.blocks.control import hoists_in_order
from untrace.lifting.blocks.standins import rule_function
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.printing import Group, Rhs, control


@control("custom_vmap_call")
def custom_vmap(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function wrapped by `custom_vmap` and given its rule, and the call."""
    params = dict(eqn.params)
    block: Block = params.pop("call")
    rule = params.pop("rule")
    n_consts = len(eqn.operands) - _n_arguments(params.pop("in_tree"), eqn)
    params.pop("out_tree")
    captured = eqn.operands[:n_consts]
    if params or block.constants or not hoists_in_order(block, captured):
        return None
    groups = [Group("x", 1)] * (len(block.inputs) - n_consts)
    function = frame.callable(block, "function", captured, groups, plain_results(block))
    lifter = frame.lifter
    wrapper = lifter.imports.attribute("jax.custom_batching", "custom_vmap")
    name = frame.names.fresh(f"{function.partition('(')[0].rpartition('.')[2]}_vmapped")
    frame.lines.append(f"{name} = {wrapper}({function})")
    frame.lines.append(
        f"{name}.def_vmap({rule_function(getattr(rule, 'rule', rule), lifter)})"
    )
    return Rhs(f"{name}({', '.join(frame.texts(eqn.operands[n_consts:]))})", ", ".join)


def _n_arguments(in_tree: object, eqn: Equation) -> int:
    """Count the arguments; the first part of the tree holds consts."""
    children = in_tree.children()  # type: ignore[attr-defined]
    return (
        len(eqn.operands) - children[0].num_leaves
        if len(children) == 2
        else len(eqn.operands)
    )
