"""The last resort: `primitive.bind(...)` with every param written out.

Sub-programs in params become functions that `jax.make_jaxpr` traces at the avals they
were traced at. Works for any primitive whose params can be spelled.
"""

from __future__ import annotations

import types
from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value
from untrace.lifting.blocks.standins import rule_function
from untrace.lifting.controls import ANY, control
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.printing import Group, Rhs, fail, unpacked
from untrace.lifting.spelling import Unspellable, spell_aval_struct, spell_primitive
from untrace.syntax.names import is_name
from untrace.syntax.text import quote


@control(ANY)
def bind(eqn: Equation, frame: Frame) -> Rhs:
    """Write an equation as a call of its primitive's `bind`."""
    imports = frame.lifter.imports
    try:
        primitive = spell_primitive(eqn.primitive, imports)
        params = [
            f"{key}={_attributes(value, frame)}"
            if key == "attributes"
            else f"{key}={param_text(value, frame, eqn.operands)}"
            for key, value in eqn.params.items()
            if is_name(key)
        ]
        others = [
            f"{quote(key)}: {param_text(value, frame, eqn.operands)}"
            for key, value in eqn.params.items()
            if not is_name(key)
        ]
        params += [f"**{{{', '.join(others)}}}"] if others else []
    except Unspellable as error:
        raise fail(eqn, f"{error}. Register a rule with `untrace.register`.") from error
    text = f"{primitive}.bind({', '.join([*frame.texts(eqn.operands), *params])})"
    if not eqn.primitive.multiple_results:
        return Rhs(text)
    return Rhs(text, unpacked)


def _attributes(value: Any, frame: Frame) -> str:
    """Write what is compiled as it is: integers of NumPy keep their types."""
    if type(value) is not tuple:
        return frame.lifter.spell(value)
    items: list[str] = [_attributes(item, frame) for item in value]
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def param_text(value: Any, frame: Frame, operands: Sequence[Atom] = ()) -> str:
    """Write a param; blocks become traced functions."""
    if isinstance(value, Block):
        return jaxpr_text(value, frame, operands=operands)
    if isinstance(value, tuple) and any(isinstance(item, Block) for item in value):
        items = [param_text(item, frame, operands) for item in value]
        if hasattr(value, "_fields"):
            cls = type(value)
            name = frame.lifter.imports.attribute(cls.__module__, cls.__qualname__)
            return f"{name}({', '.join(items)})"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, types.FunctionType):
        return rule_function(value, frame.lifter)
    return frame.lifter.spell(value)


def jaxpr_text(
    block: Block, frame: Frame, hint: str = "body", operands: Sequence[Atom] = ()
) -> str:
    """Write a block as a function traced by `jax.make_jaxpr`.

    Args:
      block: The sub-program.
      frame: Where the text stands.
      hint: What to call the function where JAX kept no name.
      operands: Values that may have the types to trace at.
    """
    frame.lifter.imports.module("jax")
    groups = [Group("x", 1)] * len(block.inputs)
    name = frame.callable(block, hint, (), groups, plain_results(block))
    if operands and _have_types(operands, block):
        args = frame.texts(operands)
    else:
        args = [aval_text(value.aval, frame) for value in block.inputs]
    text = f"jax.make_jaxpr({name})({', '.join(args)})"
    return text if block.is_closed else f"{text}.jaxpr"


def _have_types(operands: Sequence[Atom], block: Block) -> bool:
    """Whether tracing at these operands is tracing at the inputs of the block."""
    return len(operands) == len(block.inputs) and all(
        type(operand) is Value and jaxapi.same_aval(operand.aval, value.aval)
        for operand, value in zip(operands, block.inputs)
    )


def aval_text(aval: Any, frame: Frame) -> str:
    """Write the type of an argument: a `jax.ShapeDtypeStruct`, or the aval itself."""
    if jaxapi.is_plain_aval(aval):
        return spell_aval_struct(aval, frame.lifter.imports)
    return frame.lifter.spell(aval)
