"""Make the equations of `shard_map`, whose jaxprs are made for each device of a mesh.

A mesh is printed without its devices, and so it has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from jax.sharding import AbstractMesh, AxisType, Mesh

from untrace.jaxapi import printed, shard_maps
from untrace.readers.jaxprs.bodies import resolved
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.syntax import Call, Equation, Name

NEEDED = ("check_vma", "in_specs", "jaxpr", "mesh", "newly_manual_axes", "out_specs")


def made(eqn: Equation, inputs: list[Any], builder: Making) -> tuple[Any, ...]:
    """Return the primitive, params, types of results and effects of an equation.

    Raises:
      ParseError: If the text does not hold all of it, or it is not possible.
    """
    missing = [name for name in NEEDED if name not in eqn.params]
    if missing:
        builder.fail(
            f"what `{missing[0]}` of `shard_map` is, is not printed",
            eqn.at,
        )
    mesh = read_mesh(eqn.params["mesh"])
    if mesh is None:
        builder.fail("this mesh of `shard_map` is not understood", eqn.at)
    rest = {k: v for k, v in eqn.params.items() if k not in ("jaxpr", "mesh")}
    params = builder.params.read(eqn._replace(params=rest), {})
    manual = params["newly_manual_axes"]
    block = resolved(eqn.params["jaxpr"], dict(builder.shared))
    is_set = isinstance(manual, frozenset)
    if not is_set or block is None or not manual <= {*mesh.axis_names}:
        builder.fail("this `shard_map` is not understood", eqn.at)
    checks = params["check_vma"] is True
    avals = [atom.aval for atom in inputs]
    given = shard_maps.per_device(mesh, manual, checks, params["in_specs"], avals)
    with shard_maps.on_each_device(mesh, manual, checks), builder.region(mesh):
        jaxpr = builder.block(block, given, ())
    params |= {"jaxpr": jaxpr, "mesh": mesh, "newly_manual_axes": manual}
    local = printed.result_types(jaxpr)
    results = shard_maps.of_all_devices(mesh, checks, params["out_specs"], local)
    effects = shard_maps.effects_outside(jaxpr, mesh)
    return printed.primitive_named("shard_map"), params, results, effects


def read_mesh(value: Any) -> AbstractMesh | None:
    """Read a mesh as JAX prints it; None if it has no axes, or is none.

    >>> axes = {"axis_types": (Name("Auto", 0),)}
    >>> read_mesh(Call("AbstractMesh", (("x", 4),), axes, 0)).shape_tuple
    (('x', 4),)
    """
    if not isinstance(value, Call) or value.name not in ("Mesh", "AbstractMesh"):
        return None
    axes = [axis for axis in value.args if _is_axis(axis)]
    # Before 0.5 there were no other types of axes.
    kinds = value.kwargs.get("axis_types", (Name("Auto", value.at),) * len(axes))
    words = [getattr(kind, "text", "") for kind in kinds or ()]
    known: Mapping[str, AxisType] = AxisType.__members__
    is_whole = len(axes) == len(value.args) == len(words) > 0
    if not is_whole or not {*words} <= {*known}:
        return None
    names, sizes = zip(*axes)
    types = tuple(known[word] for word in words)
    return AbstractMesh(sizes, names, axis_types=types)


def _is_axis(value: Any) -> bool:
    """Whether a value is the name and the size of an axis."""
    if type(value) is not tuple or len(value) != 2:  # pyright: ignore[reportUnknownArgumentType]
        return False
    return type(value[0]) is str and type(value[1]) is int and 0 < value[1] < 10**9  # pyright: ignore[reportUnknownVariableType]


def with_devices(mesh: AbstractMesh) -> Mesh | None:
    """Return the mesh that is entered, if it is such a one, or one of a single device."""
    entered = jax.sharding.get_mesh()
    if getattr(entered, "abstract_mesh", None) == mesh:
        return entered
    if mesh.size != 1:
        return None
    devices = np.asarray(jax.devices()[:1]).reshape(mesh.axis_sizes)
    return Mesh(devices, mesh.axis_names, axis_types=mesh.axis_types)
