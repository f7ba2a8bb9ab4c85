"""Today's names of primitives and params, for texts of older releases of JAX.

`CHANGES` is the one table: by the name that is printed, what makes the equation one of
today's. Params that print no more, or not yet, where they say nothing are in `defaults`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax

from untrace.jaxapi import printed
from untrace.readers.jaxprs.making import Making
from untrace.readers.jaxprs.shard_maps import read_mesh
from untrace.readers.jaxprs.syntax import Call, Equation, Name, Raw

Change = Callable[[Equation, Making], Equation]


def modern(eqn: Equation, builder: Making) -> Equation:
    """Return an equation as today's JAX would print it."""
    change = CHANGES.get(eqn.primitive)
    return eqn if change is None else change(eqn, builder)


# -- ways to change an equation


def _renamed(*names: str, **params: str) -> Change:
    """Return what renames a primitive and some of its params; to "" drops them.

    The primitive gets the first of the names that this release of JAX knows.
    """

    def change(eqn: Equation, builder: Making) -> Equation:
        known = [name for name in names if printed.primitive_named(name) is not None]
        changed = {
            params.get(key, key): value
            for key, value in eqn.params.items()
            if params.get(key, key)
        }
        return eqn._replace(primitive=known[0] if known else names[0], params=changed)

    return change


def _filled(name: str, **params: Any) -> Change:
    """Return what gives a primitive params that old releases did not have."""

    def change(eqn: Equation, builder: Making) -> Equation:
        return eqn._replace(primitive=name, params={**params, **eqn.params})

    return change


def _jit(eqn: Equation, builder: Making) -> Equation:
    """Keep what `jit` still has, and of that what says something."""
    params = {
        "jaxpr" if key == "call_jaxpr" else key: value
        for key, value in eqn.params.items()
        if key not in _NOT_OF_JIT and (key not in _SILENT or _is_specified(value))
    }
    return eqn._replace(primitive="jit", params={"name": eqn.primitive, **params})


_NOT_OF_JIT = (
    *("backend", "device", "inline", "resource_env", "concrete"),
    *("in_positional_semantics", "out_positional_semantics"),
)
_SILENT = (
    *("in_shardings", "out_shardings", "in_layouts", "out_layouts", "ctx_mesh"),
    *("compiler_options_kvs", "keep_unused"),
)


def _is_specified(value: Any) -> bool:
    """Whether a param of `jit` is more than "unspecified", in any of its spellings."""
    if isinstance(value, Raw | Name):
        return "unspecified" not in value.text.lower()
    if isinstance(value, Call):
        is_empty = value.name == "Mesh" and not value.args and not value.kwargs
        return not is_empty and "unspecified" not in value.name.lower()
    if isinstance(value, tuple | list):
        items: list[Any] = list(value)  # pyright: ignore[reportUnknownArgumentType]
        return any(map(_is_specified, items))
    return value not in (None, False)


def _select(eqn: Equation, builder: Making) -> Equation:
    """`select` took what is chosen where it is true first."""
    if len(eqn.operands) != 3:
        return eqn
    which, true, false = eqn.operands
    return eqn._replace(primitive="select_n", operands=[which, false, true])


def _broadcast(eqn: Equation, builder: Making) -> Equation:
    """`broadcast` put new axes in front."""
    sizes = eqn.params.get("sizes", ())
    rank = _rank(eqn, builder)
    dimensions = tuple(range(len(sizes), rank))
    params = {"broadcast_dimensions": dimensions}
    return eqn._replace(primitive="broadcast_in_dim", params=params)


def _top_k(eqn: Equation, builder: Making) -> Equation:
    """`top_k` took the last axis, and had no other order than the stable one."""
    params = {"axis": _rank(eqn, builder) - 1, **eqn.params}
    has_order = "is_stable" in inspect.signature(jax.lax.top_k).parameters
    if params.get("is_stable") is True and not has_order:
        del params["is_stable"]
    return eqn._replace(params=params)


def _rank(eqn: Equation, builder: Making) -> int:
    """Return the number of axes of the first result as it is printed."""
    if not eqn.binders or not eqn.binders[0].type:
        builder.fail(
            f"the type of the result of `{eqn.primitive}` is not printed", eqn.at
        )
    binder = eqn.binders[0]
    return len(getattr(builder.type(binder.type, binder.at), "shape", ()))


def _device_put(eqn: Equation, builder: Making) -> Equation:
    """`device_put` took one array; what it may do with it had other names."""
    params = dict(eqn.params)
    for old, new in (("device", "devices"), ("src", "srcs")):
        if old in params:
            params[new] = (params.pop(old),)
    n = len(eqn.operands)
    meanings = params.get("copy_semantics", [Name("CopySemantics.ALIAS", eqn.at)] * n)
    params["copy_semantics"] = [
        Name(_MEANINGS.get(item.text, item.text), item.at)
        if isinstance(item, Name)
        else item
        for item in meanings
    ]
    return eqn._replace(params=params)


_MEANINGS = {
    "CopySemantics.ALIAS": "ArrayCopySemantics.REUSE_INPUT",
    "CopySemantics.COPY": "ArrayCopySemantics.ALWAYS_COPY",
    "CopySemantics.DONATE": "ArrayCopySemantics.DONATE_INPUT",
}


def _remat(eqn: Equation, builder: Making) -> Equation:
    """Rematerialisation was a call; it takes an open jaxpr now."""
    params = {"policy": "None", "prevent_cse": True, "differentiated": False}
    params |= {k: v for k, v in eqn.params.items() if k in (*params, "jaxpr")}
    if "call_jaxpr" in eqn.params:
        params["jaxpr"] = eqn.params["call_jaxpr"]
    known = [name for name in _REMAT if printed.primitive_named(name) is not None]
    return eqn._replace(primitive=known[0], params=params)


def _shard_map(eqn: Equation, builder: Making) -> Equation:
    """`shard_map` listed the axes of each dimension, and those that it leaves to XLA.

    What it knew of replication is not in the types, as it is today: it is not checked.
    """
    params = dict(eqn.params)
    if "manual_axes" in params:
        params["newly_manual_axes"] = params.pop("manual_axes")
    if "in_names" in params:
        automatic = _members(params.pop("auto", None))
        mesh = read_mesh(params.get("mesh"))
        names = mesh.axis_names if mesh is not None else ()
        manual = [name for name in names if name not in automatic]
        found = (frozenset(manual),)
        params["newly_manual_axes"] = Call("frozenset", found, {}, eqn.at)
        params["check_vma"] = False
        for old, new in (("in_names", "in_specs"), ("out_names", "out_specs")):
            params[new] = tuple([_spec(one, eqn.at) for one in params.pop(old, ())])
        params.pop("check_rep", None)
        params.pop("rewrite", None)
    return eqn._replace(params=params)


def _spec(names: Any, at: int) -> Any:
    """Return the `PartitionSpec` that says which axes each dimension is split by."""
    if not isinstance(names, dict):
        return names
    known: dict[Any, Any] = names  # pyright: ignore[reportUnknownVariableType]
    n_axes = 1 + max([key for key in known if type(key) is int], default=-1)
    return Call("P", tuple([known.get(axis) for axis in range(n_axes)]), {}, at)


def _members(value: Any) -> frozenset[Any]:
    """Return what is in `frozenset({...})`."""
    return frozenset().union(*value.args) if isinstance(value, Call) else frozenset()


def _ungrouped(name: str) -> Change:
    """Return what leaves out the groups of devices, which were None, and renames."""

    def change(eqn: Equation, builder: Making) -> Equation:
        params = dict(eqn.params)
        if params.get("axis_index_groups", 0) is None:
            del params["axis_index_groups"]
        return eqn._replace(primitive=name, params=params)

    return change


def _sharding_constraint(eqn: Equation, builder: Making) -> Equation:
    """The mesh around a constraint was in `resource_env`."""
    params = {"context_mesh": Call("Mesh", (), {}, eqn.at), "layout": None}
    params |= {k: v for k, v in eqn.params.items() if k != "resource_env"}
    return eqn._replace(params=params)


def _pmap(eqn: Equation, builder: Making) -> Equation:
    builder.fail(
        "`xla_pmap`, which was `jax.pmap`, is no primitive any more",
        eqn.at,
        "Print the jaxpr of `jax.vmap(f, axis_name=...)`, which computes the same.",
    )


_REMAT = ("remat2", "checkpoint", "remat")
_UNSORTED = {"indices_are_sorted": False, "unique_indices": False}
_DROPPED = Name("GatherScatterMode.FILL_OR_DROP", 0)
_CLIPPED = Name("GatherScatterMode.CLIP", 0)


CHANGES: dict[str, Change] = {
    # calls
    "jit": _jit,
    "pjit": _jit,
    "xla_call": _jit,
    "core_call": _jit,
    "named_call": _jit,
    "closed_call": _renamed("closed_call", "eval_jaxpr"),
    "core_closed_call": _renamed("closed_call", "eval_jaxpr"),
    "eval_jaxpr": _renamed("eval_jaxpr", "closed_call"),
    "checkpoint": _remat,
    "remat": _remat,
    "remat_call": _remat,
    "custom_jvp_call_jaxpr": _renamed(
        "custom_jvp_call", fun_jaxpr="call_jaxpr", jvp_jaxpr_thunk=""
    ),
    "custom_vjp_call_jaxpr": _renamed("custom_vjp_call", fun_jaxpr="call_jaxpr"),
    "cond": _renamed("cond", linear=""),
    # arrays
    "broadcast": _broadcast,
    "select": _select,
    "convert_element_type": _renamed("convert_element_type", old_dtype=""),
    "conv_general_dilated": _renamed(
        "conv_general_dilated", lhs_shape="", rhs_shape=""
    ),
    "cumsum": _filled("cumsum", reverse=False),
    "cumprod": _filled("cumprod", reverse=False),
    "cummax": _filled("cummax", reverse=False),
    "cummin": _filled("cummin", reverse=False),
    "gather": _filled("gather", fill_value=None, mode=_CLIPPED, **_UNSORTED),
    "scatter": _filled("scatter", mode=_DROPPED, **_UNSORTED),
    "scatter-add": _filled("scatter-add", mode=_DROPPED, **_UNSORTED),
    "scatter_add": _renamed("scatter_add", "scatter-add"),
    "scatter_mul": _renamed("scatter_mul", "scatter-mul"),
    "scatter_min": _renamed("scatter_min", "scatter-min"),
    "scatter_max": _renamed("scatter_max", "scatter-max"),
    "sort": _filled("sort", is_stable=True, num_keys=1),
    "top_k": _top_k,
    "device_put": _device_put,
    # programs for each device
    "shard_map": _shard_map,
    "xla_pmap": _pmap,
    "psum2": _renamed("psum"),
    "pbroadcast": _ungrouped("pvary"),
    "pvary": _ungrouped("pvary"),
    "psum_invariant": _ungrouped("psum_invariant"),
    "sharding_constraint": _sharding_constraint,
}
"""What makes an equation one of today's, by the name of its primitive."""
