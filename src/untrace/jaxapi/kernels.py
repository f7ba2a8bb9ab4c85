"""Kernels of Pallas: their memory spaces, trees of operands and costs.

Both jax 0.10 and 0.12 type avals by a memory space; other releases need not.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import jax
from jax._src import core as _core

from untrace.jaxapi.avals import is_plain_aval
from untrace.jaxapi.jaxprs import ClosedJaxpr, Jaxpr, is_jaxpr

_DEVICE = getattr(getattr(_core, "MemorySpace", None), "Device", None)
_PALLAS_MODULES = (
    ("jax.experimental", "pallas", "pl"),
    ("jax.experimental.pallas", "tpu", "pltpu"),
    ("jax.experimental.pallas", "mosaic_gpu", "plgpu"),
)


def is_on_device(aval: Any) -> bool:
    """Whether `jax.ShapeDtypeStruct` describes a result of a kernel completely."""
    return is_plain_aval(aval) and getattr(aval, "memory_space", _DEVICE) == _DEVICE


def is_default_memory(space: Any) -> bool:
    """Whether a block lies where a kernel's blocks lie by default."""
    return space is None or getattr(space, "name", "") == "DEFAULT"


def memory_home(space: Any) -> tuple[str, str, str, str] | None:
    """Return package, module, usual alias and attribute of a memory space, or None."""
    name = getattr(space, "name", None)
    for package, module, alias in _PALLAS_MODULES:
        found = sys.modules.get(f"{package}.{module}")
        if name and found is not None and getattr(found, name, None) is space:
            return package, module, alias, name
    return None


def unflatten_operands(tree: Any, operands: Sequence[Any]) -> Any:
    """Put the operands of a masked access back into its arguments."""
    return jax.tree.unflatten(tree, operands)


def divided_cost(estimate: Any, size: int) -> Any:
    """Undo what batching by `size` does to a `pl.CostEstimate`."""
    if estimate is None:
        return None
    names = ("flops", "transcendentals", "bytes_accessed")
    return type(estimate)(**{name: getattr(estimate, name) // size for name in names})


def is_tensor_core_mesh(kind: type) -> bool:
    """Whether a class is Pallas' mesh of tensor cores, as jax 0.10 keeps it.

    It holds an array of objects that have no public name; later ones hold a number.
    """
    is_pallas = kind.__module__.startswith("jax._src.pallas.")
    fields = getattr(kind, "__dataclass_fields__", {})
    return is_pallas and kind.__name__ == "TensorCoreMesh" and "devices" in fields


def tensor_cores(mesh: Any) -> tuple[str, int] | None:
    """Return the axis and size of a mesh over all cores from the first, else None."""
    numbers = [getattr(core, "id", None) for core in mesh.devices.flat]
    if mesh.devices.ndim != 1 or numbers != list(range(len(numbers))):
        return None
    return mesh.axis_names[0], len(numbers)


def with_kernel_names(jaxpr: Any, name: str) -> Any:
    """Return a jaxpr whose kernels that have a name are called `name`.

    Jaxprs without such kernels are returned as they are.
    """
    if not is_jaxpr(jaxpr):
        return jaxpr
    if ClosedJaxpr is not Jaxpr and isinstance(jaxpr, ClosedJaxpr):
        inner = with_kernel_names(jaxpr.jaxpr, name)
        return jaxpr if inner is jaxpr.jaxpr else jaxpr.replace(jaxpr=inner)
    eqns = [_with_kernel_names(eqn, name) for eqn in jaxpr.eqns]
    is_same = all(new is old for new, old in zip(eqns, jaxpr.eqns))
    return jaxpr if is_same else jaxpr.replace(eqns=eqns)


def _with_kernel_names(eqn: Any, name: str) -> Any:
    params: dict[str, Any] = {}
    for key, value in eqn.params.items():
        if type(value) is tuple:
            made: Any = tuple([with_kernel_names(one, name) for one in value])
            is_same = all(new is old for new, old in zip(made, value))
        else:
            made = with_kernel_names(value, name)
            is_same = made is value
        if not is_same:
            params[key] = made
    if eqn.primitive.name == "pallas_call" and eqn.params.get("name") is not None:
        params["name"] = name
    return eqn.replace(params={**eqn.params, **params}) if params else eqn
