"""Calls of whole functions: jit, remat, closed_call and core_call."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation
from untrace.lifting.bind import aval_text, jaxpr_text
from untrace.lifting.blocks.sharded import sharding_text
from untrace.lifting.controls import control
from untrace.lifting.frame import (
    Frame,
    in_plain_results,
    module_function,
    plain_results,
)
from untrace.lifting.heads import Parameters
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import Function, Group, OutOfReach, Rhs, unpacked
from untrace.lifting.spelling import Unspellable, spell_primitive
from untrace.syntax.names import identifier


@control("jit")
def jit(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a call of a function decorated with `jax.jit`."""
    block: Block = eqn.params["jaxpr"]
    try:
        options = jit_options(eqn, frame)
    except Unspellable:
        return None
    if options is None:
        return None
    name = jitted(block, eqn.params["name"], options, frame, _called(eqn))
    args = ", ".join(frame.texts(eqn.operands))
    types = _other_types(eqn.operands, block, frame)
    if types:
        helper = frame.lifter.helper("traced_at")
        return Rhs(f"{helper}({name}, {types})({args})", unpacked)
    return Rhs(
        f"{name}({args})",
        None if len(eqn.results) != 1 else lambda names: names[0],
    )


def _called(eqn: Equation) -> str:
    """What to call a function: its backward pass has the name of the function, for JAX."""
    name: str = eqn.params["name"]
    return f"backward_of_{name}" if jaxapi.is_backward(eqn.source_info) else name


def _other_types(operands: Sequence[Atom], block: Block, frame: Frame) -> str:
    """Write the types of inputs, by position, that differ in being weak from what is given.

    A call traces its function at the types of its arguments. JAX keeps the function and
    changes the arguments where it evaluates a jaxpr anew, as loops and rules of libraries
    do whose carries are no longer weak.
    """
    texts: list[str] = []
    for position, (atom, value) in enumerate(zip(operands, block.inputs)):
        is_weak = getattr(value.aval, "weak_type", False)
        if is_weak != getattr(atom.aval, "weak_type", False):
            texts.append(f"{position}: {aval_text(value.aval, frame)}")
    return f"{{{', '.join(texts)}}}" if texts else ""


def jitted(
    block: Block,
    jit_name: str,
    options: tuple[str, ...],
    frame: Frame,
    hint: str = "",
) -> str:
    """Print a block as a jitted function of the module; return its name.

    JAX knows it as `jit_name`, and it is called so if there is no other hint.
    """
    lifter = frame.lifter
    lifter.imports.module("jax")

    def build(child: Frame) -> tuple[Parameters, list[str]]:
        child.ambient = frame.ambient
        parameters = child.parameters(block, [Group("x", 1)] * len(block.inputs), 0)
        child.body(block)
        child.returns(plain_results(block)(child))
        return parameters, []

    def decorators(name: str) -> list[str]:
        if block.original is not None:  # nothing of the program was jitted here
            return []
        return jit_decorators(name, jit_name, options, lifter)

    hint = hint or jit_name
    key = ("jit", jit_name, hint, options, id(frame.ambient), block.original)
    try:
        name = module_function(
            lifter, block, hint, build, key=key, decorators=decorators
        )
        if block.original is not None:
            original = functools.partial(in_plain_results, block.original)
            lifter.originals[name] = original
        return name
    except OutOfReach:
        name = frame.names.fresh(identifier(hint, "function"))
        child = frame.child()
        parameters, _ = build(child)
        function = Function(name, parameters, child.lines, decorators(name))
        frame.nest(function.text_lines())
        return name


def jit_decorators(
    name: str, jit_name: str, options: tuple[str, ...], lifter: Lifter
) -> list[str]:
    """Write the decorators that make `name` a jitted function known as `jit_name`."""
    decorator = jit_decorator(options, lifter)
    if name == jit_name:
        return [decorator]
    return [decorator, f"{lifter.helper('known_as')}({lifter.spell(jit_name)})"]


def jit_decorator(options: tuple[str, ...], lifter: Lifter) -> str:
    """Write the decorator that jits a function with some keyword arguments."""
    lifter.imports.module("jax")
    if not options:
        return "jax.jit"
    lifter.imports.module("functools")
    return f"functools.partial(jax.jit, {', '.join(options)})"


def jit_options(
    eqn: Equation,
    frame: Frame,
    in_sizes: Sequence[int] | None = None,
    out_sizes: Sequence[int] | None = None,
) -> tuple[str, ...] | None:
    """Write the keyword arguments of `jax.jit`; None if it cannot be asked for them.

    Args:
      eqn: The call.
      frame: Where the function is called.
      in_sizes: How many arrays each argument holds; one each by default.
      out_sizes: The same for results.
    """
    params = eqn.params
    # Compiler options are refused everywhere but at the top level of a program.
    inline = jaxapi.inlining(params)
    if inline is None or params["compiler_options_kvs"]:
        return None
    n_in, n_out = len(params["in_shardings"]), len(params["out_shardings"])
    in_sizes, out_sizes = in_sizes or (1,) * n_in, out_sizes or (1,) * n_out
    donated = _per_argument(params["donated_invars"], in_sizes)
    if donated is None:
        return None
    options: list[str] = []
    argnums = tuple(i for i, is_donated in enumerate(donated) if is_donated)
    if argnums:
        options.append(f"donate_argnums={frame.lifter.spell(argnums)}")
    if params["keep_unused"]:
        options.append("keep_unused=True")
    if inline:
        options.append(f"inline={frame.lifter.spell(inline)}")
    for side, sizes in (("in", in_sizes), ("out", out_sizes)):
        formats = jaxapi.formats(params[f"{side}_shardings"], params[f"{side}_layouts"])
        wanted = None if formats is None else _per_argument(formats, sizes)
        if wanted is None:
            return None
        if any(item is not None for item in wanted):
            options.append(f"{side}_shardings={_shardings_text(wanted, eqn, frame)}")
    return tuple(options)


def _per_argument(values: Sequence[Any], sizes: Sequence[int]) -> list[Any] | None:
    """Give one value for all arrays of an argument; None where they disagree."""
    found: list[Any] = []
    start = 0
    for size in sizes:
        part = values[start : start + size]
        start += size
        if any(value != part[0] for value in part):
            return None
        found.append(part[0] if part else None)
    return found if start == len(values) else None


def _shardings_text(shardings: Sequence[Any], eqn: Equation, frame: Frame) -> str:
    texts = [
        "None" if sharding is None else sharding_text(sharding, eqn, frame)
        for sharding in shardings
    ]
    if len(set(texts)) == 1:
        return texts[0]
    return f"({', '.join(texts)})"


@control("remat2", "checkpoint", "remat")
def remat(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a call of `jax.checkpoint(f)`."""
    params = dict(eqn.params)
    block: Block = params.pop("jaxpr")
    if params.pop("differentiated", False) or block.constants:
        return None
    options: list[str] = []
    if not params.pop("prevent_cse", True):
        options.append("prevent_cse=False")
    policy: Any = params.pop("policy", None)
    if policy is not None:
        options.append(f"policy={policy_text(policy, frame)}")
    if params:
        return None
    groups = [Group("x", 1)] * len(block.inputs)
    name = frame.callable(block, "checkpointed", (), groups, plain_results(block))
    frame.lifter.imports.module("jax")
    function = f"jax.checkpoint({', '.join([name, *options])})"
    text = f"{function}({', '.join(frame.texts(eqn.operands))})"
    return Rhs(text, None if len(eqn.results) != 1 else lambda names: names[0])


def policy_text(policy: Any, frame: Frame) -> str:
    """Write a checkpoint policy."""
    return frame.lifter.spell(policy)


@control("closed_call", "core_call", "call")
def closed_call(eqn: Equation, frame: Frame) -> Rhs | None:
    """Bind a call primitive through its `get_bind_params`, as it stores a jaxpr."""
    params = dict(eqn.params)
    block: Block | None = params.pop("call_jaxpr", None)
    if block is None or params:
        return None
    jaxpr = jaxpr_text(block, frame, "called")
    staging = jaxapi.EVAL_JAXPR
    if staging and any(jaxapi.is_ref(constant) for _, constant in block.constants):
        # To bind the call itself would make operands of mutable arrays.
        primitive = spell_primitive(staging, frame.lifter.imports)
        args = [*frame.texts(eqn.operands), f"jaxpr={jaxpr}"]
        return Rhs(f"{primitive}.bind({', '.join(args)})", unpacked)
    primitive = spell_primitive(eqn.primitive, frame.lifter.imports)
    bind_params = f"{primitive}.get_bind_params(dict(call_jaxpr={jaxpr}))"
    args = [*frame.texts(eqn.operands), f"**{bind_params}"]
    return Rhs(f"{primitive}.bind({', '.join(args)})", None)
