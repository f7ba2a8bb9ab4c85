"""What an equation of `shard_map` is made of: types on each device, and its context."""

# These are JAX's private hooks; `tests/readers` checks each on every version.
# pyright: reportPrivateUsage=false, reportPrivateImportUsage=false

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any

from jax._src import config as _config
from jax._src import core as _core
from jax._src import mesh as _mesh
from jax._src import shard_map as _shard_map


def per_device(
    mesh: Any, manual: frozenset[str], check_vma: bool, specs: Sequence[Any], avals: Any
) -> list[Any]:
    """Return the types of the parts of arrays that each device of a `shard_map` has."""
    shard = _shard_map.shard_aval
    return [shard(mesh, manual, check_vma, *pair) for pair in zip(specs, avals)]


def of_all_devices(
    mesh: Any, check_vma: bool, specs: Sequence[Any], avals: Any
) -> list[Any]:
    """Return the types of the arrays that the results of a `shard_map` are parts of."""
    unshard = _shard_map.unshard_aval
    return [unshard(mesh, check_vma, *pair) for pair in zip(specs, avals)]


def effects_outside(jaxpr: Any, mesh: Any) -> Any:
    """Return the effects of a `shard_map` over a mesh."""
    effects = _core.positional_effects(jaxpr)
    return _core.filter_named_axis_effects(effects, mesh.axis_names)


@contextlib.contextmanager
def on_each_device(
    mesh: Any, manual: frozenset[str], check_vma: bool
) -> Generator[None, None, None]:
    """Enter the state in which the body of a `shard_map` is made."""
    with (
        _shard_map._extend_axis_env(mesh, manual),
        _mesh.use_abstract_mesh(_shard_map._as_manual_mesh(mesh, manual)),
        _config._check_vma(check_vma),
    ):
        yield


def varying(aval: Any, axes: Sequence[str]) -> Any:
    """Return the type of an array that differs along some axes of a mesh."""
    kind = _core.ManualAxisType(varying=frozenset(axes))
    return aval.update(manual_axis_type=kind)
