"""Predicates made of others: both, either, not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from untrace.reduction.keeping import scripts
from untrace.reduction.keeping.base import COMPOSED, Blamed, Env, Keep, merged
from untrace.reduction.outcome import Outcome, Run
from untrace.reduction.program import Program

T = TypeVar("T")


class _Composed(Keep):
    """The main block of a saved file, for predicates made of others."""

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        """Write statements that run each part in a process of its own, and combine them."""
        parts = _leaves(self)
        if len(parts) == 1 and parts[0] is _shown(self):
            return parts[0].check_lines(name, program)
        formula = _formula(self, iter(range(len(parts))))
        envs = [dict(getattr(part, "env", ())) for part in parts]
        each = [part.check_lines(name) for part in parts]
        return scripts.combined_lines(each, envs, formula)

    def check_imports(self) -> tuple[str, ...]:
        """List the imports of `check_lines`; each part has its own environment."""
        parts = _leaves(self)
        if len(parts) == 1 and parts[0] is _shown(self):
            return parts[0].check_imports()
        found = [line for part in parts for line in part.check_imports()]
        needed = ["import os", "import subprocess", "import sys", *found]
        return tuple(dict.fromkeys(x for x in needed if not x.startswith("os.environ")))

    @property
    def how_to_check(self) -> str:
        """Say how the parts are checked."""
        ways = [part.how_to_check for part in _leaves(self)]
        return max(ways, key=len)  # that of a command, if there is one


@dataclass(frozen=True)
class _Pair(_Composed):
    first: Keep
    second: Keep

    @property
    def runs(self) -> tuple[Run, ...]:
        return merged([*self.first.runs, *self.second.runs])

    @property
    def is_measured(self) -> bool:
        return any(part.is_measured for part in self._parts)

    @property
    def is_slow(self) -> bool:
        return any(part.is_slow for part in self._parts)

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

    @property
    def blamed(self) -> Blamed | None:
        return self.first.blamed or self.second.blamed

    def named(self, program: Program) -> tuple[str, ...]:
        return (*self.first.named(program), *self.second.named(program))

    def plain(self) -> Keep:
        parts = (part.plain() for part in self._parts)
        return replace(self, **dict(zip(("first", "second"), parts)))

    def with_env(self, env: Env) -> Keep:
        parts = (part.with_env(env) for part in self._parts)
        return replace(self, **dict(zip(("first", "second"), parts)))

    def told(self, outcomes: Sequence[Outcome]) -> str:
        told = (part.told(self._of(part, outcomes)) for part in self._parts)
        return (" Also: " if isinstance(self, Both) else " Or: ").join(told)

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
        if self.failing is not self:
            return self.failing.describe()
        return f"{self.first.describe()} Also: {self.second.describe()}"

    def told(self, outcomes: Sequence[Outcome]) -> str:
        if self.failing is not self:
            return self.failing.told(self._of(self.failing, outcomes))
        return super().told(outcomes)

    def plain(self) -> Keep:
        return super().plain() if self.failing is self else self.failing.plain()

    @property
    def failing(self) -> Keep:
        """Return the part that fails, if the other is a condition beside it."""
        parts = [part for part in self._parts if not part.IS_CONDITION]
        return parts[0] if len(parts) == 1 else self


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
class Not(_Composed):
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

    def with_env(self, env: Env) -> Keep:
        return Not(self.inner.with_env(env))

    def plain(self) -> Keep:
        return Not(self.inner.plain())

    def __str__(self) -> str:
        is_pair = isinstance(self.inner, _Pair)
        return f"~({self.inner})" if is_pair else f"~{self.inner}"


# ---- the parts that run ---------------------------------------------------------------


def _shown(keep: Keep) -> Keep:
    """Leave out of what must hold together what the program shows without a run."""
    if not isinstance(keep, Both):
        return keep
    failing = keep.failing
    if failing is not keep:
        return _shown(failing)
    running = [part for part in (keep.first, keep.second) if part.runs]
    return _shown(running[0]) if len(running) == 1 else keep


def _leaves(keep: Keep) -> list[Keep]:
    keep = _shown(keep)
    if isinstance(keep, Not):
        return _leaves(keep.inner)
    if isinstance(keep, (Both, Either)):
        return [*_leaves(keep.first), *_leaves(keep.second)]
    return [keep]


def _formula(keep: Keep, numbers: Iterator[int]) -> str:
    """Write what must be so of the parts that fail, in the order of `_leaves`."""
    keep = _shown(keep)
    if isinstance(keep, Not):
        return f"not {_formula(keep.inner, numbers)}"
    if isinstance(keep, (Both, Either)):
        first = _formula(keep.first, numbers)
        word = "and" if isinstance(keep, Both) else "or"
        return f"({first} {word} {_formula(keep.second, numbers)})"
    return f"fails[{next(numbers)}]"


COMPOSED.update({"&": Both, "|": Either, "~": Not})
