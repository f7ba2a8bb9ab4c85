"""Predicates on how a program ends: crashes, exceptions, hangs."""

from __future__ import annotations

import signal as _signals
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from untrace.ir import all_equations
from untrace.reduction.keeping import messages, scripts
from untrace.reduction.keeping.base import (
    Keep,
    KeepError,
    RunningKeep,
    check_expression,
    is_match,
    set_field,
)
from untrace.reduction.outcome import EARLY, STAGES, Outcome, Run
from untrace.reduction.program import Program


class Staged(RunningKeep):
    """A predicate on how a program ends that may know at which stage.

    What fails before the program runs is not run: candidates that would run for ever,
    such as a loop whose end was cut, cost no more than others.
    """

    stage: str | None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.stage is not None and self.stage not in STAGES:
            known = ", ".join(STAGES)
            raise KeepError(
                f"{self.WORD}: stage must be one of {known}, not {self.stage!r}"
            )

    @property
    def runs(self) -> tuple[Run, ...]:
        return (_staged(self),)


def _staged(keep: Staged, *wants: str) -> Run:
    """Return the run that a stage needs; large programs may fail equation by equation."""
    if keep.stage in EARLY:
        return keep.run("compile", *wants)
    return keep.run("jit", "alone", *wants)


@dataclass(frozen=True)
class Crashes(Staged):
    """The process dies: a signal, or an exit that Python did not make.

    Attributes:
      signal: Name or number of the signal, such as "SIGSEGV"; any if None.
      message: Regular expression to be found in the process's stderr, such as the text
        of a failed check.
      stage: Where it dies: "trace", "lower", "compile" or "run".
      exit_status: Status of a process that ended itself.
      stack: Where in native code it crashes: "module+offset" of the frames down to the
        first of no system library. () asks for it, to be pinned.

    >>> str(Crashes(signal="SIGABRT", message="Check failed"))
    "crashes(signal='SIGABRT', message='Check failed')"
    """

    signal: str | None = None
    message: str | None = None
    stage: str | None = None
    exit_status: int | None = None
    stack: tuple[str, ...] | None = field(default=None, kw_only=True)

    WORD: ClassVar[str] = "crashes"

    @property
    def runs(self) -> tuple[Run, ...]:
        wants = () if self.stack is None else ("stack",)
        return (_staged(self, *wants),)

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "signal", _signal_name(self.signal))
        check_expression(self, "message", self.message)

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        outcome = outcomes[0]
        return (
            outcome.status == "died"
            and outcome.stage != "load"  # nothing of the program runs there
            and self.signal in (None, outcome.signal_name)
            and self.exit_status in (None, outcome.exit_status)
            and self.stage in (None, outcome.stage)
            and is_match(self.message, outcome.stderr)
            and (not self.stack or outcome.stack == self.stack)
        )

    def closer(self, pinned: Keep) -> tuple[Keep, ...]:
        if not isinstance(pinned, Crashes) or pinned.signal not in _NATIVE:
            return ()
        says_more = pinned.message or pinned.stack is not None
        return () if says_more else (replace(pinned, stack=()),)

    def other_failure(self, outcomes: Sequence[Outcome]) -> str | None:
        label = super().other_failure(outcomes)
        where = next((o.stack for o in outcomes if o.stack), ())
        return f"{label} in {where[-1]}" if label and where else label

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        outcome = outcomes[0]
        return replace(
            self,
            signal=outcome.signal_name or None,
            exit_status=outcome.exit_status,
            stage=outcome.stage,
            stack=(outcome.stack or None) if self.stack == () else self.stack,
            message=self.message
            or messages.pattern(messages.last_words(outcome.stderr), said_by(program)),
        )

    def told(self, outcomes: Sequence[Outcome]) -> str:
        words = messages.last_words(outcomes[0].stderr) if outcomes else ""
        said = f" It says: {words}" if words else ""
        where = f" In native code: {' < '.join(self.stack)}." if self.stack else ""
        return f"{self.plain().describe()}{said}{where}"

    def plain(self) -> Keep:
        return replace(self, message=None, stack=None)

    def describe(self) -> str:
        by = self.signal or (
            f"exit status {self.exit_status}" if self.exit_status else "any signal"
        )
        at = f" at stage {self.stage!r}" if self.stage else ""
        saying = f", saying {self.message!r}" if self.message else ""
        where = f" in {self.stack[-1]}" if self.stack else ""
        return f"The process dies by {by}{at}{where}{self.where}{saying}."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        return [
            *scripts.shown_lines(name, self.under, program),
            'print("no crash: the failure is not there")',
        ]


@dataclass(frozen=True)
class Raises(Staged):
    """The program raises an exception.

    Attributes:
      type: Class, or its name with or without the module; subclasses match.
      message: Regular expression to be found in the message.
      stage: Where it is raised: "trace" (under a transformation: the program itself was
        traced before), "lower", "compile" or "run".

    >>> str(Raises(ValueError, stage="lower"))
    "raises(type='ValueError', stage='lower')"
    """

    type: Any = None
    message: str | None = None
    stage: str | None = None

    WORD: ClassVar[str] = "raises"

    def __post_init__(self) -> None:
        super().__post_init__()
        set_field(self, "type", _type_name(self.type))
        check_expression(self, "message", self.message)

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        outcome = outcomes[0]
        return (
            outcome.status == "raised"
            and not outcome.is_ours
            and (self.type is None or _is_type(self.type, outcome.exception))
            and self.stage in (None, outcome.stage)
            and is_match(self.message, outcome.message)
        )

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        outcome = outcomes[0]
        return replace(
            self,
            type=_short(outcome.exception[0]),
            stage=outcome.stage,
            message=self.message or messages.pattern(outcome.message, said_by(program)),
        )

    def told(self, outcomes: Sequence[Outcome]) -> str:
        words = messages.telling_line(outcomes[0].message) if outcomes else ""
        said = f" It says: {words}" if words else ""
        return f"{self.plain().describe()}{said}"

    def plain(self) -> Keep:
        return replace(self, message=None)

    def describe(self) -> str:
        at = f" at stage {self.stage!r}" if self.stage else ""
        saying = f", saying {self.message!r}" if self.message else ""
        return f"It raises {self.type or 'an exception'}{at}{self.where}{saying}."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        return [
            *scripts.shown_lines(name, self.under, program),
            'print("no exception: the failure is not there")',
        ]


@dataclass(frozen=True)
class Hangs(Staged):
    """The program does not end within `timeout_s`, which includes tracing.

    Attributes:
      timeout_s: After how many seconds it counts as hanging.
      stage: Where it hangs.

    >>> str(Hangs(5.0))
    'hangs(timeout_s=5.0)'
    """

    timeout_s: float = 60.0
    stage: str | None = None

    WORD: ClassVar[str] = "hangs"

    def _is_kept(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        outcome = outcomes[0]
        is_late = outcome.status == "timeout" and outcome.stage != "load"
        return is_late and self.stage in (None, outcome.stage)

    @property
    def depends_on_values(self) -> bool:
        return self.stage in (None, "run")

    @property
    def is_slow(self) -> bool:
        return True

    def is_fine(self, outcomes: Sequence[Outcome], program: Program) -> bool:
        return outcomes[0].status == "ok"

    def _pinned(self, outcomes: Sequence[Outcome], program: Program) -> Keep:
        return replace(self, stage=outcomes[0].stage)

    def describe(self) -> str:
        at = f"; it stands at stage {self.stage!r}" if self.stage else ""
        return f"It does not end within {self.timeout_s:g} s{self.where}{at}."

    def check_lines(self, name: str, program: Program | None = None) -> list[str]:
        return [
            f"faulthandler.dump_traceback_later({self.timeout_s!r}, exit=True)  # it hangs: status 1",
            *scripts.waiting_lines(name, self.under),
            "faulthandler.cancel_dump_traceback_later()",
            'print("it ended: the failure is not there")',
        ]

    def check_imports(self) -> tuple[str, ...]:
        return ("import faulthandler", *super().check_imports())


def said_by(program: Program) -> frozenset[str]:
    """Collect the words that equations say: names of primitives, and strings in params."""
    found: set[str] = set()
    for eqn in all_equations(program.block):
        found.add(eqn.name)
        found.update(
            value
            for key, value in eqn.params.items()
            if isinstance(value, str) and key != "name"  # of a function
        )
    return frozenset(found)


_NATIVE = frozenset(("SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL"))
"""Signals of which a message rarely says why."""


def _signal_name(given: Any) -> str | None:
    if given is None:
        return None
    known = {item.name: item for item in _signals.Signals}
    if isinstance(given, int) and given in {int(item) for item in known.values()}:
        return _signals.Signals(given).name
    for spelling in (str(given).upper(), f"SIG{str(given).upper()}"):
        if spelling in known:
            return spelling
    if str(given).startswith("signal "):  # of a real-time signal, as pinned
        return str(given)
    raise KeepError(
        f"crashes: {given!r} is no signal of this system; known are {', '.join(known)}"
    )


def _type_name(given: Any) -> str | None:
    if given is None:
        return None
    if isinstance(given, type):
        module, name = given.__module__, given.__qualname__
        return name if module == "builtins" else f"{module}.{name}"
    if isinstance(given, str) and given.replace(".", "").isidentifier():
        return given
    raise KeepError(f"raises: type must be an exception or its name, not {given!r}")


def _is_type(wanted: str, names: Sequence[str]) -> bool:
    """Compare qualified names, or last parts where one has no module."""
    if "." in wanted and wanted in names:
        return True
    return _short(wanted) in {_short(name) for name in names} and (
        "." not in wanted or wanted.startswith(("jax.", "jaxlib."))
    )


def _short(name: str) -> str:
    return name.rpartition(".")[2]
