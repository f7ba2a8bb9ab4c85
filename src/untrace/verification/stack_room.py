"""Calling a long generated function with room for the frames below it.

CPython keeps the frames of a thread in chunks of 16 KB or more (`push_chunk` in
Python/pystate.c). A frame with a thousand locals may end just before its chunk does;
then every call that it makes maps a new chunk, and gives it back on return. Tracing
takes nearly twice as long in such a frame.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

_WORDS = 8_500
"""Just more than half of a chunk of 128 KB; the rest is for the frames below."""


def with_room(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a function at the beginning of a large chunk."""
    return _large(function, args, kwargs)


def _called(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    return function(*args, **kwargs)


_large = types.FunctionType(_called.__code__.replace(co_stacksize=_WORDS), globals())
