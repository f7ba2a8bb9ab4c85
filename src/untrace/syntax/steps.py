"""The way from a value to a part of it, step by step: `["layers"][0].weight`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias, TypeVar


@dataclass(frozen=True, slots=True)
class Item:
    """The item under a key, or of an index: `["w"]`, `[0]`."""

    key: Any

    @property
    def word(self) -> str:
        """What says which it is."""
        return str(self.key)


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute, by its name: `.weight`."""

    word: str


@dataclass(frozen=True, slots=True)
class Slice:
    """Items in a row: `[1:]`."""

    start: int | None = None
    stop: int | None = None
    step: int | None = None
    word: ClassVar[str] = ""

    @property
    def key(self) -> slice:
        """What takes them."""
        return slice(self.start, self.stop, self.step)


Step: TypeAlias = Item | Attribute | Slice
Path: TypeAlias = tuple[Step, ...]
_Step = TypeVar("_Step")


def taken(value: Any, step: Step) -> Any:
    """Return the part of a value that a step leads to."""
    return getattr(value, step.word) if isinstance(step, Attribute) else value[step.key]


def leads_into(path: Path, begin: Path) -> bool:
    """Whether a path begins with another one."""
    return path[: len(begin)] == begin


def ends_with(path: Path, end: Path) -> bool:
    """Whether a path ends with another one."""
    return len(path) >= len(end) and path[len(path) - len(end) :] == end


def without_end(path: Path, end: Path) -> Path:
    """Return what leads to where another path begins, which this one ends with."""
    return path[: len(path) - len(end)]


def common(paths: Sequence[tuple[_Step, ...]]) -> tuple[_Step, ...]:
    """Return the steps that all paths begin with.

    >>> common([("a", "b"), ("a", "c")])
    ('a',)
    """
    shared: list[_Step] = []
    for first, *others in zip(*paths):
        if any(step != first for step in others):
            break
        shared.append(first)
    return tuple(shared)
