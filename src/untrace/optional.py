"""Steps that only make text better: one that fails is as if it had not been tried.

`optional` turns the function of such a step into an `OptionalStep`, and says what not
taking it gives. A step may change what it is given, so a file is not mended when one
raises: `writing` writes it again from the start without that step. What the text of a
step does to the program, verification finds: `without_spoilers` looks for the steps to
blame. The report names what was left out (`left_out_notes`), and in the tests, under
`UNTRACE_STRICT`, both are errors.
"""

from __future__ import annotations

import contextlib
import functools
import os
import time
import types
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar

from untrace.errors import LiftingError, reason

STRICT = "UNTRACE_STRICT"
"""Environment variable under which a step that fails raises: in the tests."""

NOTE = "Written without a step that makes text better"
"""How the notes about steps that were left out begin."""

NOTE_ABOUT_MORE = "Written without steps that make text better"
"""The same for several of one reason."""

MAX_SHOWN = 4
"""Steps that such a note names."""

MAX_SECONDS = 60.0
"""For finding out which step is to blame; no text that took longer is made again."""

P = ParamSpec("P")
T = TypeVar("T")


class Signal(Exception):
    """What is raised to be caught further up, and is no fault of the step it is raised in."""


class StepFailed(BaseException):
    """An optional step failed; no `except Exception` on the way to `writing` stops it."""


# The steps that the file being written is written without, and why; None outside.
_left_out: ContextVar[dict[str, str] | None] = ContextVar("left_out", default=None)
# The steps that have been called, left out or not, where that is noted.
_called: ContextVar[set[str] | None] = ContextVar("called", default=None)


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
        called = _called.get()
        if called is not None:
            called.add(self.name)
        left_out = _left_out.get()
        if left_out and self.name in left_out:
            return self.otherwise(*args, **kwargs)
        try:
            return self.function(*args, **kwargs)
        except Exception as error:
            if left_out is None or isinstance(error, Signal):
                raise
            why = left_out[self.name] = f"it raised {reason(error)}"
            raise StepFailed(f"`{self.name}`: {why}") from error

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
    """Write a file, again from the start without each optional step that raises.

    What is written inside of it is a part of the same file.

    Raises:
      StepFailed: If a step raises under `UNTRACE_STRICT`.
    """
    if _left_out.get() is not None:
        return make()
    token = _left_out.set({})
    try:
        while True:
            try:
                return make()
            except StepFailed:
                if is_strict():
                    raise
    finally:
        _left_out.reset(token)


def left_out_notes() -> tuple[str, ...]:
    """Name the steps that the file being written is written without, and say why."""
    reasons: dict[str, list[str]] = {}
    for name, why in (_left_out.get() or {}).items():
        reasons.setdefault(why, []).append(f"`{name}`")
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
    """Make a text, again without the optional steps that are to blame if it is not good.

    Without all of them first; if that is good, ever fewer are left out, by halves.

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
    left_out = _left_out.get()
    is_quick = time.monotonic() - start < MAX_SECONDS
    if left_out is not None and (is_quick or made is None):
        why = "with it the text could not be proved"
        why = why if error is None else f"with it there was no text: {reason(error)}"
        found = _Trials(left_out, why, make, is_good).blamed(called)
        if found is not None and is_strict():
            raise StepFailed(f"{', '.join(found[0])}: {why}") from error
        if found is not None:
            left_out |= dict.fromkeys(found[0], why)
            return found[1]
    if made is None:
        assert error is not None
        raise error
    return made


@contextlib.contextmanager
def _noting_calls() -> Generator[set[str]]:
    """Note which steps are called, left out or not."""
    outer, called = _called.get(), set[str]()
    token = _called.set(called)
    try:
        yield called
    finally:
        _called.reset(token)
        if outer is not None:
            outer |= called


@dataclass(frozen=True, eq=False, slots=True)
class _Trials(Generic[T]):
    """Makes a text without some of the steps, because of what happens with them."""

    left_out: dict[str, str]
    why: str
    make: Callable[[], T]
    is_good: Callable[[T], bool]

    def blamed(self, called: set[str]) -> tuple[Sequence[str], T] | None:
        """Return steps without which the text is good, and it; None if it never is.

        Args:
          called: The steps that the text which is not good was made with.
        """
        able = {name for name, step in STEPS.items() if step.is_blamed}
        names = sorted(able - self.left_out.keys())
        with _noting_calls() as instead:
            best = self.without(names)
        if best is None:
            return None
        # Those that nothing asked for have no part in either text.
        names = [name for name in names if name in called | instead]
        start = time.monotonic()
        while len(names) > 1 and time.monotonic() - start < MAX_SECONDS:
            middle = len(names) // 2
            for half in (names[:middle], names[middle:]):
                made = self.without(half)
                if made is not None:
                    names, best = half, made
                    break
            else:
                break
        return names, best

    def without(self, names: Sequence[str]) -> T | None:
        """Make the text without some steps; None if that does not make it good."""
        self.left_out.update(dict.fromkeys(names, self.why))
        try:
            made = self.make()
        except Exception:  # the steps were not to blame
            return None
        finally:  # one that raised meanwhile stays left out
            for name in names:
                del self.left_out[name]
        return made if self.is_good(made) else None
