"""Calls of code that JAX did not trace: foreign and exported functions."""

from __future__ import annotations

from typing import Any

import jax

from untrace import jaxapi
from untrace.ir import Equation
from untrace.lifting.blocks.kernels import called
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame
from untrace.lifting.printing import Rhs, unpacked
from untrace.lifting.spelling import spell_aval_struct
from untrace.syntax.names import identifier, is_name

# Params of the equation that are keywords of `jax.ffi.ffi_call`, and their defaults.
FFI_KEYWORDS: dict[str, Any] = {
    "has_side_effect": False,
    "vmap_method": None,
    "custom_call_api_version": 4,
    "legacy_backend_config": None,
}


@control("ffi_call")
def ffi_call(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.ffi.ffi_call("target", result_types)(*args, **attributes)`."""
    params = eqn.params
    spell = frame.lifter.spell
    avals = params["result_avals"]
    attributes = {
        key: jaxapi.plain_attribute(value) for key, value in params["attributes"]
    }
    if not all(jaxapi.is_plain_aval(aval) for aval in avals):
        return None
    types = [spell_aval_struct(aval, frame.lifter.imports) for aval in avals]
    result = types[0] if len(types) == 1 else f"({', '.join(types)})"
    keywords = [
        f"{key}={spell(params[key])}"
        for key, default in FFI_KEYWORDS.items()
        if params[key] != default
    ]
    operands = [atom.aval for atom in eqn.operands]
    for key, typed in (("input_layouts", operands), ("output_layouts", avals)):
        layouts = [tuple(reversed(layout)) for layout in params[key]]
        if layouts != [tuple(range(len(aval.shape))) for aval in typed]:
            shown = layouts if key == "input_layouts" or len(avals) > 1 else layouts[0]
            keywords.append(f"{key}={spell(shown)}")
    if params["input_output_aliases"]:
        keywords.append(
            f"input_output_aliases={spell(dict(params['input_output_aliases']))}"
        )
    frame.lifter.imports.module("jax")
    target = params["target_name"]
    function = f"jax.ffi.ffi_call({', '.join([spell(target), result, *keywords])})"
    given = [f"{k}={spell(v)}" for k, v in attributes.items() if is_name(k)]
    others = {k: v for k, v in attributes.items() if not is_name(k)}
    given += [f"**{spell(others)}"] if others else []
    return called(
        identifier(target, "ffi"), function, [*frame.texts(eqn.operands), *given], frame
    )


def call_of_exported(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `exported.call(*args)`, which JAX keeps as a function with rules."""
    exported = jaxapi.exported_call(eqn.params["call_jaxpr"].jaxpr, eqn.params["bwd"])
    if exported is None:
        return None
    n = len(eqn.operands)
    if exported.in_tree != jax.tree.structure(((0,) * n, {})):
        return None
    name = frame.lifter.spell(exported)
    if exported.has_vjp():
        n_orders = jaxapi.MAX_RULE_REPEATS
        frame.lifter.note(f"`{name}` has its derivatives up to order {n_orders} only.")
    text = f"{name}.call({', '.join(frame.texts(eqn.operands))})"
    n_results = len(eqn.results)
    flat = jax.tree.structure(0 if n_results == 1 else (0,) * n_results)
    if exported.out_tree == flat:
        return Rhs(text, unpacked if n_results != 1 else lambda names: names[0])
    frame.lifter.imports.module("jax")
    return Rhs(f"jax.tree.leaves({text})", unpacked)
