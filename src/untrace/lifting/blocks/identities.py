"""Equations that do nothing, which JAX drops when they are traced directly.

A cast to the type a value has, or a broadcast to its shape, is in a jaxpr only where
JAX inlined a function that it had traced at another type (derivatives of weakly typed
values make them). It is written in the same way: traced at another type, then inlined.
"""

from __future__ import annotations

from untrace import jaxapi
from untrace.ir import Equation
from untrace.lifting.controls import preferred
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Rhs, is_literal
from untrace.lifting.spelling import spell_aval_struct


@preferred("convert_element_type")
def cast(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a cast to the very type of its operand."""
    atom, params = eqn.operands[0], eqn.params
    aval = atom.aval
    if (
        is_literal(atom)
        or params["new_dtype"] != getattr(aval, "dtype", None)
        or params["weak_type"]
        or params["sharding"] is not None
        or aval.weak_type
        or not jaxapi.is_plain_aval(aval)
    ):
        return None
    function = f"x.astype({frame.lifter.spell(params['new_dtype'], 'dtype')})"
    return _staged(function, eqn, aval.update(weak_type=True), frame)


@preferred("broadcast_in_dim")
def broadcast(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a broadcast to the very shape of its operand."""
    atom, params = eqn.operands[0], eqn.params
    aval = atom.aval
    if (
        is_literal(atom)
        or len(eqn.operands) != 1
        or tuple(params["shape"]) != getattr(aval, "shape", None)
        or params["sharding"] is not None
        or not jaxapi.is_plain_aval(aval)
        or aval.shape in ((), (1,) * len(aval.shape))
    ):
        return None
    shape, dimensions = (
        frame.lifter.spell(params[k]) for k in ("shape", "broadcast_dimensions")
    )
    function = f"jax.lax.broadcast_in_dim(x, {shape}, {dimensions})"
    return _staged(function, eqn, aval.update(shape=(1,) * len(aval.shape)), frame)


def _staged(function: str, eqn: Equation, aval: object, frame: Frame) -> Rhs:
    lifter = frame.lifter
    traced_at = spell_aval_struct(aval, lifter.imports)
    operand = frame.text(eqn.operands[0])
    return Rhs(
        f"{lifter.helper('staged')}(lambda x: {function}, {operand}, {traced_at})"
    )
