"""Reductions by an arbitrary computation: reduce and reduce_window.

The computation is printed as a function and passed to the public call, which traces it
at scalars of the types of the initial values.
"""

from __future__ import annotations

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation
from untrace.lifting.bind import jaxpr_text
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Group, Rhs, grouped, unpacked
from untrace.lifting.spelling import spell_primitive


@control("reduce")
def reduce(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.reduce` over one operand or a tuple of them."""
    params = dict(eqn.params)
    block: Block = params.pop("jaxpr")
    dimensions = params.pop("dimensions")
    params.pop("computation")
    if params or block.constants:
        return None
    n = len(eqn.operands) // 2
    operands, inits = eqn.operands[:n], eqn.operands[n:]
    if not _traces_alike(block, inits):
        return _bound_reduce(eqn, frame)
    args = [_one_or_tuple(operands, frame), _one_or_tuple(inits, frame)]
    args += [_computation(block, n, frame), frame.lifter.spell(dimensions)]
    frame.lifter.imports.module("jax")
    return Rhs(f"jax.lax.reduce({', '.join(args)})", ", ".join)


def _bound_reduce(eqn: Equation, frame: Frame) -> Rhs:
    """Bind `reduce_p`, which keeps the computation beside its jaxpr."""
    block: Block = eqn.params["jaxpr"]
    primitive = spell_primitive(eqn.primitive, frame.lifter.imports)
    params = [
        f"computation={_flat_computation(block, frame)}",
        f"jaxpr={jaxpr_text(block, frame, 'computation')}",
        f"dimensions={frame.lifter.spell(eqn.params['dimensions'])}",
    ]
    return Rhs(
        f"{primitive}.bind({', '.join([*frame.texts(eqn.operands), *params])})",
        unpacked,
    )


@control("reduce_window")
def reduce_window(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.reduce_window` over one operand or a tuple of them."""
    params = dict(eqn.params)
    block: Block = params.pop("jaxpr")
    consts = params.pop("consts", ())
    n = len(eqn.operands) // 2
    operands, inits = eqn.operands[:n], eqn.operands[n:]
    if consts or block.constants or not _traces_alike(block, inits):
        return None
    rank = len(params["window_dimensions"])
    defaults = {
        "window_strides": (1,) * rank,
        "padding": ((0, 0),) * rank,
        "base_dilation": (1,) * rank,
        "window_dilation": (1,) * rank,
    }
    if set(params) != {"window_dimensions", *defaults}:
        return None
    args = [_one_or_tuple(operands, frame), _one_or_tuple(inits, frame)]
    args += [
        _computation(block, n, frame),
        frame.lifter.spell(params["window_dimensions"]),
    ]
    args += [
        f"{key}={frame.lifter.spell(params[key])}"
        for key, default in defaults.items()
        if tuple(params[key]) != default
    ]
    frame.lifter.imports.module("jax")
    return Rhs(f"jax.lax.reduce_window({', '.join(args)})", ", ".join)


def _traces_alike(block: Block, inits: tuple[Atom, ...]) -> bool:
    """Whether the computation would be traced at the types that it has."""
    types = [atom.aval for atom in inits] * 2
    return len(types) == len(block.inputs) and all(
        jaxapi.same_aval(aval, value.aval) for aval, value in zip(types, block.inputs)
    )


def _one_or_tuple(atoms: tuple[Atom, ...], frame: Frame) -> str:
    return grouped(frame.texts(atoms))


def _computation(block: Block, n: int, frame: Frame) -> str:
    groups = [Group("x", n), Group("y", n)]
    return frame.callable(
        block,
        "computation",
        (),
        groups,
        lambda child: ", ".join(child.texts(block.outputs)),
    )


def _flat_computation(block: Block, frame: Frame) -> str:
    groups = [Group("x", 1)] * len(block.inputs)
    return frame.callable(
        block,
        "computation",
        (),
        groups,
        lambda child: ", ".join(child.texts(block.outputs)),
    )
