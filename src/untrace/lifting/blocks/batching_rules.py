"""Batching rules of the user's own: custom_vmap.

The rule is a Python function of the axis size and of which arguments are batched; it is
no part of the traced program. It is imported where it can be, else a stand-in of the
same name takes its place and the report says so. The function is written over flat
arguments and results; a rule that has other trees has a stand-in, too.

The rule of a library's primitive, which the function is in the place of, is written as it
batches it in the program.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from untrace import jaxapi
from untrace.ir import Block, Equation, from_jaxpr
from untrace.lifting.blocks.closures import closing_over
from untrace.lifting.blocks.standins import batching_function
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame, in_plain_results, plain_results
from untrace.lifting.heads import plain_head
from untrace.lifting.names.naming import block_name
from untrace.lifting.printing import INDENT, Function, Group, Rhs, grouped
from untrace.syntax.names import identifier


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
    if isinstance(call.rule, jaxapi.LibraryRule) and not captured:
        args = frame.texts(eqn.operands)
        return Rhs(
            f"{_in_place(block, call.rule, frame)}({', '.join(args)})", ", ".join
        )
    groups = [Group("x", 1)] * (len(block.inputs) - call.n_consts)
    function = closing_over(block, captured, groups, frame)
    lifter = frame.lifter
    wrapper = lifter.imports.attribute("jax.custom_batching", "custom_vmap")
    name = frame.names.fresh(f"{function.partition('(')[0].rpartition('.')[2]}_vmapped")
    frame.lines.append(f"{name} = {wrapper}({function})")
    frame.lines.append(f"{name}.def_vmap({batching_function(call, lifter)})")
    args = frame.texts(eqn.operands[call.n_consts :])
    return Rhs(f"{name}({', '.join(args)})", ", ".join)


def _in_place(block: Block, rule: jaxapi.LibraryRule, frame: Frame) -> str:
    """Define a function in the place of a library's primitive; return its name.

    Those that do the same at other types are one.
    """
    lifter = frame.lifter
    known = lifter.batched.get(id(block))
    if known is not None:
        return known[0]
    outer = Frame(lifter, lifter.scope, {}, ambient=frame.ambient)
    child = outer.child()
    parameters = child.parameters(block, [Group("x", 1)] * len(block.inputs), 0)
    child.body(block)
    child.returns(plain_results(block)(child))
    names = [parameter.name for parameter in parameters]
    inner = outer.child()
    head = [inner.names.fresh(name) for name in ("axis_size", "in_batched", *names)]
    cases = [
        (flags, tuple(_case(rule, flags, size, head[2:], inner)))
        for flags, size in sorted(rule.cases.items(), reverse=True)
    ]
    text = (id(block.original), *names, *child.lines, *cases)
    alike = lifter.batched.get(text)
    if alike is None:
        hint = identifier(block_name(block, "function"), "function")
        name = lifter.scope.fresh_global(hint)
        if block.original is not None:
            lifter.originals[name] = functools.partial(in_plain_results, block.original)
        decorator = lifter.imports.attribute("jax.custom_batching", "custom_vmap")
        function = Function(name, parameters, child.lines, [decorator])
        function.after = _rule(name, head, cases, outer)
        lifter.functions.append(function)
        alike = name, block
    lifter.batched[id(block)] = lifter.batched[text] = alike[0], block
    return alike[0]


def _rule(
    function: str,
    head: Sequence[str],
    cases: Sequence[tuple[Sequence[bool], Sequence[str]]],
    outer: Frame,
) -> list[str]:
    """Write the batching rule of a function: what it is in each of its cases."""
    name = outer.lifter.scope.fresh_global(f"{function}_batched")
    lines: list[str] = []
    for flags, written in cases:
        if len(flags) == 1:  # it is batched, or the rule not asked
            lines += written
        else:
            lines.append(f"if {head[1]} == {list(flags)}:")
            lines += [INDENT + line for line in written]
    if len(cases[0][0]) > 1:
        text = f"{function}, where {{{head[1]}}} of its arguments are batched"
        lines.append(f'raise NotImplementedError(f"{text}")')
    made = Function(name, plain_head(*head), lines, [f"{function}.def_vmap"])
    return ["", "", *made.text_lines()]


def _case(
    rule: jaxapi.LibraryRule,
    flags: Sequence[bool],
    size: int,
    names: Sequence[str],
    outer: Frame,
) -> list[str]:
    """Write what a function returns in a batch, and which results are batched."""
    jaxpr, are_batched = rule.plain(tuple(flags), size)
    block = outer.lifter.rewrite(from_jaxpr(jaxpr))
    frame = outer.child()
    frame.env.update(zip(block.inputs, names))
    frame.body(block)
    texts = frame.texts(block.outputs)
    frame.returns(f"{grouped(texts)}, {grouped([str(b) for b in are_batched])}")
    return frame.lines
