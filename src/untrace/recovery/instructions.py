"""The instructions of code objects, read once for each, and looked up by place."""

from __future__ import annotations

import bisect
import dis
import types
from functools import cached_property

Range = tuple[tuple[int, int], tuple[int, int]]
"""Where something begins and ends in the source: lines, and columns in bytes."""

# A long argument is the next instruction's.
_NO_OPERATIONS = ("CACHE", "EXTENDED_ARG", "NOP")


class Listing:
    """What a code object is made of. Calls stand in it as often as it has statements, so
    nothing that is asked for a place looks at all of it.

    Attributes:
      instructions: Those that do something.
      offsets: Where each of them begins.
    """

    def __init__(self, code: types.CodeType) -> None:
        self._code = code
        found = dis.get_instructions(code)
        self.instructions = [i for i in found if i.opname not in _NO_OPERATIONS]
        self.offsets = [instruction.offset for instruction in self.instructions]

    def index_at(self, lasti: int) -> int:
        """Return the number of the instruction at an offset; -1 before the first."""
        return bisect.bisect_right(self.offsets, lasti) - 1

    def start_at(self, lasti: int) -> int:
        """Return where the instruction at an offset begins.

        A call of compiled code stops at another part of its instructions than one of a
        function of Python.
        """
        index = self.index_at(lasti)
        if index >= 0 and self.instructions[index].opname == "PRECALL":
            index += 1
        return self.offsets[index] if index >= 0 else lasti

    def line_at(self, lasti: int) -> int:
        """Return the line of an offset, as `f_lineno` does."""
        starts, lines = self._lines
        index = bisect.bisect_right(starts, lasti) - 1
        return (lines[index] if index >= 0 else None) or self._code.co_firstlineno

    def inside(self, where: Range) -> list[int]:
        """List the instructions that stand in a range of the source, in their order."""
        starts, order = self._by_start
        first = bisect.bisect_left(starts, where[0])
        last = bisect.bisect_right(starts, where[1])
        ends = self.ranges
        return sorted(
            i
            for i in order[first:last]
            if (r := ends[i]) is not None and r[1] <= where[1]
        )

    @cached_property
    def ranges(self) -> list[Range | None]:
        """Where each instruction stands in the source; None where that is not known."""
        return [_range(instruction) for instruction in self.instructions]

    @cached_property
    def positions(self) -> list[tuple[int | None, int | None, int | None, int | None]]:
        """First and last line, first and last column of each two bytes of the code."""
        return list(self._code.co_positions())

    @cached_property
    def free(self) -> frozenset[str]:
        """The variables that the code closes over; Python lists them anew each time."""
        return frozenset(self._code.co_freevars)

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names that are no globals."""
        return self.free | {*self._code.co_varnames, *self._code.co_cellvars}

    @cached_property
    def loops(self) -> list[tuple[int, int]]:
        """The offsets at which loops begin and end: those of the jumps back."""
        jumps = [
            i
            for i in self.instructions
            if i.opname.startswith(("JUMP_BACKWARD", "POP_JUMP_BACKWARD"))
        ]
        return [(int(jump.argval), jump.offset) for jump in jumps]

    @cached_property
    def copies_dicts(self) -> bool:
        """Whether there may be a dict that is made of another one: `{**state, "t": t}`."""
        return any(map(_may_copy_dict, self.instructions))

    @cached_property
    def _by_start(self) -> tuple[list[tuple[int, int]], list[int]]:
        """Where instructions begin in the source, sorted, and which these are."""
        known = [(r[0], i) for i, r in enumerate(self.ranges) if r is not None]
        known.sort()
        return [start for start, _ in known], [i for _, i in known]

    @cached_property
    def _lines(self) -> tuple[list[int], list[int | None]]:
        runs = list(self._code.co_lines())
        return [first for first, _, _ in runs], [line for _, _, line in runs]


def _may_copy_dict(instruction: dis.Instruction) -> bool:
    operation, operand = instruction.opname, instruction.argval
    if operation == "BINARY_OP":
        return instruction.argrepr.rstrip("=") == "|"
    if operation == "LOAD_GLOBAL":
        return bool(operand == "dict")
    is_attribute = operation in ("LOAD_ATTR", "LOAD_METHOD")
    return operation == "DICT_UPDATE" or (is_attribute and operand in _COPYING)


def _range(instruction: dis.Instruction) -> Range | None:
    found = instruction.positions
    if found is None:
        return None
    numbers = (found.lineno, found.col_offset, found.end_lineno, found.end_col_offset)
    if any(number is None for number in numbers):  # Python was told to leave them out
        return None
    line, column, end_line, end_column = (number or 0 for number in numbers)
    return (line, column), (end_line, end_column)


def listing_of(code: types.CodeType) -> Listing:
    """Return what a code object is made of."""
    known = _KNOWN.get(id(code))
    if known is not None and known[0] is code:
        return known[1]
    if len(_KNOWN) >= MAX_KNOWN:
        _KNOWN.clear()
    read = Listing(code)
    _KNOWN[id(code)] = code, read
    return read


def instructions_of(code: types.CodeType) -> tuple[list[dis.Instruction], list[int]]:
    """Return the instructions of a code object, and where each of them begins."""
    listing = listing_of(code)
    return listing.instructions, listing.offsets


_COPYING = frozenset({"copy", "update"})
MAX_KNOWN = 4096
# By the `id` of the code: its hash would cost more than the look-up saves.
_KNOWN: dict[int, tuple[types.CodeType, Listing]] = {}
