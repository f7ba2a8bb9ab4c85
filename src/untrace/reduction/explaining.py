"""Say of a reduced program which equation fails, whence it comes, and what is usual there.

The lines of the original survive every edit: equations are bound as they stood. The
traps and their mends are those of `untrace.nan_origin`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from untrace import jaxapi
from untrace.interpreters.nans.traps import Evidence, Trap, explain, from_facts
from untrace.interpreters.places import Origin, origin_of
from untrace.ir import Block, Equation, all_equations, sub_blocks
from untrace.reduction.applying import program_from
from untrace.reduction.chains import chain
from untrace.reduction.differing import parting
from untrace.reduction.keeping import Keep
from untrace.reduction.keeping.base import Blamed
from untrace.reduction.keeping.values import Differs
from untrace.reduction.program import Program
from untrace.reduction.trials import Judge, job_of
from untrace.reduction.wording import listed
from untrace.syntax.text import is_comment

_OF_AN_INFINITY = ("0 * inf", "inf - inf")
"""Traps that say no more than that there is an infinity."""

MAX_NEEDED = 4
"""Equations that are named where none of them is to blame alone."""

MAX_RUN = 500
"""Equations of a program that is run once more to see why it fails, which is compiled with
a flag for each: one that was not reduced takes minutes."""


class Said(NamedTuple):
    """A sentence, and the line of the user that it ends with, if it does.

    >>> print(Said("It takes `add`, from f.py:3", "x + y"), Said("It takes `add`"))
    It takes `add`, from f.py:3: x + y. It takes `add`.
    """

    sentence: str
    line: str = ""

    def __str__(self) -> str:
        line = self.line.rstrip("\\ ").removesuffix(",")
        return f"{self.sentence}: {line}." if line else f"{self.sentence}."

    def beside(self, text: str) -> str:
        """Return the sentence; without the line, where a text has it in a comment."""
        quoted = f" {self.line}  ("
        is_there = any(quoted in x for x in text.splitlines() if is_comment(x))
        return f"{self.sentence}." if self.line and is_there else str(self)


def explanation(program: Program, keep: Keep, judge: Judge | None) -> list[Said]:
    """Return sentences about the equation that makes the first bad value.

    Args:
      program: The reduced program.
      keep: The predicate; what it blames, there or in the gradient, is explained.
      judge: Runs the program once more, to see what went wrong there; None: it is not run.

    Returns:
      Which equation it is, counted from 0 with those of sub-programs, the line of the
      original that it comes from, the values that lead there, and for a classic trap what
      happens and how it is usually mended. Nothing of that which is not known: several
      equations may be meant.
      Of two ways that differ, where they part; of what does not end, the loop. Where
      none is to blame, the few that are left.
    """
    blamed = keep.blamed
    if blamed is None:
        parted = _parted(program, keep, judge)
        if parted is not None:
            return parted
        return (keep.is_slow and _endless(program)) or _needed(program)
    looked = _gradient_of(program) if blamed.under == "grad" else program
    if looked is None or blamed.under not in (None, "grad"):
        return []
    made = None if judge is None else chain(looked, blamed.primitive, judge)
    found = _found(looked, blamed.primitive, None if made is None else made.eqn)
    lines: list[Said] = []
    if len(found.places) == 1:
        number = found.numbers[0]
        which = f"equation {number} of {found.total}, " if found.is_one else ""
        lines = [_said(f"Made by {which}`{blamed.primitive}`", found.places[0])]
    if made is not None and made.told:
        lines.append(Said(f"Values there: {made.told}"))
    is_run = judge is not None and found.total <= MAX_RUN
    trap = _trap(program, looked, keep, judge) if judge and is_run else None
    if trap is not None:
        lines += _mended(trap.why, trap.mend)
    return lines


def _parted(program: Program, keep: Keep, judge: Judge | None) -> list[Said] | None:
    """Say which equation first differs between two ways; None if it cannot be told."""
    if judge is None or not isinstance(keep, Differs):
        return None
    found = parting(program, keep, judge)
    if found is None:
        return None
    everything = list(_numbered(program.block, program.block.jaxpr))
    number = [eqn for eqn, _ in everything].index(found.eqn)
    which = f"equation {number} of {len(everything)}, `{found.eqn.name}`"
    made = _said(f"Made by {which}", origin_of(everything[number][1], ()))
    lines = [made, Said(found.told())]
    return lines if found.why is None else [*lines, *_mended(*found.why)]


def _mended(why: str, mend: str) -> list[Said]:
    told = (f"Why: {why}", f"Usual mend: {mend}")
    return [Said(text.removesuffix(".")) for text in told]


def _endless(program: Program) -> list[Said]:
    """Name the loop of a program that does not end; nothing if it has several."""
    everything = _numbered(program.block, program.block.jaxpr)
    loops = [own for eqn, own in everything if eqn.name == "while"]
    if len(loops) != 1:
        return []
    told = "It takes the `while` that does not end"
    return [_said(told, origin_of(loops[0], ()))]


def _needed(program: Program) -> list[Said]:
    """Name the equations that are left: each of them is needed."""
    left = list(_numbered(program.block, program.block.jaxpr))
    names = list(dict.fromkeys(f"`{eqn.name}`" for eqn, _ in left))
    if not 0 < len(left) <= MAX_NEEDED:
        return []
    told = f"It takes {listed(names)}"
    return [_said(told, origin_of(left[0][1], ())) if len(left) == 1 else Said(told)]


def _trap(program: Program, looked: Program, keep: Keep, judge: Judge) -> Trap | None:
    """Run a program and return the classic trap that it falls into, if it does.

    Args:
      program: What is run.
      looked: The same, or its gradient: its equations know the calls of the user.
      keep: The predicate, which says how to run it.
      judge: Runs it.
    """
    run = next((run for run in keep.runs if "blame" in run.wants), None)
    if run is None:
        return None
    wants = run.wants | {"evidence"}
    outcome = judge.run(job_of(program, replace(run, wants=wants)))
    own = {eqn.name for eqn in all_equations(program.block)}
    traps: list[Trap] = []
    for facts in outcome.evidence:
        evidence = from_facts(facts)
        hides = outcome.has_finite_values and {evidence.name, "select_n"} <= own
        evidence = replace(evidence, is_hidden=bool(hides))
        trap = explain(_with_places(evidence, _found(looked, evidence.name).places))
        traps += [] if trap is None else [trap]
    return min(reversed(traps), key=_rank, default=None)


def _rank(trap: Trap) -> int:
    """Rank traps by how much they say; of equals the one of the first infinity counts."""
    return 0 if trap.name == "where" else 2 if trap.name in _OF_AN_INFINITY else 1


def _with_places(evidence: Evidence, places: list[Origin]) -> Evidence:
    """Add what the user called there, where all places agree."""
    if not places:
        return evidence
    calls = frozenset.intersection(*(place.calls for place in places))
    is_derivative = all(place.is_derivative for place in places)
    return replace(
        evidence,
        calls=evidence.calls | calls,
        is_derivative=evidence.is_derivative or is_derivative,
    )


def is_of_derivative(program: Program, blamed: Blamed | None) -> bool:
    """Whether the equation to blame is one that differentiation made."""
    if blamed is None or blamed.under is not None:
        return False
    places = _found(program, blamed.primitive).places
    return bool(places) and all(place.is_derivative for place in places)


class _Found(NamedTuple):
    """The equations of a name: their numbers, of how many, and where they come from."""

    numbers: list[int]
    total: int
    places: list[Origin]

    @property
    def is_one(self) -> bool:
        return len(self.numbers) == 1


def _found(program: Program, name: str, known: Equation | None = None) -> _Found:
    """Find the equations of a name; one alone, if it is known."""
    everything = list(_numbered(program.block, program.block.jaxpr))
    numbers = [
        i
        for i, (eqn, _) in enumerate(everything)
        if (eqn.name == name if known is None else eqn is known)
    ]
    places = [origin_of(everything[i][1], ()) for i in numbers]
    return _Found(numbers, len(everything), list(dict.fromkeys(places)))


def _gradient_of(program: Program) -> Program | None:
    """Return the program that is run under `jax.grad`; None if it cannot be traced."""
    function = jaxapi.as_function(program.block.jaxpr)
    floats = [
        i
        for i, value in enumerate(program.block.inputs)
        if jnp.issubdtype(value.aval.dtype, jnp.inexact)
    ]

    def total(*args: Any) -> Any:
        return sum(
            jnp.sum(jnp.real(x))
            for x in function(*args)
            if jnp.issubdtype(x.dtype, jnp.inexact)
        )

    try:
        jaxpr = jax.make_jaxpr(jax.grad(total, floats))(*program.values)
        return program_from(jaxpr, program.values, program.names, program.name)
    except Exception:  # an explanation is not worth a failure
        return None


def _numbered(block: Block, jaxpr: Any) -> Iterator[tuple[Equation, Any]]:
    """List the equations of a block, sub-programs in place, with those of JAX."""
    plain = jaxapi.split_jaxpr(jaxpr)[0]
    for eqn, original in zip(block.equations, plain.eqns):
        yield eqn, original
        for inner in sub_blocks(eqn):
            yield from _numbered(inner, inner.jaxpr)


def _said(sentence: str, origin: Origin) -> Said:
    if not origin.file:
        return Said(sentence)
    return Said(f"{sentence}, from {origin}", origin.text)
