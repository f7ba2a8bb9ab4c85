"""The formats that are read, recognised by their content.

What is read is an object of JAX or of another library, or the content of a file: text, or
bytes if it is none.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from untrace.readers import stablehlo


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


def _read_stablehlo(program: Any) -> Any:
    from untrace.readers.stablehlo.load import read

    return read(program)


FORMATS: list[Format] = [
    Format("a StableHLO module", stablehlo.is_module_text, _read_stablehlo),
    Format("MLIR bytecode", stablehlo.is_bytecode, _read_stablehlo),
    Format("an exported function", stablehlo.is_exported, _read_stablehlo),
    Format("a serialized export", stablehlo.is_serialized_export, _read_stablehlo),
    Format("a lowered function", stablehlo.is_lowered, _read_stablehlo),
    Format("HLO", stablehlo.is_hlo_text, _read_stablehlo),
]
"""The first that recognises a program reads it."""


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
