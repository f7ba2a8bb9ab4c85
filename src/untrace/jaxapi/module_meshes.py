# The MLIR bindings are untyped, and where they live is JAX's own affair.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false, reportAttributeAccessIssue=false
"""Attributes of Shardy, and those of StableHLO that name axes of a mesh, as plain data.

A mesh stands for its name: the names and sizes of its axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from jax._src.lib.mlir import ir as _ir
from jax._src.lib.mlir.dialects import hlo as _hlo
from jax._src.lib.mlir.dialects import sdy as _sdy

from untrace.jaxapi.module_types import Record

Mesh = tuple[tuple[str, int], ...]
SHARDING = "#sdy.sharding"


def meshes_in(module: Any) -> dict[str, Mesh]:
    """Return the meshes of a module by name, but for those that number their devices."""
    found: dict[str, Mesh] = {}
    for operation in module.body.operations:
        if operation.operation.name != "sdy.mesh":
            continue
        attributes = operation.operation.attributes
        mesh = _sdy.MeshAttr(attributes["mesh"])
        if not list(mesh.device_ids):
            axes = map(_sdy.MeshAxisAttr, mesh.axes)
            name = str(_ir.StringAttr(attributes["sym_name"]).value)
            found[name] = tuple((str(axis.name), int(axis.size)) for axis in axes)
    return found


def groups_along(mesh: Mesh, axes: Sequence[str]) -> tuple[tuple[int, ...], ...]:
    """Return the numbers of the devices that differ in their places on some axes alone.

    >>> groups_along((("x", 2), ("y", 3)), ("x",))
    ((0, 3), (1, 4), (2, 5))
    """
    names, sizes = zip(*mesh)
    chosen = [names.index(axis) for axis in axes]
    rest = [i for i in range(len(mesh)) if i not in chosen]
    devices = np.arange(int(np.prod(sizes))).reshape(sizes).transpose(*rest, *chosen)
    size = int(np.prod([sizes[i] for i in chosen]))
    return tuple(tuple(row) for row in devices.reshape(-1, size).tolist())


def of_mesh(attribute: Any, meshes: dict[str, Mesh]) -> Any:
    """Return an attribute as plain data; None if it is none of these, or not plain."""
    if _sdy.TensorShardingPerValueAttr.isinstance(attribute):
        each = _sdy.TensorShardingPerValueAttr(attribute).shardings
        found = [_sharding(_sdy.TensorShardingAttr(one), meshes) for one in each]
        return None if None in found else tuple(found)
    if _sdy.ManualAxesAttr.isinstance(attribute):
        axes: Any = _sdy.ManualAxesAttr(attribute)
        return tuple(str(axis) for axis in axes)
    groups = getattr(_hlo, "ReplicaGroupMeshAxesAttr", None)
    if groups is not None and groups.isinstance(attribute):
        cast = groups(attribute)
        mesh = _mesh(cast.mesh, meshes)
        axes = _axes(_hlo.AxisRefAttr(axis) for axis in cast.axes)
        return None if mesh is None or axes is None else groups_along(mesh, axes)
    return None


def _sharding(sharding: Any, meshes: dict[str, Mesh]) -> Record | None:
    """Return the axes that each dimension is spread over, and whether it may be more."""
    mesh = _mesh(sharding.mesh_or_ref, meshes)
    dimensions = [
        (_axes(map(_sdy.AxisRefAttr, one.axes)), bool(one.is_closed))
        for one in map(_sdy.DimensionShardingAttr, sharding.dimension_shardings)
    ]
    replicated, unreduced = (
        _axes(map(_sdy.AxisRefAttr, axes))
        for axes in (sharding.replicated_axes, sharding.unreduced_axes)
    )
    parts = [mesh, replicated, unreduced, *(axes for axes, _ in dimensions)]
    if None in parts:
        return None
    fields = (
        ("mesh", mesh),
        ("dimensions", tuple(dimensions)),
        ("replicated", replicated),
        ("unreduced", unreduced),
    )
    return Record(SHARDING, fields)


def _mesh(reference: Any, meshes: dict[str, Mesh]) -> Mesh | None:
    is_name = isinstance(reference, _ir.FlatSymbolRefAttr)
    return meshes.get(str(reference.value)) if is_name else None


def _axes(axes: Iterable[Any]) -> tuple[str, ...] | None:
    """Return the names of axes; None if one of them is only a part of an axis."""
    found = list(axes)
    is_whole = all(getattr(axis, "sub_axis_info", None) is None for axis in found)
    return tuple(str(axis.name) for axis in found) if is_whole else None
