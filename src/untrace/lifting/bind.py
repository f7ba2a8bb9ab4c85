"""The last resort: `primitive.bind(...)` with every param written out.

Sub-programs in params become functions that `jax.make_jaxpr` traces at the avals they
were traced at. Works for any primitive whose params can be spelled.
"""

from __future__ import annotations

from typing import Any

from untrace import jaxapi
from untrace.ir import Block, Equation
from untrace.lifting.lifter import Frame, Group, Rhs, fail, plain_results
from untrace.lifting.spelling import Unspellable, spell_aval_struct, spell_primitive


def bind(eqn: Equation, frame: Frame) -> Rhs:
    """Write an equation as a call of its primitive's `bind`."""
    imports = frame.lifter.imports
    try:
        primitive = spell_primitive(eqn.primitive, imports)
        params = [f"{key}={param_text(value, frame)}" for key, value in eqn.params.items()]
    except Unspellable as error:
        raise fail(eqn, f"{error}. Register a rule with `untrace.register`.") from error
    text = f"{primitive}.bind({', '.join([*frame.texts(eqn.operands), *params])})"
    if not eqn.primitive.multiple_results:
        return Rhs(text)
    return Rhs(text, one_or_more)


def one_or_more(names: list[str]) -> str:
    """Unpack a list of results, also when it has one item."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def param_text(value: Any, frame: Frame) -> str:
    """Write a param; blocks become traced functions."""
    if isinstance(value, Block):
        return jaxpr_text(value, frame)
    if isinstance(value, tuple) and any(isinstance(item, Block) for item in value):
        items = [param_text(item, frame) for item in value]
        if hasattr(value, "_fields"):
            cls = type(value)
            name = frame.lifter.imports.attribute(cls.__module__, cls.__qualname__)
            return f"{name}({', '.join(items)})"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    return frame.lifter.spell(value)


def jaxpr_text(block: Block, frame: Frame, hint: str = "body") -> str:
    """Write a block as a function traced by `jax.make_jaxpr`."""
    lifter = frame.lifter
    lifter.imports.module("jax")
    groups = [Group("x", 1)] * len(block.inputs)
    name = frame.callable(block, hint, (), groups, plain_results(block))
    if all(_is_argument(value.aval) for value in block.inputs):
        avals = [aval_text(value.aval, frame) for value in block.inputs]
        text = f"jax.make_jaxpr({name})({', '.join(avals)})"
        return text if block.is_closed else f"{text}.jaxpr"
    avals = [lifter.spell(value.aval) for value in block.inputs]
    text = f"{lifter.helper('traced')}({', '.join([name, *avals])})"
    return text if block.is_closed else f"{text}.jaxpr"


def _is_argument(aval: Any) -> bool:
    """Tell whether `jax.make_jaxpr` traces at this type."""
    return jaxapi.is_plain_aval(aval) or jaxapi.is_ref_aval(aval)


def aval_text(aval: Any, frame: Frame) -> str:
    """Write the type of an argument: a `jax.ShapeDtypeStruct`, or the aval itself."""
    if jaxapi.is_plain_aval(aval):
        return spell_aval_struct(aval, frame.lifter.imports)
    return frame.lifter.spell(aval)
