"""What the tools take: callables, and programs that are known without arguments.

The latter are jaxprs, what `jax.jit(f).trace` returns, what `untrace.source` returns,
what is in one of the formats that are read (see `readers.formats`), and files that
untrace saved, which are executed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from untrace import jaxapi
from untrace.capture import Captured
from untrace.capture.capture import capture
from untrace.capture.jaxprs import capture_jaxpr, capture_traced, with_trees
from untrace.capture.user_code import user_code
from untrace.readers.formats import format_of, is_text, read
from untrace.result import Source
from untrace.saved_program import open_saved


def is_path(program: Any) -> bool:
    """Whether a program is a file, and so has mutable arrays and functions of its own."""
    return isinstance(program, str | os.PathLike) and not is_text(program)


def is_known(program: Any) -> bool:
    """Whether a program needs no arguments to be known."""
    return (
        jaxapi.is_jaxpr(program)
        or jaxapi.is_traced(program)
        or isinstance(program, Source)
        or is_path(program)
        or format_of(program) is not None
    )


def captured_program(
    program: Any,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Captured:
    """Capture a program of any kind; arguments are those of a callable.

    Raises:
      CaptureError: If the arguments cannot be traced.
      LoadError: If a text or a file cannot be read.
    """
    program = read(program)
    if isinstance(program, Source):
        return program.captured
    if is_path(program):
        return open_saved(Path(program)).captured()
    if jaxapi.is_jaxpr(program):
        return with_trees(capture_jaxpr(program))
    if jaxapi.is_traced(program):
        return capture_traced(program)
    static = static_argnums, static_argnames
    with user_code():
        return capture(program, args, kwargs or {}, *static)
