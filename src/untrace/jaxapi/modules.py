# The MLIR bindings are untyped, and where they live is JAX's own affair.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
"""StableHLO modules: parsed by the MLIR bindings in jaxlib, lowered, compiled and run."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import jax
import jax.export
import numpy as np
from jax._src import callback as _callback
from jax._src import compiler as _compiler
from jax._src import debugging as _debugging
from jax._src import xla_bridge as _xla_bridge
from jax._src.interpreters import mlir as _mlir
from jax._src.lib import _jax
from jax._src.lib.mlir import ir as _ir
from jax._src.lib.mlir.dialects import hlo as _hlo

from untrace.jaxapi.children import (
    TEXT_OF_BYTECODE,
    TEXT_OF_HLO,
    ChildError,
    run_child,
)
from untrace.jaxapi.module_copy import ModuleCopy, place_of
from untrace.jaxapi.module_types import Module, ModuleError

_NO_NAME = "@<<INVALID EMPTY SYMBOL>>"
"""How MLIR prints the symbol of a function without a name; it does not parse that."""
_PARTS = re.compile(rf'"(?:[^"\\\n]|\\.)*"|//[^\n]*|{_NO_NAME}')


def parse_module(content: Any) -> Module:
    """Parse and verify a module.

    Args:
      content: Text, or a module of the bindings; of bytecode or a portable artefact only
        what JAX itself made in this process, since broken ones end it (`module_text`).

    Raises:
      ModuleError: If it is none, or not valid.
    """
    if hasattr(content, "operation"):
        return ModuleCopy().module(content, content)
    with _mlir.make_ir_context() as context:
        try:
            return ModuleCopy().module(_parsed(content, context), content)
        except (ModuleError, RecursionError):
            raise
        except Exception as error:  # what the bindings do not expect of an attribute
            raise ModuleError(_said(error)) from None


def artefact_version() -> str:
    """Return the newest version of portable artefacts that is read."""
    return str(_hlo.get_current_version())


def module_text(content: bytes) -> str:
    """Return the text of a portable artefact or other bytecode, with locations.

    Raises:
      ModuleError: If it cannot be parsed.
    """
    return _converted(TEXT_OF_BYTECODE, content)


def module_of_hlo(text: str) -> str:
    """Return a module that says what a text of HLO does, as far as jaxlib converts it.

    Raises:
      ModuleError: If it cannot be parsed or converted.
    """
    return _converted(TEXT_OF_HLO, text.encode(errors="replace"))


def _converted(code: str, content: bytes) -> str:
    try:
        return run_child(code, content).decode()
    except ChildError as error:
        raise ModuleError(str(error)) from None
    except UnicodeDecodeError:
        raise ModuleError("its names are no UTF-8") from None


def _parsed(content: str | bytes, context: Any) -> Any:
    try:
        if isinstance(content, bytes) and _is_portable(content):
            return _hlo.deserialize_portable_artifact(context, content)
        if isinstance(content, str):
            content = _all_named(content)
        return _ir.Module.parse(content, context)
    except Exception as error:  # the bindings raise MLIRError, ValueError, RuntimeError
        raise ModuleError(_said(error)) from None


def _all_named(text: str) -> str:
    """Name the function without a name; what stands in quotes or comments stays."""
    if _NO_NAME not in text:
        return text
    taken = {*re.findall(r"unnamed\w*", text)}
    names = ("unnamed", *(f"unnamed{i}" for i in range(len(taken))))
    name = next(f"@{name}" for name in names if name not in taken)
    name = name.ljust(len(_NO_NAME))  # columns stay what they are
    return _PARTS.sub(lambda part: name if part[0] == _NO_NAME else part[0], text)


def _is_portable(content: bytes) -> bool:
    """Whether bytecode was written as a portable artefact, by its producer."""
    return b"StableHLO_v" in content[:64]


def _said(error: Exception) -> str:
    """Return the diagnostics of MLIR, each with its line and column."""
    found: list[str] = []
    for diagnostic in getattr(error, "error_diagnostics", None) or ():
        place = place_of(str(diagnostic.location))
        where = f"line {place.line}, column {place.column}: " if place.line else ""
        found.append(f"{where}{diagnostic.message}")
    return "; ".join(found[:3]) or " ".join(str(error).split())[:500]


def lowered_module(
    function: Any, avals: Any, platform: str = "cpu", *, is_artefact: bool = False
) -> Module:
    """Lower a function of flat arguments, none of which is dropped.

    Args:
      function: Takes arrays and returns a sequence of arrays.
      avals: The types of the arguments.
      platform: What it is lowered for.
      is_artefact: Whether it is exported, besides: what is not of StableHLO itself is
        then replaced by composites and by operations that are.
    """
    jitted = jax.jit(function, keep_unused=True)
    if is_artefact:
        exported = jax.export.export(jitted, platforms=(platform,))(*avals)
        return parse_module(exported.mlir_module_serialized)
    lowered = jitted.trace(*avals).lower(lowering_platforms=(platform,))
    module = parse_module(lowered.compiler_ir("stablehlo"))
    effects = lowered._lowering.compile_args["ordered_effects"]
    return replace(module, orders=tuple(map(_order_of, effects)))


def _order_of(effect: Any) -> str:
    """Return the name of an order of effects."""
    known = {
        _callback._OrderedIOEffect: "io",
        _debugging.ordered_debug_effect: "debug",
    }
    return known.get(effect, str(effect))


def compiled_values(module: Module, args: Any) -> list[np.ndarray[Any, Any]]:
    """Compile a module for the CPU and run it, with the options that JAX has by default."""
    backend = _xla_bridge.get_backend("cpu")
    device = backend.local_devices()[0]
    options = _compiler.get_compile_options(num_replicas=1, num_partitions=1)
    with _mlir.make_ir_context() as context:
        source = module.source
        if isinstance(source, str | bytes):
            source = _parsed(source, context)
        _name_parts(source, module.main.name)
        executable = _compiler.backend_compile_and_load(
            backend, source, _jax.DeviceList((device,)), options, []
        )
    all_args = [*args]
    for position, value in module.filled.items():
        all_args.insert(position, value)
    given = [jax.device_put(x, device) for x in all_args]
    results = executable.execute_sharded(given).disassemble_into_single_device_arrays()
    return [np.asarray(one[0]) for one in results]


def _name_parts(module: Any, main: str) -> None:
    """Give a module a name, and its only function that of `main`, as XLA wants it."""
    with module.context:
        if "sym_name" not in module.operation.attributes:
            module.operation.attributes["sym_name"] = _ir.StringAttr.get("module")
        for operation in module.body.operations if main != "main" else ():
            attributes = operation.operation.attributes
            if "sym_name" in attributes and str(attributes["sym_name"]) == f'"{main}"':
                attributes["sym_name"] = _ir.StringAttr.get("main")


def written_module(module: Module) -> str:
    """Return the text of a module, without locations."""
    source = module.source
    if isinstance(source, bytes):
        with _mlir.make_ir_context() as context:
            source = _parsed(source, context)
    if isinstance(source, str):
        return source
    return str(source.operation.get_asm(enable_debug_info=False))
