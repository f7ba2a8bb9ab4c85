"""The numbers that a function's code compares others with, as far as bytecode tells.

Read are integers that stand in the code, or in a global or enclosing variable, right
before a comparison or the end of a call of `min` or `max`: `n < 100`, `min(n, LIMIT)`.
"""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence

from untrace.recovery.instructions import instructions_of
from untrace.recovery.record import Body

NEAR = 4  # instructions between a number and what it is compared by; a chain has most


def compared_numbers(body: Body) -> Iterator[int]:
    """Yield the numbers that a run compares with, and the runs inside of it."""
    variables = {**getattr(body.function, "__globals__", {}), **body.free}
    instructions, _ = instructions_of(body.code)
    for index, instruction in enumerate(instructions):
        value = instruction.argval
        if instruction.opname.startswith(_VARIABLES) and isinstance(value, str):
            value = variables.get(value)
        if type(value) is int and _is_compared(instructions, index):
            yield value
    for call in body.calls:
        for inner in call.bodies:
            yield from compared_numbers(inner)


def _is_compared(instructions: Sequence[dis.Instruction], index: int) -> bool:
    before = instructions[max(0, index - NEAR) : index]
    after = instructions[index + 1 : index + 1 + NEAR]
    names = {instruction.opname for instruction in after}
    is_least = any(instruction.argval in ("min", "max") for instruction in before)
    return "COMPARE_OP" in names or (is_least and "CALL" in names)


_VARIABLES = ("LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME")
