"""Predicates made of others: both, either, not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from untrace.reduction.keeping.base import COMPOSED, Keep, merged
from untrace.reduction.outcome import Outcome, Run
from untrace.reduction.program import Program

T = TypeVar("T")


@dataclass(frozen=True)
class _Pair(Keep):
    first: Keep
    second: Keep

    @property
    def runs(self) -> tuple[Run, ...]:
        return merged([*self.first.runs, *self.second.runs])

    @property
    def is_measured(self) -> bool:
        return any(part.is_measured for part in self._parts)

    @property
    def depends_on_values(self) -> bool:
        return any(part.depends_on_values for part in self._parts)

    def is_fine(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        verdicts = [
            part.is_fine(self._of(part, outcomes), program)
            for part in self._parts
            if part.depends_on_values
        ]
        return all(verdicts) if isinstance(self, Either) else any(verdicts)

    def other_failure(self, outcomes: Sequence[Outcome]) -> str | None:
        known = ((part, self._of(part, outcomes)) for part in self._parts)
        labels = (part.other_failure(found) for part, found in known if found)
        return next((label for label in labels if label), None)

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        told = [
            part.explain(self._of(part, outcomes), program)
            for part in self._parts
            if program is None or not part.holds(self._of(part, outcomes), program)
        ]
        return " ".join(dict.fromkeys(told))

    def check_lines(self, name: str) -> list[str]:
        return self._checked.check_lines(name)

    def check_imports(self) -> tuple[str, ...]:
        return self._checked.check_imports()

    def wanted_output(self) -> int | None:
        wanted = {part.wanted_output() for part in self._parts} - {None}
        return wanted.pop() if len(wanted) == 1 else None

    def for_only_output(self) -> Keep:
        parts = (part.for_only_output() for part in self._parts)
        return replace(self, **dict(zip(("first", "second"), parts)))

    def without_margin(self) -> Keep:
        parts = (part.without_margin() for part in self._parts)
        return replace(self, **dict(zip(("first", "second"), parts)))

    @property
    def _parts(self) -> tuple[Keep, Keep]:
        return self.first, self.second

    @property
    def _checked(self) -> Keep:
        """The part that shows the failure: one that runs the program, if any."""
        return next((part for part in self._parts if part.runs), self.first)

    def _of(self, part: Keep, outcomes: Sequence[T]) -> list[T]:
        """Choose what belongs to the runs of a part, as far as runs were made."""
        by_run = dict(zip(self.runs, outcomes))
        return [by_run[run] for run in part.runs if run in by_run]

    def __str__(self) -> str:  # as Python reads it
        return f"{self._inner(self.first)} {self.WORD} {self._inner(self.second)}"

    def _inner(self, part: Keep) -> str:
        needs_parentheses = isinstance(part, _Pair) and part.WORD != self.WORD
        return f"({part})" if needs_parentheses else str(part)


@dataclass(frozen=True)
class Both(_Pair):
    """Both predicates hold."""

    WORD: ClassVar[str] = "&"

    def decide(
        self, outcomes: Sequence[Outcome | None], program: Program
    ) -> bool | None:
        verdicts = [p.decide(self._of(p, outcomes), program) for p in self._parts]
        if False in verdicts:
            return False
        return None if None in verdicts else True

    def pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep | None:
        first = self.first.pinned(self._of(self.first, outcomes), program)
        second = self.second.pinned(self._of(self.second, outcomes), program)
        return Both(first, second) if first and second else None

    def describe(self) -> str:
        return f"{self.first.describe()} Also: {self.second.describe()}"


@dataclass(frozen=True)
class Either(_Pair):
    """One of two predicates holds."""

    WORD: ClassVar[str] = "|"

    def decide(
        self, outcomes: Sequence[Outcome | None], program: Program
    ) -> bool | None:
        verdicts = [p.decide(self._of(p, outcomes), program) for p in self._parts]
        if True in verdicts:
            return True
        return None if None in verdicts else False

    def pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep | None:
        """Keep only the alternatives that the original shows."""
        first = self.first.pinned(self._of(self.first, outcomes), program)
        second = self.second.pinned(self._of(self.second, outcomes), program)
        return Either(first, second) if first and second else first or second

    def describe(self) -> str:
        return f"{self.first.describe()} Or: {self.second.describe()}"


@dataclass(frozen=True)
class Not(Keep):
    """A predicate does not hold. Nothing is pinned: a failure's absence has no details."""

    inner: Keep

    WORD: ClassVar[str] = "~"

    @property
    def runs(self) -> tuple[Run, ...]:
        return self.inner.runs

    def decide(
        self, outcomes: Sequence[Outcome | None], program: Program
    ) -> bool | None:
        known = [outcome for outcome in outcomes if outcome is not None]
        if any(outcome.status == "lost" or outcome.is_ours for outcome in known):
            return False
        verdict = self.inner.decide(outcomes, program)
        return None if verdict is None else not verdict

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        return f"This is so, and was to be avoided: {self.inner.describe()}"

    def other_failure(self, outcomes: Sequence[Outcome]) -> str | None:
        return None

    def describe(self) -> str:
        return f"Not so: {self.inner.describe()}"

    def __str__(self) -> str:
        is_pair = isinstance(self.inner, _Pair)
        return f"~({self.inner})" if is_pair else f"~{self.inner}"


COMPOSED.update({"&": Both, "|": Either, "~": Not})
