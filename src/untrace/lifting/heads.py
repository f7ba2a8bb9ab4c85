"""The parameters of functions that are written."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

_Name = TypeVar("_Name")


class Parameter(NamedTuple, Generic[_Name]):
    """One parameter: `x`, `x=1.0`, `*args`, `**options`, or one that is passed by name.

    Attributes:
      name: Its name: a text, or a value whose text is not known yet.
      default: The text of its default, if it has one.
      stars: "*" or "**", if it takes what is left of the arguments.
      is_keyword: It stands behind `*`.
    """

    name: _Name
    default: str = ""
    stars: str = ""
    is_keyword: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether it takes one argument, by position or by name, and has no default."""
        return not (self.default or self.stars or self.is_keyword)


Parameters = tuple[Parameter[str], ...]
ANY_ARGUMENTS: Parameters = (Parameter("args", stars="*"),)
"""Those of a function that is given what it does not look at."""


def plain_head(*names: str) -> Parameters:
    """Parameters that take one argument each."""
    return tuple([Parameter(name) for name in names])


def n_plain(parameters: Sequence[Parameter[Any]]) -> int:
    """The number of parameters before those with stars or defaults."""
    return sum(1 for _ in itertools.takewhile(lambda one: one.is_plain, parameters))


def head_text(parameters: Parameters, kinds: Mapping[str, str] | None = None) -> str:
    """The text of a parameter list.

    Args:
      kinds: What annotations say of some of them.
    """
    texts: list[str] = []
    is_behind_star = False
    for name, default, stars, is_keyword in parameters:
        if is_keyword and not is_behind_star:
            texts.append("*")
            is_behind_star = True
        is_behind_star |= stars == "*"
        kind = kinds.get(name, "") if kinds and not stars else ""
        text = f"{stars}{name}: {kind}" if kind else stars + name
        equals = " = " if kind else "="
        texts.append(f"{text}{equals}{default}" if default else text)
    return ", ".join(texts)
