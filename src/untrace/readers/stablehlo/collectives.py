"""Programs for each device of a mesh, and what these exchange: `shard_map` again.

A mesh stands without devices, as the module has it. Groups of devices are the axes of the
mesh over which they go; other groups are refused.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax import lax
from jax.sharding import AbstractMesh, AxisType, PartitionSpec

from untrace.jaxapi.module_meshes import Mesh, groups_along
from untrace.jaxapi.module_types import Module, Record
from untrace.readers.stablehlo.calls import Call

Template = Callable[..., Any]


def manual_computation(call: Call, body: Callable[..., Any], *args: Any) -> Any:
    """State a program for each device."""
    mesh = mesh_of(call["in_shardings"], call["out_shardings"])
    manual = call["manual_axes"]
    if mesh is None or not isinstance(manual, tuple):
        raise call.refused("spreads values in a way that `PartitionSpec` does not have")
    specs = [
        tuple(_spec(call, sharding, manual) for sharding in call[name])
        for name in ("in_shardings", "out_shardings")
    ]
    return jax.shard_map(
        lambda *local: tuple(body(*local)),
        mesh=abstract_mesh(mesh),
        in_specs=specs[0],
        out_specs=specs[1],
        axis_names=set(manual),
        check_vma=False,
    )(*args)


def abstract_mesh(mesh: Mesh) -> AbstractMesh:
    """Return a mesh without devices."""
    names, sizes = zip(*mesh)
    return AbstractMesh(sizes, names, axis_types=(AxisType.Auto,) * len(names))


def mesh_of(*shardings: Any) -> Mesh | None:
    """Return the mesh that all shardings are over; None if there is none."""
    found = [
        one["mesh"] if isinstance(one, Record) else None
        for each in shardings
        for one in (each if isinstance(each, tuple) else (None,))
    ]
    return found[0] if found and all(one == found[0] for one in found) else None


def meshes_of(module: Module) -> list[Mesh]:
    """List the meshes that programs for each device are over."""
    found = [
        mesh_of(one.attributes.get("in_shardings"), one.attributes.get("out_shardings"))
        for one in module.operations()
        if one.name == "sdy.manual_computation"
    ]
    return list(dict.fromkeys(mesh for mesh in found if mesh))


def _spec(call: Call, sharding: Record, manual: tuple[str, ...]) -> PartitionSpec:
    dimensions = sharding["dimensions"]
    named = [axis for axes, _ in dimensions for axis in axes]
    if set(named) - set(manual) or sharding["unreduced"]:
        raise call.refused("spreads values over axes that are not its own")
    parts = [axes[0] if len(axes) == 1 else axes or None for axes, _ in dimensions]
    return PartitionSpec(*parts)


# -- exchanges


def all_reduce(call: Call, *operands: Any) -> Any:
    """State a reduction over devices."""
    axes = _axes(call)
    call.ignore("use_global_device_ids", "channel_handle", "channel_id")
    function = REDUCTIONS.get(call.computation())
    if function is None:
        raise call.refused("reduces by a function that JAX does not have over devices")
    return [function(x, axes) for x in operands]


REDUCTIONS: dict[Any, Callable[..., Any]] = {
    lax.add: lax.psum,
    lax.max: lax.pmax,
    lax.min: lax.pmin,
}


def all_gather(call: Call, *operands: Any) -> Any:
    """State that all devices get the parts of all."""
    axes, axis = _axes(call), int(call["all_gather_dim"])
    call.ignore("use_global_device_ids", "channel_handle", "channel_id")
    return [lax.all_gather(x, axes, axis=axis, tiled=True) for x in operands]


def all_to_all(call: Call, *operands: Any) -> Any:
    """State that each device sends a part to every other one."""
    axes = _axes(call)
    split, joined = int(call["split_dimension"]), int(call["concat_dimension"])
    call.ignore("split_count", "channel_handle", "channel_id")
    name = axes[0] if len(axes) == 1 else axes
    return [lax.all_to_all(x, name, split, joined, tiled=True) for x in operands]


def reduce_scatter(call: Call, x: Any) -> Any:
    """State a sum over devices of which each gets a part."""
    axes, axis = _axes(call), int(call["scatter_dimension"])
    call.ignore("use_global_device_ids", "channel_handle", "channel_id")
    if call.computation() is not lax.add:
        raise call.refused("reduces by a function that JAX does not have over devices")
    return lax.psum_scatter(x, axes, scatter_dimension=axis, tiled=True)


def collective_permute(call: Call, x: Any) -> Any:
    """State that devices send what they have to others."""
    call.ignore("channel_handle", "channel_id")
    pairs = [(int(a), int(b)) for a, b in call["source_target_pairs"]]
    for axes, groups in _groups(call):
        found = _within(groups, pairs)
        if found is not None:
            return lax.ppermute(x, axes, found)
    raise call.refused("sends values along no axis of the mesh")


def partition_id(call: Call) -> Any:
    """State the number of the device in the whole mesh."""
    names = tuple(name for name, _ in _mesh(call))
    return lax.convert_element_type(lax.axis_index(names), np.uint32)


def _within(
    groups: Sequence[Sequence[int]], pairs: list[tuple[int, int]]
) -> list[tuple[int, int]] | None:
    """Return pairs of devices by their places in groups, if all groups have the same."""
    known = set(pairs)
    first = groups[0]
    found = [
        (i, j)
        for i, source in enumerate(first)
        for j, target in enumerate(first)
        if (source, target) in known
    ]
    all_pairs = {(group[i], group[j]) for group in groups for i, j in found}
    return sorted(found) if all_pairs == known else None


def _axes(call: Call) -> tuple[str, ...]:
    """Return the axes of the mesh that the groups of an exchange go over."""
    given = call["replica_groups"]
    for axes, groups in _groups(call):
        if groups == given:
            return axes
    raise call.refused("exchanges values between devices that are on no axis of a mesh")


Groups = tuple[tuple[int, ...], ...]


def _groups(call: Call) -> Iterator[tuple[tuple[str, ...], Groups]]:
    """Yield all choices of axes, fewest first, and the groups of devices along them."""
    mesh = _mesh(call)
    manual = [name for name, _ in mesh if name in _manual()]
    for count in range(1, len(manual) + 1):
        for axes in itertools.permutations(manual, count):
            yield axes, groups_along(mesh, axes)


def _mesh(call: Call) -> Mesh:
    """Return the mesh of the program for each device that is being traced."""
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.empty:
        raise call.refused(
            "exchanges values between devices, of which nothing says a mesh",
            "Programs for each device are read where they are in `shard_map`.",
        )
    return tuple(zip(mesh.axis_names, mesh.axis_sizes))


def _manual() -> tuple[str, ...]:
    return jax.sharding.get_abstract_mesh().manual_axes


COLLECTIVES: dict[str, Template] = {
    "stablehlo.all_gather": all_gather,
    "stablehlo.all_reduce": all_reduce,
    "stablehlo.all_to_all": all_to_all,
    "stablehlo.collective_permute": collective_permute,
    "stablehlo.partition_id": partition_id,
    "stablehlo.reduce_scatter": reduce_scatter,
}
