"""Check a saved file: load it, trace it on its example inputs, compare fingerprints."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
import sys
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from untrace import jaxapi
from untrace.errors import LoadError
from untrace.parsing import parse
from untrace.verification.fingerprint import fingerprint
from untrace.verification.interface import Interface
from untrace.verification.marks import first_difference, read_marks
from untrace.verification.retrace import execute, restored_settings, traced_interface

_FINGERPRINT = re.compile(
    r"Fingerprint\s+of\s+`(\w+)`\s+on\s+jax\s+(\S+):\s+([0-9a-f]{64})", re.ASCII
)

_WIDE = re.compile(r"^@\w+\.enable_x64\(True\)(?:\n\S.*|\n +.*)*\Z", re.MULTILINE)
"""The decorator of a function that computes in 64 bits, before its `def`."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What checking a saved file found."""

    is_verified: bool
    text: str

    def __str__(self) -> str:
        return self.text


def verify_file(path: Path) -> Verdict:
    """Trace a saved file and compare with the fingerprint in its header.

    The file is executed: check only files you trust.

    Raises:
      LoadError: If the file is not one of ours, or it or its sidecar does not load.
    """
    text = path.read_text(encoding="utf-8")
    name, version, wanted = _header(path, text)
    try:
        with restored_settings(), imports_beside(path):
            module = execute(text, str(path), str(path.resolve()))
            with entered(module, name, text):
                function, examples = getattr(module, name), module.example_args()
                traced, interface = _trace(function, examples, name)
                found = fingerprint(traced, interface)
                marks = read_marks(text) if found != wanted else None
                where = marks and first_difference(marks, traced, str(path))
    except (Exception, SystemExit) as error:  # an edited file may fail in any way
        raise LoadError(
            f"cannot trace {path}: {type(error).__name__}: {error}"
        ) from error
    if found == wanted:
        return Verdict(
            True, f"verified: `{name}` traces to the equations it was made from"
        )
    lines = [f"difference: `{name}` does not trace to the recorded equations."]
    if where:
        lines.append(f"{where[:1].upper()}{where[1:]}.")
    here = jaxapi.jax_version()
    if version != here:
        lines.append(
            f"It was made on jax {version} and this is jax {here}, "
            "which may trace differently."
        )
    else:
        types = "" if where else ", or its inputs have other types"
        lines.append(f"The file was edited since{types}.")
    return Verdict(False, "\n".join(lines))


def main_name(text: str) -> str | None:
    """Return the name of the function that a saved file is about, if its header says."""
    match = _fingerprint_of(text)
    return match[1] if match else None


def _fingerprint_of(text: str) -> re.Match[str] | None:
    """Find the fingerprint in the header of a file.

    It is a paragraph of its own, which nothing that the header quotes can be, and the
    last one counts.
    """
    docstring = ast.get_docstring(parse(text)) or ""
    found = map(_FINGERPRINT.fullmatch, map(str.strip, docstring.split("\n\n")))
    return next((match for match in reversed([*found]) if match), None)


@contextlib.contextmanager
def imports_beside(path: Path) -> Generator[None, None, None]:
    """Import what `python FILE` can: what lies in the folder of the file, first."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:  # which the file may have changed
            sys.path.remove(folder)


@contextlib.contextmanager
def entered(module: Any, name: str, text: str) -> Generator[None, None, None]:
    """Enter the context of a program, in which its derivative rules are traced, too."""
    is_wide = _WIDE.search(text.partition(f"\ndef {name}(")[0])
    wide = jax.enable_x64(True) if is_wide else contextlib.nullcontext()
    with wide, getattr(module, "tracing_context", contextlib.nullcontext)():
        yield


def _header(path: Path, text: str) -> tuple[str, str, str]:
    try:
        match = _fingerprint_of(text)
    except SyntaxError as error:
        raise LoadError(
            f"{path} is not valid Python: {error.msg}, line {error.lineno}."
        ) from error
    except ValueError as error:  # such as a NUL
        raise LoadError(f"{path} is not valid Python: {error}.") from error
    if match is None:
        raise LoadError(
            f"{path} has no fingerprint in its docstring: it was not written by "
            "`untrace`, shows a failure (`untrace reduce`), or was written with "
            "verification switched off."
        )
    return match[1], match[2], match[3]


def _trace(function: Any, examples: dict[str, Any], name: str) -> tuple[Any, Interface]:
    parameters = inspect.signature(function).parameters.values()
    leaves, treedef = jax.tree.flatten([examples[p.name] for p in parameters])

    def arguments(values: Any) -> list[Any]:
        return jax.tree.unflatten(treedef, values)

    keywords = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    avals = [jaxapi.aval_of(leaf) for leaf in leaves]
    return traced_interface(function, name, arguments, keywords, avals)
