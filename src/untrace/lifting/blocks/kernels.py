"""Pallas kernels: `pl.pallas_call(kernel, out_shape, grid=..., in_specs=...)(*args)`.

The equation keeps a grid mapping: one block mapping per operand and result, each with a
traced index map. They are written back as `pl.BlockSpec`s; what is the default is left
out. A kernel that `jax.vmap` has batched is written as it was before, under `jax.vmap`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value, from_jaxpr
from untrace.lifting.blocks.state import closure, memory_text, pallas, scratch_text
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame, module_function, plain_results
from untrace.lifting.heads import Parameters, head_text, plain_head
from untrace.lifting.names.naming import input_hints
from untrace.lifting.printing import Group, Rhs, fail, grouped
from untrace.lifting.spelling import spell_aval_struct
from untrace.syntax.names import Scope, identifier

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
AXES = "ijklmn"
ELSEWHERE = frozenset({"jaxpr", "grid_mapping", "out_avals", "input_output_aliases"})


@dataclass(frozen=True, slots=True)
class Spec:
    """One block mapping: `index` holds the outputs of the index map per axis."""

    dims: tuple[Any, ...]
    shape: tuple[int, ...]
    index_map: Block
    inputs: tuple[Value, ...]
    index: tuple[Any, ...]
    memory_space: Any
    pipeline_mode: Any


@dataclass(frozen=True, slots=True)
class Call:
    """A `pallas_call`, or what `jax.vmap` batched to become one.

    `in_axes` has one entry per `jax.vmap`, innermost first: the batched axis of every
    argument, None for what is not batched.
    """

    grid: tuple[Any, ...]
    grid_names: tuple[Any, ...] | None
    in_specs: tuple[Spec, ...]
    out_specs: tuple[Spec, ...]
    out_avals: tuple[Any, ...]
    cost_estimate: Any
    in_axes: tuple[tuple[int | None, ...], ...] = ()


@control("pallas_call")
def pallas_call(eqn: Equation, frame: Frame) -> Rhs:
    """Write `pl.pallas_call` with everything that is not the default, and its call."""
    block: Block = eqn.params["jaxpr"]
    mapping = eqn.params["grid_mapping"]
    _check(eqn)
    call = _unbatched(eqn)
    n_consts = len(block.constants)
    operands = eqn.operands[n_consts:]
    bounds = operands[: mapping.num_dynamic_grid_bounds]
    kernel = _kernel(block, eqn.operands[:n_consts], frame)
    outputs = [_out_shape(aval, frame) for aval in call.out_avals]
    parts = [
        kernel,
        grouped(outputs),
        *_grid_keywords(eqn, call, frame.texts(bounds), frame),
    ]
    parts += _keywords(eqn, call, frame)
    text = f"{pallas(frame)}.pallas_call({', '.join(parts)})"
    for axes in call.in_axes:
        frame.lifter.imports.module("jax")
        given = "" if set(axes) == {0} else f", in_axes={frame.lifter.spell(axes)}"
        text = f"jax.vmap({text}{given})"
    args = frame.texts(operands[len(bounds) :])
    return called(identifier(f"{kernel}_call"), text, args, frame)


@control("core_map")
def core_map(eqn: Equation, frame: Frame) -> Rhs:
    """Write `pl.core_map(mesh)(body)`, whose body closes over refs (jax 0.10)."""
    block: Block = eqn.params["jaxpr"]
    groups = [Group("ref", 1)] * len(block.inputs)
    body = closure(block, "body", eqn.operands, groups, frame)
    params = {
        **eqn.params,
        "name": None if body == eqn.params["name"] else eqn.params["name"],
    }
    parts = [frame.lifter.spell(eqn.params["mesh"])]
    parts += _named(params, frame)
    parts += _scratch_keyword(eqn, [value.aval for value in block.inputs], frame)
    return Rhs(f"{pallas(frame)}.core_map({', '.join(parts)})({body})", "".join)


def called(hint: str, function: str, args: list[str], frame: Frame) -> Rhs:
    """Name a function made by a call, and call it in a statement of its own."""
    name = frame.names.fresh(hint)
    frame.lines.append(f"{name} = {function}")
    return Rhs(f"{name}({', '.join(args)})", lambda names: ", ".join(names))


def _check(eqn: Equation) -> None:
    known = {*KEYWORDS, *ELSEWHERE}
    unknown = [k for k, v in eqn.params.items() if k not in known and v is not None]
    if unknown:
        raise fail(eqn, f"`pl.pallas_call` does not take `{unknown[0]}`")
    if any(mapping.transforms for mapping in eqn.params["grid_mapping"].block_mappings):
        raise fail(eqn, "its blocks have transforms")


def _kernel(block: Block, captured: Sequence[Atom], frame: Frame) -> str:
    groups = [Group("ref", 1)] * len(block.inputs)
    if captured:
        return closure(block, "kernel", captured, groups, frame)
    return frame.callable(block, "kernel", (), groups, plain_results(block))


def _out_shape(aval: Any, frame: Frame) -> str:
    if jaxapi.is_on_device(aval):
        return spell_aval_struct(aval, frame.lifter.imports)
    spell = frame.lifter.spell
    shape, dtype = spell(tuple(aval.shape)), spell(aval.dtype, "dtype")
    return f"{memory_text(aval.memory_space, frame)}({shape}, {dtype})"


def _keywords(eqn: Equation, call: Call, frame: Frame) -> list[str]:
    aliases = dict(eqn.params["input_output_aliases"])
    keywords = (
        [f"input_output_aliases={frame.lifter.spell(aliases)}"] if aliases else []
    )
    return keywords + _named({**eqn.params, "cost_estimate": call.cost_estimate}, frame)


def _named(params: Mapping[str, Any], frame: Frame) -> list[str]:
    """Write the keywords that are not what they are by default."""
    keywords: list[str] = []
    for key, default in KEYWORDS.items():
        value = params.get(key, default)
        if value != default and not (key == "compiler_params" and not value):
            value = dict(value) if key == "metadata" else value
            keywords.append(f"{key}={frame.lifter.spell(value)}")
    return keywords


def _grid_keywords(
    eqn: Equation, call: Call, bounds: list[str], frame: Frame
) -> list[str]:
    """Write grid, block specs and scratch shapes, or the grid spec with all of them."""
    mapping = eqn.params["grid_mapping"]
    keywords = [f"grid={_grid(call, iter(bounds), frame)}"] if call.grid else []
    for key, specs in (("in_specs", call.in_specs), ("out_specs", call.out_specs)):
        if not all(_is_default(spec) for spec in specs):
            texts = [block_spec(spec, frame) for spec in specs]
            whole = f"[{', '.join(texts)}]" if key == "in_specs" else grouped(texts)
            keywords.append(f"{key}={whole}")
    keywords += _scratch_keyword(eqn, mapping.scratch_avals, frame)
    if not mapping.num_index_operands:
        return keywords
    tpu = frame.lifter.imports.attribute("jax.experimental.pallas", "tpu", "pltpu")
    count = f"num_scalar_prefetch={mapping.num_index_operands}"
    return [f"grid_spec={tpu}.PrefetchScalarGridSpec({', '.join([count, *keywords])})"]


def _scratch_keyword(eqn: Equation, avals: Sequence[Any], frame: Frame) -> list[str]:
    texts = [scratch_text(aval, frame) for aval in avals]
    if None in texts:
        raise fail(eqn, "a scratch buffer has no notation")
    return [f"scratch_shapes=[{', '.join(filter(None, texts))}]"] if texts else []


def _grid(call: Call, bounds: Any, frame: Frame) -> str:
    sizes = [str(size) if isinstance(size, int) else next(bounds) for size in call.grid]
    if call.grid_names is not None:
        names = [frame.lifter.spell(name) for name in call.grid_names]
        sizes = [f"({name}, {size})" for name, size in zip(names, sizes)]
    return f"({', '.join(sizes)}{',' if len(sizes) == 1 else ''})"


# ---- batched kernels ---------------------------------------------------------------


def _unbatched(eqn: Equation) -> Call:
    """Read a call; take back what every `jax.vmap` around it did."""
    mapping = eqn.params["grid_mapping"]
    specs = tuple(_read_spec(one) for one in mapping.block_mappings)
    n_in, out_avals = mapping.num_inputs, tuple(eqn.params["out_avals"])
    cost = eqn.params.get("cost_estimate")
    call = Call(
        mapping.grid, mapping.grid_names, specs[:n_in], specs[n_in:], out_avals, cost
    )
    n_vmapped = len(mapping.vmapped_dims)
    if tuple(mapping.vmapped_dims) != tuple(range(n_vmapped)):
        raise fail(eqn, "its batched grid axes are not the first ones")
    for _ in range(n_vmapped):
        call = _peeled(eqn, call)
    return call


def _peeled(eqn: Equation, call: Call) -> Call:
    """Take the outermost `jax.vmap` off."""
    size = call.grid[0]
    if eqn.params["grid_mapping"].num_index_operands or not isinstance(size, int):
        raise fail(eqn, "a batched kernel with prefetched scalars or dynamic batch")
    ins = [_without_batch(spec) for spec in call.in_specs]
    outs = [_without_batch(spec) for spec in call.out_specs]
    if any(axis != 0 for axis, _ in outs) or not ins:
        raise fail(eqn, "its results are not batched along their first axis")
    return Call(
        call.grid[1:],
        call.grid_names and call.grid_names[1:],
        tuple(spec for _, spec in ins),
        tuple(spec for _, spec in outs),
        tuple(aval.update(shape=aval.shape[1:]) for aval in call.out_avals),
        jaxapi.divided_cost(call.cost_estimate, size),
        (tuple(axis for axis, _ in ins), *call.in_axes),
    )


def _without_batch(spec: Spec) -> tuple[int | None, Spec]:
    """Drop the axis that only the first grid index selects; return which it was."""
    inputs = spec.inputs[1:]
    for axis, (dim, index) in enumerate(zip(spec.dims, spec.index)):
        if _dim(dim) is None and index is spec.inputs[0]:
            kept = [i for i in range(len(spec.dims)) if i != axis]
            dims, shape, indices = (
                tuple(whole[i] for i in kept)
                for whole in (spec.dims, spec.shape, spec.index)
            )
            return axis, replace(
                spec, dims=dims, shape=shape, index=indices, inputs=inputs
            )
    return None, replace(spec, inputs=inputs)


# ---- block specs -------------------------------------------------------------------


def _read_spec(mapping: Any) -> Spec:
    block = from_jaxpr(mapping.index_map_jaxpr)
    index = tuple(jax.tree.unflatten(mapping.index_map_out_tree, block.outputs))
    shape = tuple(mapping.array_aval.shape)
    space = mapping.transformed_block_aval.memory_space
    dims = tuple(mapping.block_shape)
    return Spec(dims, shape, block, block.inputs, index, space, mapping.pipeline_mode)


def _is_default(spec: Spec) -> bool:
    """Whether a block is the whole array, as without a block spec."""
    is_plain = (
        jaxapi.is_default_memory(spec.memory_space) and spec.pipeline_mode is None
    )
    return is_plain and _is_whole(spec)


def _is_whole(spec: Spec) -> bool:
    zeros = [getattr(index, "value", None) for index in spec.index]
    dims = [_dim(dim) for dim in spec.dims]
    return dims == list(spec.shape) and zeros == [0] * len(dims)


def block_spec(spec: Spec, frame: Frame) -> str:
    """Write `pl.BlockSpec(block_shape, index_map)`."""
    parts: list[str] = []
    if not _is_whole(spec):
        parts.append(block_shape(spec.dims, frame))
        parts.append(index_map_text(spec, frame))
    if not jaxapi.is_default_memory(spec.memory_space):
        parts.append(f"memory_space={memory_text(spec.memory_space, frame)}")
    if spec.pipeline_mode is not None:
        parts.append(f"pipeline_mode={frame.lifter.spell(spec.pipeline_mode)}")
    return f"{pallas(frame)}.BlockSpec({', '.join(parts)})"


def block_shape(dims: Sequence[Any], frame: Frame) -> str:
    """Write the dimensions of a block."""
    plain = [_dim(dim) for dim in dims]
    texts = [
        str(d) if d is None or isinstance(d, int) else _wide(d, frame) for d in plain
    ]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


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
    values = [
        frame.lifter.spell(getattr(dim, name)) for name in dim.__dataclass_fields__
    ]
    if kind == "Element" and dim.padding == (0, 0):
        values = values[:1]
    return f"{pallas(frame)}.{kind}({', '.join(values)})"


def index_map_text(spec: Spec, frame: Frame) -> str:
    """Write an index map: a lambda if it only picks, else a function."""
    block = spec.index_map

    def build(child: Frame) -> tuple[Parameters, list[str]]:
        child.ambient = frame.ambient
        names = _index_names(spec, child)
        child.body(block)
        texts = [_index_text(index, child) for index in spec.index]
        child.returns(f"({', '.join(texts)}{',' if len(texts) == 1 else ''})")
        return plain_head(*names), []

    if block.equations or block.constants:
        key = (len(spec.inputs), len(spec.index), id(frame.ambient))
        return module_function(frame.lifter, block, "index_map", build, key=key)
    child = Frame(frame.lifter, Scope(frame.names), {}, ambient=frame.ambient)
    parameters, _ = build(child)
    head = f"lambda {head_text(parameters)}" if parameters else "lambda"
    return f"{head}: {child.lines[-1].removeprefix('return ')}"


def _index_names(spec: Spec, frame: Frame) -> list[str]:
    """Name the inputs of an index map: as the user did, else i, j, k."""
    hints = input_hints(spec.index_map)[len(spec.index_map.inputs) - len(spec.inputs) :]
    named = [AXES[min(n, 5)] if hint == "x" else hint for n, hint in enumerate(hints)]
    return [frame.define(value, hint) for value, hint in zip(spec.inputs, named)]


def _index_text(index: Any, frame: Frame) -> str:
    if isinstance(index, jaxapi.RefSlice):
        start, size = (_extent(part, frame) for part in (index.start, index.size))
        return f"{pallas(frame)}.ds({start}, {size})"
    return frame.text(index)


def _extent(part: Any, frame: Frame) -> str:
    return str(part) if jaxapi.is_static_dim(part) else frame.text(part)
