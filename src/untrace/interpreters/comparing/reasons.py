"""Say in words in what two statements that stand for each other differ."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np

from untrace import jaxapi
from untrace.interpreters.comparing.matching import Matching
from untrace.interpreters.comparing.statements import Writer, literal_text, operand_atom
from untrace.ir import Atom, Literal, Value
from untrace.printable import printable
from untrace.verification.difference import shorten, two_types

MAX_VALUE_COLS = 60


class Reason(NamedTuple):
    """One thing in which two statements differ.

    Attributes:
      kind: "primitive", "param", "literal", "constant", "operand", "context", "effects",
        "rule", or of a type "shape", "dtype", "weak type", "sharding" or "type".
      words: What it was and what it is.
    """

    kind: str
    words: str


def reasons(found: Matching, index: int, other: int, writer: Writer) -> list[Reason]:
    """List in what two paired equations differ, but for their sub-programs.

    Types of results are left out where they differ since those of operands do.
    """
    head, mate = found.before.heads[index], found.after.heads[other]
    eqn = found.before.block.equations[index]
    twin = found.after.block.equations[other]
    if head.primitive != mate.primitive:
        words = f"`{printable(eqn.name)}` became `{printable(twin.name)}`"
        return [Reason("primitive", words), *_operands(found, index, other, writer)]
    made = [*_params(found, index, other), *_operands(found, index, other, writer)]
    if head.context != mate.context:
        made += _context(eqn.context, twin.context)
    kinds = [sorted(type(e).__name__ for e in each.effects) for each in (eqn, twin)]
    if kinds[0] != kinds[1]:  # on which values they are follows from operands
        before, after = (", ".join(each) or "none" for each in kinds)
        made.append(Reason("effects", f"effects were {before}, are {after}"))
    if (
        head.types != mate.types
        and not made
        and not _have_other_types(found, index, other)
    ):
        pairs = zip(eqn.result_avals, twin.result_avals)
        made += [type_reason("the result", a, b) for a, b in pairs if _differ(a, b)]
    return made


def type_reason(what: str, aval: Any, other: Any) -> Reason:
    """Say in what two types differ."""
    fields = ("shape", "dtype", "weak_type", "sharding")
    wrong = [f for f in fields if getattr(aval, f, None) != getattr(other, f, None)]
    kind = wrong[0].replace("_", " ") if wrong else "type"
    before, _, after = two_types(aval, other).partition(" and ")
    note = " (* is a weak type)" if kind == "weak type" else ""
    return Reason(kind, printable(f"the type of {what} was {before}, is {after}{note}"))


def _differ(aval: Any, other: Any) -> bool:
    fields = ("shape", "dtype", "weak_type", "sharding")
    mine, theirs = ([getattr(a, f, None) for f in fields] for a in (aval, other))
    return type(aval) is not type(other) or mine != theirs


def _have_other_types(found: Matching, index: int, other: int) -> bool:
    """Whether operands have other types, which explains those of the results."""
    mine = found.before.block.equations[index].operands
    theirs = found.after.block.equations[other].operands
    return any(_differ(a.aval, b.aval) for a, b in zip(mine, theirs))


# ---- params --------------------------------------------------------------------------


def differing_params(found: Matching, index: int, other: int) -> list[str]:
    """The params in which two equations of one primitive differ; "rules" stands for rules."""
    mine = dict(found.before.heads[index].params)
    theirs = dict(found.after.heads[other].params)
    names = [*mine, *[name for name in theirs if name not in mine]]
    return [name for name in names if mine.get(name) != theirs.get(name)]


def _params(found: Matching, index: int, other: int) -> Iterator[Reason]:
    params = found.before.eqns[index].params
    others = found.after.eqns[other].params
    for name in differing_params(found, index, other):
        values = params.get(name), others.get(name)
        if name == "rules" or any(map(holds_jaxpr, values)):
            continue  # compared as programs
        if name not in params or name not in others:
            where = "before" if name in params else "after"
            yield Reason("param", f"`{name}` is given {where} only")
        else:
            before, after = _both(*values)
            yield Reason("param", f"`{name}` was {before}, is {after}")


def holds_jaxpr(value: Any) -> bool:
    """Whether a param is a sub-program, or a tuple of some."""
    if isinstance(value, tuple):
        return any(map(jaxapi.is_jaxpr, value))
    return jaxapi.is_jaxpr(value)


def _both(value: Any, other: Any) -> tuple[str, str]:
    """Write two values that differ; of long ones the part in which they do."""
    before, after = shown(value), shown(other)
    if before != after:
        return before, after
    text, mate = (" ".join(str(v).split()) for v in (value, other))
    if text == mate or type(value) is not type(other):
        return _with_type(before, value), _with_type(after, other)
    pairs = enumerate(zip(text, mate))
    first = next((at for at, (one, other) in pairs if one != other), len(text))
    start = max(first - MAX_VALUE_COLS // 3, 0)
    return _window(text, start), _window(mate, start)


def _window(text: str, start: int) -> str:
    return printable(f"...{shorten(text[start:], MAX_VALUE_COLS)}")


def _with_type(text: str, value: Any) -> str:
    return f"{text} ({type(value).__name__})"


def shown(value: Any) -> str:
    """Write a param in a few words."""
    if isinstance(value, np.dtype | type):
        return printable(str(getattr(value, "name", None) or value.__name__))
    if isinstance(value, enum.Enum):
        return printable(value.name)
    if callable(value) and hasattr(value, "__qualname__"):
        return f"`{printable(value.__qualname__)}`"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return printable(shorten(str(value), MAX_VALUE_COLS))
    return printable(shorten(repr(value), MAX_VALUE_COLS))


def _context(context: Any, other: Any) -> Iterator[Reason]:
    for name in jaxapi.CONTEXT_FIELDS:
        values = getattr(context, name), getattr(other, name)
        if values[0] is not values[1] and str(values[0]) != str(values[1]):
            before, after = _both(*values)
            yield Reason("context", f"`{name}` was {before}, is {after}")


# ---- operands ------------------------------------------------------------------------


def _operands(
    found: Matching, index: int, other: int, writer: Writer
) -> Iterator[Reason]:
    mine, theirs = found.before.operands[index], found.after.operands[other]
    atoms = found.before.block.equations[index].operands
    others = found.after.block.equations[other].operands
    if len(mine) != len(theirs):
        yield Reason("operand", f"{len(mine)} operands became {len(theirs)}")
        return
    pairs = list(zip(mine, theirs))
    wrong = [k for k, pair in enumerate(pairs) if not found.is_same(*pair)]
    if len(wrong) == 2 and _are_exchanged(found, pairs, *wrong):
        k, n = wrong
        yield Reason("operand", f"operands {k} and {n} are exchanged")
        return
    for k in wrong:
        atom = operand_atom(found.before, mine[k], atoms, k)
        mate = operand_atom(found.after, theirs[k], others, k)
        yield value_reason(found, f"operand {k}", atom, mate, writer)


def _are_exchanged(found: Matching, pairs: Any, k: int, n: int) -> bool:
    return found.is_same(pairs[k][0], pairs[n][1]) and found.is_same(
        pairs[n][0], pairs[k][1]
    )


def value_reason(
    found: Matching, what: str, atom: Atom, mate: Atom, writer: Writer
) -> Reason:
    """Say that something reads another value."""
    if isinstance(atom, Literal) and isinstance(mate, Literal):
        before, after = literal_text(atom), literal_text(mate)
        if _differ(atom.aval, mate.aval):
            types = type_reason(f"the literal {after}", atom.aval, mate.aval)
            if before == after:
                return types
            return Reason("literal", f"{before} became {after}; {types.words}")
        if before == after:  # in a bit that does not show
            before, after = (repr(np.asarray(a.value)) for a in (atom, mate))
        return Reason("literal", printable(f"{before} became {after}"))
    constants = (
        _constant_of(found.before.block, atom),
        _constant_of(found.after.block, mate),
    )
    if constants[0] is not None and constants[1] is not None:
        name = writer.operand(0, atom)
        return Reason("constant", f"constant `{name}`: {_arrays(*constants)}")
    before, after = writer.operand(0, atom), writer.operand(1, mate)
    return Reason("operand", f"{what} was `{before}`, is `{after}`")


def _constant_of(block: Any, atom: Atom) -> Any:
    if not isinstance(atom, Value):
        return None
    return next((const for value, const in block.constants if value is atom), None)


def _arrays(value: Any, other: Any) -> str:
    """Say where two arrays differ first."""
    try:
        arrays = [np.asarray(jax.device_get(v)) for v in (value, other)]
    except Exception:  # keys, references, values of another trace
        return "the values differ"
    array, mate = arrays
    if array.shape != mate.shape or array.dtype != mate.dtype:
        before, after = (f"{a.dtype}{list(a.shape)}" for a in arrays)
        return f"was {before}, is {after}"
    if array.dtype == object:
        return "the values differ"
    bits = [np.ascontiguousarray(a).view(np.uint8).reshape(a.size, -1) for a in arrays]
    wrong = np.flatnonzero((bits[0] != bits[1]).any(axis=1))
    if not len(wrong):
        return "the values are placed or typed otherwise"
    place = tuple(int(i) for i in np.unravel_index(wrong[0], array.shape))
    before, after = array[place], mate[place]
    return printable(
        f"{len(wrong):,} of {array.size:,} elements differ, the first at "
        f"{list(place)}: {before} became {after}"
    )
