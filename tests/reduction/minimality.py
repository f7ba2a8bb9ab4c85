"""What could still be removed from a reduced program, listed naively and one by one.

Independent of the passes and their order: every equation, output, wrapper, loop and axis
is taken away by itself, and the predicate is asked.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from untrace.ir import Value, all_equations
from untrace.reduction.applying import apply
from untrace.reduction.axes import find_axes, resized, without_axis
from untrace.reduction.edits import Edits, Held, Opening
from untrace.reduction.passes.focusing import CALLS, body_of, called
from untrace.reduction.passes.unwrapping import LOOPS, wrappers
from untrace.reduction.program import Program
from untrace.reduction.sizes import measure
from untrace.reduction.trials import Judge
from untrace.reduction.values import Recorder, is_holdable


def removable(program: Program, judge: Judge) -> list[str]:
    """Name what can be removed from a program without losing the failure."""
    found: list[str] = []
    for what, smaller in attempts(program, judge):
        if smaller is not None and judge.judge_program(smaller):
            found.append(what)
    return found


def attempts(program: Program, judge: Judge) -> Iterator[tuple[str, Program | None]]:
    block = program.block
    values = Recorder(program, judge).record()
    if len(block.equations) > 1:
        for i, eqn in enumerate(block.equations):
            yield f"equation {i} ({eqn.name})", without_equation(program, i, values)
    if len(block.outputs) > 1:
        for i in range(len(block.outputs)):
            rest = block.outputs[:i] + block.outputs[i + 1 :]
            yield f"output {i}", apply(program, Edits(outputs=rest))
    for eqn in wrappers(program):
        yield f"wrapper {eqn.name}", apply(program, Edits(opened={eqn: Opening()}))
    for eqn in all_equations(block):
        for branch in range(len(eqn.params.get("branches", [None]))):
            opened = apply(program, Edits(opened={eqn: Opening(branch=branch)}))
            if eqn.name in LOOPS and opened and measure(opened) < measure(program):
                yield f"loop {eqn.name}", opened
    yield from inside_calls(program, judge)
    for axis in find_axes(block).groups:
        if axis.size == 1:
            edits = without_axis(program, axis)
        elif (
            judge.keep.is_measured
        ):  # the shortest that suffices differs from run to run
            continue
        else:
            edits = resized(program, axis, axis.size - 1)
        yield f"axis of {axis.size}", None if edits is None else apply(program, edits)
    for value, array in zip(block.inputs, program.values):
        for number, size in enumerate(np.shape(array)):
            rest = np.take(array, 0, axis=number) if size else array
            edits = Edits(inputs={value: rest})
            yield f"axis {number} of an input", apply(program, edits)


def inside_calls(program: Program, judge: Judge) -> Iterator[tuple[str, Any]]:
    """Take single equations out of the body of each call that stands alone."""
    if len(program.block.equations) > 1 or program.block.equations[0].name not in CALLS:
        return
    (call,) = program.block.equations
    body = body_of(call, {**dict(zip(program.block.inputs, program.values))})
    if body is None or len(body.block.equations) < 2:
        return
    values = Recorder(body, judge).record()
    for i, eqn in enumerate(body.block.equations):
        smaller = without_equation(body, i, values)
        whole = None if smaller is None else called(call, smaller, program.name)
        yield f"equation {i} ({eqn.name}) in {call.name}", whole


def without_equation(program: Program, index: int, values) -> Program | None:
    """Make inputs of the results of one equation; outputs that were its are dropped."""
    block = program.block
    gone = block.equations[index]
    results = {r for r in gone.results if r is not None}
    outputs = tuple(
        a for a in block.outputs if isinstance(a, Value) and a not in results
    )
    if not outputs:
        used = {a for e in block.equations for a in e.operands}
        outputs = tuple(
            r
            for i, e in enumerate(block.equations)
            for r in e.results
            if i != index and r is not None and (r not in used or used & results)
        )[-1:]
    if not outputs or not all(is_holdable(r.aval) for r in results):
        return None
    replaced = {r: Held(values[r]) for r in results}
    dropped = frozenset([gone]) if gone.effects else frozenset()
    return apply(program, Edits(outputs=outputs, replaced=replaced, dropped=dropped))
