"""Steps that only make text better: one that fails is as if it had not been tried.

`optional` turns the function of such a step into an `OptionalStep`, and says what not
taking it gives. To take it for one `Subject` (a call, a function) is a `Decision`, which
can be left out alone. A step may change what it is given, so a file is not mended when
one raises: `writing` writes it again from the start without that decision. What the text
of a step does to the program, verification finds: `without_spoilers` looks for the
decisions to blame. The report names what was left out (`left_out_notes`), and in the
tests, under `UNTRACE_STRICT`, both are errors. `deciding` lists the decisions of a file,
and leaves out those that somebody refuses.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import time
import types
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    Sequence,
)
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from untrace.errors import LiftingError, reason
from untrace.stages import TimeIsOver, is_late, stop_if_late

STRICT = "UNTRACE_STRICT"
"""Environment variable under which a step that fails raises: in the tests."""

NOTE = "Written without a step that makes text better"
"""How the notes about steps that were left out begin."""

NOTE_ABOUT_MORE = "Written without steps that make text better"
"""The same for several of one reason."""

RAISED = "it raised"
"""How the reason begins why a step is left out that raised."""

MAX_SHOWN = 4
"""Decisions that such a note names."""

MAX_PARTS = 8
"""Into how many parts decisions are divided to find those to blame."""

MAX_SINGLY = 3
"""Decisions of one step that are left out one by one when they raise; then all are."""

MAX_SECONDS = 60.0
"""For finding out which step is to blame; no text that took longer is made again."""

P = ParamSpec("P")
T = TypeVar("T")


class Signal(Exception):
    """What is raised to be caught further up, and is no fault of the step it is raised in."""


class StepFailed(BaseException):
    """An optional step failed; no `except Exception` on the way to `writing` stops it."""


class Subject:
    """What a step may be taken for, or not; the first thing that it is given."""

    __slots__ = ()

    @property
    def subject(self) -> str:
        """What a report calls it, the same whenever the file is written."""
        raise NotImplementedError


class Decision(NamedTuple):
    """To take a step.

    Attributes:
      step: What it is called.
      subject: What it is taken for; "" for all that it is taken for.
    """

    step: str
    subject: str = ""

    def __str__(self) -> str:
        return f"`{self.step}`" + (f" ({self.subject})" if self.subject else "")


Called = dict[Decision, None]
"""Decisions, in the order in which they came up."""


@dataclass(eq=False, slots=True)
class _File:
    """A file that is being written.

    Attributes:
      left_out: The decisions that it is written without, and why.
      taken: Those that were taken, in order.
      called: Those that came up, taken or not, where that is noted.
    """

    left_out: dict[Decision, str] = field(default_factory=dict)
    taken: dict[Decision, None] = field(default_factory=dict)
    called: Called | None = None

    def leaves_out(self, step: str, about: str) -> bool:
        """Whether a step is left out for what it is given."""
        return (step, about) in self.left_out or (step, "") in self.left_out


# The file that is being written; None outside.
_file: ContextVar[_File | None] = ContextVar("file", default=None)
# What files are begun with; None if each is by itself.
_begun: ContextVar[_File | None] = ContextVar("begun", default=None)


# ---- steps -------------------------------------------------------------------------


class OptionalStep(Generic[P, T]):
    """A function, or method, that files can be written without.

    Attributes:
      name: Its qualified name.
      function: What it does.
      otherwise: What not taking it gives, with the same arguments.
      is_blamed: Whether it is left out where the text cannot be proved with it.
    """

    def __init__(
        self, function: Callable[P, T], otherwise: Callable[..., Any], is_blamed: bool
    ) -> None:
        functools.update_wrapper(self, function)
        self.is_blamed = is_blamed
        self.name = function.__qualname__
        self.function, self.otherwise = function, otherwise
        STEPS[self.name] = self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> T:
        stop_if_late()
        file = _file.get()
        if file is None:
            return self.function(*args, **kwargs)
        first = args[0] if args else None
        about = first.subject if isinstance(first, Subject) else ""
        key = self.name, about  # quicker to make than the decision that it equals
        if file.called is not None and key not in file.called:
            file.called[Decision(*key)] = None
        if file.left_out and file.leaves_out(*key):
            return self.otherwise(*args, **kwargs)
        try:
            made = self.function(*args, **kwargs)
        except Exception as error:
            if isinstance(error, Signal):
                raise
            why = f"{RAISED} {reason(error)}"
            n_raised = sum(one.step == self.name for one in file.left_out)
            decision = Decision(self.name, about if n_raised < MAX_SINGLY else "")
            file.left_out[decision] = why
            raise StepFailed(f"{decision}: {why}") from error
        if key not in file.taken and self._is_taken(made, args, kwargs):
            file.taken[Decision(*key)] = None
        return made

    def _is_taken(
        self, made: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> bool:
        """Whether a step did something, as far as its result shows."""
        if made is None:  # it may have changed what it was given
            return True
        other = self.otherwise(*args, **kwargs)
        if made is other:
            return False
        if isinstance(made, bool | str):
            return made != other
        return bool(made) if isinstance(made, Collection) else True

    def __get__(self, instance: object, owner: type) -> Callable[..., T]:
        return self if instance is None else types.MethodType(self, instance)


STEPS: dict[str, OptionalStep[..., Any]] = {}
"""All optional steps, by their names."""


def optional(
    otherwise: Callable[..., Any], is_blamed: bool = True
) -> Callable[[Callable[P, T]], OptionalStep[P, T]]:
    """Make a function one that files can be written without.

    Args:
      otherwise: What not taking the step gives, with the same arguments.
      is_blamed: Whether it is left out where the text cannot be proved with it; not if
        there is another way to mend what it does.
    """
    return lambda function: OptionalStep(function, otherwise, is_blamed)


def unchanged(first: Any, *args: Any, **kwargs: Any) -> Any:
    """Leave the first argument as it is."""
    return first


def gives(value: Any) -> Callable[..., Any]:
    """Give one value, whatever the arguments are."""
    return lambda *args, **kwargs: value


def makes(kind: Callable[[], Any]) -> Callable[..., Any]:
    """Give a new empty collection, whatever the arguments are."""
    return lambda *args, **kwargs: kind()


# ---- files -------------------------------------------------------------------------


def is_strict() -> bool:
    """Whether steps that fail are to raise."""
    return bool(os.environ.get(STRICT))


def writing(make: Callable[[], T]) -> T:
    """Write a file, again from the start without each decision that raises.

    What is written inside of it is a part of the same file.

    Raises:
      StepFailed: If a step raises under `UNTRACE_STRICT`.
    """
    if _file.get() is not None:
        return make()
    token = _file.set(_begun.get() or _File())
    try:
        while True:
            try:
                return make()
            except StepFailed:
                if is_strict():
                    raise
    finally:
        _file.reset(token)


@contextlib.contextmanager
def deciding(
    refused: Iterable[Decision] = (),
) -> Generator[Collection[Decision]]:
    """List the decisions that are taken in what is written inside, and leave some out.

    Args:
      refused: Those that are left out.

    Yields:
      The others, which are filled in, in the order in which they are first taken. It is
      the same in every run of the same program.
    """
    file = _File(dict.fromkeys(refused, "it was refused"))
    token = _begun.set(file)
    try:
        yield file.taken.keys()
    finally:
        _begun.reset(token)


def left_out_notes() -> tuple[str, ...]:
    """Name the decisions that the file being written is written without, and say why."""
    file = _file.get()
    left_out = file.left_out if file is not None else {}
    reasons: dict[str, list[str]] = {}
    for decision, why in left_out.items():
        if not decision.subject or Decision(decision.step) not in left_out:
            reasons.setdefault(why, []).append(str(decision))
    notes: list[str] = []
    for why, names in reasons.items():
        shown = names if len(names) <= MAX_SHOWN else [*names[: MAX_SHOWN - 1]]
        more = [f"{len(names) - len(shown)} more"] if len(shown) < len(names) else []
        listed = " and ".join([", ".join(shown), *more])
        notes.append(
            f"{NOTE if len(names) == 1 else NOTE_ABOUT_MORE}: {listed}; {why}."
        )
    return tuple(notes)


def without_spoilers(make: Callable[[], T], is_good: Callable[[T], bool]) -> T:
    """Make a text, again without the decisions that are to blame if it is not good.

    Without all steps first; if that is good, ever fewer are left out, by halves: steps,
    and then the decisions of the one that is to blame.

    Args:
      make: Writes and verifies the text; makes it anew each time.
      is_good: Whether it was proved.

    Returns:
      The text, which is not good if it is not without the steps either, or if there is
      one that took long to make.

    Raises:
      LiftingError: If it cannot be written.
      StepFailed: If steps are to blame, under `UNTRACE_STRICT`.
    """
    made = error = None
    start = time.monotonic()
    with _noting_calls() as called:
        try:
            made = make()
        except LiftingError:
            raise
        except Exception as raised:
            error = raised
    if made is not None and is_good(made):
        return made
    file = _file.get()
    is_quick = time.monotonic() - start < MAX_SECONDS
    if file is not None and (is_quick or made is None) and not is_late():
        why = "with it the text could not be proved"
        why = why if error is None else f"with it there was no text: {reason(error)}"
        found = _Trials(file.left_out, why, make, is_good).blamed(called)
        if found is not None and is_strict():
            raise StepFailed(f"{', '.join(map(str, found[0]))}: {why}") from error
        if found is not None:
            file.left_out |= dict.fromkeys(found[0], why)
            again = _taken_again(file.left_out, make, is_good)
            return found[1] if again is None else again
    if made is None:
        assert error is not None
        raise error
    return made


def _taken_again(
    left_out: dict[Decision, str], make: Callable[[], T], is_good: Callable[[T], bool]
) -> T | None:
    """Make a text with the steps that raised over what those had made that are to blame.

    Returns:
      The text; None if there are none, or they still raise.
    """
    raised = {one: why for one, why in left_out.items() if why.startswith(RAISED)}
    if not raised or is_late():
        return None
    for one in raised:
        del left_out[one]
    try:
        made = make()
        if is_good(made):
            return made
    except (Exception, StepFailed):
        pass  # they are left out, as before
    left_out |= raised
    return None


@contextlib.contextmanager
def _noting_calls() -> Generator[Called]:
    """Note which steps are called for what, left out or not."""
    file, called = _file.get() or _File(), Called()
    outer, file.called = file.called, called
    try:
        yield called
    finally:
        file.called = outer
        if outer is not None:
            outer.update(called)


@dataclass(frozen=True, eq=False, slots=True)
class _Trials(Generic[T]):
    """Makes a text without some decisions, because of what happens with them."""

    left_out: dict[Decision, str]
    why: str
    make: Callable[[], T]
    is_good: Callable[[T], bool]

    def blamed(self, called: Called) -> tuple[Sequence[Decision], T] | None:
        """Return decisions without which the text is good, and it; None if it never is.

        Args:
          called: What the steps were called for where the text is not good.
        """
        steps = [
            Decision(name)
            for name, step in sorted(STEPS.items())
            if step.is_blamed and Decision(name) not in self.left_out
        ]
        with _noting_calls() as instead:
            best = self.without(steps)
        if best is None:
            return None
        # Those that nothing asked for have no part in either text.
        asked = {one.step for one in (*called, *instead)}
        steps = [one for one in steps if one.step in asked]
        start = time.monotonic()
        steps, best = self.fewest(steps, best, start)
        if len(steps) != 1:
            return steps, best
        (step,) = steps
        single = [one for one in called if one.step == step.step]
        if len(single) < 2 or any(not one.subject for one in single):
            return steps, best
        # Another text may ask for others.
        made = None if self.is_over(start) else self.without(single)
        if made is None:
            return steps, best
        fewer, made = self.fewest(single, made, start)
        return (fewer, made) if len(fewer) < len(single) else (steps, best)

    def fewest(
        self, decisions: Sequence[Decision], best: T, start: float
    ) -> tuple[Sequence[Decision], T]:
        """Leave out ever fewer of some decisions; return the last that gave a good text.

        Parts of them alone, then all but a part, of ever smaller parts (delta debugging).
        """
        n_parts = 2
        while len(decisions) > 1 and not self.is_over(start):
            n_parts = min(n_parts, len(decisions))
            cuts = [i * len(decisions) // n_parts for i in range(n_parts + 1)]
            bounds = list(itertools.pairwise(cuts))
            tried = [decisions[i:j] for i, j in bounds]
            if n_parts > 2:
                tried += [[*decisions[:i], *decisions[j:]] for i, j in bounds]
            for fewer in tried:
                try:
                    made = None if is_late() else self.without(fewer)
                except TimeIsOver:
                    return decisions, best
                if made is not None:
                    decisions, best, n_parts = fewer, made, max(2, n_parts - 1)
                    break
            else:
                if n_parts >= min(MAX_PARTS, len(decisions)):
                    break
                n_parts *= 2
        return decisions, best

    def is_over(self, start: float) -> bool:
        """Whether the time to look for those to blame is used up."""
        return is_late() or time.monotonic() - start > MAX_SECONDS

    def without(self, decisions: Sequence[Decision]) -> T | None:
        """Make the text without some decisions; None if that does not make it good."""
        before = {one: self.left_out[one] for one in decisions if one in self.left_out}
        self.left_out.update(dict.fromkeys(decisions, self.why))
        try:
            made = self.make()
        except Exception:  # they were not to blame
            return None
        finally:  # one that raised meanwhile stays left out
            for one in decisions:
                del self.left_out[one]
            self.left_out.update(before)
        return made if self.is_good(made) else None
