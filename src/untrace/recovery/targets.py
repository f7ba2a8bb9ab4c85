"""Read from bytecode which names take a value: those of the assignment it is part of.

The value is followed on the stack, from the instruction after the one that made it to
the one that takes it: `a, b = f(x), g(y)` makes both values before it stores any.
"""

from __future__ import annotations

import bisect
import dis
import itertools
import types
from collections.abc import Iterator, Sequence

from untrace.recovery.instructions import instructions_of, listing_of
from untrace.recovery.record import RETURNED, Rest, Target, is_starred
from untrace.recovery.sites import once_per_site

_STORES = ("STORE_FAST", "STORE_NAME", "STORE_GLOBAL", "STORE_DEREF")
_DISPLAYS = ("BUILD_TUPLE", "BUILD_LIST")
# How many values instructions take from the stack; those that load take none.
_TAKEN = {
    **dict.fromkeys(("PUSH_NULL", "PRECALL", "KW_NAMES"), 0),
    **dict.fromkeys(_STORES, 1),
    **dict.fromkeys(("LOAD_ATTR", "LOAD_METHOD", "STORE_FAST_LOAD_FAST"), 1),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_NOT"), 1),
    **dict.fromkeys(("RETURN_VALUE", "UNPACK_SEQUENCE", "UNPACK_EX", "POP_TOP"), 1),
    **dict.fromkeys(("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP"), 2),
    **dict.fromkeys(("STORE_ATTR", "STORE_FAST_STORE_FAST"), 2),
    **dict.fromkeys(("BINARY_SLICE", "STORE_SUBSCR"), 3),
}
# The same, besides as many as their argument says.
_COUNTED = {
    **dict.fromkeys((*_DISPLAYS, "BUILD_SLICE"), 0),
    **{"BUILD_CONST_KEY_MAP": 1, "CALL": 2, "CALL_KW": 3},
}
_UNPACKING = ("UNPACK_SEQUENCE", "UNPACK_EX")
_AFTER_LOOPS = ("END_FOR", "POP_TOP", "POP_ITER")


def target(code: types.CodeType, lasti: int) -> Target:
    """Return the names that take the result of the instruction at `lasti`.

    `RETURNED` stands for a result that is returned at once; None for one that is used
    in an expression.
    """
    instructions, offsets = instructions_of(code)
    index = bisect.bisect_right(offsets, lasti)
    if _is_at(instructions, index - 1, _UNPACKING):
        return None  # see `elements`
    return target_at(instructions, index)


def target_at(
    instructions: Sequence[dis.Instruction], index: int, above: int = 0
) -> Target:
    """Return the names that take a value that is on the stack.

    Args:
      instructions: All of a function.
      index: The one that is next.
      above: How many values are on the stack above the one that is followed.
    """
    while index < len(instructions):
        instruction = instructions[index]
        name, count = instruction.opname, instruction.arg or 0
        taken = _taken(name, count)
        if name == "SWAP":
            above = {0: count - 1, count - 1: 0}.get(above, above)
        elif name == "COPY":  # a = b = ...
            above = 0 if above == count - 1 else above + 1
        elif taken is None:
            return None
        elif above < taken:
            return _taken_by(instructions, index, above)
        else:
            above += _growth(instruction, taken)
        index += 1
    return None


def _taken(name: str, count: int) -> int | None:
    """Return how many values an instruction takes; None if that is not known."""
    if name in _COUNTED:
        return _COUNTED[name] + count
    return _TAKEN.get(name, 0 if name.startswith("LOAD_") else None)


def _growth(instruction: dis.Instruction, taken: int) -> int:
    """Return by how much an instruction makes the stack grow."""
    if instruction.opname in _COUNTED:
        return 1 - taken
    if instruction.opname in ("PRECALL", "KW_NAMES"):
        return 0  # they are one with the call that follows
    return dis.stack_effect(instruction.opcode, instruction.arg)


def _taken_by(
    instructions: Sequence[dis.Instruction], index: int, above: int
) -> Target:
    """Return the names that an instruction gives to one of the values that it takes."""
    name, held = instructions[index].opname, instructions[index].argval
    count = instructions[index].arg or 0
    if name == "STORE_ATTR" and above == 1:
        return _attribute(instructions[index - 1], str(held))
    if name in _STORES:
        return str(held)
    if name in ("STORE_FAST_STORE_FAST", "STORE_FAST_LOAD_FAST"):
        return str(held[above])
    if name == "RETURN_VALUE":
        return RETURNED
    if name == "UNPACK_SEQUENCE":
        parts = [target_at(instructions, index + 1, part) for part in range(count)]
        return tuple(parts)
    if name == "UNPACK_EX":  # how many stand before and after the starred one
        n_before, n_after = count & 0xFF, count >> 8
        ways = range(n_before + 1 + n_after)
        found = [target_at(instructions, index + 1, part) for part in ways]
        rest = found[n_before]
        found[n_before] = Rest(rest) if isinstance(rest, str) else None
        return tuple(found) if isinstance(rest, str) else None
    if name in _DISPLAYS:
        around = target_at(instructions, index + 1)
        if isinstance(around, tuple) and 0 < len(around) == count:
            return around[count - 1 - above]
    return None


def _attribute(owner: dis.Instruction, name: str) -> str:
    """Name what is put into an attribute: `mean.value = x` gives a value to `mean`."""
    is_named = owner.opname.startswith("LOAD_") and isinstance(owner.argval, str)
    return owner.argval if name == "value" and is_named else name


def loop_variables(code: types.CodeType) -> frozenset[str]:
    """Return the variables that the loops of a function give values."""
    return _loop_variables(code, 0)


@once_per_site
def loops_around(code: types.CodeType, lasti: int) -> tuple[tuple[str, ...], ...]:
    """Return the variables of the loops and comprehensions around an instruction.

    Those of the innermost one are first.
    """
    listing = listing_of(code)
    begins = {begin for begin, end in listing.loops if begin <= lasti < end}
    return tuple(
        [
            _variables_at(
                listing.instructions, bisect.bisect_left(listing.offsets, begin)
            )
            for begin in sorted(begins, reverse=True)
        ]
    )


def _variables_at(
    instructions: Sequence[dis.Instruction], index: int
) -> tuple[str, ...]:
    """Return the variables of the loop that begins at an instruction."""
    if not _is_at(instructions, index, ("FOR_ITER",)):
        return ()
    return tuple(_leaves(target_at(instructions, index + 1)))


@once_per_site
def _loop_variables(code: types.CodeType, start: int) -> frozenset[str]:
    listing = listing_of(code)
    inside = [
        instruction
        for instruction in listing.instructions[start:]
        if instruction.opname.startswith(("STORE_FAST", "STORE_DEREF"))
        and any(begin <= instruction.offset <= end for begin, end in listing.loops)
    ]
    return frozenset(itertools.chain.from_iterable(map(stored, inside)))


def stored(instruction: dis.Instruction) -> tuple[str, ...]:
    """Return the variables that take what is on top of the stack, and below."""
    held = instruction.argval
    if instruction.opname == "STORE_FAST_STORE_FAST":
        return tuple(held)
    if instruction.opname == "STORE_FAST_LOAD_FAST":
        return (held[0],)
    return (held,) if instruction.opname in ("STORE_FAST", "STORE_DEREF") else ()


def _leaves(names: Target) -> Iterator[str]:
    for name in names if isinstance(names, tuple) else ():
        yield from _leaves(name)
    if isinstance(names, str):
        yield names


# ---- elements of what is unpacked -----------------------------------------------------


def elements(code: types.CodeType, lasti: int) -> tuple[Target, ...]:
    """Return the names of all that is unpacked, if the result is one of these.

    It is an element of a comprehension in the same code (Python 3.12), or the next item
    of an iterator: `i, j = map(jnp.array, pairs)`.
    """
    instructions, offsets = instructions_of(code)
    index = bisect.bisect_right(offsets, lasti)
    if _is_at(instructions, index - 1, _UNPACKING):
        return _unpacking(code, lasti)
    if not _is_at(instructions, index, ("LIST_APPEND",)):
        return ()
    while index < len(instructions) and instructions[index].opname != "END_FOR":
        index += 1
    while _is_at(instructions, index, _AFTER_LOOPS):
        index += 1
    return _several(target_at(instructions, index))


def element_names(
    frame: types.FrameType | None, parent: types.FrameType
) -> tuple[Target, ...]:
    """Return the names of all elements of a comprehension that `parent` unpacks.

    Args:
      frame: That of the comprehension, at the call that makes one of them.
      parent: That of the function around it.
    """
    if frame is None or frame.f_back is not parent or frame.f_code.co_name not in _MADE:
        return ()
    code = frame.f_code
    is_inside = any(constant is code for constant in parent.f_code.co_consts)
    if not is_inside or not _is_element(code, frame.f_lasti):
        return ()
    return _unpacking(parent.f_code, parent.f_lasti)


_MADE = {"<genexpr>": "YIELD_VALUE", "<listcomp>": "LIST_APPEND"}


@once_per_site
def _is_element(code: types.CodeType, lasti: int) -> bool:
    """Whether a comprehension makes an element of what the call returns."""
    instructions, offsets = instructions_of(code)
    index = bisect.bisect_right(offsets, lasti)
    return _is_at(instructions, index, (_MADE[code.co_name],))


@once_per_site
def _unpacking(code: types.CodeType, lasti: int) -> tuple[Target, ...]:
    """Return the names of what is unpacked at `lasti`, or made there and then unpacked."""
    instructions, offsets = instructions_of(code)
    index = bisect.bisect_right(offsets, lasti) - 1
    is_unpacking = _is_at(instructions, index, _UNPACKING)
    return _several(target_at(instructions, index if is_unpacking else index + 1))


def _several(found: Target) -> tuple[Target, ...]:
    if not isinstance(found, tuple) or any(map(is_starred, found)):
        return ()
    return found


def _is_at(
    instructions: Sequence[dis.Instruction], index: int, names: tuple[str, ...]
) -> bool:
    return 0 <= index < len(instructions) and instructions[index].opname in names
