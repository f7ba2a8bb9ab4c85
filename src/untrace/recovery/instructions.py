"""The instructions of code objects, read once for each."""

from __future__ import annotations

import dis
import types


def instructions_of(code: types.CodeType) -> tuple[list[dis.Instruction], list[int]]:
    """Return the instructions of a code object, and where each of them begins."""
    known = _KNOWN.get(id(code))
    if known is not None and known[0] is code:
        return known[1]
    if len(_KNOWN) >= MAX_KNOWN:
        _KNOWN.clear()
    read = _read(code)
    _KNOWN[id(code)] = code, read
    return read


MAX_KNOWN = 4096
# By the `id` of the code: its hash would cost more than the look-up saves.
_KNOWN: dict[int, tuple[types.CodeType, tuple[list[dis.Instruction], list[int]]]] = {}


def _read(code: types.CodeType) -> tuple[list[dis.Instruction], list[int]]:
    found = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "NOP")]
    return found, [instruction.offset for instruction in found]
