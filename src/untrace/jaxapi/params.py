# `_DimExpr` is private; `jax.extend` is imported only to be loaded.
# pyright: reportPrivateUsage=false, reportUnusedImport=false
"""Params of equations: the classes that are spelled, and what is in their values.

jax 0.10 keeps remat policies as records and calls `HiPrim` `VJPHiPrimitive`; flat trees
came with jax 0.11.
"""

from __future__ import annotations

import importlib
from typing import Any

import jax
import jax.extend.core.primitives  # loaded to be listed by `lifting.spelling.homes`
import jax.extend.random  # likewise
from jax._src import ad_checkpoint as _ad_checkpoint
from jax._src import dispatch as _dispatch
from jax._src import frozen_dict as _frozen_dict
from jax._src import hijax as _hijax
from jax._src import linear_util as _lu
from jax._src.export import shape_poly as _shape_poly

WrappedFun = _lu.WrappedFun
FrozenDict = _frozen_dict.FrozenDict
Device: type[Any] = jax.Device
PyTreeDef: type[Any] = jax.tree_util.PyTreeDef
# Called `VJPHiPrimitive` before jax 0.11.
HiPrimitive: type = getattr(_hijax, "HiPrim", None) or _hijax.VJPHiPrimitive
SymbolicDim = _shape_poly._DimExpr
# Remat policies that jax 0.10 keeps as records: the function that makes one, its field.
POLICY_RECORDS: dict[type, tuple[str, str]] = {
    getattr(_ad_checkpoint, kind): made
    for kind, made in {
        "SaveOnlyTheseNames": ("save_only_these_names", "saveable_names"),
        "SaveAnyNamesButThese": ("save_any_names_but_these", "names"),
    }.items()
    if hasattr(_ad_checkpoint, kind)
}
NATIVE_ENUMS: tuple[type, ...] = (_dispatch.ArrayCopySemantics,)


def _flattree_classes(*names: str) -> tuple[type, ...]:
    """Return classes of the module of flat trees, which came with jax 0.11."""
    try:
        module = importlib.import_module("jax._src.flattree")
    except ImportError:
        return ()
    return tuple(getattr(module, name) for name in names)


FLAT_PYTREES = _flattree_classes("FTPyTree")
FLAT_TREES = _flattree_classes("FTTuple", "FTFiltered")


def flat_tree_sizes(value: Any) -> tuple[int, ...] | None:
    """Return the number of leaves of each part of a flat tree that holds no values.

    In the params of a `scan` (jax >= 0.11) such trees count consts, carries and xs; how
    the leaves of one part are nested is bookkeeping of the transformations.
    """
    if any(leaf is not None for leaf in value.vals):
        return None
    try:
        return tuple(len(part) for part in value.unpack())
    except TypeError:  # one part only
        return None


def is_empty_manual_axis_type(value: Any) -> bool:
    """Whether a `ManualAxisType` says nothing."""
    return bool(value.empty)


def is_value_box(value: Any) -> bool:
    """Whether `value` is JAX's wrapper around a static argument of a rule."""
    return type(value).__module__ == "jax._src.util" and hasattr(value, "val")


def boxed_value(box: Any) -> Any:
    """Return what is in a value box, with dictionaries as tuples of items."""
    # Other dictionaries around rules are caches, which fill while they are traced.
    return _with_items(box.val)


def node_parts(value: Any) -> Any:
    """Return the children of a node of a tree and what it holds beside; None for others.

    Plain containers are no such nodes; dictionaries in a node are tuples of items.
    """
    if type(value) in (tuple, list, dict, type(None)):
        return None
    try:
        parts = jax.tree_util.default_registry.flatten_one_level(value)
    except Exception:  # flattening runs code of any library
        return None
    return None if parts is None else _with_items((tuple(parts[0]), parts[1]))


def _with_items(value: Any) -> Any:
    """Write dictionaries in plain containers as tuples of items."""
    if type(value) is dict:
        return tuple((key, _with_items(item)) for key, item in value.items())
    if type(value) in (tuple, list):
        return tuple(_with_items(item) for item in value)
    return value


def plain_attribute(value: Any) -> Any:
    """Return an attribute of a foreign call as it was given."""
    kind = type(value).__name__
    if kind == "HashableArray":
        return value.val
    if kind == "FrozenDict":
        return dict(value.items())
    return value


def list_devices(platform: str | None = None) -> list[Any]:
    """List the devices of a platform, or of the default one."""
    return list(jax.devices(platform))


def make_mesh(*args: Any, **kwargs: Any) -> Any:
    """Call `jax.make_mesh`."""
    return jax.make_mesh(*args, **kwargs)
