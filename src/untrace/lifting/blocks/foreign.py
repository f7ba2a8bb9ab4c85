"""Calls of code that JAX did not trace: foreign and exported functions, batching rules."""

from __future__ import annotations

from typing import Any

import jax

from untrace import jaxapi
from untrace.ir import Block, Equation
from untrace.lifting.blocks.kernels import called
from untrace.lifting.blocks.standins import rule_function
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.printing import Group, Rhs, control, unpacked
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
        return Rhs(text, unpacked if n_results != 1 else plain_result)
    frame.lifter.imports.module("jax")
    return Rhs(f"jax.tree.leaves({text})", unpacked)


@control("custom_vmap_call")
def custom_vmap(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function with a batching rule, which cannot be traced without a batch."""
    params = eqn.params
    block: Block = params["call"]
    rule = getattr(params["rule"], "rule", None)
    n = len(eqn.operands)
    # jax 0.12 keeps closed-over values (here none) before the arguments.
    flat = [jax.tree.structure(tree) for tree in ((0,) * n, ([], (0,) * n))]
    is_flat = params["in_tree"] in flat
    n_results = len(block.outputs)
    wanted = jax.tree.structure(0 if n_results == 1 else (0,) * n_results)
    if rule is None or not is_flat or params["out_tree"] != wanted or block.constants:
        return None
    groups = [Group("x", 1)] * len(block.inputs)
    function = frame.callable(block, "function", (), groups, plain_results(block))
    name = frame.names.fresh(identifier(f"{function}_batched"))
    frame.lifter.imports.module("jax")
    frame.lines.append(f"{name} = jax.custom_batching.custom_vmap({function})")
    frame.lines.append(f"{name}.def_vmap({rule_function(rule, frame.lifter)})")
    target = plain_result if n_results == 1 else unpacked
    return Rhs(f"{name}({', '.join(frame.texts(eqn.operands))})", target)


def plain_result(names: list[str]) -> str:
    """Take the one result as it is."""
    return names[0]
