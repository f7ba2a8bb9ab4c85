"""The sparse matrices of `jax.experimental.sparse`: settings, operators and methods.

The module is not imported here, since few programs need it: what has not been imported
has made no matrix either.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from typing import Any

_NAME = "jax.experimental.sparse"
_CLASSES = ("JAXSparse", "BCOO", "BCSR", "COO", "CSR", "CSC")
_OPERATORS = ("__getitem__", "__matmul__", "__pow__")


def sparse_module() -> Any:
    """Return the module if it has been imported, as a whole."""
    module = sys.modules.get(_NAME)
    return module if hasattr(module, "sparsify") else None


def sparse_settings(value: Any) -> dict[str, Any] | None:
    """Return what a sparse matrix has besides its arrays: its shape, and what is known.

    Anything else has none.
    """
    module = sparse_module()
    if module is None or not isinstance(value, module.JAXSparse):
        return None
    return dict(value.tree_flatten()[1])


def sparse_methods() -> Iterator[tuple[str, types.FunctionType]]:
    """List the public methods and the operators that are functions of their own."""
    for name, function in _attributes():
        is_public = not name.startswith(("_", "tree_")) or name in _OPERATORS
        if is_public and not hasattr(function, "__wrapped__"):
            yield name, function


def sparsified_operators() -> Iterator[tuple[str, types.FunctionType]]:
    """List the operators that `sparsify` made of functions of dense arrays."""
    for name, function in _attributes():
        if name.startswith("__") and hasattr(function, "__wrapped__"):
            yield name, function


def _attributes() -> Iterator[tuple[str, types.FunctionType]]:
    module = sparse_module()
    for kind in _CLASSES if module is not None else ():
        for name, value in vars(getattr(module, kind)).items():
            if isinstance(value, types.FunctionType):
                yield name, value
