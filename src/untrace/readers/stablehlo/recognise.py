"""What a program of StableHLO looks like: a text, bytes, or an object of JAX."""

from __future__ import annotations

import re
from typing import Any

import jax

MAGIC = b"ML\xefR"
"""What MLIR bytecode begins with."""
_PRODUCER = b"StableHLO_v"

_SKIPPED = re.compile(r"(?:\s+|//[^\n]*|#\w+ = [^\n]*)*")
_START = re.compile(r'(?:"?builtin\.module"?|module|"?func\.func"?)\s*[@({a-z]')
_HLO = re.compile(r"\s*HloModule\s")


def is_module_text(program: Any) -> bool:
    """Whether a text is that of an MLIR module or function, after comments and aliases.

    >>> is_module_text("// from a test\\nmodule @jit_f { }")
    True
    >>> is_module_text("{ lambda ; a:f32[]. let in (a,) }")
    False
    """
    if not isinstance(program, str):
        return False
    skipped = _SKIPPED.match(program)
    return _START.match(program, skipped.end() if skipped else 0) is not None


def is_bytecode(program: Any) -> bool:
    """Whether bytes are MLIR bytecode, such as that of a portable artefact."""
    return isinstance(program, bytes | bytearray) and bytes(program[:4]) == MAGIC


def is_serialized_export(program: Any) -> bool:
    """Whether bytes are what `jax.export.Exported.serialize` returns."""
    return (
        isinstance(program, bytes | bytearray)
        and not is_bytecode(program)
        and artefact_within(bytes(program)) is not None
    )


def artefact_within(content: bytes) -> bytes | None:
    """Return the portable artefact that the bytes of an export hold after its length."""
    start = content.find(MAGIC)
    if start < 4 or _PRODUCER not in content[start : start + 64]:
        return None
    size = int.from_bytes(content[start - 4 : start], "little")
    return content[start : start + size]


def is_hlo_text(program: Any) -> bool:
    """Whether a text is that of HLO, which compiled programs are printed as."""
    return isinstance(program, str) and _HLO.match(program) is not None


def is_lowered(program: Any) -> bool:
    """Whether a program is what `jax.jit(f).lower(...)` returns."""
    return isinstance(program, jax.stages.Lowered)


def is_exported(program: Any) -> bool:
    """Whether a program is what `jax.export.export(...)` returns, or deserialized."""
    cls = type(program)
    return cls.__name__ == "Exported" and cls.__module__.startswith("jax.")
