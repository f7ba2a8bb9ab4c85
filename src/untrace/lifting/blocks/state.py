"""Mutable arrays: `ref[...]`, `ref[i] = x`, `jax.new_ref`, `jax.freeze` and run_state.

A read or write names its ref and a chain of views (`at`, `reshape`, `bitcast`,
`transpose`), most often one NumPy-style indexer. The chain is written as it was made;
what has no notation makes the caller bind the primitive.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.names.naming import block_name
from untrace.lifting.printing import Function, Group, Rhs, is_literal
from untrace.lifting.rules.table import rule
from untrace.lifting.spelling import spell_aval_struct
from untrace.syntax.names import identifier

rule("freeze", "jax.freeze({0})")
rule("free_ref", "jax.free_ref({0})")


@control("new_ref")
def new_ref(eqn: Equation, frame: Frame) -> Rhs:
    """Write `jax.new_ref(x)`."""
    return _made("jax.new_ref", frame.texts(eqn.operands), eqn.params, frame)


@control("empty_ref")
def empty_ref(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.empty_ref(type)`."""
    params = dict(eqn.params)
    aval = params.pop("ty")
    if not jaxapi.is_plain_aval(aval):
        return None
    return _made(
        "jax.empty_ref", [spell_aval_struct(aval, frame.lifter.imports)], params, frame
    )


def _made(function: str, args: list[str], params: Any, frame: Frame) -> Rhs:
    """Write the call that makes a ref, with the keywords that are not defaults."""
    keywords = [f"{k}={frame.lifter.spell(v)}" for k, v in params.items() if v]
    frame.lifter.imports.module("jax")
    return Rhs(f"{function}({', '.join([*args, *keywords])})")


# ---- reading and writing -----------------------------------------------------------


@control("get")
def get(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `ref[index]`."""
    ref, *leaves = eqn.operands
    view = view_text(ref, eqn.params["tree"], leaves, frame)
    if view is None:
        return None
    base, index = view
    return Rhs(f"{base}[{index}]")


@control("swap")
def swap(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `ref[index] = x`, or `jax.ref.swap` where the old value is used."""
    ref, value, *leaves = eqn.operands
    view = view_text(ref, eqn.params["tree"], leaves, frame)
    if view is None or _is_cast(value):
        return None
    base, index = view
    if not frame.uses(eqn.results[0]):
        return statement(f"{base}[{index}] = {_stored(value, frame)}")
    text = frame.text(value)
    return Rhs(f"jax.ref.swap({_argument(base, index)}, {text})")


@control("addupdate")
def addupdate(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.ref.addupdate(ref, index, x)`."""
    ref, value, *leaves = eqn.operands
    view = view_text(ref, eqn.params["tree"], leaves, frame)
    if view is None:
        return None
    return statement(f"jax.ref.addupdate({_argument(*view)}, {frame.text(value)})")


def statement(text: str) -> Rhs:
    """Write an equation without results as a statement."""
    return Rhs(text, lambda names: "")


def _stored(value: Atom, frame: Frame) -> str:
    """Write a stored value: an assignment gives a bare number the dtype of the ref."""
    if is_literal(value) and jaxapi.is_number(value.value):  # type: ignore[union-attr]
        return frame.bare_text(value)
    return frame.text(value)


def _is_cast(value: Atom) -> bool:
    """Whether assigning would convert the value first."""
    return bool(getattr(value.aval, "weak_type", False)) and not is_literal(value)


def _argument(base: str, index: str) -> str:
    """Write a ref and an index as two arguments; an index with slices as a view."""
    if ":" in index:
        return f"{base}.at[{index}], ..."
    return f"{base}, ({index})" if "," in index else f"{base}, {index}"


# ---- views -------------------------------------------------------------------------


def view_text(
    ref: Atom, tree: Any, leaves: Sequence[Atom], frame: Frame
) -> tuple[str, str] | None:
    """Write a ref under a chain of views as a base and the last index.

    Returns None if a view has no notation.
    """
    return _view(ref, tuple(jax.tree.unflatten(tree, leaves)), frame)


def view_of(ref: Atom, transforms: Sequence[Any], frame: Frame) -> str | None:
    """Write a ref under a chain of views as one expression."""
    view = _view(ref, transforms, frame)
    if view is None:
        return None
    base, index = view
    return base if index == "..." else f"{base}.at[{index}]"


def _view(ref: Atom, transforms: Sequence[Any], frame: Frame) -> tuple[str, str] | None:
    base, index = frame.text(ref), "..."
    if transforms and isinstance(transforms[-1], jaxapi.NDIndexer):
        index = index_text(transforms[-1], frame)
        transforms = transforms[:-1]
    for transform in transforms:
        step = _step(transform, frame)
        if step is None:
            return None
        base += step
    return base, index


def _step(transform: Any, frame: Frame) -> str | None:
    """Write one view as an attribute of what it is a view of."""
    spell = frame.lifter.spell
    match type(transform).__name__:
        case "NDIndexer":
            return f".at[{index_text(transform, frame)}]"
        case "ReshapeTransform" | "RefReshaper":
            return f".reshape({spell(tuple(transform.shape))})"
        case "BitcastTransform" | "RefBitcaster":
            return f".bitcast({frame.lifter.spell(transform.dtype, 'dtype')})"
        case "TransposeTransform" | "RefTransposer":
            return f".transpose({spell(tuple(transform.permutation))})"
        case "MemorySpaceCastTransform":
            return f".memory_space_cast({memory_text(transform.memory_space, frame)})"
        case _:
            return None


def index_text(indexer: Any, frame: Frame) -> str:
    """Write an indexer as what stands between the brackets."""
    texts = [
        _axis(index, dim, frame) for index, dim in zip(indexer.indices, indexer.shape)
    ]
    while len(texts) > 1 and texts[-1] == ":":
        texts.pop()
    return ", ".join(texts) or "()"


def _axis(index: Any, dim: Any, frame: Frame) -> str:
    if not isinstance(index, jaxapi.RefSlice):
        return _extent(index, frame)
    start, size, stride = index.start, index.size, index.stride
    if not (jaxapi.is_static_dim(start) and jaxapi.is_static_dim(size)):
        texts = [_extent(start, frame), _extent(size, frame)]
        steps = [str(stride)] if stride != 1 else []
        return f"{pallas(frame)}.ds({', '.join([*texts, *steps])})"
    stop = start + (size - 1) * stride + 1 if size else start
    text = f"{start or ''}:{'' if stop == dim else stop}"
    return text if stride == 1 else f"{text}:{stride}"


def _extent(value: Any, frame: Frame) -> str:
    return str(value) if jaxapi.is_static_dim(value) else frame.text(value)


def pallas(frame: Frame) -> str:
    """Import `jax.experimental.pallas`; return the name it is bound to."""
    return frame.lifter.imports.attribute("jax.experimental", "pallas", "pl")


# ---- whole programs on state -------------------------------------------------------


@control("run_state")
def run_state(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `pl.run_state(body)((x, y))`, whose results are the final values."""
    params = eqn.params
    block: Block = params["jaxpr"]
    if (
        any(params["which_linear"])
        or not all(params["is_initialized"])
        or block.constants
    ):
        return None
    if any(jaxapi.is_ref_aval(atom.aval) for atom in eqn.operands):
        return None
    group = Group("refs", len(block.inputs), is_tuple=True)
    name = frame.callable(block, "body", (), [group], lambda child: "")
    texts = frame.texts(eqn.operands)
    comma = "," if len(texts) == 1 else ""
    return Rhs(f"{pallas(frame)}.run_state({name})(({', '.join(texts)}{comma}))")


@control("run_scoped")
def run_scoped(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `pl.run_scoped(body, *types)`: a body over refs that live only for it."""
    params = eqn.params
    block: Block = params["jaxpr"]
    types = [scratch_text(value.aval, frame) for value in block.inputs]
    if any(params["ref_transforms"]) or None in types:
        return None
    groups = [Group("ref", 1)] * len(block.inputs)
    name = closure(block, "body", eqn.operands, groups, frame)
    args = [name, *(text for text in types if text)]
    if params["collective_axes"]:
        args.append(f"collective_axes={frame.lifter.spell(params['collective_axes'])}")
    return Rhs(f"{pallas(frame)}.run_scoped({', '.join(args)})", one_or_plain)


def one_or_plain(names: list[str]) -> str:
    """Take one result as it is and unpack several."""
    return ", ".join(names)


def closure(
    block: Block,
    hint: str,
    operands: Sequence[Atom],
    groups: Sequence[Group],
    frame: Frame,
) -> str:
    """Print a block whose constants are `operands` as a nested function."""
    name = frame.names.fresh(identifier(block_name(block, hint), "function"))
    child = frame.child()
    for (value, _), atom in zip(block.constants, operands):
        child.env[value] = frame.text(atom)
    parameters = child.parameters(block, groups, 0)
    child.body(block)
    child.returns(plain_results(block)(child))
    frame.nest(Function(name, parameters, child.lines).text_lines())
    return name


def scratch_text(aval: Any, frame: Frame) -> str | None:
    """Write the type of a scratch buffer: `pltpu.VMEM((8, 128), jnp.float32)`."""
    spell = frame.lifter.spell
    inner = getattr(aval, "inner_aval", None)
    if inner is None or not jaxapi.is_plain_aval(inner) or inner.weak_type:
        return None
    shape = spell(tuple(inner.shape))
    semaphore = SEMAPHORES.get(type(inner.dtype).__name__)
    if semaphore is not None:
        tpu = frame.lifter.imports.attribute("jax.experimental.pallas", "tpu", "pltpu")
        return f"{tpu}.SemaphoreType.{semaphore}" + (
            f"({shape})" if inner.shape else ""
        )
    if not callable(aval.memory_space):
        return f"{pallas(frame)}.MemoryRef({spell(inner)}, {spell(aval.memory_space)})"
    dtype = spell(inner.dtype, "dtype")
    return f"{memory_text(aval.memory_space, frame)}({shape}, {dtype})"


SEMAPHORES = {
    "DMASemaphore": "DMA",
    "Semaphore": "REGULAR",
    "BarrierSemaphore": "BARRIER",
}


def memory_text(space: Any, frame: Frame) -> str:
    """Write a memory space under its usual name: `pl.ANY`, `pltpu.VMEM`."""
    home = jaxapi.memory_home(space)
    if home is None:
        return frame.lifter.spell(space)
    package, module, alias, name = home
    return f"{frame.lifter.imports.attribute(package, module, alias)}.{name}"
