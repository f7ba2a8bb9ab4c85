"""Regions: the equations that compute a value from some others, and what they look like.

A region ends in its root. It grows by the latest equation that it needs: the operands of
a call were computed before the call's own equations, so the region of a call is reached
by steps of one equation.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Literal, Value

# Equations that come and go with shapes and dtypes; they say little of what is computed.
_NEUTRAL = """broadcast_in_dim reshape squeeze expand_dims convert_element_type transpose
copy copy_p stop_gradient pvary"""
NEUTRAL = frozenset(_NEUTRAL.split())
MAX_COMPARED = 16
"""Equations of a block that is compared with others; of a longer one, its identity is."""
_PLAIN = (bool, int, str, enum.Enum, np.bool_, np.integer)
CALLS = {"jit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr"}


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Equations that end in a root.

    Attributes:
      equations: In program order; the root is the last.
      inputs: What they read from outside, in the order of first use.
    """

    equations: tuple[Equation, ...]
    inputs: tuple[Value, ...]

    @property
    def root(self) -> Equation:
        """Return the equation whose results the region computes."""
        return self.equations[-1]

    def flat(self) -> Iterator[Equation]:
        """List the equations, those of plain calls in the place of the call."""
        return flattened(self.equations)


def flattened(equations: tuple[Equation, ...]) -> Iterator[Equation]:
    """List equations, those of plain calls in the place of the call."""
    for eqn in equations:
        inner = called(eqn)
        if inner is None:
            yield eqn
        else:
            yield from flattened(inner.equations)


def called(eqn: Equation) -> Block | None:
    """Return what a plain call calls."""
    block = eqn.params.get(CALLS.get(eqn.name, ""))
    return block if isinstance(block, Block) else None


def regions(
    root: Equation, producers: Mapping[Value, int], equations: list[Equation], size: int
) -> Iterator[tuple[Region, int]]:
    """List the regions that end in a root, smallest first, each with its look.

    Args:
      root: The last equation.
      producers: The position of the equation that makes a value.
      equations: Of the block.
      size: How many equations a region may have.
    """
    last = producers[next(v for v in root.results if v is not None)]
    taken = [last]
    look = looks(root)
    open_values = {v for v in root.operands if type(v) is Value}
    while True:
        chosen = sorted(taken)
        members = tuple([equations[i] for i in chosen])
        yield Region(members, _inputs(members)), look_key(look, root)
        next_at = max((producers.get(v, -1) for v in open_values), default=-1)
        if next_at < 0 or len(taken) >= size:
            return
        eqn = equations[next_at]
        if eqn.effects or is_in_place(eqn):
            return
        taken.append(next_at)
        look += looks(eqn)
        open_values.difference_update(eqn.results)
        open_values.update(v for v in eqn.operands if type(v) is Value)


def is_in_place(eqn: Equation) -> bool:
    """Return whether an equation calls what is in the place of a library's function."""
    block = called(eqn)
    return block is not None and block.original is not None


def _inputs(equations: tuple[Equation, ...]) -> tuple[Value, ...]:
    made = {value for eqn in equations for value in eqn.results}
    read = [v for eqn in equations for v in eqn.operands if type(v) is Value]
    return tuple(dict.fromkeys(v for v in read if v not in made))


# ---- looks -------------------------------------------------------------------------


def looks(eqn: Equation) -> int:
    """Return a number that tells which primitives an equation applies, in any order."""
    inner = called(eqn)
    if inner is not None:
        return _looks_of(inner)
    if eqn.name in NEUTRAL:
        return 0
    return _number(eqn.name + function_with_rules(eqn))


@functools.lru_cache(maxsize=1024)
def _looks_of(block: Block) -> int:
    return sum(map(looks, live(block)))


def look_of(block: Block) -> int:
    """Return the look of a whole program."""
    equations = live(block)
    return look_key(_looks_of(block), equations[-1]) if equations else 0


def meanings(block: Block) -> tuple[int, ...]:
    """Return a number for each result of a program, by what computes it.

    Programs that are equal as data flow have the same numbers; others may have them, too,
    where only the proof can tell.
    """
    return _numbered(block, tuple(range(len(block.inputs))))


@functools.lru_cache(maxsize=1024)
def _numbered(block: Block, inputs: tuple[int, ...]) -> tuple[int, ...]:
    numbers: dict[Any, int] = dict(zip(block.inputs, inputs))
    numbers.update((v, _constant(held, v.aval)) for v, held in block.constants)

    def number(atom: Atom) -> int:
        is_literal = isinstance(atom, Literal)
        return _constant(atom.value, atom.aval) if is_literal else numbers[atom]

    for eqn in block.equations:
        operands, inner = tuple(map(number, eqn.operands)), called(eqn)
        made = _made(eqn, operands) if inner is None else _numbered(inner, operands)
        numbers.update((v, n) for v, n in zip(eqn.results, made) if v is not None)
    return tuple(map(number, block.outputs))


def _made(eqn: Equation, operands: tuple[int, ...]) -> list[int]:
    """Number the results of an equation; blocks may be given what they do not need."""
    key: tuple[Any, ...] = (eqn.name,)
    if not any(map(_holds_block, eqn.params.values())):
        params = [(name, _plain(param)) for name, param in eqn.params.items()]
        key = eqn.name, operands, tuple(sorted(params))
    return [hash((key, i)) for i in range(len(eqn.results))]


def _holds_block(param: Any) -> bool:
    is_sequence = isinstance(param, (tuple, list))
    return any(map(_holds_block, param)) if is_sequence else isinstance(param, Block)  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def _plain(param: Any) -> str:
    """Write a param of numbers and words; what may be equal in other ways is left out."""
    if isinstance(param, (tuple, list)):
        return f"({','.join(map(_plain, param))})"  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]
    is_plain = param is None or isinstance(param, _PLAIN)
    return str(param) if is_plain else ""


def _constant(value: Any, aval: Any) -> int:
    """Number a constant by the number that it is, if it is one and nothing changes it."""
    is_number = isinstance(
        value, (np.generic, np.ndarray, jax.Array, int, float, complex)
    )
    if not is_number or isinstance(value, jaxapi.Tracer | jaxapi.Ref):
        return -1
    if aval.shape or not isinstance(aval.dtype, np.dtype):
        return -1
    return hash(repr(np.asarray(value, aval.dtype).item()))


def live(block: Block) -> list[Equation]:
    """List the equations of a block that its results need."""
    needed = {value for value in block.outputs if type(value) is Value}
    found: list[Equation] = []
    for eqn in reversed(block.equations):
        if needed.isdisjoint(value for value in eqn.results if value is not None):
            continue
        found.append(eqn)
        needed.update(_read(eqn))
    return found[::-1]


def _read(eqn: Equation) -> Iterator[Value]:
    for atom in eqn.operands:
        if type(atom) is Value:
            yield atom


def function_with_rules(eqn: Equation) -> str:
    """Return the name of the function with derivative rules that is called, or ""."""
    if eqn.name not in ("custom_jvp_call", "custom_vjp_call"):
        return ""
    block = eqn.params.get("call_jaxpr")
    return str(getattr(getattr(block, "debug_info", None), "func_name", "") or "")


def look_key(look: int, root: Equation) -> int:
    """Return the look of a region: that of its root if it only moves elements."""
    return look or _number(tail(root))


def tail(eqn: Equation) -> str:
    """Return the name of the primitive that makes the results of an equation."""
    inner = called(eqn)
    if inner is None or not inner.equations:
        return eqn.name
    return tail(inner.equations[-1])


@functools.cache
def _number(name: str) -> int:
    return hash((name, "look"))


# ---- signatures --------------------------------------------------------------------


def signature(region: Region) -> Any:
    """Return what two regions share if one line fits both; None if it cannot be told."""
    numbers: dict[Any, int] = {v: i for i, v in enumerate(region.inputs)}
    parts: list[Any] = [tuple([str(v.aval) for v in region.inputs])]
    return (*parts, *_equation_keys(region.equations, numbers))


def _equation_keys(
    equations: tuple[Equation, ...], numbers: dict[Any, int]
) -> Iterator[Any]:
    """Yield what tells equations from others; their results get numbers."""
    for eqn in equations:
        operands = tuple([_operand(atom, numbers) for atom in eqn.operands])
        for value in eqn.results:
            if value is not None:
                numbers[value] = len(numbers)
        used = tuple([value is not None for value in eqn.results])
        types = tuple([str(aval) for aval in eqn.result_avals])
        context = id(eqn.context)
        yield eqn.name, operands, used, types, _params(eqn.params), context


@functools.lru_cache(maxsize=1024)
def _block_key(block: Block) -> Any:
    """Return what tells a block from others: all of it if it is small, such as `_where`."""
    if len(block.equations) > MAX_COMPARED or block.constants or block.effects:
        return id(block)
    numbers: dict[Any, int] = {v: i for i, v in enumerate(block.inputs)}
    name = str(getattr(block.debug_info, "func_name", ""))
    return (
        (name, block.is_closed, id(block.original)),
        tuple([str(v.aval) for v in block.inputs]),
        *_equation_keys(block.equations, numbers),
        tuple([_operand(atom, numbers) for atom in block.outputs]),
    )


def _operand(atom: Atom, numbers: dict[Any, int]) -> Any:
    if isinstance(atom, Literal):
        return (str(atom.aval), repr(atom.value))
    return numbers[atom]


def _params(params: Mapping[str, Any]) -> Any:
    return tuple([(key, _param(value)) for key, value in params.items()])


def _param(value: Any) -> Any:
    if isinstance(value, Block):
        return _block_key(value)
    if isinstance(value, tuple):
        return tuple([_param(item) for item in value])  # pyright: ignore[reportUnknownVariableType,reportUnknownArgumentType]
    if isinstance(value, (bool, int, float, complex)):
        return repr(value)
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
