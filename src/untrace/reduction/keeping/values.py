"""Predicates on what a program computes: NaN, infinities, two runs that differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from untrace.ir import all_equations
from untrace.reduction.keeping import scripts
from untrace.reduction.keeping.base import (
    Blamed,
    Keep,
    KeepError,
    RunningKeep,
    check_number,
    story,
)
from untrace.reduction.outcome import Outcome, Output, Run
from untrace.reduction.program import Program
from untrace.reduction.widening import definitions_in_64_bits
from untrace.reduction.workers import wire


@dataclass(frozen=True)
class _NonFinite(RunningKeep):
    """Common to NaN and infinity.

    Attributes:
      output: Number of the output, counted in the original; any if None.
      jit_only: Op by op that output is finite.
      narrow_only: In 64 bits that output has none: a number was too large or too small
        for its type, or rounded.
      blame: The primitive that makes the first one from better operands.
      inf_inputs: Allow inputs with infinities (masks), which the original has.
      finite_values: Under "grad": the function itself has no NaN and no infinity.
    """

    output: int | None = None
    jit_only: bool = False
    narrow_only: bool = field(default=False, kw_only=True)
    blame: str | None = field(default=None, kw_only=True)
    inf_inputs: bool | None = field(default=None, kw_only=True)
    finite_values: bool = field(default=False, kw_only=True)

    NOUN: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        output: Any = self.output
        if output is not None and (type(output) is not int or output < 0):
            raise KeepError(
                f"{self.WORD}: output must be the number of an output, counted from 0, "
                f"not {output!r}"
            )
        if self.jit_only and self.narrow_only:
            raise KeepError(f"{self.WORD}: say jit_only or narrow_only")

    @property
    def runs(self) -> tuple[Run, ...]:
        if self.jit_only:  # what op by op makes a NaN is not what does under jit
            return (self.run("jit"), self.run("eager"))
        wide = replace(self.run("jit", "quick"), float64=True)
        return (self.run("jit", "blame"), *([wide] if self.narrow_only else []))

    @property
    def _has_fine_side(self) -> bool:
        """Whether it is run in another way as well, in which it has to be finite."""
        return self.jit_only or self.narrow_only

    def decide(
        self, outcomes: Sequence[Outcome | None], program: Program
    ) -> bool | None:
        jitted = outcomes[0]
        if jitted is None:
            return None if self._has_blamed(program) else False
        found = self._bad_outputs(jitted)
        if not found or not self._has_allowed_inputs(jitted):
            return False
        if self.blame not in (None, jitted.blame) or not self._has_wanted_values(
            jitted
        ):
            return False
        if not self._has_fine_side:
            return True
        other = outcomes[1]
        return None if other is None else bool(self._fine_outputs(other) & found)

    @property
    def depends_on_values(self) -> bool:
        return True

    def is_fine(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        is_run = all(outcome.status == "ok" for outcome in outcomes)
        found = self._bad_outputs(outcomes[0])
        if self.jit_only and is_run:
            found &= self._fine_outputs(outcomes[1])
        return is_run and not found

    @property
    def blamed(self) -> Blamed | None:
        return None if self.blame is None else Blamed(self.blame, self.under)

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        jitted = outcomes[0]
        return replace(
            self,
            blame=self.blame or (None if self.jit_only else jitted.blame),
            inf_inputs=not jitted.has_finite_inputs,
            finite_values=bool(jitted.has_finite_values),
        )

    def describe(self) -> str:
        which = "An output" if self.output is None else f"Output {self.output}"
        only = ", but not op by op" if self.jit_only else ""
        only = ", but not in 64 bits" if self.narrow_only else only
        made = f", first made by `{self.blame}`" if self.blame else ""
        finite = "inputs and values" if self.finite_values else "inputs"
        inputs = "" if self.inf_inputs else f" while all {finite} are finite"
        return f"{which} has {self.NOUN}{self.where}{inputs}{only}{made}."

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        jitted = outcomes[0]
        if jitted.status != "ok" or not self._bad_outputs(jitted):
            return story(jitted)
        if not self._has_allowed_inputs(jitted):
            return (
                f"{story(jitted)} But its inputs are not finite, so that is no wonder."
            )
        if self.blame not in (None, jitted.blame):
            return f"{story(jitted)} The first is made by `{jitted.blame}`."
        if not self._has_wanted_values(jitted):
            return f"{story(jitted)} So has the function itself, without jax.grad."
        way = "In 64 bits" if self.narrow_only else "Op by op"
        return f"{way}: {story(outcomes[-1])}"

    def other_failure(self, outcomes: Sequence[Outcome]) -> str | None:
        jitted = outcomes[0]
        is_other = self.blame not in (None, jitted.blame)
        if not is_other and self.finite_values and jitted.has_finite_values is False:
            return f"{self.NOUN} in the function itself"
        if self._bad_outputs(jitted) and is_other and self._has_allowed_inputs(jitted):
            made = (
                f"first made by `{jitted.blame}`"
                if jitted.blame
                else "that no primitive makes op by op"
            )
            return f"{self.NOUN} {made}"
        return super().other_failure(outcomes)

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        if not self.jit_only and scripts.is_single(program, self.under):
            return [
                *scripts.output_lines(name, self.under, program),
                f'assert not {self._test("x")}, f"the output has {self.NOUN}: {{x}}"',
                f'print("no {self.NOUN}: the failure is not there")',
            ]
        lines = scripts.call_lines(name, self.under)
        is_plain = self.jit_only and self.under is None and scripts.is_single(program)
        if program is not None and is_plain and scripts.is_of_calls(program):
            lines = [
                scripts.ARGS,
                f"x = jax.jit({name})(**args)",
                "with jax.disable_jit():",
                f"    by_op = {name}(**args)",
                'print("jit:", x, "op by op:", by_op)',
                f"has_any = {self._test('x')} and not {self._test('by_op')}",
                f'assert not has_any, "the output has {self.NOUN} only under jit"',
            ]
        elif self.jit_only:
            lines += [
                "jitted = outputs",
                *scripts.eager_lines(name, self.under),
                "for i, (x, by_op) in enumerate(zip(jitted, outputs)):",
                f"    has_any = {self._test('x')} and not {self._test('by_op')}",
                f'    assert not has_any, f"output {{i}} has {self.NOUN} only under jit"',
            ]
        else:
            lines += [
                "for i, x in enumerate(outputs):",
                f'    assert not {self._test("x")}, f"output {{i}} has {self.NOUN}: {{x}}"',
            ]
        return [*lines, f'print("no {self.NOUN}: the failure is not there")']

    def wanted_output(self) -> int | None:
        return self.output

    def for_only_output(self) -> Keep:
        return replace(self, output=None)

    def _bad_outputs(self, outcome: Outcome) -> set[int]:
        if outcome.status != "ok":
            return set()
        return {
            i
            for i, output in enumerate(outcome.outputs)
            if self._count(output) and self.output in (None, i)
        }

    def _fine_outputs(self, outcome: Outcome) -> set[int]:
        """The outputs without what is wrong in the other way of running it.

        A NaN of 32 bits may be an infinity in 64, as 0 times one is. Compiled it may not.
        """
        if outcome.status != "ok":
            return set()
        return {
            i
            for i, x in enumerate(outcome.outputs)
            if not (self._count(x) or (x.n_inf and self.jit_only) or x.n_nan)
        }

    def _has_allowed_inputs(self, outcome: Outcome) -> bool:
        if outcome.has_finite_inputs:
            return True
        return not outcome.has_nan_inputs and self.inf_inputs is not False

    def _has_blamed(self, program: Program) -> bool:
        """Whether the primitive to blame is there: derivatives may have others."""
        if self.blame is None or self.under is not None:
            return True
        return any(eqn.name == self.blame for eqn in all_equations(program.block))

    def _has_wanted_values(self, outcome: Outcome) -> bool:
        return not self.finite_values or outcome.has_finite_values is True

    def _count(self, output: Output) -> int:
        raise NotImplementedError

    def _test(self, name: str) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Nan(_NonFinite):
    """An output has a NaN though no input has one.

    >>> str(Nan(under="grad"))
    "nan(under='grad')"
    """

    WORD: ClassVar[str] = "nan"
    NOUN: ClassVar[str] = "NaN"

    def _count(self, output: Output) -> int:
        return output.n_nan

    def _test(self, name: str) -> str:
        return f"jnp.isnan({name}).any()"


@dataclass(frozen=True)
class Inf(_NonFinite):
    """An output has an infinity though all inputs are finite.

    >>> str(Inf(2))
    'inf(output=2)'
    """

    WORD: ClassVar[str] = "inf"
    NOUN: ClassVar[str] = "infinity"

    def is_fine(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        is_run = super().is_fine(outcomes, program)
        return is_run and not any(
            output.n_nan  # which hides an infinity: 0 * inf, inf - inf
            for i, output in enumerate(outcomes[0].outputs)
            if self.output in (None, i)
        )

    def _count(self, output: Output) -> int:
        return output.n_inf

    def _test(self, name: str) -> str:
        return f"jnp.isinf({name}).any()"


@dataclass(frozen=True)
class Differs(RunningKeep):
    """Two ways to run the program give different outputs.

    Attributes:
      a: "jit", "call" (called without jit; what it calls under jit is compiled),
        "eager" (op by op), "float64", "platform:NAME", "env:NAME=VALUE" or
        "python:PATH" (another installation).
      b: The same; it is the reference.
      rtol: Smallest relative error, max|a - b| / max|b|, of an output.
      finite: True: outputs with a NaN or an infinity on either side do not count.
        False: only outputs count that have one on one side alone. Both if None.

    >>> str(Differs("jit", "env:XLA_FLAGS=--xla_cpu_enable_fast_math=true", rtol=0.01))
    "differs(b='env:XLA_FLAGS=--xla_cpu_enable_fast_math=true', rtol=0.01)"
    """

    a: str = "jit"
    b: str = "eager"
    rtol: float = 1e-3
    finite: bool | None = None

    WORD: ClassVar[str] = "differs"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_number(self, "rtol", self.rtol)
        for side in (self.a, self.b):
            _check_side(side)
        if self.a == self.b:
            raise KeepError(f"differs: both sides are {self.a!r}")

    @property
    def runs(self) -> tuple[Run, ...]:
        return tuple(
            _side(self.run("jit", "arrays"), side) for side in (self.a, self.b)
        )

    def decide(
        self, outcomes: Sequence[Outcome | None], program: Program
    ) -> bool | None:
        if any(outcome and outcome.status != "ok" for outcome in outcomes):
            return False
        known = [outcome for outcome in outcomes if outcome is not None]
        if len(known) < 2:
            return None
        return bool(self._differences(known))

    @property
    def depends_on_values(self) -> bool:
        return True

    def is_fine(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        if any(outcome.status != "ok" for outcome in outcomes):
            return False
        hides = np.isnan if self.finite is False else lambda x: ~np.isfinite(x)
        if any(hides(_wide(array)).any() for pair in pairs(outcomes) for array in pair):
            return False  # a NaN on both sides hides what they differ by
        return not replace(self, finite=None)._differences(outcomes)

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        """Pin the finiteness, and a tenth of the error: less may be mere rounding.

        If outputs differ in both ways, either may be meant, and neither is pinned.
        """
        found = self._differences(outcomes)
        errors = [error for error in found if error is not None]
        if not errors:
            return replace(self, finite=False)
        floor = min(max(errors) / 10, 0.1)
        finite = self.finite if len(errors) < len(found) else True
        return replace(self, finite=finite, rtol=float(f"{max(self.rtol, floor):.2g}"))

    def describe(self) -> str:
        kind = {None: "", True: " (both finite)", False: " (one side not finite)"}
        a, b = map(_short_side, (self.a, self.b))
        a, b = (self.a, self.b) if a == b else (a, b)
        return (
            f"{a} and {b} differ{self.where} by a relative error of more than "
            f"{self.rtol:g}{kind[self.finite]}."
        )

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        if any(outcome.status != "ok" for outcome in outcomes):
            return super().explain(outcomes, program)
        errors = [relative_error(x, y) for x, y in pairs(outcomes)]
        largest = max((e for e in errors if e is not None), default=0.0)
        n_bad = sum(error is None for error in errors)
        also = f"; {n_bad} outputs are not finite alike" if n_bad else ""
        return f"The largest relative error of an output is {largest:.2g}{also}."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        sides = self.a, self.b
        if scripts.is_one_process(sides):
            wide: list[str] = []
            if program is not None and "float64" in sides:
                wide = definitions_in_64_bits(program)
            is_single = scripts.is_single(program) and self.under is None
            if program is not None and is_single:
                return scripts.shortest_comparison(
                    name, sides, self.rtol, program, wide, is_finite=bool(self.finite)
                )
            lines = scripts.two_ways(name, self.under, sides, wide)
        elif self._is_short(program):
            is_number = program is not None and not program.block.outputs[0].aval.shape
            return scripts.two_short_sides(
                name, self.env, sides, self.rtol, is_number=is_number
            )
        else:
            lines = scripts.two_sides(name, self.under, self.env, sides)
        return [*lines, *scripts.comparison(self.a, self.b, self.rtol)]

    def check_imports(self) -> tuple[str, ...]:
        if scripts.is_one_process((self.a, self.b)):
            return (*scripts.env_lines(self.env), "import numpy as np")
        names = ("os", "subprocess", "sys", "tempfile")
        used = (*(f"import {name}" for name in names), *scripts.IMPORTS)
        return (*used, "import numpy as np")

    def _is_short(self, program: Program | None) -> bool:
        """Whether each side can print its only output, of which all is finite."""
        if program is None or not self.finite or self.under is not None:
            return False
        first, second = (side.partition(":")[0] for side in (self.a, self.b))
        here = ("jit", "env", "platform")
        if first not in here or second not in (*here, "python"):
            return False
        return scripts.is_single(program)

    def _differences(self, outcomes: Sequence[Outcome]) -> list[float | None]:
        """List the errors of outputs that differ; None where only one is finite."""
        errors = [relative_error(x, y) for x, y in pairs(outcomes)]
        large = [e for e in errors if e is not None and e > self.rtol]
        uneven = [e for e in errors if e is None]
        if self.finite is None:
            return [*large, *uneven]
        return [*large] if self.finite else [*uneven]


def relative_error(one: Any, other: Any) -> float | None:
    """Return max|one - other| / max|other|; None if they are not finite alike.

    Elements that are the same NaN or infinity on both sides agree. Where `other` is
    zero the error is infinite, or 0.
    """
    one, other = _wide(one), _wide(other)
    if one.shape != other.shape:
        return float("inf")
    bad = ~np.isfinite(one) | ~np.isfinite(other)
    if not np.array_equal(one[bad], other[bad], equal_nan=True):
        return None
    gap = float(np.max(np.abs(one[~bad] - other[~bad]), initial=0.0))
    scale = float(np.max(np.abs(other[~bad]), initial=0.0))
    return gap / scale if scale else (float("inf") if gap else 0.0)


def _wide(array: Any) -> Any:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def pairs(outcomes: Sequence[Outcome]) -> list[tuple[Any, Any]]:
    """Return the outputs of two runs, side by side."""
    first, second = outcomes
    return [
        (np.asarray(wire.decode(x)), np.asarray(wire.decode(y)))
        for x, y in zip(first.arrays, second.arrays)
    ]


def _check_side(side: Any) -> None:
    word, _, rest = str(side).partition(":")
    if side in ("jit", "call", "eager", "float64"):
        return
    if word in ("platform", "python") and rest:
        return
    if word == "env" and rest.partition("=")[0] and "=" in rest:
        return
    raise KeepError(
        f"differs: a side is 'jit', 'call', 'eager', 'float64', 'platform:NAME', "
        f"'env:NAME=VALUE' or 'python:PATH', not {side!r}"
    )


def _short_side(side: str) -> str:
    """Name a side without a value or a path, which stand in the predicate."""
    if side.startswith("python:"):
        return "another Python"
    return side.partition("=")[0] if side.startswith("env:") else side


def _side(run: Run, side: str) -> Run:
    word, _, rest = side.partition(":")
    if word in ("call", "eager"):
        return replace(run, action=word)
    if word == "float64":
        return replace(run, float64=True)
    if word == "python":
        return replace(run, python=rest)
    if word == "jit":
        return run
    return replace(run, env=scripts.side_env(run.env, side))
