"""Calls of code that JAX did not trace: the foreign function interface and exports."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.ir import Block, Equation
from untrace.lifting.callbacks import tree_text
from untrace.lifting.kernels import called
from untrace.lifting.lifter import Frame, Group, Rhs, control, plain_results, unpacked
from untrace.lifting.spelling import spell_aval_struct
from untrace.lifting.standins import rule_function
from untrace.syntax.names import identifier

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
    attributes = {key: jaxapi.plain_attribute(value) for key, value in params["attributes"]}
    if not all(jaxapi.is_plain_aval(aval) for aval in avals) or not all(
        key.isidentifier() for key in attributes
    ):
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
        keywords.append(f"input_output_aliases={dict(params['input_output_aliases'])!r}")
    frame.lifter.imports.module("jax")
    target = params["target_name"]
    function = f"jax.ffi.ffi_call({', '.join([spell(target), result, *keywords])})"
    given = [f"{key}={spell(value)}" for key, value in attributes.items()]
    return called(identifier(target, "ffi"), function, [*frame.texts(eqn.operands), *given], frame)


@control("call_exported")
def call_exported(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write the call of an exported computation, rebuilt from its fields."""
    exported = eqn.params["exported"]
    args, kwargs = jax.tree.unflatten(exported.in_tree, frame.texts(eqn.operands))
    given = [tree_text(arg, str) for arg in args]
    named = {key: tree_text(arg, str) for key, arg in kwargs.items()}
    if None in given or None in named.values():
        return None
    parts = [*(text for text in given if text), *(f"{k}={v}" for k, v in named.items())]
    name = frame.names.fresh(identifier(exported.fun_name, "exported"))
    frame.lines.append(f"{name} = {_exported(exported, frame)}")
    call = f"{name}.call({', '.join(parts)})"
    results = jax.tree.unflatten(exported.out_tree, list(range(exported.out_tree.num_leaves)))
    if isinstance(results, int):
        return Rhs(call, plain_result)
    is_flat = isinstance(results, tuple) and all(isinstance(item, int) for item in results)
    return Rhs(call if is_flat else f"jax.tree.leaves({call})", unpacked)


def _exported(exported: Any, frame: Frame) -> str:
    """Write an exported computation; its derivatives, which are lazy, are lost."""
    lifter = frame.lifter
    module = np.frombuffer(exported.mlir_module_serialized, np.uint8)
    fields = {key: lifter.spell(value) for key, value in jaxapi.exported_fields(exported).items()}
    fields["mlir_module_serialized"] = f"{lifter.constants.name(module)}.tobytes()"
    if exported.has_vjp():
        lifter.note(f"The exported `{exported.fun_name}` cannot be differentiated here.")
    lifter.imports.module("jax.export")
    inner = ", ".join(f"{key}={text}" for key, text in fields.items())
    return f"{lifter.imports.attribute('jax.export', 'Exported')}({inner})"


@control("custom_vmap_call")
def custom_vmap(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function with a batching rule, which cannot be traced without a batch."""
    params = eqn.params
    block: Block = params["call"]
    rule = getattr(params["rule"], "rule", None)
    is_flat = jaxapi.is_flat_tuple(params["in_tree"])
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
