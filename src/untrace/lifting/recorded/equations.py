"""Write a primitive that was bound outside any public function, as level "lax" does.

The primitive is traced by itself at the types of its operands, which gives one equation;
the rules for equations write it, with marks in place of the operands.
"""

from __future__ import annotations

import re
from typing import Any

import jax

from untrace import jaxapi
from untrace.ir import from_jaxpr
from untrace.lifting.frame import Frame
from untrace.lifting.recorded.terms import ATOM, TUPLE, Part, Term, placed
from untrace.lifting.recorded.values import is_array
from untrace.lifting.recorded.writer import Unwritable, Writer
from untrace.recovery.record import Call
from untrace.syntax.names import Scope

_MARK = re.compile("\x00(\\d+)\x00")


def equation_term(item: Call, writer: Writer) -> Term:
    """Write the expression of a bound primitive.

    Raises:
      Unwritable: If it takes more than one expression, as those with sub-programs do.
    """
    lifter = writer.program.lifter
    arrays = [arg for arg in item.args if is_array(arg)]

    def bind(*values: Any) -> Any:
        given = iter(values)
        args = [next(given) if is_array(arg) else arg for arg in item.args]
        return jax.tree.leaves(item.function.bind(*args, **item.kwargs))

    try:
        avals = [jax.typeof(array) for array in arrays]
        block = from_jaxpr(jaxapi.trace_flat(bind, avals))
    except Exception as error:  # a primitive may need what was around it
        raise Unwritable(f"`{item.function.name}` cannot be traced alone") from error
    if len(block.equations) != 1 or block.constants:
        raise Unwritable(f"`{item.function.name}` makes several equations")
    frame = Frame(lifter, Scope(lifter.scope), {})
    for position, value in enumerate(block.inputs):
        frame.env[value] = f"\x00{position}\x00"
    frame.block = block
    rhs = frame._rhs(block.equations[0])  # pyright: ignore[reportPrivateUsage]
    is_plain = rhs.target is None or rhs.target(["a", "b"]) == "a, b"
    if frame.lines or not is_plain:
        raise Unwritable(f"`{item.function.name}` has a sub-program")
    operands = [writer.value(array) for array in arrays]
    parts: list[Part] = []
    for index, piece in enumerate(_MARK.split(rhs.text)):
        parts += placed(operands[int(piece)], ATOM) if index % 2 else [piece]
    return Term([part for part in parts if part != ""], TUPLE)
