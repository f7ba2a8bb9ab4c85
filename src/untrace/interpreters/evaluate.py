"""Evaluate a jaxpr equation by equation: the one loop that all interpreters share.

A handler is called with every equation, as a `Step`, and its operands; what it returns
are the results. `step(*operands)` evaluates the equation as JAX does, and its
sub-programs with the same handler: a `jit` by its body, a `scan` or `while` step by step,
the branch of a `cond` that is taken. Where operands are traced, by `jax.jit`, `jax.vmap`
or `jax.grad` around the evaluation, loops and branches stay what they are: their bodies
are traced anew, once, with the handler, and functions with derivative rules keep them.

Also run by path, by Python installations without this package: it imports JAX alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .sub_programs import ENTERED, split

Handler = Callable[..., Any]
"""Takes a `Step` and its operands. Returns the result of the equation, or all if its
primitive has several."""


class Place(NamedTuple):
    """A sub-program that is evaluated.

    Attributes:
      equation: The equation that has it.
      part: Which one: the number of a loop's turn or of a branch, "cond" for the
        condition of a `while`; None if there is only one, or the number is not known.
    """

    equation: Any
    part: int | str | None = None

    def __str__(self) -> str:
        name = self.equation.params.get("name") or self.equation.primitive.name
        return name if self.part is None else f"{name}[{self.part}]"


class Step:
    """One equation at the moment at which it is evaluated.

    Attributes:
      equation: The equation of the jaxpr (`jax.core.JaxprEqn`).
      path: The sub-programs around it, the outermost first.
    """

    __slots__ = ("_evaluator", "equation", "path")

    def __init__(
        self, equation: Any, path: tuple[Place, ...], evaluator: Evaluator
    ) -> None:
        self.equation = equation
        self.path = path
        self._evaluator = evaluator

    @property
    def primitive(self) -> Any:
        """The primitive that is applied."""
        return self.equation.primitive

    @property
    def name(self) -> str:
        """The name of the primitive."""
        return self.equation.primitive.name

    @property
    def params(self) -> dict[str, Any]:
        """The params of the equation."""
        return self.equation.params

    def __call__(self, *operands: Any) -> Any:
        """Evaluate the equation at the operands given, sub-programs with the handler."""
        enter = ENTERED.get(self.equation.primitive.name)
        if enter is None:
            return self.bind(*operands)
        made = enter(self, operands)
        if made is None:
            return self.bind(*operands)
        return made if self.equation.primitive.multiple_results else made[0]

    def bind(self, *operands: Any) -> Any:
        """Evaluate the equation at the operands given as a whole."""
        primitive = self.equation.primitive
        params = primitive.get_bind_params(self.equation.params)
        if isinstance(params, tuple):  # before jax 0.10, which workers may have
            functions, params = params
            operands = (*functions, *operands)
        return primitive.bind(*operands, **params)

    def run(
        self, jaxpr: Any, operands: Sequence[Any], part: int | str | None = None
    ) -> list[Any]:
        """Evaluate a sub-program of the equation with the handler."""
        path = (*self.path, Place(self.equation, part))
        return self._evaluator.run(jaxpr, operands, path)

    def body(
        self, jaxpr: Any, part: int | str | None = None
    ) -> Callable[..., list[Any]]:
        """Return a sub-program as a function of its operands."""
        return lambda *operands: self.run(jaxpr, operands, part)


def evaluate(
    jaxpr: Any,
    args: Sequence[Any],
    handler: Handler | None = None,
    around: Callable[[Any], contextlib.AbstractContextManager[Any]] | None = None,
) -> list[Any]:
    """Evaluate a jaxpr at flat arguments.

    Args:
      jaxpr: Closed, or open without constants.
      args: One value for each input.
      handler: Called with each `Step` and its operands. By default equations are
        evaluated.
      around: Returns the context in which an equation is handled; by default the one
        that it was traced in.

    Returns:
      One value for each output.
    """
    return Evaluator(handler, around).run(jaxpr, args, ())


class Evaluator:
    """Evaluates jaxprs with one handler.

    Args:
      handler: As for `evaluate`.
      around: As for `evaluate`.
    """

    def __init__(
        self,
        handler: Handler | None = None,
        around: Callable[[Any], contextlib.AbstractContextManager[Any]] | None = None,
    ) -> None:
        self._handler = handler or _evaluated
        self._around = around or _own_context
        self._bodies: dict[int, tuple[Any, _Body]] = {}

    def run(
        self, jaxpr: Any, args: Sequence[Any], path: tuple[Place, ...]
    ) -> list[Any]:
        """Evaluate a jaxpr that stands in some place."""
        body = self._body(jaxpr)
        handler, around = self._handler, self._around
        values = body.values.copy()
        for slot, value in zip(body.inputs, args, strict=True):
            values[slot] = value
        for equation, operands, results, is_single, last in body.rows:
            with around(equation):
                made = handler(
                    Step(equation, path, self), *[values[slot] for slot in operands]
                )
            if is_single:
                values[results[0]] = made
            else:
                for slot, value in zip(results, made, strict=True):
                    values[slot] = value
            for slot in last:
                values[slot] = None
        return [values[slot] for slot in body.outputs]

    def _body(self, jaxpr: Any) -> _Body:
        known = self._bodies.get(id(jaxpr))
        if known is None:
            known = self._bodies[id(jaxpr)] = jaxpr, _prepared(jaxpr)
        return known[1]


class _Body(NamedTuple):
    """A jaxpr whose values have numbers.

    Attributes:
      values: Literals and constants at their numbers.
      inputs: The numbers of its inputs.
      rows: Each equation, the numbers of its operands and results, whether its primitive
        has a single result, and the numbers of values that nothing later reads.
      outputs: The numbers of its outputs.
    """

    values: list[Any]
    inputs: list[int]
    rows: list[tuple[Any, list[int], list[int], bool, list[int]]]
    outputs: list[int]


def _prepared(jaxpr: Any) -> _Body:
    body, consts = split(jaxpr)
    values: list[Any] = []
    numbers: dict[Any, int] = {}

    def number(atom: Any) -> int:
        is_literal = hasattr(atom, "val")
        if not is_literal and atom in numbers:
            return numbers[atom]
        values.append(atom.val if is_literal else None)
        if not is_literal:
            numbers[atom] = len(values) - 1
        return len(values) - 1

    for var, const in zip(body.constvars, consts, strict=True):
        values[number(var)] = const
    inputs = [number(var) for var in body.invars]
    rows = [
        (
            equation,
            [number(atom) for atom in equation.invars],
            [number(var) for var in equation.outvars],
            not equation.primitive.multiple_results,
            list[int](),
        )
        for equation in body.eqns
    ]
    outputs = [number(atom) for atom in body.outvars]
    read = set(outputs)
    for _, operands, results, _, last in reversed(rows):
        last += {slot for slot in (*operands, *results) if slot not in read}
        read.update(operands)
    return _Body(values, inputs, rows, outputs)


def _evaluated(step: Step, *operands: Any) -> Any:
    return step(*operands)


def _own_context(equation: Any) -> contextlib.AbstractContextManager[Any]:
    return equation.ctx.manager
