"""What a predicate is: runs to make, and a verdict on their outcomes.

A predicate *keeps* a program: it holds while the program still fails as wanted. The
failure of the original is *pinned*: `pinned` returns a narrower predicate that holds for
this failure alone, so that the reducer does not drift to another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, ClassVar, NamedTuple

from untrace.errors import KeepError
from untrace.reduction.keeping import messages, scripts
from untrace.reduction.outcome import TRANSFORMS, Outcome, Run
from untrace.reduction.program import Program
from untrace.reduction.wording import counted

Env = tuple[tuple[str, str], ...]


class Blamed(NamedTuple):
    """A primitive, in the program as it stands or under a transformation."""

    primitive: str
    under: str | None


@dataclass(frozen=True)
class Keep:
    """A predicate on programs. Combine them with `&`, `|` and `~`."""

    WORD: ClassVar[str] = ""
    IS_CONDITION: ClassVar[bool] = False
    """It is no failure but what must be so beside one; files do not show it."""

    @property
    def runs(self) -> tuple[Run, ...]:
        """What has to be run; nothing if the program alone decides."""
        return ()

    @property
    def needs_values(self) -> bool:
        """Whether what inputs hold can matter: not before the program runs."""
        return any(run.action not in ("compile", "lower") for run in self.runs)

    @property
    def is_measured(self) -> bool:
        """Whether it compares a time, which is never quite the same."""
        return False

    @property
    def is_slow(self) -> bool:
        """Whether a run that fails takes the whole time limit."""
        return False

    def without_margin(self) -> Keep:
        """Return what the user asked for, where candidates have to fail more clearly."""
        return self

    def decide(
        self, outcomes: Sequence[Outcome | None], program: Program
    ) -> bool | None:
        """Decide with the outcomes known so far, in the order of `runs`.

        Returns:
          None while an outcome is missing on which the verdict depends.
        """
        if any(outcome is None for outcome in outcomes):
            return None
        return self._is_kept([o for o in outcomes if o is not None], program)

    def holds(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        """Whether the program fails as wanted.

        Args:
          outcomes: Those of `runs`, in this order.
          program: The program that was run.
        """
        return self.decide(outcomes, program) is True

    def pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep | None:
        """Return the predicate for just this failure; None if it does not hold."""
        return (
            self._pinned(outcomes, program) if self.holds(outcomes, program) else None
        )

    def closer(self, pinned: Keep) -> tuple[Keep, ...]:
        """List what is to be pinned instead: the first that holds, if one does.

        Args:
          pinned: What was pinned of this predicate.
        """
        return ()

    def otherwise(self, program: Program) -> Keep | None:
        """Return what to look for in a program that does not fail so; None if nothing."""
        return None

    def describe(self) -> str:
        """Say in one sentence what fails and how it is recognised."""
        raise NotImplementedError

    def told(self, outcomes: Sequence[Outcome]) -> str:
        """Say what fails, with the message that was seen instead of its pattern.

        Args:
          outcomes: Those of `runs`, as far as runs were made.
        """
        return self.describe()

    @property
    def blamed(self) -> Blamed | None:
        """The primitive that is pinned, if one is."""
        return None

    def named(self, program: Program) -> tuple[str, ...]:
        """List the primitives of a program that the predicate itself names."""
        return ()

    def with_env(self, env: Env) -> Keep:
        """Return the predicate with environment variables for all runs beside its own."""
        return self

    def plain(self) -> Keep:
        """Return the predicate without the patterns of messages, for people."""
        return self

    @property
    def depends_on_values(self) -> bool:
        """Whether the failure is one of values, which a control can tell apart."""
        return False

    def is_fine(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        """Whether a program does not fail with its control inputs, in no like way.

        Args:
          outcomes: Those of `runs` with the control inputs.
          program: The program that was run.
        """
        return not self.holds(outcomes, program)

    def explain(
        self, outcomes: Sequence[Outcome], program: Program | None = None
    ) -> str:
        """Say in one or two sentences what happened instead."""
        return " ".join(dict.fromkeys(story(outcome) for outcome in outcomes))

    def other_failure(self, outcomes: Sequence[Outcome]) -> str | None:
        """Name a failure that is not the wanted one, for counting; None if it ran.

        Args:
          outcomes: Of the runs that were made: the first ones of `runs`.
        """
        found = (failure_label(outcome) for outcome in outcomes)
        return next((text for text in found if text), None)

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        """Write statements that show the failure of function `name` of a saved file.

        Without any, the file calls the function and prints what it returns.
        """
        return []

    @property
    def how_to_check(self) -> str:
        """Say how a saved file shows that it fails, if not by being run with Python."""
        return ""

    def check_imports(self) -> tuple[str, ...]:
        """List the import statements that `check_lines` needs."""
        return ()

    def wanted_output(self) -> int | None:
        """Return the output of the original that the predicate is about, if it is one."""
        return None

    def for_only_output(self) -> Keep:
        """Return the predicate for a program with no output but the wanted one."""
        return self

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        raise NotImplementedError

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        """Return the predicate for just the failure of these outcomes."""
        return self

    def __and__(self, other: Keep) -> Keep:
        return COMPOSED["&"](self, other)

    def __or__(self, other: Keep) -> Keep:
        return COMPOSED["|"](self, other)

    def __invert__(self) -> Keep:
        return COMPOSED["~"](self)

    def __str__(self) -> str:
        return to_text(self)


COMPOSED: dict[str, Callable[..., Keep]] = {}
"""What makes a predicate of others, by its operator; `composition` says it."""


@dataclass(frozen=True)
class RunningKeep(Keep):
    """A predicate that runs the program.

    Attributes:
      under: Transformation to apply first: "grad", "vmap" or "jvp".
      timeout_s: Wall time of a run, in seconds.
      env: Environment variables of a run: a mapping, or pairs of name and value.
      memory_bytes: Largest memory of the process.
    """

    under: str | None = field(default=None, kw_only=True)
    timeout_s: float = field(default=60.0, kw_only=True)
    env: Env = field(default=(), kw_only=True)
    memory_bytes: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        settle_env(self, self.env)
        if self.under not in TRANSFORMS:
            known = ", ".join(repr(name) for name in TRANSFORMS)
            raise KeepError(
                f"{self.WORD}: under must be one of {known}, not {self.under!r}"
            )
        check_number(self, "timeout_s", self.timeout_s)

    def run(self, action: str = "jit", *wants: str) -> Run:
        """Return the run of this predicate with some action."""
        return Run(
            action,
            self.under,
            self.env,
            wants=frozenset(wants),
            timeout_s=self.timeout_s,
            memory_bytes=self.memory_bytes,
        )

    def with_env(self, env: Env) -> Keep:
        return replace(self, env=tuple({**dict(env), **dict(self.env)}.items()))

    @property
    def runs(self) -> tuple[Run, ...]:
        return (self.run(),)

    def check_imports(self) -> tuple[str, ...]:
        return scripts.env_lines(self.env)

    @property
    def where(self) -> str:
        """Say under what the program is run, for `describe`."""
        under = f" under jax.{self.under}" if self.under else ""
        env = " with " + " ".join(f"{k}={v}" for k, v in self.env) if self.env else ""
        return under + env


def to_text(keep: Keep) -> str:
    """Write a predicate as the call that makes it."""
    given: list[str] = []
    for item in sorted(fields(keep), key=lambda item: item.kw_only is True):
        value = getattr(keep, item.name)
        if item.default is MISSING:
            given.append(repr(value))
        elif value != item.default:
            given.append(f"{item.name}={value!r}")
    return f"{keep.WORD}({', '.join(given)})"


def settle_env(keep: Keep, env: Any) -> None:
    """Settle the field `env`, given as a mapping or as pairs."""
    pairs = env.items() if isinstance(env, Mapping) else env
    try:
        settled = tuple((str(name), str(value)) for name, value in pairs)
    except (TypeError, ValueError):
        raise KeepError(
            f"{keep.WORD}: env must be a mapping, or pairs of name and value, not {env!r}"
        ) from None
    set_field(keep, "env", settled)


def check_number(keep: Keep, name: str, value: Any) -> None:
    """Raise unless an argument is a positive number."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not value > 0:
        raise KeepError(
            f"{keep.WORD}: {name} must be a number larger than 0, not {value!r}"
        )


def story(outcome: Outcome) -> str:
    """Say in a sentence what happened in a run."""
    at = f" at stage {outcome.stage!r}"
    if outcome.status == "ok" and outcome.exit_status is not None:
        return f"The command ended with status {outcome.exit_status}."
    if outcome.status == "ok" and _is_only_compiled(outcome):
        return "The program was compiled without a failure; it was not run."
    if outcome.status == "ok":
        n_bad = sum(bool(o.n_nan or o.n_inf) for o in outcome.outputs)
        outputs = counted(len(outcome.outputs), "output")
        outputs = f"{outputs}, {n_bad} of them with NaN or inf"
        return f"The program ran to its end ({outputs})."
    if outcome.status == "raised":
        words = f"{short_type(outcome)}: {messages.telling_line(outcome.message)}"
        if outcome.is_ours:
            return (
                f"It raised {words}{at}: the program cannot be run as it was written."
            )
        return f"The program raised {words}{at}."
    if outcome.status == "died":
        words = messages.last_words(outcome.stderr)
        return f"The process ended by {ending(outcome)}{at}{f': {words}' if words else '.'}"
    if outcome.status == "timeout":
        return f"The program was stopped after its time limit{at}."
    if outcome.status == "memory":
        return f"The program was stopped above its memory limit{at}."
    return f"The worker process was lost: {outcome.message}."


def _is_only_compiled(outcome: Outcome) -> bool:
    return "compile" in outcome.seconds and "run" not in outcome.seconds


def failure_label(outcome: Outcome) -> str | None:
    """Name a failure without what changes from program to program."""
    if outcome.status in ("ok", "lost") or outcome.is_ours:
        return None
    if outcome.status == "raised":
        words = messages.label(outcome.message)
        return f"{short_type(outcome)} at {outcome.stage}: {words}"
    if outcome.status == "died":
        words = messages.label(messages.last_words(outcome.stderr))
        return f"{ending(outcome)} at {outcome.stage}{f': {words}' if words else ''}"
    return f"{outcome.status} at {outcome.stage}"


def short_type(outcome: Outcome) -> str:
    """Return the name of an exception's type without its module."""
    return outcome.exception[0].rpartition(".")[2] if outcome.exception else "exception"


def ending(outcome: Outcome) -> str:
    """Say what ended a process."""
    return outcome.signal_name or f"exit status {outcome.exit_status}"


def is_match(expression: str | None, *texts: str) -> bool:
    """Whether an expression is found in one of several texts; None always is."""
    return expression is None or any(re.search(expression, text) for text in texts)


def check_expression(keep: Keep, name: str, expression: Any) -> None:
    """Raise unless an argument is None or a regular expression."""
    if expression is None:
        return
    try:
        re.compile(expression)
    except (re.error, TypeError) as error:
        raise KeepError(
            f"{keep.WORD}: {name} must be a regular expression, not {expression!r}: {error}"
        ) from None


def set_field(keep: Keep, name: str, value: Any) -> None:
    """Settle an argument in `__post_init__` of a frozen class."""
    object.__setattr__(keep, name, value)


def merged(runs: Iterable[Run]) -> tuple[Run, ...]:
    """List runs once each, in order."""
    return tuple(dict.fromkeys(runs))
