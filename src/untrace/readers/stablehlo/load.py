"""The way in: what holds a module is read, and the jaxpr proved against it."""

from __future__ import annotations

import warnings
from typing import Any

from untrace.errors import LoadError, UnverifiedWarning
from untrace.jaxapi.module_types import ModuleError
from untrace.jaxapi.modules import module_of_hlo, module_text
from untrace.readers.stablehlo.agreement import (
    BUT_FOR_HOST,
    BUT_FOR_SHARDINGS,
    SAME_MODULE,
    SAME_VALUES,
    agreement,
)
from untrace.readers.stablehlo.read import Reading, not_parsed, read_module
from untrace.readers.stablehlo.recognise import (
    artefact_within,
    is_bytecode,
    is_exported,
    is_hlo_text,
    is_lowered,
)

_BEHIND_THE_END = "LINE OUT OF RANGE"  # of XLA
_CUT_OFF = "The text ends there: it is cut off, or a bracket is missing."
_OPTIMISED = (
    "Optimised HLO holds what only XLA has; print the program before it is compiled: "
    "`jax.jit(f).lower(...).as_text()`."
)

PROVED = (SAME_MODULE, BUT_FOR_SHARDINGS, BUT_FOR_HOST, SAME_VALUES)


def read(program: Any) -> Any:
    """Read a program of StableHLO.

    Args:
      program: The text of a module or of HLO, MLIR bytecode, a portable artefact, an
        `Exported` of `jax.export` or its serialized bytes, or a `jax.stages.Lowered`.

    Returns:
      A closed jaxpr, which was lowered and compared with the module. Its debug info names
      the arguments and results as the module does. Values of 64 bits stay such; JAX has
      to be told to compute with them (`jax.enable_x64`) to run it.

    Raises:
      LoadError: If it cannot be parsed, holds what JAX cannot express, or gives other
        values than the module.

    A program that could not be compared warns of it (`UnverifiedWarning`).
    """
    return read_and_tell(program)[0]


def read_and_tell(program: Any) -> tuple[Any, str]:
    """Read a program, and return besides what was proved, as a sentence (see `read`)."""
    reading, found = read_and_compare(program)
    if found not in PROVED:
        warnings.warn(told(found), UnverifiedWarning, stacklevel=3)
    marks = ", ".join([f"`{mark}`" for mark in reading.module.main.marks])
    lost = f" Not kept: what is said of arguments and results ({marks})."
    return reading.jaxpr, told(found) + (lost if marks else "")


def read_and_compare(program: Any) -> tuple[Reading, str]:
    """Read a program, and return besides what it agrees in (see `agreement`).

    Raises:
      LoadError: As `read` does.
    """
    is_artefact = is_exported(program) or isinstance(program, bytes | bytearray)
    reading = read_module(module_of(program), is_artefact)
    is_own = is_lowered(program) or is_exported(program)
    platforms = getattr(program, "platforms", ("cpu",)) if is_own else ("cpu",)
    found = agreement(
        reading.module, reading.jaxpr, platform=platforms[0], is_trusted=is_own
    )
    if found not in PROVED and "not proved" not in found:
        raise LoadError(
            f"cannot read the module: what was made of it is {found}. Please report it."
        )
    return reading, found


def told(found: str) -> str:
    """Return an agreement as a sentence for the header of a file.

    >>> told("same StableHLO")
    'Read from StableHLO: lowering it again gives the same module.'
    """
    if found == SAME_MODULE:
        return "Read from StableHLO: lowering it again gives the same module."
    if found == BUT_FOR_SHARDINGS:
        return (
            "Read from StableHLO: lowering it again gives the same module but for its "
            "shardings, which are not kept."
        )
    if found == BUT_FOR_HOST:
        return (
            "Read from StableHLO: lowering it again gives the same module but for the "
            "functions that it calls on the host, which are not in it."
        )
    if found == SAME_VALUES:
        return (
            "Read from StableHLO: lowering it again gives another module, with the same "
            "values on random inputs."
        )
    return f"Read from StableHLO; not proved to be the same program ({found})."


def module_of(program: Any) -> Any:
    """Return the module that a program holds: text, or what JAX made in this process.

    Raises:
      LoadError: If it holds none.
    """
    if is_lowered(program):
        return program.compiler_ir("stablehlo")
    if is_exported(program):
        return bytes(program.mlir_module_serialized)
    if is_hlo_text(program):
        try:
            return module_of_hlo(program)
        except ModuleError as error:
            then = _CUT_OFF if _BEHIND_THE_END in str(error) else _OPTIMISED
            raise LoadError(f"this HLO cannot be read: {error}. {then}") from None
    if isinstance(program, bytes | bytearray):
        content = bytes(program)
        if not is_bytecode(content):
            content = artefact_within(content) or content
        try:
            return module_text(content)
        except ModuleError as error:
            raise not_parsed(error) from None
    return program
