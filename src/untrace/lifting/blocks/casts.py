"""Conversions that carry a sharding, as JAX's derivative rules make them."""

from __future__ import annotations

from untrace.ir import Equation
from untrace.jaxapi import written
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Rhs, is_literal
from untrace.lifting.spelling import spell_dtype


@control("convert_element_type")
def converted(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a conversion with the operand's own sharding through a small helper.

    The public function leaves the sharding out; the text of an empty one is four lines.
    """
    params = eqn.params
    operand = eqn.operands[0]
    sharding = getattr(operand.aval, "sharding", None)
    if (
        params["weak_type"]
        or params["sharding"] is None
        or params["sharding"] != sharding
    ):
        return None
    if is_literal(operand) or params["new_dtype"] == operand.aval.dtype:
        return None
    lifter = frame.lifter
    lifter.imports.attribute(written.PRIMITIVES, "convert_element_type_p")
    dtype = spell_dtype(params["new_dtype"], lifter.imports)
    return Rhs(
        f"{lifter.helper('converted_with_sharding')}({frame.text(operand)}, {dtype})"
    )
