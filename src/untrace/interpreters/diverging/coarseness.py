"""How coarse the numbers are that a value is computed of.

A sum in float32 of numbers in bfloat16 is no better than these: two runs that round them in
another way differ by far more than a float32 shows. So what is tolerated of a value is that
of the type with the largest steps among all that it was computed of. Truth values and whole
numbers hand nothing on: they are right or wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp

from untrace import jaxapi
from untrace.interpreters.sub_programs import body_param, split

Coarsest = Any
"""A floating-point or complex type; None if there is none."""


def coarser(one: Coarsest, other: Coarsest) -> Coarsest:
    """Return the type with the larger steps."""
    known = [dtype for dtype in (one, other) if dtype is not None]
    return max(known, key=lambda dtype: float(jnp.finfo(dtype).eps), default=None)


class Coarseness:
    """The coarsest types that the values of a program are computed of.

    Args:
      jaxpr: The program, with constants.

    Attributes:
      outputs: Those of its outputs.
    """

    def __init__(self, jaxpr: Any) -> None:
        self._found: dict[tuple[int, int], Coarsest] = {}
        self._bodies: dict[tuple[int, tuple[Coarsest, ...]], list[Coarsest]] = {}
        inputs = split(jaxpr)[0].invars
        self.outputs = self._body(jaxpr, [None] * len(inputs))

    def of(self, equation: Any, position: int) -> Coarsest:
        """Return that of a result of an equation, wherever it is run."""
        return self._found.get((id(equation), position))

    def _body(self, jaxpr: Any, given: Sequence[Coarsest]) -> list[Coarsest]:
        """Return those of the outputs; functions that are called often are seen once."""
        key = id(jaxpr), tuple(given)
        if key not in self._bodies:
            self._bodies[key] = self._walked(jaxpr, given)
        return self._bodies[key]

    def _walked(self, jaxpr: Any, given: Sequence[Coarsest]) -> list[Coarsest]:
        body, _ = split(jaxpr)
        known = {var: _own(var) for var in body.constvars}
        known |= {var: _at_least(var, g) for var, g in zip(body.invars, given)}

        def read(atom: Any) -> Coarsest:
            return _own(atom) if hasattr(atom, "val") else known[atom]

        for equation in body.eqns:
            made = self._results(equation, list(map(read, equation.invars)))
            for k, var in enumerate(equation.outvars):
                known[var] = result = _at_least(var, made[k])
                key = id(equation), k
                self._found[key] = coarser(self._found.get(key), result)
        return list(map(read, body.outvars))

    def _results(
        self, equation: Any, operands: Sequence[Coarsest]
    ) -> Sequence[Coarsest]:
        name, params = equation.primitive.name, equation.params
        key = body_param(equation)
        if key is not None:
            return self._body(params[key], operands)
        if name == "cond":
            made = [self._body(each, operands[1:]) for each in params["branches"]]
            return [_all(each) for each in zip(*made)]
        if name == "scan":
            n_consts, n_carry = jaxapi.scan_sizes(params)
            return self._loop(params["jaxpr"], operands, n_consts, n_carry)
        if name == "while":
            n_cond = params["cond_nconsts"]
            n_consts = params["body_nconsts"]
            body, rest = params["body_jaxpr"], operands[n_cond:]
            made = self._loop(body, rest, n_consts, len(rest) - n_consts)
            self._body(params["cond_jaxpr"], [*operands[:n_cond], *made])
            return made
        return [_all(operands)] * len(equation.outvars)

    def _loop(
        self, body: Any, operands: Sequence[Coarsest], n_consts: int, n_carry: int
    ) -> list[Coarsest]:
        """Go round until what is carried is as coarse as it gets."""
        given = list(operands)
        carried = slice(n_consts, n_consts + n_carry)
        while True:
            made = self._body(body, given)
            turned = [coarser(a, b) for a, b in zip(given[carried], made)]
            if turned == given[carried]:
                return [*turned, *made[n_carry:]]
            given[carried] = turned


def _all(types: Sequence[Coarsest]) -> Coarsest:
    found: Coarsest = None
    for each in types:
        found = coarser(found, each)
    return found


def _own(atom: Any) -> Coarsest:
    """Return the type of a value, if it has fractions; a number of Python has no steps."""
    aval = atom.aval
    is_number = getattr(aval, "weak_type", False) and not aval.shape
    return None if is_number else _at_least(atom, None)


def _at_least(atom: Any, given: Coarsest) -> Coarsest:
    """Return the coarser of a type and that of a value; None if that has no fractions."""
    dtype = getattr(atom.aval, "dtype", None)
    if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
        return None
    return coarser(dtype, given)
