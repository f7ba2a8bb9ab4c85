# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false
"""Equations that come from where a text says, and not from the code that reads it."""

from __future__ import annotations

import _thread
import ast
import contextlib
import queue
import types
from collections.abc import Generator, Sequence
from typing import Any

from jax._src import source_info_util as _source_info_util
from jax._src.lib import xla_client as _xla_client

from untrace.jaxapi.module_types import CodePlace


def code_at(place: CodePlace) -> types.CodeType | None:
    """Return code that stands at a place; None if no code can stand there.

    It calls the global `run`, and is made of nothing but numbers and names.
    """
    file, function, *numbers = place
    where = dict(zip(("lineno", "col_offset", "end_lineno", "end_col_offset"), numbers))
    call = ast.Call(ast.Name("run", ast.Load(), **where), [], [], **where)
    none = ast.arguments([], [], None, [], [], None, [])
    expression = ast.Expression(ast.Lambda(none, call, **where))
    try:
        module = compile(expression, file, "eval", dont_inherit=True)
    except (OverflowError, SyntaxError, ValueError):
        return None
    (code,) = [c for c in module.co_consts if isinstance(c, types.CodeType)]
    name = function or "<module>"
    return code.replace(co_name=name.rpartition(".")[2], co_qualname=name)


def traceback_of(codes: Sequence[types.CodeType]) -> Any:
    """Return the traceback of a stack of code (see `code_at`), innermost first."""
    made: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def run() -> None:
        made.put(_xla_client.Traceback.get_traceback())

    for code in codes:
        run = types.FunctionType(code, {"run": run})
    # A thread has no other frames; those of the caller do not belong to it.
    _thread.start_new_thread(run, ())
    return made.get()


class TextSourceInfo(_source_info_util.SourceInfo):
    """Where an equation comes from that was read from a text: a line of it."""

    __slots__ = ("line", "text")

    def __init__(self, line: int, text: str) -> None:
        """Take the number of a line, from 1, and what it says."""
        super().__init__(None, _source_info_util.NameStack())
        self.line = line
        self.text = text


def text_line(source_info: Any) -> tuple[int, str] | None:
    """Return the line of a text that an equation was read from, if it was."""
    is_read = isinstance(source_info, TextSourceInfo)
    return (source_info.line, source_info.text) if is_read else None


@contextlib.contextmanager
def with_traceback(traceback: Any) -> Generator[None, None, None]:
    """Return a context in which equations come from where a traceback says.

    JAX's own would add that to exceptions, too, as if the code had run.
    """
    held = _source_info_util._source_info_context
    before = held.context
    held.context = before.replace(traceback=traceback)
    try:
        yield
    finally:
        held.context = before
