"""Operators of ATen that have no lowering here.

They are carried out by torchax, if it is installed, or as torch decomposes them.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import re
import sys
from collections.abc import Callable
from importlib import metadata
from typing import Any

from untrace.readers.torch.library import torch

_MISSING = re.compile(
    r"The underlying op of '(\w+)\.(\w+)' has no overload name '(\w+)'"
)


def torchax_operator(func: Any) -> Callable[..., Any] | None:
    """What torchax makes of an operator on arrays; None if it has nothing."""
    table = _operators()
    operator = table.get(func) or table.get(func.overloadpacket)
    if operator is None or not operator.is_jax_function or operator.needs_env:
        return None
    return operator.func


def decomposition(func: Any) -> Callable[..., Any] | None:
    """What torch itself makes an operator of; None if it is not made of others."""
    decompositions: Any = importlib.import_module("torch._decomp")
    return decompositions.decomposition_table.get(func)


def without_torchax() -> str:
    """Why torchax carries out nothing, as a sentence; empty if it does."""
    return _imported()[1]


def _operators() -> dict[Any, Any]:
    """The table of torchax; empty if it cannot be imported."""
    return _imported()[0]


@functools.cache
def _imported() -> tuple[dict[Any, Any], str]:
    """The table of torchax, and why there is none."""
    while True:
        try:
            importlib.import_module("torchax.ops.jaten")
            registry: Any = importlib.import_module("torchax.ops.ops_registry")
            return registry.all_aten_ops, ""
        except ModuleNotFoundError as error:
            if error.name == "torchax":
                return (
                    {},
                    "The package torchax, which has more of them, is not installed.",
                )
            return {}, _broken(error)
        except Exception as error:  # it reads tables of torch, which change
            if not _declare(str(error)):
                return {}, _broken(error)
            for name in [n for n in sys.modules if n.partition(".")[0] == "torchax"]:
                del sys.modules[name]  # half of it was imported


def _broken(error: Exception) -> str:
    said = " ".join(str(error).split())[:200]
    version = metadata.version("torch")
    return (
        f"The package torchax, which has more of them, cannot be imported beside torch "
        f"{version} ({type(error).__name__}: {said}); the extra "
        "`untrace[torch]` pins versions that work together."
    )


_DECLARED: list[Any] = []


def _declare(message: str) -> bool:
    """Declare an overload that torchax 0.0.13 lists and torch from 2.13 on does not have.

    It went with the named tensors of torch; nothing calls it.
    """
    found = _MISSING.search(message)
    if found is None:
        return False
    space, name, overload = found.groups()
    with contextlib.suppress(RuntimeError):
        library = torch.library.Library(space, "FRAGMENT")
        library.define(f"{name}.{overload}(Tensor self, str dim) -> Tensor")
        _DECLARED.append(library)
        return True
    return False
