"""The lines of the user's code that operations come from, as their locations tell.

The frames of a location become the traceback of the equations that are stated for it, so
that these lead to the user's files as those of a traced function do. A statement is quoted
only where the file has code of that function at exactly that place.
"""

from __future__ import annotations

import functools
import types
from contextlib import nullcontext
from typing import Any

from untrace import jaxapi
from untrace.jaxapi.module_types import CodePlace
from untrace.recovery.quoting import code_with, quote_as

MAX_KNOWN = 4096


def made_at(frames: tuple[CodePlace, ...]) -> Any:
    """Return a context in which equations come from some frames, innermost first."""
    traceback = _traceback(frames) if frames else None
    return nullcontext() if traceback is None else jaxapi.with_traceback(traceback)


@functools.lru_cache(maxsize=MAX_KNOWN)
def _traceback(frames: tuple[CodePlace, ...]) -> Any:
    codes = [code for code in map(_code, frames) if code is not None]
    return jaxapi.traceback_of(codes) if codes else None


@functools.lru_cache(maxsize=MAX_KNOWN)
def _code(frame: CodePlace) -> types.CodeType | None:
    made = jaxapi.code_at(frame)
    if made is None or not frame.file.endswith(".py"):
        return made
    original = code_with(frame.file, frame.function, frame[2:])
    if original is not None:
        quote_as(made, original)
    return made
