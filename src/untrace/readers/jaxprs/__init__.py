"""Printed jaxprs: what `str(jaxpr)` and `print(jax.make_jaxpr(f)(x))` say."""

from __future__ import annotations

from typing import Any

import jax

from untrace import jaxapi
from untrace.readers.jaxprs import building, grammar, tokens, types


def parse(text: str) -> Any:
    """Return the jaxpr that a text says, as `str(jaxpr)` writes it.

    Raises:
      ParseError: If it says none, or not all of one.
    """
    tree, _ = grammar.read(tokens.split(text))
    with jaxapi.paused_collection(), jax.enable_x64(_is_wide(text)):
        return building.build(tree, text)


def _is_wide(text: str) -> bool:
    return jaxapi.is_wide() or types.is_wide(text)
