"""StableHLO as jaxprs: texts, bytecode, exported and lowered functions, HLO.

`recognise.py` says what is one. `read` parses a module by the MLIR bindings in jaxlib,
states each operation as a function of `jax.lax`, traces that, and proves it.
"""

from untrace.readers.stablehlo.finding import holds_module, modules_in
from untrace.readers.stablehlo.recognise import (
    is_bytecode,
    is_exported,
    is_hlo_text,
    is_lowered,
    is_module_text,
    is_serialized_export,
)

__all__ = [
    "holds_module",
    "is_bytecode",
    "is_exported",
    "is_hlo_text",
    "is_lowered",
    "is_module_text",
    "is_serialized_export",
    "modules_in",
]
