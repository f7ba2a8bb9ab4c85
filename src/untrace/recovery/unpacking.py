"""Which variables, and parts of them, a function unpacks: `w, b = params["dense"]`."""

from __future__ import annotations

import bisect
import dis
import functools
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.optional import makes, optional
from untrace.recovery.instructions import instructions_of
from untrace.recovery.record import RETURNED, Target
from untrace.recovery.sites import once_per_site
from untrace.recovery.targets import loops_around, target_at
from untrace.syntax.steps import Attribute, Item, Path, Slice, Step, taken

_CONSTANTS = ("LOAD_CONST", "LOAD_SMALL_INT")
_SKIPPED = ("CACHE", "RESUME")


class Unpacked(NamedTuple):
    """A variable, or a part of it, that is unpacked.

    Attributes:
      variable: Its name.
      path: The keys that lead to the part; the last step may be a slice.
      target: The names that take what is in it.
      line: Where that is.
      in_loop: Whether it stands in a loop of the function.
    """

    variable: str
    path: Path
    target: tuple[Target, ...]
    line: int
    in_loop: bool

    def of(self, value: Any) -> Any:
        """Return the part of what the variable holds; None if there is none."""
        for step in self.path:
            if type(value) is not dict and type(value) not in (tuple, list):
                return None
            try:
                value = taken(value, step)
            except (IndexError, KeyError, TypeError):
                return None
        return value


@optional(makes(tuple))
@functools.lru_cache(maxsize=1024)
def unpacked(code: types.CodeType) -> Sequence[Unpacked]:
    """Return what a function unpacks of its parameters and closure, each part once."""
    parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return _once(
        one
        for one, n_stores, _ in _unpacked(code)
        if n_stores == 0 and one.variable in (*parameters, *code.co_freevars)
    )


@optional(makes(tuple))
@functools.lru_cache(maxsize=1024)
def unpacked_locals(code: types.CodeType) -> Sequence[Unpacked]:
    """Return what a function unpacks of variables that it gave a value once, before."""
    return _once(
        one for one, n_stores, n_all in _unpacked(code) if n_stores == n_all == 1
    )


@optional(makes(dict))
@functools.lru_cache(maxsize=1024)
def named_parts(code: types.CodeType) -> Mapping[str, Path]:
    """Return the variables that are a part of another one, `w = params["w"]`, and which."""
    instructions = [i for i in instructions_of(code)[0] if i.opname not in _SKIPPED]
    stores = Counter(name for one in instructions for name in _stored(one))
    found: dict[str, Path] = {}
    for index, instruction in enumerate(instructions):
        names = _stored(instruction)
        way = _source(instructions, index)[1] if len(names) == 1 else ()
        if way and stores[names[0]] == 1 and all(map(_is_word, way)):
            found[names[0]] = way
    return found


def _once(found: Iterable[Unpacked]) -> tuple[Unpacked, ...]:
    """Leave out what is unpacked again."""
    known: dict[Any, Unpacked] = {}
    for one in found:
        known.setdefault(one[:2], one)
    return tuple(known.values())


def _unpacked(code: types.CodeType) -> Iterator[tuple[Unpacked, int, int]]:
    """Yield what is unpacked, and how often its variable was given a value: before, at all."""
    instructions = [i for i in instructions_of(code)[0] if i.opname not in _SKIPPED]
    stores = Counter(name for one in instructions for name in _stored(one))
    before = Counter[str]()
    for index, instruction in enumerate(instructions):
        for name in _stored(instruction):
            before[name] += 1
        if instruction.opname not in ("UNPACK_SEQUENCE", "UNPACK_EX"):
            continue
        name, path = _source(instructions, index)
        is_of_keys = not any(type(step) is Attribute for step in path)
        target = target_at(instructions, index) if name and is_of_keys else None
        if isinstance(target, tuple):
            line = jaxapi.line_at(code, instruction.offset)
            in_loop = bool(loops_around(code, instruction.offset))
            one = Unpacked(name, path, target, line, in_loop)
            yield one, before[name], stores[name]


def _stored(instruction: dis.Instruction) -> tuple[str, ...]:
    """Return the variables that an instruction gives a value."""
    if not instruction.opname.startswith("STORE_"):
        return ()
    is_loaded = "LOAD_" in instruction.opname  # the other one
    return _variables(instruction)[: 1 if is_loaded else None]


def _is_word(step: Step) -> bool:
    """Whether a step is an attribute or a key that is a string."""
    return type(step) is Attribute or (type(step) is Item and type(step.key) is str)


def _source(instructions: Sequence[dis.Instruction], end: int) -> tuple[str, Path]:
    """Return the variable, and the path from there, that is on the stack before an end."""
    path: list[Step] = []
    while end > 0:
        last = instructions[end - 1]
        if "LOAD_FAST" in last.opname or last.opname == "LOAD_DEREF":
            return _variables(last)[-1], tuple(reversed(path))
        if last.opname == "LOAD_ATTR" and "NULL" not in last.argrepr:
            path.append(Attribute(str(last.argval)))
            end -= 1
            continue
        taken = _key(instructions[:end])
        if taken is None:
            break
        key, n_instructions = taken
        path.append(_step(key))
        end -= n_instructions
    return "", ()


@once_per_site
def part_taken(code: types.CodeType, lasti: int) -> tuple[Path, str]:
    """Return which part of a result a variable takes at once: `i = jnp.where(x)[0]`.

    Args:
      code: That of a function.
      lasti: The instruction that makes the result.

    Returns:
      The path of constant keys to the part, and the variable; none and "" if the result
      is used in another way.
    """
    instructions, offsets = instructions_of(code)
    index = bisect.bisect_right(offsets, lasti)
    path: list[Step] = []
    while taken := _key(instructions[index : index + 2]):
        path.append(_step(taken[0]))
        index += 2
    name = target_at(instructions, index) if path else None
    if not isinstance(name, str) or name in (RETURNED, "_"):
        return (), ""
    return tuple(path), name


def _variables(instruction: dis.Instruction) -> tuple[str, ...]:
    """Return the variables of an instruction, which may load and store several."""
    names = instruction.argval
    return names if isinstance(names, tuple) else (str(names),)


def _step(key: Any) -> Step:
    is_slice = isinstance(key, slice)
    return Slice(key.start, key.stop, key.step) if is_slice else Item(key)


def _key(instructions: Sequence[dis.Instruction]) -> tuple[Any, int] | None:
    """Return the constant key by which the last instructions take a part, and their number."""
    *before, last = instructions
    is_part = last.opname == "BINARY_SUBSCR" or (
        last.opname == "BINARY_OP" and last.argrepr == "[]"
    )
    if last.opname == "BINARY_SLICE":
        ends = _constants(before[-2:])
        return (slice(*ends), 3) if ends else None
    if not is_part or not before:
        return None
    if before[-1].opname == "BUILD_SLICE":
        n_ends = before[-1].arg or 0
        ends = _constants(before[-1 - n_ends : -1])
        return (slice(*ends), n_ends + 2) if ends else None
    key = _constants(before[-1:])
    return (key[0], 2) if key else None


def _constants(instructions: Sequence[dis.Instruction]) -> list[Any] | None:
    """Return the constants that instructions load; None if they do anything else."""
    if all(one.opname in _CONSTANTS for one in instructions):
        return [one.argval for one in instructions]
    return None
