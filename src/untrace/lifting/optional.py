"""Steps that only make text better: one that fails is as if it had not been tried.

Such a step takes lines and returns better ones. If it raises, its lines stay as they
were, and the report names it; what it makes wrong, verification finds, and then all of
them are left out.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable, Generator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Concatenate, ParamSpec

STRICT = "UNTRACE_STRICT"
"""Environment variable under which a step that fails raises: in the tests."""

STEPS: list[Callable[..., list[str]]] = []
"""All optional steps."""

REPLACED: dict[str, Callable[..., list[str]]] = {}
"""What tests put into the places of steps, by their names."""

P = ParamSpec("P")
Step = Callable[Concatenate[Sequence[str], P], list[str]]


@dataclass(slots=True)
class Taken:
    """What became of the optional steps of one text."""

    are_taken: bool = True
    n_changes: int = 0
    undone: list[str] = field(default_factory=list[str])


_taken: ContextVar[Taken | None] = ContextVar("taken", default=None)


@contextlib.contextmanager
def optional_steps(are_taken: bool = True) -> Generator[Taken, None, None]:
    """Take optional steps, or none, and tell what became of them.

    Within another such context, that one goes on.
    """
    outer = _taken.get()
    if outer is not None and are_taken:
        yield outer
        return
    taken = Taken(are_taken)
    token = _taken.set(taken)
    try:
        yield taken
    finally:
        _taken.reset(token)


def is_strict() -> bool:
    """Whether steps that fail are to raise."""
    return bool(os.environ.get(STRICT))


def optional(step: Step[P]) -> Step[P]:
    """Make a step one that may fail without harm."""

    @functools.wraps(step)
    def guarded(lines: Sequence[str], *args: P.args, **kwargs: P.kwargs) -> list[str]:
        taken = _taken.get() or Taken()
        if not taken.are_taken:
            return list(lines)
        before = list(lines)
        try:
            made = REPLACED.get(step.__name__, step)(lines, *args, **kwargs)
        except Exception as error:
            if is_strict():
                raise
            kind = type(error).__name__
            note = (
                "A step that makes text shorter failed and was left out: "
                f"`{step.__name__}` ({kind}: {error})."
            )
            if note not in taken.undone:
                taken.undone.append(note)
            return before
        taken.n_changes += made != before
        return made

    STEPS.append(guarded)
    return guarded
