"""The names of the integers, flags and words that a run of a function held.

Functions that are alike but for such numbers become one, whose parameters have these names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from untrace.lifting.recorded.functions.held_values import held_values
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.unify.places import is_word, numbers_in
from untrace.lifting.spelling.numbers import spell_float
from untrace.recovery.made_keys import KeyParts, made_keys
from untrace.recovery.record import Body, Turn
from untrace.syntax.names import identifier

Given = list[tuple[str, Any]]
"""What a run was given or finds around it, by names, some of which come twice."""


def held_by(
    body: Body, turn: Turn, program: Program, is_static: bool = False
) -> dict[str, dict[str, Any]]:
    """Return what `Program.function` takes of a run that was in some turns of loops.

    Where its numbers are static, floats are among them; elsewhere they are arguments.
    """
    given = _given(body, program)
    numbers = _numbers(given, turn)
    if is_static:
        floats = {
            name: spell_float(value)
            for name, value in body.parameters.items()
            if type(value) is float
        }
        numbers |= {text: identifier(n) for text, n in by_value(floats).items()}
    return {
        "numbers": numbers,
        "integers": _integers(body, program),
        "key_parts": _key_parts(body, given, numbers),
    }


def by_value(held: Mapping[str, str]) -> dict[str, str]:
    """Return the names that hold values which no other holds, by these values."""
    values = list(held.values())
    return {value: name for name, value in held.items() if values.count(value) == 1}


def _numbers(given: Given, turn: Turn) -> dict[str, str]:
    """Return the parameters that held integers, bools and words, by what they held.

    So are attributes and variables around that hold others in other runs. The number in
    a text that is no word, as it is too long, is called after the loop that it counts in.
    """
    held = {n: str(v) for n, v in given if type(v) in (int, bool)}
    texts = {n: v for n, v in given if type(v) is str}
    held |= {n: v for n, v in texts.items() if is_word(v)}
    words = {number for v in texts.values() for number in numbers_in(v)}
    of_loops = {
        name: str(value)
        for name, value in turn
        if isinstance(name, str) and type(value) is int and str(value) in words
    }
    names = by_value(of_loops) | by_value(held)
    return {value: identifier(name) for value, name in names.items()}


def _integers(body: Body, program: Program) -> dict[str, str]:
    """Return what the variables that held integers held in the end.

    Those of functions whose statements stand in this one come last: one that held several
    numbers there is left out.
    """
    held = body.integers.items()
    own = {identifier(name): str(value) for name, value in held if name != "_"}
    inner: dict[str, set[str]] = {}
    for item in body.calls:
        if item.is_own and program.is_dissolved(item):
            for name, number in _integers(item.bodies[0], program).items():
                inner.setdefault(name, set()).add(number)
    return own | {n: min(v) for n, v in inner.items() if len(v) == 1 and n not in own}


def _given(body: Body, program: Program) -> Given:
    """Return what a run finds around it, and what its parameters hold.

    Of the words around it that may be keys of anything those count that it makes keys of.
    """
    found = held_values(body, program.plan.differing)
    held = {name.strip("_"): value for name, value in found.items()}
    made = made_keys(body.code, held).values()
    words = {text for parts in made for _, text in parts}
    given = [
        (name, value)
        for name, value in held.items()
        if type(value) is not str or value in words or not value.isidentifier()
    ]
    return [*given, *body.parameters.items()]


def _key_parts(
    body: Body, given: Given, numbers: Mapping[str, str]
) -> dict[str, KeyParts]:
    """Return the keys that are made of integers and words that a run was given or found."""
    held = {
        name: value
        for name, value in given
        if type(value) in (str, int) and str(value) in numbers
    }
    return made_keys(body.code, held)
