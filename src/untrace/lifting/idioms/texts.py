"""Texts of literals in idioms: the same in all modules, and tried as they are printed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from untrace.ir import Literal
from untrace.lifting.imports import Imports, NotShared, SharedImports
from untrace.lifting.literals import Literals


def literal_texts(literal: Literal) -> Iterator[str]:
    """Write a scalar as one would in a call: bare, then with its exact type."""
    try:
        made = Literals(cast(Imports, SharedImports()))
        texts = [made.bare(literal.value), made.exact(literal.value, literal.aval)]
    except (NotShared, AttributeError):  # typed by a mesh, or no number at all
        return
    yield from dict.fromkeys(texts)
