"""The parameters of a generated function, and what they are bound to in the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from untrace.capture.trees import Tree


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the generated function; `kind` is one of `inspect.Parameter`."""

    name: str
    kind: Any
    tree: Tree


@dataclass(frozen=True, slots=True)
class Bound:
    """An argument, by position or keyword, and the parameter that it is bound to.

    `name` is legal and unique, `given` what the function calls it.
    """

    name: str
    kind: Any
    key: int | str
    given: str
