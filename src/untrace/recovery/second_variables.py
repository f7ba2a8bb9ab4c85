"""Which variables of a function take what another one holds: `residual = x`, or its shape."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from untrace.recovery.instructions import instructions_of
from untrace.recovery.sites import once_per_site


@dataclass(frozen=True, slots=True)
class SecondVariable:
    """That a variable takes what another one holds, or the shape of that.

    Attributes:
      name: The one that takes it.
      first: The one that holds it.
      offset: The instruction at which that is done.
      path: What it takes of that: all, or `.shape`.
    """

    name: str
    first: str
    offset: int
    path: str = ""


def second_variables(code: types.CodeType) -> tuple[SecondVariable, ...]:
    """List the assignments of a function that do no more than that, in their order."""
    return _second_variables(code, 0)


@once_per_site
def _second_variables(code: types.CodeType, start: int) -> tuple[SecondVariable, ...]:
    return tuple(_found(code, start))


def _found(code: types.CodeType, start: int) -> Iterator[SecondVariable]:
    loaded = ""  # what is on top of the stack, if that is what a variable holds
    path = ""  # or its shape
    for instruction in instructions_of(code)[0][start:]:
        name, held = instruction.opname, instruction.argval
        is_store = name in ("STORE_FAST", "STORE_FAST_LOAD_FAST")
        is_load = name.startswith("LOAD_FAST") or name == "STORE_FAST_LOAD_FAST"
        if name == "LOAD_ATTR" and held == "shape" and loaded:
            path = ".shape"
            continue
        if not (is_store or is_load):  # what it holds may be any constant
            loaded = path = ""
            continue
        names: Sequence[str] = held if type(held) is tuple else (str(held),)
        if is_store and loaded and not instruction.is_jump_target:
            yield SecondVariable(names[0], loaded, instruction.offset, path)
        loaded, path = names[-1] if is_load else "", ""
