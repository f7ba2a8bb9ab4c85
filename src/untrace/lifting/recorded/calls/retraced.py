"""The equations of a call: what it bound at its trace, bound once more.

This gives the equations as they were before anything around the call transformed them,
with the places in the user's files that they come from. Idioms are sought in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.ir import Block, from_jaxpr
from untrace.lifting.recorded.naming.values import arrays_in
from untrace.lifting.recorded.plan import Plan
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.recovery.record import Bind, Call


@dataclass(frozen=True, eq=False, slots=True)
class Region:
    """The equations of a call.

    Attributes:
      operands: The arrays that they take, one for each input of the block.
      results: The arrays that they make and something needs, one for each output.
      block: The equations.
    """

    operands: list[Any]
    results: list[Any]
    block: Block


def region_of(
    item: Call,
    plan: Plan,
    rewrite: Callable[[Block], Block],
    is_known: Callable[[Any], bool],
    variant: Any = None,
) -> Region:
    """Trace the equations of a call, once for every need.

    Args:
      plan: What is known about the recording; remembers the equations.
      rewrite: Finds idioms.
      is_known: Tells which of the arrays that it returns need not be made.
      variant: Tells apart different ways to rewrite.

    Raises:
      Unwritable: If it returns what no equation makes.
    """
    binds = item.span.binds() if item.span is not None else []
    results = _results(item, binds, plan.hidden.get(item, ()), is_known)
    key = (item, *map(id, results), frozenset(plan.excluded), variant)
    if key not in plan.regions and item.span is not None:
        with jaxapi.under_axes(item.span.axes):
            operands, block = _traced(binds, results)
            plan.regions[key] = used(operands, rewrite(block))
    operands, block = plan.regions[key]
    if not results and not block.effects:
        raise Unwritable("it returns what no equation makes")
    return Region(operands, results, block)


def _results(
    item: Call,
    binds: Sequence[Bind],
    hidden: Sequence[Any],
    is_known: Callable[[Any], bool],
) -> list[Any]:
    """List the arrays that a call made and returned, or that are used all the same."""
    made = {id(result) for bind in binds for result in bind.results}
    found: dict[int, Any] = {}
    for array in [*arrays_in(item.result), *hidden]:
        if is_known(array) or id(array) in found:
            continue
        if id(array) in made or jaxapi.literal_behind(array) is not None:
            found[id(array)] = array
        elif isinstance(array, jaxapi.Tracer):
            raise Unwritable("it returns what no equation makes")
    if isinstance(item.result, jaxapi.FUNCTION_RESULTS) and not found:
        raise Unwritable("it returns a function")
    return list(found.values())


def _traced(binds: Sequence[Bind], results: Sequence[Any]) -> tuple[list[Any], Block]:
    """Bind primitives again; return what they take from outside, and their equations."""
    made: set[int] = set()
    needed: dict[int, Any] = {}
    for bind in binds:
        for arg in bind.args:
            if _is_free(arg) and id(arg) not in made:
                needed.setdefault(id(arg), arg)
        made.update(map(id, bind.results))
    operands = list(needed.values())

    def read(env: dict[int, Any], array: Any) -> Any:
        literal = jaxapi.literal_behind(array)
        return env.get(id(array), array) if literal is None else literal

    def again(*values: Any) -> list[Any]:
        env = dict(zip(needed, values))
        for bind in binds:
            args = [read(env, arg) for arg in bind.args]
            outs = jaxapi.bind_again(bind.primitive, args, bind.params)
            jaxapi.set_source_info(outs, _source_info(bind))
            env.update(zip(map(id, bind.results), outs))
        return [read(env, result) for result in results]

    jaxpr = jaxapi.trace_flat(again, [jax.typeof(operand) for operand in operands])
    block = from_jaxpr(jaxpr)
    # What a derivative rule closes over is passed, too.
    closed = [(v, c) for v, c in block.constants if _is_free(c)]
    rest = tuple([(v, c) for v, c in block.constants if not _is_free(c)])
    inputs = (*block.inputs, *[value for value, _ in closed])
    block = replace(block, inputs=inputs, constants=rest)
    return [*operands, *[const for _, const in closed]], block


def _source_info(bind: Bind) -> Any:
    """Return where a primitive was bound, as far as its results tell."""
    found = map(jaxapi.source_info_of, bind.results)
    known = next((info for info in found if info is not None), None)
    return jaxapi.no_source_info() if known is None else known


def _is_free(value: Any) -> bool:
    """Whether a value is a tracer, and no scalar constant."""
    return isinstance(value, jaxapi.Tracer) and jaxapi.literal_behind(value) is None


def used(operands: Sequence[Any], block: Block) -> tuple[list[Any], Block]:
    """Drop the inputs that no equation reads."""
    read: set[Any] = {*block.outputs}
    for eqn in block.equations:
        read.update(eqn.operands)
    kept = [(o, v) for o, v in zip(operands, block.inputs) if v in read]
    inputs = tuple([value for _, value in kept])
    return [operand for operand, _ in kept], replace(block, inputs=inputs)
