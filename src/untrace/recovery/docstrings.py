"""The docstrings that the program's own functions have."""

from __future__ import annotations

import inspect
import types

from untrace.optional import gives, optional
from untrace.recovery.record import is_library

_HAS_DOCSTRING: int | None = getattr(inspect, "CO_HAS_DOCSTRING", None)
"""The flag of code whose first constant is its docstring; Python 3.14 has it."""


@optional(gives(""))
def docstring_of(code: types.CodeType) -> str:
    """Return the docstring of a function as it was written, without its indentation.

    Args:
      code: The code of the function. What it was compiled from counts, and not what
        `__doc__` was set to since.

    Returns:
      The text; "" if there is none, or if the function is a library's.
    """
    if is_library(code) or code.co_name.startswith("<"):
        return ""
    if _HAS_DOCSTRING is not None and not code.co_flags & _HAS_DOCSTRING:
        return ""
    # Earlier, the first constant is the docstring or None.
    first = code.co_consts[0] if code.co_consts else None
    return inspect.cleandoc(first) if type(first) is str else ""
