"""Batching rules of the user's own: custom_vmap.

The rule is a Python function of the axis size and of which arguments are batched; it is
no part of the traced program. It is imported where it can be, else a stand-in of the
same name takes its place and the report says so. The function is written over flat
arguments and results; a rule that has other trees has a stand-in, too.
"""

from __future__ import annotations

from untrace import jaxapi
from untrace.ir import Block, Equation
from untrace.lifting.blocks.closures import closing_over
from untrace.lifting.blocks.standins import batching_function
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Group, Rhs


@control("custom_vmap_call")
def custom_vmap(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function wrapped by `custom_vmap` and given its rule, and the call."""
    params = dict(eqn.params)
    block: Block = params.pop("call")
    call = jaxapi.batching_call(params)
    if call is None or params.keys() != {"rule", "in_tree", "out_tree"}:
        return None
    captured = eqn.operands[: call.n_consts]
    if block.constants:
        return None
    groups = [Group("x", 1)] * (len(block.inputs) - call.n_consts)
    function = closing_over(block, captured, groups, frame)
    lifter = frame.lifter
    wrapper = lifter.imports.attribute("jax.custom_batching", "custom_vmap")
    name = frame.names.fresh(f"{function.partition('(')[0].rpartition('.')[2]}_vmapped")
    frame.lines.append(f"{name} = {wrapper}({function})")
    frame.lines.append(f"{name}.def_vmap({batching_function(call, lifter)})")
    args = frame.texts(eqn.operands[call.n_consts :])
    return Rhs(f"{name}({', '.join(args)})", ", ".join)
