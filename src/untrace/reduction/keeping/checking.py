"""Any check of the outputs: an expression, or a function of Python.

The program runs in the warm worker as for other predicates; what it returned is checked
in this process. That takes a fraction of the time of a command, which starts Python anew.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np

from untrace import jaxapi
from untrace.errors import KeepError
from untrace.reduction.keeping import scripts
from untrace.reduction.keeping.base import Keep, RunningKeep, story, to_text
from untrace.reduction.keeping.expressions import (
    evaluate,
    expression_of,
    read_expression,
)
from untrace.reduction.outcome import Outcome, Run
from untrace.reduction.program import Program
from untrace.reduction.workers import wire


@dataclass(frozen=True)
class Check(RunningKeep):
    """The program runs to its end, and its outputs are as said.

    Attributes:
      test: An expression of `outputs` (a list of NumPy arrays), `inputs` and `np`; or a
        function that is called with the outputs. Files show it if it is such an
        expression, as a lambda or in a `return`; otherwise they say to call it.
      made: The test does not hold for inputs in the place of outputs, so that the
        program makes what is wrong and does not just pass it on.

    >>> str(Check("outputs[0].max() > 1e3"))
    "check('outputs[0].max() > 1e3')"
    """

    test: Any
    made: bool = field(default=False, kw_only=True)

    WORD: ClassVar[str] = "check"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.test, str):
            read_expression(self.test)
        elif not callable(self.test):
            raise KeepError(
                f"check: give an expression such as 'outputs[0].max() > 1e3', or a "
                f"function of the outputs, not {self.test!r}"
            )

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.run("jit", "arrays"),)

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        outcome = outcomes[0]
        if outcome.status != "ok":
            return False
        outputs = [np.asarray(wire.decode(array)) for array in outcome.arrays]
        if not self._is_true_of(outputs, program):
            return False
        return not (self.made and self._is_given(program))

    def _is_given(self, program: Program) -> bool:
        """Whether the test holds for the inputs already."""
        values = [np.asarray(v) for v in program.values if not jaxapi.is_key_array(v)]
        lists = [values, *([value] for value in values)]
        return any(self._is_true_of(given, program) for given in lists)

    def _is_true_of(self, outputs: list[Any], program: Program) -> bool:
        try:
            with np.errstate(all="ignore"):
                if isinstance(self.test, str):
                    names = {"outputs": outputs, "inputs": program.values, "np": np}
                    return bool(evaluate(read_expression(self.test), names))
                return bool(self.test(outputs))
        except Exception:  # outputs of a candidate may be any
            return False

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        return replace(self, made=not self._is_given(program))

    @property
    def depends_on_values(self) -> bool:
        return True

    def is_fine(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        if outcomes[0].status != "ok" or any(o.n_nan for o in outcomes[0].outputs):
            return False  # of a NaN, next to nothing holds
        return not self.holds(outcomes, program)

    def describe(self) -> str:
        return f"`{self._shown}` holds for the outputs{self.where}."

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        if outcomes[0].status != "ok":
            return story(outcomes[0])
        shapes = ", ".join(f"{o.dtype}{list(o.shape)}" for o in outcomes[0].outputs)
        return f"`{self._shown}` does not hold; the outputs are {shapes}."

    @property
    def how_to_check(self) -> str:
        if self._text is not None:
            return super().how_to_check
        return f"call {self._shown}, which is yours, with what this file prints."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        lines = scripts.call_lines(name, self.under)
        if self._text is None:
            return [*lines, "print(outputs)"]
        text = ast.unparse(read_expression(self._text))
        if "inputs" in text:
            lines += ["inputs = [*example_args().values()]"]
        return [
            *lines,
            "outputs = [np.asarray(x) for x in outputs]",
            f"assert not ({text}), outputs",
            'print("it does not hold: the failure is not there")',
        ]

    def check_imports(self) -> tuple[str, ...]:
        return (*scripts.env_lines(self.env), "import numpy as np")

    def __str__(self) -> str:
        if isinstance(self.test, str):
            return to_text(self)
        plain = to_text(replace(self, test="0"))
        return plain.replace("'0'", repr(self._text) if self._text else self._shown, 1)

    @property
    def _text(self) -> str | None:
        """The test as an expression, if it can be written as one."""
        return self.test if isinstance(self.test, str) else expression_of(self.test)

    @property
    def _shown(self) -> str:
        if self._text is not None:
            return self._text
        return str(getattr(self.test, "__qualname__", type(self.test).__name__))
