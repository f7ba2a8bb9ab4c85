"""Texts of literals in idioms: the same in all modules, and tried as they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from untrace.ir import Literal
from untrace.lifting.imports import Imports, NotShared, SharedImports
from untrace.lifting.literals import Literals


def number_text(value: Any) -> str:
    """Write a number as one would in a call."""
    return Literals(cast(Imports, SharedImports())).bare(value)


def literal_texts(literal: Literal) -> Iterator[str]:
    """Write a scalar as one would in a call: bare, then with its exact type."""
    try:
        made = Literals(cast(Imports, SharedImports()))
        texts = [made.bare(literal.value), made.exact(literal.value, literal.aval)]
    except (NotShared, AttributeError):  # typed by a mesh, or no number at all
        return
    yield from dict.fromkeys(texts)
