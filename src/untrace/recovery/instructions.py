"""The instructions of code objects, read once for each, and looked up by place."""

from __future__ import annotations

import bisect
import dis
import types
from functools import cached_property

from untrace import jaxapi

Range = tuple[tuple[int, int], tuple[int, int]]
"""Where something begins and ends in the source: lines, and columns in bytes."""

Place = tuple[int | None, int | None, int | None, int | None]
"""First line, last line, first column and last column, in bytes."""

NOWHERE: Place = (None, None, None, None)

# A long argument is the next instruction's.
_NO_OPERATIONS = ("CACHE", "EXTENDED_ARG", "NOP")


class Listing:
    """What a code object is made of. Calls stand in it as often as it has statements, so
    nothing that is asked for a place looks at all of it.

    Attributes:
      instructions: Those that do something, without what `ranges` says: all that is kept
        of them would be more than what JAX makes of the function.
      offsets: Where each of them begins.
      ranges: Where each of them stands in the source; None where that is not known.
    """

    def __init__(self, code: types.CodeType) -> None:
        self._code = code
        self.instructions: list[dis.Instruction] = []
        self.ranges: list[Range | None] = []
        shortened = dis.Instruction._make  # a third of the time of `_replace`
        for one in dis.get_instructions(code):
            if one.opname not in _NO_OPERATIONS:
                self.instructions.append(shortened((*one[:_PLACE], *_NOTHING)))
                self.ranges.append(_range(one))
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

    def place_at(self, lasti: int) -> Place:
        """Return where the instruction at an offset stands, as far as that is known."""
        index = self.index_at(lasti)
        if index < 0:
            return NOWHERE
        where = self.ranges[index]
        if where is None:
            line = jaxapi.line_at(self._code, lasti)
            return line, line, None, None
        (line, column), (end_line, end_column) = where
        return line, end_line, column, end_column

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
# Where an instruction stands, and behind that in Python 3.13 what its caches hold.
_PLACE = dis.Instruction._fields.index("positions")
_NOTHING = (None,) * (len(dis.Instruction._fields) - _PLACE)
MAX_KNOWN = 4096
# By the `id` of the code: its hash would cost more than the look-up saves.
_KNOWN: dict[int, tuple[types.CodeType, Listing]] = {}
