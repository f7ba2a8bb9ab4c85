# `UnspecifiedValue` is re-exported without saying so.
# pyright: reportPrivateImportUsage=false
"""Meshes, shardings, layouts and devices.

The same calls serve all supported JAX releases.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
from jax._src import layout as _layout
from jax._src import mesh as _mesh
from jax._src import sharding_impls as _sharding_impls

from untrace.jaxapi.jaxprs import Tracer


def has_mesh(aval: Any) -> bool:
    """Whether an aval is typed by a mesh."""
    sharding = getattr(aval, "sharding", None)
    return sharding is not None and not sharding.mesh.empty


def mesh_of(aval: Any) -> Any:
    """Return the mesh that types an aval, which may be empty, or None."""
    sharding = getattr(aval, "sharding", None)
    return None if sharding is None else sharding.mesh


def is_typed_by_axes(aval: Any) -> bool:
    """Whether an aval says over which axes of a mesh it is sharded."""
    sharding = getattr(aval, "sharding", None)
    return sharding is not None and bool(sharding.mesh.explicit_axes)


def is_unspecified(sharding: Any) -> bool:
    """Whether a sharding was left to the compiler."""
    return isinstance(sharding, _sharding_impls.UnspecifiedValue)


def is_over_nothing(sharding: Any) -> bool:
    """Whether a sharding has an empty mesh: JAX treats it as none."""
    return isinstance(sharding, jax.sharding.NamedSharding) and sharding.mesh.empty


def is_over(sharding: Any, mesh: Any) -> bool:
    """Whether a sharding is a plain `NamedSharding` over just this mesh."""
    if not isinstance(sharding, jax.sharding.NamedSharding) or mesh.empty:
        return False
    return sharding == jax.sharding.NamedSharding(mesh, sharding.spec)


def is_abstract_mesh(value: Any) -> bool:
    """Whether a value is a mesh without devices."""
    return isinstance(value, jax.sharding.AbstractMesh)


def devices_of(mesh: Any) -> list[Any]:
    """List the devices of a mesh; none for one that is abstract."""
    return [] if is_abstract_mesh(mesh) else list(mesh.devices.flat)


def with_mesh(sharding: Any, mesh: Any) -> Any:
    """Return the sharding with the same spec over another mesh."""
    return jax.sharding.NamedSharding(mesh, sharding.spec)


def ambient_mesh() -> Any:
    """Return the concrete mesh of `jax.set_mesh` or of `with mesh:`, or None."""
    mesh = _mesh.get_concrete_mesh()
    return None if mesh.empty else mesh


def legacy_mesh() -> Any:
    """Return the mesh that was entered by `with mesh:`; it may be empty."""
    return _mesh.thread_resources.env.physical_mesh


def formats(shardings: Sequence[Any], layouts: Sequence[Any]) -> list[Any] | None:
    """Give each argument's sharding as `jax.jit` takes it: None where it is open.

    Returns:
      A sharding, a `Format` or None for each; None if a layout has no sharding.
    """
    found: list[Any] = []
    for sharding, layout in zip(shardings, layouts):
        is_open = is_unspecified(sharding)
        if layout is not None:
            if is_open:
                return None
            sharding = _layout.Format(layout, sharding)
        found.append(None if is_open else sharding)
    return found


def placement(value: Any, aval: Any) -> Any:
    """Return the sharding that an example of an input must have, or None.

    Args:
      value: The array that was passed, or None.
      aval: The type of the input.
    """
    if isinstance(value, jax.Array) and not isinstance(value, Tracer):
        sharding = value.sharding
        if isinstance(sharding, jax.sharding.NamedSharding):
            return sharding
        default = jax.devices()[0]
        is_single = isinstance(sharding, jax.sharding.SingleDeviceSharding)
        is_default = sharding == jax.sharding.SingleDeviceSharding(default)
        return sharding if is_single and not is_default else None
    if not is_typed_by_axes(aval):
        return None
    mesh = _concrete(aval.sharding.mesh)
    return None if mesh is None else with_mesh(aval.sharding, mesh)


def _concrete(abstract: Any) -> Any:
    """Find a mesh of this process's devices for an abstract one, or None."""
    mesh = ambient_mesh()
    if mesh is not None and mesh.abstract_mesh == abstract:
        return mesh
    if abstract.size > len(jax.devices()):
        return None
    made = jax.make_mesh(abstract.axis_sizes, abstract.axis_names, abstract.axis_types)
    return made if made.abstract_mesh == abstract else None


def n_devices(devices: Sequence[Any]) -> int:
    """Return how many devices a process must have to have these."""
    indices = [d.id for d in devices if d.platform == jax.devices()[0].platform]
    return 1 + max(indices, default=0)


def is_simulated(devices: Sequence[Any]) -> bool:
    """Whether these are devices of the CPU, of which there can be any number."""
    return all(device.platform == "cpu" for device in devices)
