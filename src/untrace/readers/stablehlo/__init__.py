"""StableHLO as jaxprs: texts, bytecode, exported and lowered functions, HLO.

`recognise.py` says what is one. `read` parses a module by the MLIR bindings in jaxlib,
states each operation as a function of `jax.lax`, traces that, and proves it.
"""

from untrace.readers.stablehlo.finding import holds_module as holds_module
from untrace.readers.stablehlo.finding import modules_in as modules_in
from untrace.readers.stablehlo.recognise import is_bytecode as is_bytecode
from untrace.readers.stablehlo.recognise import is_exported as is_exported
from untrace.readers.stablehlo.recognise import is_hlo_text as is_hlo_text
from untrace.readers.stablehlo.recognise import is_lowered as is_lowered
from untrace.readers.stablehlo.recognise import is_module_text as is_module_text
from untrace.readers.stablehlo.recognise import (
    is_serialized_export as is_serialized_export,
)
