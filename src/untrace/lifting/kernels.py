"""Pallas kernels: `pl.pallas_call(kernel, out_shape, grid=..., in_specs=...)(*args)`.

The equation keeps a grid mapping: one block mapping per operand and result, each with a
traced index map. They are written back as `pl.BlockSpec`s; what is the default is left
out. A mapping that `pl.pallas_call` cannot be asked for (batched kernels) is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, from_jaxpr
from untrace.lifting.lifter import (
    Frame,
    Group,
    Rhs,
    control,
    fail,
    grouped,
    plain_results,
)
from untrace.lifting.naming import input_hints
from untrace.lifting.spelling import spell_aval_struct
from untrace.lifting.state import closure, pallas, scratch_text, statement, view_of
from untrace.syntax.names import Scope

# Params of the equation that are keywords of `pl.pallas_call`, and their defaults.
KEYWORDS: dict[str, Any] = {
    "debug": False,
    "interpret": False,
    "name": None,
    "compiler_params": None,
    "cost_estimate": None,
    "metadata": None,
    "backend": None,
}
ELSEWHERE = frozenset({"jaxpr", "grid_mapping", "out_avals", "input_output_aliases"})


@control("pallas_call")
def pallas_call(eqn: Equation, frame: Frame) -> Rhs:
    """Write `pl.pallas_call` with everything that is not the default."""
    params = eqn.params
    block: Block = params["jaxpr"]
    mapping = params["grid_mapping"]
    _check(eqn, mapping)
    n_consts = len(block.constants)
    operands = eqn.operands[n_consts:]
    bounds = operands[: mapping.num_dynamic_grid_bounds]
    args = operands[len(bounds) :]
    name = _kernel(block, eqn.operands[:n_consts], frame)
    outputs = [_out_shape(aval, frame) for aval in params["out_avals"]]
    grid = _grid_keywords(eqn, mapping, frame.texts(bounds), frame)
    aliases = dict(params["input_output_aliases"])
    keywords = [f"input_output_aliases={aliases!r}"] if aliases else []
    for key, default in KEYWORDS.items():
        value = params.get(key, default)
        if value != default and not (key == "compiler_params" and not value):
            value = dict(value) if key == "metadata" else value
            keywords.append(f"{key}={frame.lifter.spell(value)}")
    called = ", ".join([name, grouped(outputs), *grid, *keywords])
    text = f"{pallas(frame)}.pallas_call({called})({', '.join(frame.texts(args))})"
    return Rhs(text, lambda names: ", ".join(names))


def _check(eqn: Equation, mapping: Any) -> None:
    unknown = [
        key
        for key, value in eqn.params.items()
        if key not in KEYWORDS and key not in ELSEWHERE and value is not None
    ]
    if unknown:
        raise fail(eqn, f"`pl.pallas_call` does not take `{unknown[0]}`")
    if mapping.vmapped_dims:
        raise fail(eqn, "a kernel that was batched by `jax.vmap` has no notation")
    if any(block_mapping.transforms for block_mapping in mapping.block_mappings):
        raise fail(eqn, "its blocks have transforms")


def _kernel(block: Block, captured: Sequence[Atom], frame: Frame) -> str:
    groups = [Group("ref", 1)] * len(block.inputs)
    if captured:
        return closure(block, "kernel", captured, groups, frame)
    return frame.callable(block, "kernel", (), groups, plain_results(block))


def _out_shape(aval: Any, frame: Frame) -> str:
    if jaxapi.is_on_device(aval):
        return spell_aval_struct(aval, frame.lifter.imports)
    space, shape = frame.lifter.spell(aval.memory_space), frame.lifter.spell(tuple(aval.shape))
    return f"{space}({shape}, {frame.lifter.spell(aval.dtype, 'dtype')})"


def _grid_keywords(eqn: Equation, mapping: Any, bounds: list[str], frame: Frame) -> list[str]:
    """Write grid, block specs and scratch shapes, or the grid spec with all of them."""
    n_in = mapping.num_inputs
    keywords: list[str] = []
    if mapping.grid:
        keywords.append(f"grid={_grid(mapping, iter(bounds), frame)}")
    for key, mappings in (
        ("in_specs", mapping.block_mappings[:n_in]),
        ("out_specs", mapping.block_mappings[n_in:]),
    ):
        if not all(_is_default(one) for one in mappings):
            specs = [block_spec(one, mapping, frame) for one in mappings]
            whole = f"[{', '.join(specs)}]" if key == "in_specs" else grouped(specs)
            keywords.append(f"{key}={whole}")
    scratch = [scratch_text(aval, frame) for aval in mapping.scratch_avals]
    if None in scratch:
        raise fail(eqn, "a scratch buffer has no notation")
    if scratch:
        keywords.append(f"scratch_shapes=[{', '.join(text for text in scratch if text)}]")
    if not mapping.num_index_operands:
        return keywords
    tpu = frame.lifter.imports.attribute("jax.experimental.pallas", "tpu", "pltpu")
    count = f"num_scalar_prefetch={mapping.num_index_operands}"
    return [f"grid_spec={tpu}.PrefetchScalarGridSpec({', '.join([count, *keywords])})"]


def _grid(mapping: Any, bounds: Any, frame: Frame) -> str:
    sizes = [str(size) if isinstance(size, int) else next(bounds) for size in mapping.grid]
    if mapping.grid_names is not None:
        names = [frame.lifter.spell(name) for name in mapping.grid_names]
        sizes = [f"({name}, {size})" for name, size in zip(names, sizes)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


# ---- block specs -------------------------------------------------------------------


def _is_default(mapping: Any) -> bool:
    """Tell whether a block is the whole array, as without a block spec."""
    return (
        jaxapi.is_default_memory(mapping.transformed_block_aval.memory_space)
        and mapping.pipeline_mode is None
        and _is_whole(mapping)
    )


def _is_whole(mapping: Any) -> bool:
    index_map = from_jaxpr(mapping.index_map_jaxpr)
    zeros = [getattr(output, "value", None) for output in index_map.outputs]
    blocked = [_dim(dim) for dim in mapping.block_shape]
    is_plain = jaxapi.is_flat_tuple(mapping.index_map_out_tree)
    return is_plain and blocked == list(mapping.array_aval.shape) and zeros == [0] * len(blocked)


def block_spec(mapping: Any, grid: Any, frame: Frame) -> str:
    """Write `pl.BlockSpec(block_shape, index_map)`."""
    pl, spell = pallas(frame), frame.lifter.spell
    parts: list[str] = []
    if not _is_whole(mapping):
        dims = [_dim(dim) for dim in mapping.block_shape]
        texts = [str(d) if d is None or isinstance(d, int) else _wide(d, frame) for d in dims]
        parts.append(f"({', '.join(texts)}{',' if len(texts) == 1 else ''})")
        parts.append(index_map_text(mapping, grid, frame))
    space = mapping.transformed_block_aval.memory_space
    if not jaxapi.is_default_memory(space):
        parts.append(f"memory_space={spell(space)}")
    if mapping.pipeline_mode is not None:
        parts.append(f"pipeline_mode={spell(mapping.pipeline_mode)}")
    return f"{pl}.BlockSpec({', '.join(parts)})"


def _dim(dim: Any) -> Any:
    """Return a block dimension as users write it: a size, None, or another object."""
    match type(dim).__name__:
        case "Blocked":
            return dim.block_size
        case "Squeezed":
            return None
        case _:
            return dim


def _wide(dim: Any, frame: Frame) -> str:
    kind = type(dim).__name__
    values = [frame.lifter.spell(getattr(dim, name)) for name in dim.__dataclass_fields__]
    if kind == "Element" and dim.padding == (0, 0):
        values = values[:1]
    return f"{pallas(frame)}.{kind}({', '.join(values)})"


def index_map_text(mapping: Any, grid: Any, frame: Frame) -> str:
    """Write an index map: a lambda if it only picks, else a function."""
    block = from_jaxpr(mapping.index_map_jaxpr)
    tree = mapping.index_map_out_tree

    def results(child: Frame) -> str:
        texts = jaxapi.unflatten_index(tree, child.texts(block.outputs))
        parts = [t if isinstance(t, str) else _slice_text(t, child) for t in texts]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"

    if block.equations or block.constants:
        groups = [Group("i", 1)] * len(block.inputs)
        return frame.callable(block, "index_map", (), groups, results)
    child = Frame(frame.lifter, Scope(frame.names), {}, ambient=frame.ambient)
    hints = [hint if hint != "x" else "i" for hint in input_hints(block)]
    names = [child.define(value, hint) for value, hint in zip(block.inputs, hints)]
    return f"lambda {', '.join(names)}: {results(child)}" if names else f"lambda: {results(child)}"


def _slice_text(index: Any, frame: Frame) -> str:
    return f"{pallas(frame)}.ds({index.start}, {index.size})"


# ---- inside a kernel ---------------------------------------------------------------


@control("program_id", "num_programs")
def program_id(eqn: Equation, frame: Frame) -> Rhs:
    """Write `pl.program_id(axis)`."""
    return Rhs(f"{pallas(frame)}.{eqn.name}({eqn.params['axis']})")


@control("multiple_of")
def multiple_of(eqn: Equation, frame: Frame) -> Rhs:
    """Write `pl.multiple_of(x, values)`."""
    values = eqn.params["values"]
    given = frame.lifter.spell(values[0] if len(values) == 1 else values)
    return Rhs(f"{pallas(frame)}.multiple_of({frame.text(eqn.operands[0])}, {given})")


@control("masked_load")
def masked_load(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `load(ref.at[index], mask=...)`."""
    params = eqn.params
    ref, transforms, mask, other = jaxapi.unflatten_operands(params["args_tree"], eqn.operands)
    view = view_of(ref, transforms, frame)
    if view is None:
        return None
    options = {"mask": mask, "other": other}
    keywords = [f"{k}={frame.text(v)}" for k, v in options.items() if v is not None]
    for key, name in (
        ("cache_modifier", "cache_modifier"),
        ("eviction_policy", "eviction_policy"),
        ("is_volatile", "volatile"),
    ):
        if params.get(key):
            keywords.append(f"{name}={frame.lifter.spell(params[key])}")
    name = frame.lifter.imports.attribute("jax.experimental.pallas", "triton", "plgpu")
    return Rhs(f"{name}.load({', '.join([view, *keywords])})")


@control("masked_swap")
def masked_swap(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `store(ref.at[index], x, mask=...)`; decline where the old value is used."""
    params = eqn.params
    ref, transforms, value, mask = jaxapi.unflatten_operands(params["args_tree"], eqn.operands)
    view = view_of(ref, transforms, frame)
    if view is None or frame.uses(eqn.results[0]):
        return None
    parts = [view, frame.text(value)]
    if mask is not None:
        parts.append(f"mask={frame.text(mask)}")
    if params.get("eviction_policy"):
        parts.append(f"eviction_policy={frame.lifter.spell(params['eviction_policy'])}")
    name = frame.lifter.imports.attribute("jax.experimental.pallas", "triton", "plgpu")
    return statement(f"{name}.store({', '.join(parts)})")
