"""The formats that are read, recognised by their content.

What is read is an object of JAX or of another library, or the content of a file: text, or
bytes if it is none.
"""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax

from untrace.errors import LoadError, ParseError
from untrace.readers import jaxprs, stablehlo
from untrace.readers.jaxprs.finding import looks_like_jaxpr, without_colors


class Program(NamedTuple):
    """What was read.

    Attributes:
      jaxpr: Closed; its debug info names arguments and results.
      notes: What the header of a file must say about how it was read.
      origin: The name of its format.
    """

    jaxpr: Any
    notes: tuple[str, ...] = ()
    origin: str = "a jaxpr"


class Format(NamedTuple):
    """A format that programs come in.

    Attributes:
      name: As in "read from {name}": "a printed jaxpr".
      recognises: Whether an object, a text or bytes look like it. Cheap, and without
        importing what only this format needs.
      read: Makes a program of it. Raises `LoadError`, with the place and what to do next.
    """

    name: str
    recognises: Callable[[Any], bool]
    read: Callable[[Any], Program]


def _is_printed_jaxpr(program: Any) -> bool:
    return isinstance(program, str) and looks_like_jaxpr(without_colors(program))


def _read_jaxpr(text: str) -> Program:
    return Program(jaxprs.parse(text))


def _read_stablehlo(program: Any) -> Program:
    from untrace.readers.stablehlo.load import read_and_tell

    jaxpr, note = read_and_tell(program)
    return Program(jaxpr, (note,))


def _read_stablehlo_within(text: str) -> Program:
    """Read the first module in a text that can be parsed."""
    first: ParseError | None = None
    for module in stablehlo.modules_in(text):
        try:
            return _read_stablehlo(module)
        except ParseError as error:
            first = first or error
    assert first is not None
    raise first


FORMATS: list[Format] = [
    Format("a StableHLO module", stablehlo.is_module_text, _read_stablehlo),
    Format("MLIR bytecode", stablehlo.is_bytecode, _read_stablehlo),
    Format("an exported function", stablehlo.is_exported, _read_stablehlo),
    Format("a serialized export", stablehlo.is_serialized_export, _read_stablehlo),
    Format("a lowered function", stablehlo.is_lowered, _read_stablehlo),
    Format("HLO", stablehlo.is_hlo_text, _read_stablehlo),
    Format("a printed jaxpr", _is_printed_jaxpr, _read_jaxpr),
    Format("a StableHLO module", stablehlo.holds_module, _read_stablehlo_within),
]
"""The first that recognises a program reads it."""

_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NO_TEXT = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")  # 1b begins a color
_TEXT = re.compile(r"\n|\{\s*lambda\b")


def format_of(program: Any) -> Format | None:
    """Return the format of an object or a content, if it is one of those that are read."""
    return next((known for known in FORMATS if known.recognises(program)), None)


def content(path: Path) -> str | bytes:
    """Return what a file holds: text unless it holds bytes that no text has.

    Raises:
      OSError: If it cannot be read.
    """
    return content_of(path.read_bytes())


def content_of(data: bytes) -> str | bytes:
    """Return bytes as text unless they hold what no text has.

    A mark at the beginning says the encoding (as PowerShell writes it); else it is UTF-8,
    or one of 8 bits, in which all that programs are made of is the same.
    """
    if stablehlo.is_bytecode(data):
        return data
    marked = next((name for mark, name in _MARKS if data.startswith(mark)), None)
    try:
        return data.decode(marked or "utf-8")
    except UnicodeDecodeError:
        return data if _NO_TEXT.search(data) else data.decode("latin-1")


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
      TypeError: If it is compiled.
    """
    found = program_in(program)
    return program if found is None else found.jaxpr


def program_in(program: Any) -> Program | None:
    """Return a program in one of the formats; None for all else.

    Args:
      program: As for `read`.

    Raises:
      LoadError, TypeError: As `read` does.
    """
    if isinstance(program, Program):
        return program
    if isinstance(program, jax.stages.Compiled):
        raise TypeError(
            "what is compiled is no JAX program any more; pass the function, or the "
            "result of `jax.jit(f).lower(...)`"
        )
    if not isinstance(program, str | os.PathLike) or is_text(program):
        known = format_of(program)
        if known is None and is_text(program):
            raise in_no_format("this text")
        return None if known is None else _read_as(known, program)
    path = Path(program)
    if path.suffix == ".py" or not path.is_file():
        return None
    try:
        data = content(path)
    except OSError as error:
        raise LoadError(f"cannot read {path}: {error.strerror or error}.") from error
    known = format_of(data)
    if known is None:
        return None
    try:
        return _read_as(known, data)
    except ParseError as error:
        raise error.in_file(str(path)) from error
    except LoadError as error:
        raise LoadError(f"{path}: {error}") from error


def _read_as(known: Format, program: Any) -> Program:
    return known.read(program)._replace(origin=known.name)


def refuse_unread(program: Any) -> None:
    """Refuse a file that is in none of the formats, and no program of Python.

    Raises:
      LoadError: If it is one.
    """
    if isinstance(program, str | os.PathLike):
        path = Path(program)
        if not path.exists():
            raise LoadError(f"there is no file {path}.")
        if path.is_dir():
            raise LoadError(f"{path} is a folder: name the file in it.")
        if path.suffix != ".py" and path.is_file() and not path.stat().st_size:
            raise LoadError(f"{path} is empty.")
        if path.suffix != ".py":
            raise in_no_format(str(path))


def in_no_format(what: str) -> LoadError:
    """The error that says that something is in none of the formats."""
    listed = ", ".join(dict.fromkeys(known.name for known in FORMATS))
    return LoadError(f"{what} is in no format that is read: {listed}.")
