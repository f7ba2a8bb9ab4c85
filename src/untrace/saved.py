"""Check a saved file: load it, trace it on its example inputs, compare fingerprints."""

from __future__ import annotations

import ast
import contextlib
import inspect
import re
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

from untrace import jaxapi
from untrace.errors import LoadError
from untrace.syntax.parsing import parse
from untrace.verification.fingerprint import fingerprint
from untrace.verification.retrace import execute, restored_settings

_FINGERPRINT = re.compile(
    r"^Fingerprint\s+of\s+`(\w+)`\s+on\s+jax\s+(\S+):\s+([0-9a-f]+)$", re.MULTILINE
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
        with restored_settings():
            module = execute(text, str(path), str(path.resolve()))
            with entered(module, name, text):
                found = fingerprint(
                    _trace(getattr(module, name), module.example_args(), name)
                )
    except Exception as error:  # an edited file may fail in any way
        raise LoadError(
            f"cannot trace {path}: {type(error).__name__}: {error}"
        ) from error
    if found.startswith(wanted):
        return Verdict(
            True, f"verified: `{name}` traces to the equations it was made from"
        )
    here = jaxapi.jax_version()
    why = (
        f"\nIt was made on jax {version} and this is jax {here}, which may trace differently."
        if version != here
        else "\nThe file was edited since, or its inputs have other types."
    )
    return Verdict(
        False, f"difference: `{name}` does not trace to the recorded equations.{why}"
    )


def main_name(text: str) -> str | None:
    """Return the name of the function that a saved file is about, if its header says."""
    match = _FINGERPRINT.search(ast.get_docstring(parse(text)) or "")
    return match[1] if match else None


@contextlib.contextmanager
def entered(module: Any, name: str, text: str) -> Generator[None, None, None]:
    """Enter the context of a program, in which its derivative rules are traced, too."""
    is_wide = _WIDE.search(text.partition(f"\ndef {name}(")[0])
    wide = jax.enable_x64(True) if is_wide else contextlib.nullcontext()
    with wide, getattr(module, "tracing_context", contextlib.nullcontext)():
        yield


def _header(path: Path, text: str) -> tuple[str, str, str]:
    try:
        docstring = ast.get_docstring(parse(text)) or ""
    except SyntaxError as error:
        raise LoadError(
            f"{path} is not valid Python: {error.msg}, line {error.lineno}."
        ) from error
    match = _FINGERPRINT.search(docstring)
    if match is None:
        raise LoadError(
            f"{path} has no fingerprint in its docstring: it was not written by "
            "`untrace`, or was written with verification switched off."
        )
    return match[1], match[2], match[3]


def _trace(function: Any, examples: dict[str, Any], name: str) -> Any:
    parameters = inspect.signature(function).parameters.values()
    leaves, treedef = jax.tree.flatten(
        [examples[parameter.name] for parameter in parameters]
    )
    avals = [jaxapi.aval_of(leaf) for leaf in leaves]

    def flat(*values: Any) -> Any:
        arguments = list(zip(parameters, jax.tree.unflatten(treedef, values)))
        # By position where that is possible: a jitted function sorts keywords by name.
        args = [a for p, a in arguments if p.kind is not p.KEYWORD_ONLY]
        kwargs = {p.name: a for p, a in arguments if p.kind is p.KEYWORD_ONLY}
        return jax.tree.leaves(function(*args, **kwargs))

    return jaxapi.trace_flat(flat, avals, name)
