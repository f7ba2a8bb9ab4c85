"""The public function `load`: a program of any kind as a function to be called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from untrace.interpreters.programs import program_of
from untrace.readers.formats import read, refuse_unread


def load(program: Any) -> Callable[..., Any]:
    """Return a program as a function.

    Args:
      program: A printed jaxpr, StableHLO, an exported or lowered function (text, bytes,
        or the path of a file in which it stands), a
        jaxpr, a `jax.stages.Traced`, a `Source`, or the path of a file that untrace
        saved, which is EXECUTED.

    Returns:
      The function; of a jaxpr it takes the inputs one by one and returns its result, or
      a tuple of them. It can be traced, transformed and run as any other.

    Raises:
      LoadError: If a text or file cannot be read; `ParseError` says where.
      CallError: If it is none of these.

    >>> double = load("{ lambda ; a:f32[]. let b:f32[] = mul a 2.0:f32[] in (b,) }")
    >>> float(double(3.0))
    6.0
    """
    found = read(program)
    refuse_unread(found)
    return program_of(found).function
