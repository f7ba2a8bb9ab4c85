"""The sub-programs of two equations: which stand for each other, over which inputs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from untrace import jaxapi
from untrace.interpreters.comparing.matching import Matching
from untrace.interpreters.comparing.reasons import Reason, type_reason
from untrace.interpreters.comparing.sides import input_count
from untrace.ir import Block, Equation
from untrace.printable import printable


def holds_block(eqn: Equation, name: str) -> bool:
    """Whether a param of an equation is a sub-program, or holds some."""
    param = eqn.params.get(name)
    items: Any = param if isinstance(param, tuple) else (param,)
    return any(isinstance(item, Block) for item in items)


def block_pairs(
    eqn: Equation, twin: Equation, name: str
) -> Iterator[tuple[str, Block, Block]]:
    """The sub-programs in a param of two equations, as far as they stand for each other."""
    param, other = eqn.params.get(name), twin.params.get(name)
    if isinstance(param, Block) and isinstance(other, Block):
        yield name, param, other
    elif isinstance(param, tuple) and isinstance(other, tuple):
        names = getattr(param, "_fields", None)
        items: list[Any] = list(param)  # pyright: ignore[reportUnknownArgumentType]
        mates: list[Any] = list(other)  # pyright: ignore[reportUnknownArgumentType]
        if len(items) != len(mates):
            return
        for k, (item, mate) in enumerate(zip(items, mates)):
            if isinstance(item, Block) and isinstance(mate, Block):
                step = f".{names[k]}" if names else f"[{k}]"
                yield f"{name}{step}", item, mate


def sub_program_reason(eqn: Equation, twin: Equation) -> Reason:
    """Say in what sub-programs differ that have the same statements."""
    for name in eqn.params:
        for step, block, mate in block_pairs(eqn, twin, name):
            if len(block.inputs) != len(mate.inputs):
                n_inputs = f"{len(block.inputs)} inputs, now {len(mate.inputs)}"
                return Reason("input", printable(f"`{step}` had {n_inputs}"))
            for k, (value, other) in enumerate(zip(block.inputs, mate.inputs)):
                if str(value.aval) != str(other.aval):
                    what = f"input {k} of `{step}`"
                    return type_reason(what, value.aval, other.aval)
        param, other = eqn.params[name], twin.params.get(name)
        if isinstance(param, tuple) and isinstance(other, tuple):
            n, m = len(param), len(other)  # pyright: ignore[reportUnknownArgumentType]
            if n != m and holds_block(eqn, name):
                return Reason("param", printable(f"`{name}`: {n} became {m}"))
    return Reason("param", "the sub-programs differ")


def inner_inputs(
    found: Matching, index: int, other: int, name: str, block: Block, mate: Block
) -> dict[int, int]:
    """The input of a sub-program that each of its partner is.

    Where one of them has more, those are the same that are given the same values.
    """
    n, m = input_count(block), input_count(mate)
    if n == m:
        return {k: k for k in range(n)}
    eqn = found.before.block.equations[index]
    twin = found.after.block.equations[other]
    mine, theirs = found.before.operands[index], found.after.operands[other]
    given = [_given(eqn, name, k, n) for k in range(n)]
    others = [_given(twin, name, k, m) for k in range(m)]
    pairs: dict[int, int] = {}
    free = [k for k, at in enumerate(others) if at is not None and at < len(theirs)]
    for k, at in enumerate(given):
        for taken in free:
            where = others[taken]
            if (
                at is not None
                and where is not None
                and found.is_same(mine[at], theirs[where])
            ):
                pairs[k] = taken
                free.remove(taken)
                break
    rest = [k for k in range(n) if k not in pairs]
    left = [k for k in range(m) if k not in pairs.values()]
    pairs.update(zip(reversed(rest), reversed(left)))
    return pairs


def _given(eqn: Equation, name: str, k: int, n_inputs: int) -> int | None:
    """The operand that is given for input `k` of a sub-program, if that is known."""
    if eqn.name == "while":
        n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        if name == "body_jaxpr":
            return n_cond + k
        return k if k < n_cond else k + n_body
    start = len(eqn.operands) - n_inputs
    return start + k if start >= 0 else None


def aligned(block: Block, mate: Block) -> dict[int, int]:
    """The inputs of two sub-programs that are the same, by position."""
    n, m = input_count(block), input_count(mate)
    return {k: k for k in range(min(n, m))}


def title_of(path: str, block: Block) -> str:
    """Name a sub-program: its path, its function and where that is."""
    debug = block.debug_info
    name = printable(str(getattr(debug, "func_name", None) or ""))
    file = str(getattr(debug, "func_filename", None) or "")
    line = getattr(debug, "func_lineno", None)
    is_own = bool(file) and not jaxapi.is_made_by_jax(debug)
    where = printable(f"{os.path.basename(file)}:{line}") if is_own else ""
    shown = f"`{name}`" if name else ""
    return f"{path}{', ' * bool(shown)}{shown}{f' ({where})' if where else ''}"
