"""Read from bytecode what surrounds a call: the names it is assigned to, its spelling.

`frame.f_lasti` of a caller points at the instruction that is being executed; the
instructions after it say what happens to the result.
"""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from untrace import jaxapi
from untrace.recovery.instructions import (
    Listing,
    Range,
    instructions_of,
    listing_of,
)
from untrace.recovery.record import (
    RETURNED,
    Place,
    Spelling,
    Target,
    is_library,
    is_starred,
)
from untrace.recovery.sites import once_per_site
from untrace.recovery.targets import elements, loops_around, target, target_at


class Site(NamedTuple):
    """What surrounds a call, as far as the code tells.

    Attributes:
      place: Where it is.
      loops: The variables of the loops around it, those of the innermost one first.
      target: The names that take its result.
      elements: Those of all elements if it makes one of what is unpacked.
      spelling: How its arguments are written.
      is_starred: Whether some are given with a star.
      lasti: The instruction that is being executed.
    """

    place: Place
    loops: tuple[tuple[str, ...], ...]
    target: Target
    elements: tuple[Target, ...]
    spelling: Spelling | None
    is_starred: bool
    lasti: int

    @property
    def literals(self) -> frozenset[tuple[type, float]]:
        """The numbers that stand there as operands or arguments, with their types, if
        nothing but these and variables does. Few calls are asked for them.
        """
        return _literals(self.place.code, self.lasti)

    @property
    def is_library(self) -> bool:
        """Whether it is in an installed library."""
        return is_library(self.place.code)


@once_per_site
def site(code: types.CodeType, lasti: int) -> Site:
    """Return what surrounds the call at `lasti`."""
    loops = loops_around(code, lasti)
    innermost = loops[0] if loops else None
    listing = listing_of(code)
    start = listing.start_at(lasti)
    where = code.co_filename, jaxapi.line_at(code, lasti), start, code.co_qualname
    return Site(
        Place(*where, innermost, len(loops), code),
        loops,
        target(code, lasti),
        elements(code, lasti),
        spelling(code, lasti),
        _is_starred(code, lasti),
        lasti,
    )


def spelling(code: types.CodeType, lasti: int) -> Spelling | None:
    """Return how the arguments of the call at `lasti` are written, if that is plain."""
    listing = listing_of(code)
    instructions, index = listing.instructions, listing.index_at(lasti)
    if index < 0:
        return None
    call = instructions[index]
    keywords: tuple[str, ...] = ()
    if call.opname == "CALL_KW":  # Python 3.13: the names are on the stack
        loaded = instructions[index - 1].argval
        keywords = loaded if isinstance(loaded, tuple) else ()
    elif call.opname in ("CALL", "PRECALL"):
        before = index - 1
        while before >= 0 and instructions[before].opname in ("PRECALL", "CACHE"):
            before -= 1
        if before >= 0 and instructions[before].opname == "KW_NAMES":
            argument = instructions[before].arg or 0
            keywords = code.co_consts[argument]
    else:
        return None
    return Spelling((call.arg or 0) - len(keywords), keywords)


def _is_starred(code: types.CodeType, lasti: int) -> bool:
    listing = listing_of(code)
    index = listing.index_at(lasti)
    return index >= 0 and listing.instructions[index].opname == "CALL_FUNCTION_EX"


@once_per_site
def _literals(code: types.CodeType, lasti: int) -> frozenset[tuple[type, float]]:
    """Return the numbers that the call or operation at `lasti` is given literally."""
    found = _at(code, lasti)
    if found is None:
        return frozenset()
    listing, last, where = found
    operands = _operands(listing, where)
    names = {operand.opname for operand in operands if operand is not last}
    if not all(name.startswith("LOAD_") or name in _BEFORE_CALLS for name in names):
        return frozenset()
    held = [operand.argval for operand in operands if operand.opname in _CONSTANTS]
    return frozenset([(type(v), v) for v in held if type(v) in (int, float)])


_BEFORE_CALLS = ("CACHE", "EXTENDED_ARG", "KW_NAMES", "PRECALL", "PUSH_NULL")


def has_slice(code: types.CodeType) -> bool:
    """Whether a function takes slices of anything."""
    return any(
        one.opname in ("BUILD_SLICE", "BINARY_SLICE") or isinstance(one.argval, slice)
        for one in instructions_of(code)[0]
    )


@dataclass(frozen=True, slots=True)
class TakenSize:
    """A variable that takes a size of what another holds.

    Attributes:
      owner: The other variable.
      is_local: It was assigned to before, and only once; else it is as it was at first.
      axis: Which size.
      name: The variable that takes it.
    """

    owner: str
    is_local: bool
    axis: int
    name: str


def taken_sizes(code: types.CodeType) -> Iterator[TakenSize]:
    """Yield the variables that take sizes, where it is certain of what.

    Read are `a, b = x.shape`, `a, b = x.shape[:2]` and `a = x.shape[-1]`.
    """
    instructions, _ = instructions_of(code)
    stored = _stored(instructions)
    for index, instruction in enumerate(instructions[1:], 1):
        before = instructions[index - 1]
        if instruction.opname != "LOAD_ATTR" or instruction.argval != "shape":
            continue
        if not before.opname.startswith(_VARIABLES):
            continue
        names = before.argval
        owner = str(names[-1] if isinstance(names, tuple) else names)
        places = stored.get(owner, [])
        is_local = any(place < index for place in places)
        if is_local and len(places) > 1:
            continue
        for axis, name in _sizes(instructions, index + 1):
            yield TakenSize(owner, is_local, axis, name)


def _stored(instructions: list[dis.Instruction]) -> dict[str, list[int]]:
    """Return where each variable is assigned to."""
    places: dict[str, list[int]] = {}
    for index, instruction in enumerate(instructions):
        if instruction.opname.startswith("STORE_"):
            names = instruction.argval
            for name in names if isinstance(names, tuple) else (names,):
                places.setdefault(str(name), []).append(index)
    return places


def _sizes(
    instructions: list[dis.Instruction], index: int
) -> Iterator[tuple[int, str]]:
    """Yield axes and names from the instructions after `x.shape`."""
    constants: list[object] = []
    while index < len(instructions) and instructions[index].opname in _CONSTANTS:
        constants.append(instructions[index].argval)
        index += 1
    while index < len(instructions) and instructions[index].opname in _SUBSCRIPTS:
        index += 1
    found = target_at(instructions, index)
    match constants:
        case [int(axis)] if isinstance(found, str):
            targets: list[tuple[int, Target]] = [(axis, found)]
        case [] | [None, int()] | [0, int()] | [slice(start=None, step=None)]:
            targets = _counted(found) if isinstance(found, tuple) else []
        case _:
            targets = []
    for axis, name in targets:
        if isinstance(name, str) and name != RETURNED and name.strip("_"):
            yield axis, name


def _counted(targets: tuple[Target, ...]) -> list[tuple[int, Target]]:
    """Return which element each name takes; behind `*rest` they are counted from the end."""
    first = [i for i, name in enumerate(targets) if is_starred(name)]
    last = first[0] if first else len(targets)
    return [
        (i if i < last else i - len(targets), name)
        for i, name in enumerate(targets)
        if i != last
    ]


_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_SUBSCRIPTS = ("BUILD_SLICE", "BINARY_SLICE", "BINARY_SUBSCR", "BINARY_OP")


@dataclass(frozen=True, slots=True)
class Chain:
    """A variable that is loaded, and the attributes taken from there."""

    path: tuple[str, ...]
    is_global: bool


@once_per_site
def loads(code: types.CodeType, lasti: int) -> tuple[Chain, ...]:
    """Return what is loaded by the expression that the instruction at `lasti` completes.

    What operations and calls inside of it load is left out.
    """
    return tuple(_loads(code, lasti))


def _loads(code: types.CodeType, lasti: int) -> Iterator[Chain]:
    found = _at(code, lasti)
    if found is None:
        return
    listing, last, where = found
    chain = _loaded_before(listing, where)
    for instruction in _operands(listing, where):
        if instruction is last:
            break  # `.T`, which is taken of what was loaded
        if chain is not None and instruction.opname in ("LOAD_ATTR", "LOAD_METHOD"):
            chain = Chain((*chain.path, str(instruction.argval)), chain.is_global)
            continue
        if chain is not None:
            yield chain
        chain = None
        if instruction.opname.startswith(_VARIABLES):
            names = instruction.argval
            *before, name = names if isinstance(names, tuple) else (names,)
            yield from (Chain((other,), False) for other in before)
            chain = Chain((name,), instruction.opname == "LOAD_GLOBAL")
    if chain is not None:
        yield chain


def _at(
    code: types.CodeType, lasti: int
) -> tuple[Listing, dis.Instruction, Range] | None:
    """Return all instructions, the one at `lasti`, and where its expression stands."""
    listing = listing_of(code)
    index = listing.index_at(lasti)
    where = listing.ranges[index] if index >= 0 else None
    return None if where is None else (listing, listing.instructions[index], where)


def _loaded_before(listing: Listing, where: Range) -> Chain | None:
    """Return what an instruction before an expression loads for it.

    One that loads two variables, or assigns one and loads another, stands where the first
    of them does (Python 3.13).
    """
    first = next(iter(listing.inside(where)), 0)
    before = listing.instructions[first - 1] if first else None
    if before is None or not isinstance(before.argval, tuple):
        return None
    is_load = before.opname in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST")
    return Chain((before.argval[-1],), False) if is_load else None


def _operands(listing: Listing, where: Range) -> list[dis.Instruction]:
    """List the instructions of an expression, without those of operations inside."""
    found = [
        (listing.instructions[i], listing.ranges[i]) for i in listing.inside(where)
    ]
    inside = [(i, r) for i, r in found if r is not None]
    inner = {r for i, r in inside if r != where and i.opname.startswith(_OPERATIONS)}
    return [i for i, r in inside if not any(_is_in(r, other) for other in inner)]


def _is_in(inner: Range, outer: Range) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


_OPERATIONS = ("CALL", "BINARY", "COMPARE", "UNARY")
_VARIABLES = ("LOAD_FAST", "LOAD_NAME", "LOAD_GLOBAL", "LOAD_DEREF")
