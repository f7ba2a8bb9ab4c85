"""Which variables of a function only ever hold constants that stand in its source.

CPython makes one object of all constants of a module that are alike, so the identity of a
number does not tell a variable's `0.5` from a parameter's. What the bytecode stores does:
each store is followed back, along a straight line, to the instruction that made its value.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Sequence

from untrace.recovery.instructions import instructions_of, listing_of
from untrace.recovery.sites import once_per_site
from untrace.recovery.targets import stored


def is_constant_variable(frame: types.FrameType, name: str) -> bool:
    """Whether a local variable, or one that is closed over, only holds constants."""
    code = frame.f_code
    if name in listing_of(code).free:
        owner = owner_of(frame, name)
        if owner is None:
            return False
        code = owner.f_code
    return name in _constant_variables(code, 0)


def owner_of(frame: types.FrameType, name: str) -> types.FrameType | None:
    """Return the running function whose variable one closes over; None if none is it."""
    inner, back = frame.f_code, frame.f_back
    while back is not None:
        code = back.f_code
        is_around = inner.co_qualname.startswith(f"{code.co_qualname}.<locals>.")
        if is_around and name in code.co_cellvars:
            return back if code.co_filename == inner.co_filename else None
        back = back.f_back
    return None


@once_per_site
def _constant_variables(code: types.CodeType, start: int) -> frozenset[str]:
    instructions = instructions_of(code)[0][start:]
    n_parameters = code.co_argcount + code.co_kwonlyargcount
    others = set(code.co_varnames[:n_parameters])
    constant: set[str] = set()
    for index, instruction in enumerate(instructions):
        for depth, name in enumerate(stored(instruction)):
            found = constant if _is_constant(instructions, index, depth) else others
            found.add(name)
    return frozenset(constant - others)


def _is_constant(
    instructions: Sequence[dis.Instruction], index: int, depth: int
) -> bool:
    """Whether what is `depth` values below the top of the stack is a constant.

    The stack is as it is before an instruction; it is followed backwards from there.
    """
    while index > 0:
        if instructions[index].is_jump_target and not _is_loop(instructions[index]):
            return False  # there are several ways to come here
        index -= 1
        before = instructions[index]
        if depth == 0 and before.opname in _MAKES_CONSTANT:
            return True
        found = _depth_before(before, depth)
        if found is None:
            return False
        depth = found
    return False


def _depth_before(instruction: dis.Instruction, depth: int) -> int | None:
    """Return how deep in the stack a value was before an instruction; None if unknown."""
    size = instruction.arg or 0
    if instruction.opname in _STORES:
        return depth + len(stored(instruction))
    if instruction.opname == "SWAP":
        return {0: size - 1, size - 1: 0}.get(depth, depth)
    if instruction.opname == "UNPACK_SEQUENCE":
        return max(depth - size + 1, 0)
    if _is_loop(instruction) or instruction.opname == "GET_ITER":
        return depth
    if instruction.opname == "COPY" and size == 1:
        return max(depth - 1, 0)
    is_load = instruction.opname in _LOADS or instruction.opname in _MAKES_CONSTANT
    return depth - 1 if is_load and depth else None


def _is_loop(instruction: dis.Instruction) -> bool:
    """Whether an instruction takes the next of what a loop is over."""
    return instruction.opname == "FOR_ITER"


_STORES = ("STORE_FAST", "STORE_DEREF", "STORE_FAST_STORE_FAST")
_MAKES_CONSTANT = ("LOAD_CONST", "LOAD_SMALL_INT")
_LOADS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_GLOBAL")
