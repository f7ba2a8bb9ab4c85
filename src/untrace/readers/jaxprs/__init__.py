"""Printed jaxprs: what `str(jaxpr)` and `print(jax.make_jaxpr(f)(x))` say."""

from __future__ import annotations

import re
from typing import Any

import jax

from untrace import jaxapi
from untrace.errors import ParseError
from untrace.readers.jaxprs import grammar, tokens
from untrace.readers.jaxprs.finding import (
    blanked,
    odd_names,
    places,
    without_colors,
)

_IN = re.compile(r"\s*in\b\s*(?:let\b|\{)")
MAX_TRIED = 20
"""How many beginnings of jaxprs in a text are tried, if the first ones are none."""


def parse(text: str) -> Any:
    """Read a printed jaxpr.

    Every release of JAX since 0.4.30 prints what is read, and older ones most of it.
    Nothing of the text is executed, and JAX checks every equation.

    Args:
      text: What `str(jaxpr)` says, possibly with other text around it: the first jaxpr
        that can be read is taken.

    Returns:
      The `jax.core.ClosedJaxpr`. Constants, whose values are not printed, are its first
      arguments; its debug info names arguments as the text does. Derivative rules are
      those of JAX's own functions; others say that they are not known when they are
      asked.

    Raises:
      ParseError: If there is no jaxpr, or it cannot be read, or does not say everything;
        with line, column and the line shown.

    >>> parse("{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }").in_avals
    [ShapedArray(float32[3])]
    """
    text = without_colors(text)
    starts = places(text)[:MAX_TRIED]
    if not starts:
        raise ParseError(
            "there is no jaxpr in this text",
            text,
            len(text) - len(text.lstrip()),
            "A printed jaxpr begins with `{ lambda`, and JAX prints one by "
            "`print(jax.make_jaxpr(f)(x))`.",
        )
    first: ParseError | None = None
    for start in starts:
        try:
            return _parse_at(text, start)
        except ParseError as error:
            first = first or error
    assert first is not None
    raise first


def _parse_at(text: str, start: int) -> Any:
    # What makes equations imports much of JAX, which most programs do not need.
    from untrace.readers.jaxprs import building, types

    text = blanked(text, start)
    names = odd_names(text, start)
    tree, end = grammar.read(tokens.split(text, start, names=names))
    if _IN.match(text, end):
        raise ParseError(
            "the name of this definition is not understood",
            text,
            start,
            "JAX writes names as they are. Give it another one here and where it is used.",
        )
    is_wide = jaxapi.is_wide() or types.is_wide(text[start:end])
    with jaxapi.paused_collection(), jax.enable_x64(is_wide):
        return building.build(tree, text)
