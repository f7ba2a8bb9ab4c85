"""Sharding: shard_map, collectives, shardings as constraints, and moves between devices.

A public call is printed where it gives the identical equation. What a call infers from
its surroundings (the mesh in context, which axes are manual, whether variance is
checked) is left out where the surroundings of the printed text say the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Block, Equation, Value
from untrace.lifting.blocks.control import hoists_in_order
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.printing import Group, Rhs, unpacked
from untrace.lifting.rules.table import rule
from untrace.syntax.names import is_name

# ---- collectives -------------------------------------------------------------------


def _over_axes(eqn: Equation) -> bool:
    # Over no axes, which `vmap` may leave of a derivative, nothing is done.
    return eqn.params.get("axes") != ()


def _on_value(eqn: Equation) -> bool:
    # Collectives of constants are computed while tracing.
    return type(eqn.operands[0]) is Value and _over_axes(eqn)


rule(
    "psum",
    "jax.lax.psum({0}, {axes:mesh_axis})",
    when=_on_value,
    axis_index_groups=None,
)
rule(
    "psum",
    "jax.lax.psum({0}, {axes:mesh_axis}, axis_index_groups={axis_index_groups})",
    when=_on_value,
)
rule("psum_invariant", "jax.lax.psum({0}, {axes:mesh_axis})", when=_on_value)
rule("unreduced_psum", "jax.lax.psum({0}, {axes:mesh_axis})", when=_on_value)
for name in ("pmax", "pmin"):
    plain = f"jax.lax.{name}({{0}}, {{axes:mesh_axis}}"
    groups = ", axis_index_groups={axis_index_groups})"
    rule(name, f"{plain})", when=_on_value, axis_index_groups=None)
    rule(name, plain + groups, when=_on_value)
    rule(f"unreduced_{name}", f"{plain})", when=_on_value)
rule(
    "pvary",
    'jax.lax.pcast({0}, {axes:mesh_axis}, to="varying")',
    when=_over_axes,
)
rule(
    "reduced_vary_cast",
    'jax.lax.pcast({0}, {axes:mesh_axis}, to="varying")',
    when=_on_value,
)
rule("preduced", 'jax.lax.pcast({0}, {axes:mesh_axis}, to="reduced")', when=_on_value)
rule(
    "vary_unreduced_cast",
    'jax.lax.pcast({0}, {axes:mesh_axis}, to="unreduced")',
    when=_on_value,
)
rule(
    "axis_index",
    "jax.lax.axis_index({axis_name})",
    when=lambda eqn: _is_one_axis(eqn.params),
)
rule(
    "pbroadcast",
    "jax.lax.pbroadcast({0}, {axis_name:mesh_axis}, {source})",
    when=_on_value,
)


def _is_one_axis(params: Any) -> bool:
    return not isinstance(params["axis_name"], tuple)


@control("all_gather", "all_gather_invariant", "all_gather_reduced")
def all_gather(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.all_gather`; its size follows from the axis."""
    to = {"all_gather_invariant": "invarying", "all_gather_reduced": "reduced"}.get(
        eqn.name
    )
    params = eqn.params
    options: list[tuple[str, Any, Any]] = [
        ("axis_index_groups", params.get("axis_index_groups"), None),
        ("axis", params["all_gather_dimension"], 0),
        ("tiled", params["tiled"], False),
        ("to", to, None),
    ]
    return _collective("all_gather", eqn, frame, options)


@control("reduce_scatter", "unreduced_reduce_scatter")
def psum_scatter(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.psum_scatter`; its size follows from the axis."""
    params = eqn.params
    options: list[tuple[str, Any, Any]] = [
        ("scatter_dimension", params["scatter_dimension"], 0),
        ("axis_index_groups", params.get("axis_index_groups"), None),
        ("tiled", params["tiled"], False),
    ]
    return _collective("psum_scatter", eqn, frame, options)


@control("all_to_all")
def all_to_all(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.all_to_all`, unless it would add axes to keep the rank."""
    params = eqn.params
    split, concat = params["split_axis"], params["concat_axis"]
    if not params["tiled"] and split != concat:
        return None
    options: list[tuple[str, Any, Any]] = [
        ("split_axis", split, None),
        ("concat_axis", concat, None),
        ("axis_index_groups", params["axis_index_groups"], None),
        ("tiled", params["tiled"], False),
    ]
    return _collective("all_to_all", eqn, frame, options)


@control("ragged_all_to_all")
def ragged_all_to_all(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.ragged_all_to_all`."""
    options: list[tuple[str, Any, Any]] = [
        ("axis_name", _axes(eqn.params["axis_name"]), None),
        ("axis_index_groups", eqn.params["axis_index_groups"], None),
    ]
    return Rhs(
        _call("jax.lax.ragged_all_to_all", frame.texts(eqn.operands), options, frame)
    )


@control("ppermute")
def ppermute(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.ppermute`; a long rotation as a comprehension."""
    perm = [tuple(map(int, pair)) for pair in eqn.params["perm"]]
    text = _rotation(perm) or frame.lifter.spell(perm)
    frame.lifter.imports.module("jax")
    axes = frame.lifter.spell(_axes(eqn.params["axis_name"]))
    return Rhs(f"jax.lax.ppermute({frame.text(eqn.operands[0])}, {axes}, {text})")


MIN_ROTATION = 5
"""Fewest members of a rotation for which a formula reads better than pairs."""


def _rotation(perm: Sequence[tuple[int, ...]]) -> str | None:
    n = len(perm)
    if n < MIN_ROTATION:
        return None
    shift = (perm[0][1] - perm[0][0]) % n
    if perm != [(i, (i + shift) % n) for i in range(n)]:
        return None
    if shift > n // 2:
        return f"[(i, (i - {n - shift}) % {n}) for i in range({n})]"
    return f"[(i, (i + {shift}) % {n}) for i in range({n})]"


def _collective(
    name: str, eqn: Equation, frame: Frame, options: Sequence[tuple[str, Any, Any]]
) -> Rhs | None:
    if not _on_value(eqn):
        return None
    args = [
        frame.text(eqn.operands[0]),
        frame.lifter.spell(_axes(eqn.params["axis_name"])),
    ]
    return Rhs(_call(f"jax.lax.{name}", args, options, frame))


def _axes(names: Any) -> Any:
    """Return the name of a single axis, and a tuple of several."""
    return names[0] if isinstance(names, tuple) and len(names) == 1 else names


def _call(
    function: str,
    args: Sequence[str],
    options: Sequence[tuple[str, Any, Any]],
    frame: Frame,
) -> str:
    """Write a call; an option is a keyword, its value and the default to leave out."""
    frame.lifter.imports.module("jax")
    shown = [
        f"{key}={frame.lifter.spell(value)}"
        for key, value, default in options
        if value != default
    ]
    return f"{function}({', '.join([*args, *shown])})"


# ---- shard_map ---------------------------------------------------------------------


@control("shard_map")
def shard_map(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.shard_map(f, …)(x, …)`."""
    block: Block = eqn.params["jaxpr"]
    if block.constants:
        return None
    mesh = (
        []
        if _is_in_context(eqn)
        else [f"mesh={frame.lifter.spell(eqn.params['mesh'])}"]
    )
    with _inside(eqn, frame):
        n = _count_captured(block, eqn.operands)
        groups = [Group("x", 1)] * (len(block.inputs) - n)
        captured, given = eqn.operands[:n], eqn.operands[n:]
        function = frame.callable(
            block, "shard", captured, groups, plain_results(block)
        )
    args = [function, *mesh, *_shard_map_options(eqn, n, frame)]
    frame.lifter.imports.module("jax")
    text = f"jax.shard_map({', '.join(args)})({', '.join(frame.texts(given))})"
    return Rhs(text, None if len(eqn.results) != 1 else _only)


def _count_captured(block: Block, operands: Sequence[Any]) -> int:
    """Count the leading inputs that were closed over: their types lack manual axes."""
    inner = jaxapi.context_mesh(jaxapi.ambient_context())
    n = 0
    for value, operand in zip(block.inputs, operands):
        mesh = jaxapi.mesh_of(value.aval)
        if mesh == inner or not jaxapi.same_aval(value.aval, operand.aval):
            break
        n += 1
    return n if hoists_in_order(block, operands[:n]) else 0


def _is_in_context(eqn: Equation) -> bool:
    return bool(eqn.params["mesh"] == jaxapi.context_mesh(eqn.context))


@contextlib.contextmanager
def _inside(eqn: Equation, frame: Frame) -> Generator[None]:
    """Enter the body: derivative rules found there are traced in its surroundings."""
    before = frame.ambient
    with jaxapi.manual_region(eqn.params, eqn.context):
        frame.ambient = jaxapi.ambient_context()
        yield
    frame.ambient = before


def _shard_map_options(eqn: Equation, n_captured: int, frame: Frame) -> list[str]:
    params, spell = eqn.params, frame.lifter.spell
    mesh, manual = params["mesh"], params["newly_manual_axes"]
    options: list[str] = []
    options.append(f"in_specs={_specs(params['in_specs'][n_captured:], '()', frame)}")
    options.append(f"out_specs={_specs(params['out_specs'], 'None', frame)}")
    if manual != frozenset(mesh.axis_names) - set(mesh.manual_axes):
        options.append(f"axis_names={spell(set(manual))}")
    if not params["check_vma"]:
        options.append("check_vma=False")
    return options


def _specs(specs: Sequence[Any], empty: str, frame: Frame) -> str:
    """Write one spec for all arguments where they agree, else a tuple."""
    if not specs:
        return empty
    if all(spec == specs[0] for spec in specs):
        return frame.lifter.spell(specs[0])
    return frame.lifter.spell(tuple(specs))


# ---- constraints -------------------------------------------------------------------


@control("sharding_constraint")
def sharding_constraint(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.with_sharding_constraint`; by spec if the mesh is in context."""
    params = eqn.params
    if params["layout"] is not None or params["context_mesh"] != _constraint_mesh(eqn):
        return None
    frame.lifter.imports.module("jax")
    sharding = sharding_text(params["sharding"], eqn, frame)
    x = frame.text(eqn.operands[0])
    return Rhs(f"jax.lax.with_sharding_constraint({x}, {sharding})")


def _constraint_mesh(eqn: Equation) -> Any:
    """Return the mesh that a constraint finds in its surroundings."""
    mesh = jaxapi.context_mesh(eqn.context)
    return jaxapi.legacy_mesh() if mesh.empty else mesh


@control("reshard")
def reshard(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.reshard`."""
    params = eqn.params
    mesh, wanted = params["concrete_mesh"], params["dst_sharding"]
    if mesh is not None:
        wanted = jaxapi.with_mesh(wanted, mesh)
    frame.lifter.imports.module("jax")
    x, sharding = frame.text(eqn.operands[0]), sharding_text(wanted, eqn, frame)
    return Rhs(f"jax.reshard({x}, {sharding})")


def sharding_text(sharding: Any, eqn: Equation, frame: Frame) -> str:
    """Write a sharding, or only its spec if it is over the mesh in context."""
    if jaxapi.is_over(sharding, jaxapi.context_mesh(eqn.context)):
        return frame.lifter.spell(sharding.spec)
    return frame.lifter.spell(sharding)


# ---- moves -------------------------------------------------------------------------


@control("device_put")
def device_put(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.device_put` of one array or of a tuple."""
    params = eqn.params
    if (
        any(source is not None for source in params["srcs"])
        or len(set(params["copy_semantics"])) > 1
    ):
        return None
    option = COPY_OPTIONS.get(params["copy_semantics"][0].name)
    if option is None:
        return None
    texts, devices = frame.texts(eqn.operands), list(params["devices"])
    n = len(texts)
    # With no device, an array that is no tracer yet would stay as it is.
    args = [texts[0] if n == 1 else f"({', '.join(texts)})"]
    if any(device is not None for device in devices):
        same = n == 1 or all(device == devices[0] for device in devices)
        args.append(frame.lifter.spell(devices[0] if same else tuple(devices)))
    frame.lifter.imports.module("jax")
    text = f"jax.device_put({', '.join([*args, *option])})"
    return Rhs(text, unpacked if n > 1 else _only)


def _only(names: list[str]) -> str:
    return names[0]


COPY_OPTIONS: dict[str, tuple[str, ...]] = {
    "REUSE_INPUT": (),
    "ALWAYS_COPY": ("may_alias=False",),
    "DONATE_INPUT": ("donate=True",),
}


# ---- functions on another kind of device ---------------------------------------------


@control("compute_on")
def compute_on(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `compute_on`."""
    params = dict(eqn.params)
    block: Block = params.pop("jaxpr")
    if block.constants or params.pop("compiler_options_json", None) is not None:
        return None
    compute_type, spaces = params.pop("compute_type"), params.pop("out_memory_spaces")
    if params or not spaces:
        return None
    groups = [Group("x", 1)] * len(block.inputs)
    before = frame.ambient
    with jaxapi.compute_region(compute_type, eqn.context):
        frame.ambient = jaxapi.ambient_context()
        function = frame.callable(block, "on_host", (), groups, plain_results(block))
    frame.ambient = before
    spell = frame.lifter.spell
    home = frame.lifter.imports.attribute(
        "jax.experimental.compute_on", jaxapi.COMPUTE_ON
    )
    space = spell(spaces[0] if len(set(spaces)) == 1 else tuple(spaces))
    options = f"compute_type={spell(compute_type)}, out_memory_spaces={space}"
    args = ", ".join(frame.texts(eqn.operands))
    return Rhs(
        f"{home}({function}, {options})({args})",
        None if len(eqn.results) != 1 else _only,
    )


@control("xla_metadata_value")
def xla_metadata_value(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `set_xla_metadata(x, key=value)`."""
    kvs = eqn.params["xla_metadata_kvs"]
    if not all(is_name(key) for key, _ in kvs):
        return None
    home = frame.lifter.imports.attribute(
        "jax.experimental.xla_metadata", "set_xla_metadata"
    )
    items = [f"{key}={frame.lifter.spell(value)}" for key, value in kvs]
    return Rhs(f"{home}({', '.join([frame.text(eqn.operands[0]), *items])})")
