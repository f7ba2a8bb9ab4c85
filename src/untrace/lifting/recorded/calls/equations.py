"""Write a primitive that was bound outside any public function, as level "lax" does.

The primitive is traced by itself at the types of its operands, which gives one equation;
the rules for equations write it, with names of ours in place of the operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.ir import Atom, Block, from_jaxpr
from untrace.lifting.frame import Frame
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import unpacked
from untrace.lifting.recorded.calls.equation_texts import term_of
from untrace.lifting.recorded.naming.naming import rename
from untrace.lifting.recorded.naming.values import arrays_in, is_array
from untrace.lifting.recorded.terms import Term
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.record import Call
from untrace.syntax.names import Scope

RESULTS = tuple([f"result_{i}" for i in range(32)])


def write_equation(item: Call, writer: Writer) -> None:
    """Write a bound primitive as an expression.

    Raises:
      Unwritable: If it takes more than one expression, as those with sub-programs do.
    """
    lifter = writer.program.lifter
    arrays = [arg for arg in item.args if is_array(arg)]
    block = _equation(item, arrays)
    if jaxapi.library_of(item.function):
        block = lifter.rewrite(block)
    if not block.equations and set(block.outputs) <= set(block.inputs):
        given: dict[Atom, Any] = dict(zip(block.inputs, arrays))
        for result, output in zip(arrays_in(item.result), block.outputs):
            writer.pass_on(result, given[output])
        rename(item.result, item.target, writer)
        return
    if len(block.equations) != 1 or block.constants:
        raise Unwritable(f"`{item.function.name}` makes several equations")
    found = expression(block, [writer.value(array) for array in arrays], lifter)
    n_results = len(block.equations[0].results)
    plain = ", ".join(RESULTS[:n_results])
    if found is None or found[1] not in (plain, f"({plain},)"):
        raise Unwritable(f"`{item.function.name}` has a sub-program")
    is_bare = n_results == 1 and found[1] == plain
    writer.assign(item, found[0], _bare(item) if is_bare else item)


def _equation(item: Call, arrays: Sequence[Any]) -> Block:
    """Bind a primitive once more, at the types of its operands."""

    def bind(*values: Any) -> Any:
        given = iter(values)
        args = [next(given) if is_array(arg) else arg for arg in item.args]
        return jax.tree.leaves(item.function.bind(*args, **item.kwargs))

    try:
        avals = [jax.typeof(array) for array in arrays]
        return from_jaxpr(jaxapi.trace_flat(bind, avals))
    except Exception as error:  # a primitive may need what was around it
        raise Unwritable(f"`{item.function.name}` cannot be traced alone") from error


def _bare(item: Call) -> Call:
    """Return a call with the only one of its results instead of the list of it."""
    if not isinstance(item.result, (list, tuple)):
        return item
    target = item.target[0] if isinstance(item.target, tuple) else None
    return replace(item, result=item.result[0], target=target)


def expression(
    block: Block, operands: Sequence[Term], lifter: Lifter
) -> tuple[Term, str] | None:
    """Write the only equation of a block as one expression.

    Returns:
      The expression, and how `RESULTS` are assigned to; None if it takes more.
    """
    (eqn,) = block.equations
    frame = Frame(lifter, Scope(lifter.scope), {})
    marks = [f"_operand_{position}_" for position in range(len(block.inputs))]
    frame.env.update(zip(block.inputs, marks))
    for value, const in block.constants:
        frame.env[value] = lifter.constants.name(const)
        frame.constants.add(value)
    frame.block = block
    rhs = frame._rhs(eqn)  # pyright: ignore[reportPrivateUsage]
    names = list(RESULTS[: len(eqn.results)])
    if frame.lines or len(names) < len(eqn.results):
        return None
    if rhs.target is not None:
        target = rhs.target(names)
    else:
        is_one = len(names) == 1 and not eqn.primitive.multiple_results
        target = names[0] if is_one else unpacked(names)
    functions = {function.name for function in lifter.functions}
    return term_of(rhs.text, dict(zip(marks, operands)), functions), target
