"""Steps that only make text better: one that fails is as if it had not been tried.

`optional` turns the function of such a step into an `OptionalStep`, and says what not
taking it gives. A step may change what it is given, so a file is not mended when one
raises: `writing` writes it again from the start without that step. What the text of a
step does to the program, verification finds: `without_spoilers` looks for the steps to
blame. The report names what was left out (`left_out_notes`), and in the tests, under
`UNTRACE_STRICT`, both are errors.
"""

from __future__ import annotations

import functools
import os
import time
import types
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from untrace.errors import LiftingError

STRICT = "UNTRACE_STRICT"
"""Environment variable under which a step that fails raises: in the tests."""

NOTE = "Written without a step that makes text better"
"""How the notes about steps that were left out begin."""

MAX_SECONDS = 60.0  # for finding out which step is to blame
_NOT_PROVED = "with it the text could not be proved"

P = ParamSpec("P")
T = TypeVar("T")


class Signal(Exception):
    """What is raised to be caught further up, and is no fault of the step it is raised in."""


class StepFailed(BaseException):
    """An optional step failed; no `except Exception` on the way to `writing` stops it."""


@dataclass(eq=False, slots=True)
class _Job:
    """The writing of one file: the optional steps taken, and why others were left out."""

    taken: set[str] = field(default_factory=set[str])
    left_out: dict[str, str] = field(default_factory=dict[str, str])


_job: ContextVar[_Job | None] = ContextVar("job", default=None)


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
        job = _job.get()
        if job is None:
            return self.function(*args, **kwargs)
        if self.name in job.left_out:
            return self.otherwise(*args, **kwargs)
        if self.is_blamed:
            job.taken.add(self.name)
        try:
            return self.function(*args, **kwargs)
        except Signal:
            raise
        except Exception as error:
            why = job.left_out[self.name] = " ".join(
                f"it raised {_named(error)}".split()
            )
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
    if _job.get() is not None:
        return make()
    token = _job.set(_Job())
    try:
        while True:
            try:
                return make()
            except StepFailed:
                if is_strict():
                    raise
    finally:
        _job.reset(token)


def left_out_notes() -> tuple[str, ...]:
    """Name the steps that the file being written is written without, and say why."""
    job = _job.get()
    left_out = job.left_out if job is not None else {}
    return tuple([f"{NOTE}: `{name}`; {why}." for name, why in left_out.items()])


def without_spoilers(make: Callable[[], T], is_good: Callable[[T], bool]) -> T:
    """Make a text, again without the optional steps that are to blame if it is not good.

    Without all of them first; if that is good, ever fewer are left out, by halves.

    Args:
      make: Writes and verifies the text; makes it anew each time.
      is_good: Whether it was proved.

    Returns:
      The text, which is not good if it is not without the steps either.

    Raises:
      LiftingError: If it cannot be written.
      StepFailed: If steps are to blame, under `UNTRACE_STRICT`.
    """
    made = error = None
    try:
        made = make()
    except LiftingError:
        raise
    except Exception as raised:
        error = raised
    if made is not None and is_good(made):
        return made
    job = _job.get()
    names = sorted(job.taken - job.left_out.keys()) if job is not None else []
    found = _blamed(names, lambda some: _made_without(some, make, is_good))
    if found is not None and job is not None:
        names, made = found
        if is_strict():
            raise StepFailed(f"{', '.join(names)}: {_NOT_PROVED}") from error
        job.left_out |= dict.fromkeys(names, _NOT_PROVED)
    if made is None:
        assert error is not None
        raise error
    return made


def _blamed(
    names: list[str], tried: Callable[[Sequence[str]], T | None]
) -> tuple[list[str], T] | None:
    """Return the steps without which a text is good, and the text; None if it never is."""
    best = tried(names) if names else None
    if best is None:
        return None
    start = time.monotonic()
    while len(names) > 1 and time.monotonic() - start < MAX_SECONDS:
        middle = len(names) // 2
        for half in (names[:middle], names[middle:]):
            made = tried(half)
            if made is not None:
                names, best = half, made
                break
        else:
            break
    return names, best


def _made_without(
    names: Sequence[str], make: Callable[[], T], is_good: Callable[[T], bool]
) -> T | None:
    """Make a text without some steps; None if that does not make it good."""
    with _leaving_out(names):
        try:
            made = make()
        except Exception:  # the steps were not to blame
            return None
    return made if is_good(made) else None


@contextmanager
def _leaving_out(names: Sequence[str]) -> Generator[None, None, None]:
    job = _job.get()
    assert job is not None
    job.left_out |= dict.fromkeys(names, _NOT_PROVED)
    try:
        yield
    finally:  # one that raised meanwhile stays left out
        for name in names:
            del job.left_out[name]


def _named(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
