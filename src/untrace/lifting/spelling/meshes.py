"""Write meshes, shardings and devices.

A mesh is made once, at the module's level, and has a name from then on; an abstract
mesh is written through a concrete one that is there already, where it differs only in
the types of its axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.lifting.spelling.base import (
    FALLBACKS,
    Speller,
    Unspellable,
    Writer,
    writes,
)
from untrace.lifting.spelling.records import spell_record
from untrace.syntax.text import quote


@writes(jax.sharding.PartitionSpec, memo=True)
def _spell_partition_spec(speller: Speller, value: Any) -> str:
    names = ("unreduced", "reduced", "unreduced_kind")
    held = {name: getattr(value, name, None) for name in names}
    kwargs = {name: field for name, field in held.items() if field}
    for name in ("unreduced", "reduced"):
        if name in kwargs:
            kwargs[name] = set(kwargs[name])
    if "unreduced_kind" in kwargs and _has_default_kind(value):
        del kwargs["unreduced_kind"]
    return speller.call(speller.name("jax", "P"), value._partitions, **kwargs)


def _has_default_kind(value: Any) -> bool:
    plain = jax.P(
        *tuple(value._partitions), unreduced=value.unreduced, reduced=value.reduced
    )
    return plain == value


@writes(type(jax.P.UNCONSTRAINED))
def _spell_unconstrained(speller: Speller, value: Any) -> str:
    return f"{speller.name('jax', 'P')}.UNCONSTRAINED"


# ---- meshes ------------------------------------------------------------------------


@writes(jax.sharding.Mesh)
def _spell_mesh(speller: Speller, value: Any) -> str:
    for known, name in speller.imports.defined():
        if known == value:
            return name
    text = _mesh_text(speller, value)
    if value.empty:
        return text
    for device in value.devices.flat:
        speller.imports.mention(device)
    return speller.imports.define("mesh", text, value)


def _mesh_text(speller: Speller, value: Any) -> str:
    root = speller.imports.module("jax")
    if value.devices.ndim == 0:
        empty = f"{speller.imports.module('numpy')}.empty((), dtype=object)"
        return f"{root}.sharding.Mesh({empty}, ())"
    shape, names = value.devices.shape, value.axis_names
    types = _axis_types(speller, value.axis_types)
    if _is_default_mesh(value):
        call = f"{root}.make_mesh({speller.spell(shape)}, {speller.spell(names)}"
        return f"{call}, axis_types={types})"
    array = _device_array(speller, list(value.devices.flat))
    if value.devices.ndim > 1:
        array += f".reshape({speller.spell(shape)})"
    return f"{root}.sharding.Mesh({array}, {speller.spell(names)}, axis_types={types})"


def _device_array(speller: Speller, devices: Sequence[Any]) -> str:
    """Write the array of these devices, as a choice of JAX's list where it is long."""
    array = f"{speller.imports.module('numpy')}.array"
    default = jaxapi.list_devices()
    if not all(device in default for device in devices):
        return f"{array}([{', '.join(map(speller.spell, devices))}])"
    everything = f"{speller.imports.module('jax')}.devices()"
    order = [default.index(device) for device in devices]
    if order == list(range(len(default))):
        return f"{array}({everything})"
    if order == list(range(len(order))):
        return f"{array}({everything}[:{len(order)}])"
    if order == list(reversed(range(len(default)))):
        return f"{array}({everything}[::-1])"
    return f"{array}({everything})[{order}]"


def _axis_types(speller: Speller, types: Sequence[Any]) -> str:
    if len(types) > 1 and len(set(types)) == 1:
        return f"({speller.spell(types[0])},) * {len(types)}"
    return speller.spell(tuple(types))


def _is_default_mesh(mesh: Any) -> bool:
    """Whether `jax.make_mesh` arranges the devices in the same way."""
    if not all(isinstance(name, str) for name in mesh.axis_names):
        return False
    try:
        made = jaxapi.make_mesh(
            mesh.devices.shape, mesh.axis_names, axis_types=mesh.axis_types
        )
    except (ValueError, TypeError, NotImplementedError, RuntimeError):
        return False
    return made == mesh


@writes(jax.sharding.AbstractMesh)
def _spell_abstract_mesh(speller: Speller, value: Any) -> str:
    if value.empty:
        return spell_record(speller, value)
    for known, name in speller.imports.defined():
        text = _as_abstract(speller, known, name, value)
        if text is not None:
            return text
    root = speller.imports.module("jax")
    axes = f"{speller.spell(value.axis_sizes)}, {speller.spell(value.axis_names)}"
    kwargs = f"axis_types={_axis_types(speller, value.axis_types)}"
    if value.abstract_device is not None:
        kwargs += f", abstract_device={speller.spell(value.abstract_device)}"
    text = f"{root}.sharding.AbstractMesh({axes}, {kwargs})"
    return speller.imports.define("abstract_mesh", text, value)


def _as_abstract(speller: Speller, known: Any, name: str, value: Any) -> str | None:
    """Write an abstract mesh as a variant of a mesh that has a name."""
    if known == value:
        return name
    if isinstance(known, jax.sharding.Mesh):
        known, name = known.abstract_mesh, f"{name}.abstract_mesh"
    if not isinstance(known, jax.sharding.AbstractMesh):
        return None
    if known == value:
        return name
    same = ("axis_names", "axis_sizes", "abstract_device")
    if any(getattr(known, field) != getattr(value, field) for field in same):
        return None
    pairs = zip(value.axis_names, known.axis_types, value.axis_types)
    changed = {axis: new for axis, old, new in pairs if old != new}
    text = f"{name}.update_axis_types({speller.spell(changed)})"
    return speller.imports.define(_hint(changed.values()), text, value)


def _hint(changed: Any) -> str:
    kinds = {kind.name.lower() for kind in changed}
    return f"{kinds.pop()}_mesh" if len(kinds) == 1 else "abstract_mesh"


# ---- devices and shardings -----------------------------------------------------------


@writes(jaxapi.Device, memo=True)
def _spell_device(speller: Speller, value: Any) -> str:
    root = speller.imports.module("jax")
    speller.imports.mention(value)
    default = jaxapi.list_devices()
    if value in default:
        return f"{root}.devices()[{default.index(value)}]"
    others = jaxapi.list_devices(value.platform)
    if value not in others:
        raise Unspellable(value, "the device does not belong to this process")
    return f"{root}.devices({quote(value.platform)})[{others.index(value)}]"


@writes(jax.sharding.NamedSharding, memo=True)
def _spell_named_sharding(speller: Speller, value: Any) -> str:
    home = speller.name("jax", "NamedSharding")
    if jax.sharding.NamedSharding(value.mesh, value.spec) == value:
        return speller.call(home, [value.mesh, value.spec])
    kwargs = {"memory_kind": value.memory_kind}
    if jax.sharding.NamedSharding(value.mesh, value.spec, **kwargs) != value:
        raise Unspellable(value, "it fixes logical device ids")
    return speller.call(home, [value.mesh, value.spec], **kwargs)


@writes(jax.sharding.SingleDeviceSharding, memo=True)
def _spell_single_device_sharding(speller: Speller, value: Any) -> str:
    home = speller.name("jax.sharding", "SingleDeviceSharding")
    if jax.sharding.SingleDeviceSharding(value._device) == value:
        return speller.call(home, [value._device])
    return speller.call(home, [value._device], memory_kind=value.memory_kind)


# ---- cores -------------------------------------------------------------------------


def _spell_tensor_cores(speller: Speller, value: Any) -> str:
    cores = jaxapi.tensor_cores(value)
    if cores is None:
        raise Unspellable(value, "its cores are not in their order")
    axis, size = cores
    made_by = speller.name("jax.experimental.pallas.tpu", "create_tensorcore_mesh")
    return speller.call(made_by, [axis], num_cores=size)


def _choose(kind: type) -> Writer | None:
    return _spell_tensor_cores if jaxapi.is_tensor_core_mesh(kind) else None


FALLBACKS.insert(0, _choose)  # before those that write any object
