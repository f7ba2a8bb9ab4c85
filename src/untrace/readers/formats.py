"""The formats that are read, recognised by their content.

What is read is an object of JAX or of another library, or the content of a file: text, or
bytes if it is none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from untrace.errors import LoadError, ParseError
from untrace.readers import jaxprs
from untrace.readers.jaxprs.finding import looks_like_jaxpr, without_colors


class Format(NamedTuple):
    """A format that programs come in.

    Attributes:
      name: As in "read from {name}": "a printed jaxpr".
      recognises: Whether an object, a text or bytes look like it. Cheap, and without
        importing what only this format needs.
      read: Makes a closed jaxpr of it, whose debug info names arguments and results.
        Raises `LoadError`, with the place and what to do next.
    """

    name: str
    recognises: Callable[[Any], bool]
    read: Callable[[Any], Any]


def _is_printed_jaxpr(program: Any) -> bool:
    return isinstance(program, str) and looks_like_jaxpr(without_colors(program))


FORMATS: list[Format] = [
    Format("a printed jaxpr", _is_printed_jaxpr, jaxprs.parse),
]
"""The first that recognises a program reads it."""

_TEXT = re.compile(r"\n|\{\s*lambda\b")


def format_of(program: Any) -> Format | None:
    """Return the format of an object or a content, if it is one of those that are read."""
    return next((known for known in FORMATS if known.recognises(program)), None)


def content(path: Path) -> str | bytes:
    """Return what a file holds: text if it is UTF-8.

    Raises:
      OSError: If it cannot be read.
    """
    data = path.read_bytes()
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def is_text(program: Any) -> bool:
    """Whether a `str` is the text of a program; else it names a file.

    >>> is_text("{ lambda ; a:f32[]. let in (a,) }"), is_text("model.py")
    (True, False)
    """
    return isinstance(program, str) and _TEXT.search(program) is not None


def read(program: Any) -> Any:
    """Return the jaxpr of a program in one of the formats, and all else as it is.

    Args:
      program: An object, the text of a program, or the path of a file. Files of Python
        are none of the formats, whatever they quote.

    Raises:
      LoadError: If it is text in no format, or cannot be read.
    """
    if is_text(program):
        known = format_of(program)
        if known is None:
            raise LoadError(f"this text is in no format that is read: {_listed()}.")
        return known.read(program)
    if not isinstance(program, str | os.PathLike):
        known = format_of(program)
        return program if known is None else known.read(program)
    path = Path(program)
    if path.suffix == ".py" or not path.is_file():
        return program
    try:
        data = content(path)
    except OSError as error:
        raise LoadError(f"cannot read {path}: {error.strerror or error}.") from error
    known = format_of(data)
    if known is None:
        return program
    try:
        return known.read(data)
    except ParseError as error:
        raise error.in_file(str(path)) from error


def read_all(program: Any) -> Any:
    """Return what `read` does; a file that is no program of Python must be read.

    Raises:
      LoadError: If it is in no format, or cannot be read.
    """
    found = read(program)
    if isinstance(found, str | os.PathLike):
        path = Path(found)
        if not path.exists():
            raise LoadError(f"there is no file {path}.")
        if path.suffix != ".py":
            raise LoadError(f"{path} is in no format that is read: {_listed()}.")
    return found


def _listed() -> str:
    """List the formats."""
    return ", ".join(known.name for known in FORMATS)
