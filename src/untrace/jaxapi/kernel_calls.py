"""What `pl.pallas_call` was given, read from the function that it made.

Pallas is not imported here, since few programs need it: what has not been imported has
made no kernel either.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

import jax

KERNEL_HOME = ("jax.experimental.pallas", "pallas_call")
WHEN_HOME = ("jax.experimental.pallas", "when")
_DEFAULTS: dict[str, Any] = {
    "input_output_aliases": {},
    "debug": False,
    "interpret": False,
    "name": None,
    "compiler_params": None,
    "cost_estimate": None,
    "metadata": None,
}
_PREFETCHING = "num_scalar_prefetch"


def pallas_module() -> Any:
    """Return the module that makes kernels, if it has been imported as a whole."""
    module = sys.modules.get("jax._src.pallas.pallas_call")
    return module if hasattr(module, "pallas_call") else None


def kernel_options(cells: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments of `pallas_call` besides the kernel.

    Those that have a default are left out if they are that. A kernel over a mesh, and
    one whose grid or results are of a kind unknown here, has none.

    Args:
      cells: What the function closes over that it made.
    """
    spec, shapes = cells["grid_spec"], cells["flat_out_shapes"]
    if cells.get("mesh") is not None or not _is_known(spec):
        return None
    if not all(type(shape) is jax.ShapeDtypeStruct for shape in shapes):
        return None
    options = {"out_shape": jax.tree.unflatten(cells["out_tree"], shapes)}
    if hasattr(spec, _PREFETCHING):
        options[_PREFETCHING] = spec.num_scalar_prefetch
    if spec.grid:
        bounds = iter(cells["dynamic_grid_bounds"])
        sizes = [next(bounds) if size is None else size for size in spec.grid]
        names = spec.grid_names
        options["grid"] = tuple(zip(names, sizes)) if names else tuple(sizes)
    for name in ("in_specs", "out_specs"):
        if _is_given(getattr(spec, name)):
            options[name] = getattr(spec, name)
    if spec.scratch_shapes:
        tree, shapes = cells["scratch_tree"], spec.scratch_shapes
        is_flat = tree.num_leaves < len(shapes)  # those of a grid spec that was given
        options["scratch_shapes"] = shapes if is_flat else tree.unflatten(shapes)
    given = {k: v for k, v in cells.items() if k in _DEFAULTS and v != _DEFAULTS[k]}
    return {**options, **{name: given[name] for name in _DEFAULTS if name in given}}


def index_maps(options: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the functions that tell which blocks a kernel gets."""
    for name in ("in_specs", "out_specs"):
        for spec in jax.tree.leaves(options.get(name)):
            made = index_map(spec)
            if made is not None:
                yield made


def index_map(spec: Any) -> Any:
    """Return the function of a block spec that tells which block; None if it has none."""
    return getattr(getattr(spec, "index_map", None), "index_map", None)


def _is_known(spec: Any) -> bool:
    fields = {"grid", "grid_names", "in_specs", "out_specs", "scratch_shapes"}
    return vars(spec).keys() - {_PREFETCHING} == fields


def _is_given(specs: Any) -> bool:
    return type(specs).__name__ != "NoBlockSpec"
