"""Pairs of programs that are the same, and single mutations with their places."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax

from tests.verification.mutation import edits
from tests.verification.programs import PROGRAMS, retrace, trace
from untrace import jaxapi
from untrace.ir import from_jaxpr, to_jaxpr
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent

VARIANTS = (
    "retraced",
    "renamed",
    "reordered",
    "reordered again",
    "with dead",
    "jitted",
)
NAMED_IN_EFFECTS = {"refs", "pallas"}
"""Their effects name variables, which writing a jaxpr anew does not rename."""
READ_BY_RULES = {"captured_rule"}
"""Their rules read variables that no equation names, so that the order counts."""
MALFORMED = (KeyError, TypeError, AttributeError, IndexError)
"""What the checker raises for a mutant that is no program: a variable without a value."""
STEP = re.compile(r"(\d+) (\S+): param (\S+)")


class Mutant(NamedTuple):
    """A changed program, and where: the path of its jaxpr, and which equation."""

    what: str
    before: Any
    after: Any
    path: str
    index: int | None


def variant(name: str, kind: str) -> tuple[Any, Any]:
    """Return a program and one that is the same, written in another way."""
    program = trace(name)
    if kind == "retraced":
        return program, retrace(name)
    if kind == "renamed" and name not in NAMED_IN_EFFECTS:
        return program, to_jaxpr(from_jaxpr(program))
    if kind == "jitted":
        function, args = PROGRAMS[name]
        args = jax.tree.map(jax.numpy.asarray, args)
        anew = jax.make_jaxpr(lambda *args: function(*args))(*args)
        return anew, jax.make_jaxpr(jax.jit(lambda *args: function(*args)))(*args)
    if kind == "renamed":
        return program, retrace(name)
    body, consts = jaxapi.split_jaxpr(program)
    eqns = list(body.eqns)
    if "dead" in kind:
        eqns += [
            eqn.replace(outvars=[jaxapi.new_var(v.aval) for v in eqn.outvars])
            for eqn in eqns
            if not eqn.effects
        ]
    if "reordered" in kind and name not in READ_BY_RULES:
        eqns = reordered(eqns, random.Random(f"{name} {kind}"))
    return program, jaxapi.close_jaxpr(body.replace(eqns=eqns), consts)


def reordered(eqns: list[Any], choice: random.Random) -> list[Any]:
    """Put equations into another order that the data flow and effects allow."""
    made: list[Any] = []
    rest = list(eqns)
    defined = {v for eqn in eqns for v in eqn.outvars}
    while rest:
        ready: list[Any] = []
        is_after_effect = False
        for eqn in rest:
            reads = {v for v in eqn.invars if type(v) is not jaxapi.JaxprLiteral}
            if not reads & defined and not (eqn.effects and is_after_effect):
                ready.append(eqn)
            is_after_effect |= bool(eqn.effects)
        eqn = choice.choice(ready)
        made.append(eqn)
        rest.remove(eqn)
        defined -= set(eqn.outvars)
    return made


def mutants(name: str, n: int) -> Iterator[Mutant]:
    """Choose mutations of a program at random that the checker tells from it."""
    yield from mutants_of(trace(name), name, n)


def mutants_of(program: Any, name: str, n: int) -> Iterator[Mutant]:
    """Choose mutations of a traced program; `name` decides which."""
    every = list(edits(program))
    random.Random(name).shuffle(every)
    for what, make in every:
        if n == 0:
            return
        if what.endswith("context") and name == "refs":
            continue  # every use of the reference says the context, too
        mutant = make()
        try:
            is_other = bool(compare(program, mutant) and equivalent(program, mutant))
        except MALFORMED:
            continue
        if is_other:
            n -= 1
            yield Mutant(what, program, mutant, *_place(what))


def _place(what: str) -> tuple[str, int | None]:
    """Read where a mutation is from its description."""
    *steps, last = what.split(" / ")
    found = [STEP.fullmatch(step) for step in steps]
    inside = [step for step in found if step and "grid_mapping" in step[3]]
    if inside:  # a jaxpr in an object in a param: the equation differs
        outer = "/".join(f"{step[2]}/{step[3]}" for step in found if step)
        return outer.partition("pallas_call/")[0].rstrip("/"), int(inside[0][1])
    path = "/".join(f"{step[2]}/{step[3]}" for step in found if step)
    index = re.match(r"(\d+) \S+: ", last)
    return path, int(index[1]) if index else None
