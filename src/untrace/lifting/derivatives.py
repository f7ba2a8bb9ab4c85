"""Functions with derivative rules of their own: custom_jvp and custom_vjp.

The rules are kept by JAX as callables. They are traced with every tangent instantiated
and printed as functions over flat arguments. A rule may call its own function again,
whose rule would be traced again, and so on: inside a rule the function is known by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value, from_jaxpr
from untrace.lifting.control import hoists_in_order
from untrace.lifting.lifter import (
    Frame,
    Function,
    Group,
    Rhs,
    control,
    fail,
    grouped,
    plain_results,
    unpacked,
)
from untrace.lifting.naming import block_name, input_hints
from untrace.syntax.names import Scope, identifier


@control("custom_jvp_call")
def custom_jvp(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `jax.custom_jvp`, its rule, and the call."""
    block: Block = eqn.params["call_jaxpr"]
    n_consts: int = eqn.params["num_consts"]
    identity = _identity(eqn, eqn.params["jvp_jaxpr_fun"])

    def define(name: str, parent: Frame) -> list[str]:
        with jaxapi.rule_context(eqn.context):
            rule, out_zeros = jaxapi.custom_jvp_rule(dict(eqn.params), len(eqn.operands))
        keyword = "symbolic_zeros=True" if eqn.params["symbolic_zeros"] else ""
        lines = _jvp_rule(from_jaxpr(rule), out_zeros, name, parent, len(eqn.operands) - n_consts)
        if keyword:
            return [*lines, "", "", f"{name}.defjvp({name}_jvp, {keyword})"]
        return ["", "", f"@{name}.defjvp", *lines[2:]]

    return _define_and_call(eqn, frame, block, n_consts, identity, "jax.custom_jvp", define)


def _jvp_rule(
    rule: Block, out_zeros: Sequence[bool], name: str, parent: Frame, n: int
) -> list[str]:
    frame = Frame(parent.lifter, Scope(parent.names), dict(parent.env), ambient=parent.ambient)
    hints = input_hints(rule)
    primals, tangents = frame.names.fresh("primals"), frame.names.fresh("tangents")
    first = [frame.define(v, hints[i]) for i, v in enumerate(rule.inputs[:n])]
    second = [frame.define(v, f"{name}_dot") for name, v in zip(first, rule.inputs[n:])]
    for names, whole in ((first, primals), (second, tangents)):
        if names:
            frame.lines.append(f"{unpacked(names)} = {whole}")
    frame.body(rule)
    texts = frame.texts(rule.outputs)
    n_out = len(out_zeros)
    nonzero = iter(texts[n_out:])
    out_tangents = [
        _zero_tangent(value, frame) if is_zero else next(nonzero)
        for value, is_zero in zip(rule.outputs, out_zeros)
    ]
    frame.returns(f"{grouped(texts[:n_out])}, {grouped(out_tangents)}")
    return ["", "", *Function(f"{name}_jvp", f"{primals}, {tangents}", frame.lines).text_lines()]


def _zero_tangent(primal: Atom, frame: Frame) -> str:
    """Write the symbolic zero of a result's tangent space."""
    lifter = frame.lifter
    symbolic_zero = lifter.imports.attribute("jax.custom_derivatives", "SymbolicZero")
    aval = lifter.spell(primal.aval.to_tangent_aval())
    return f"{symbolic_zero}({aval})"


@control("custom_vjp_call")
def custom_vjp(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `jax.custom_vjp`, its rules, and the call."""
    block: Block = eqn.params["call_jaxpr"]
    n_consts: int = eqn.params["num_consts"]
    identity = _identity(eqn, (eqn.params["fwd_jaxpr_thunk"], eqn.params["bwd"]))

    def define(name: str, parent: Frame) -> list[str]:
        avals = [atom.aval for atom in eqn.operands]
        with jaxapi.rule_context(eqn.context):
            rules = jaxapi.custom_vjp_rules(dict(eqn.params), avals)
        if jaxapi.has_logs(rules):
            raise fail(eqn, "its backward rule returns logs")
        symbolic = bool(eqn.params["symbolic_zeros"])
        fwd = _forward_rule(rules, n_consts, name, parent, symbolic)
        bwd = _backward_rule(rules, name, parent)
        keyword = ", symbolic_zeros=True" if symbolic else ""
        return [*fwd, *bwd, "", "", f"{name}.defvjp({name}_fwd, {name}_bwd{keyword})"]

    return _define_and_call(eqn, frame, block, n_consts, identity, "jax.custom_vjp", define)


def _forward_rule(rules: Any, n_consts: int, name: str, parent: Frame, symbolic: bool) -> list[str]:
    block = from_jaxpr(rules.forward)
    frame = Frame(parent.lifter, Scope(parent.names), dict(parent.env), ambient=parent.ambient)
    groups = [Group("x", 1)] * len(block.inputs)
    parameters = frame.parameters(block, groups, 0)
    if symbolic:
        # With symbolic zeros a forward rule gets pairs of value and perturbed flag.
        frame.lines = [f"{frame.env[v]} = {frame.env[v]}.value" for v in block.inputs]
    frame.body(block)
    n_computed = sum(source is None for source in rules.residuals)
    texts = frame.texts(block.outputs)
    computed = iter(texts[:n_computed])
    inputs = frame.texts(block.inputs)
    residuals = [
        next(computed) if source is None else inputs[source - n_consts]
        for source in rules.residuals
    ]
    frame.returns(f"{grouped(texts[n_computed:])}, {_tuple(residuals)}")
    return ["", "", *Function(f"{name}_fwd", parameters, frame.lines).text_lines()]


def _backward_rule(rules: Any, name: str, parent: Frame) -> list[str]:
    block = from_jaxpr(rules.backward)
    frame = Frame(parent.lifter, Scope(parent.names), dict(parent.env), ambient=parent.ambient)
    n = len(rules.residuals)
    residuals, cotangents = frame.names.fresh("residuals"), frame.names.fresh("cotangents")
    saved = [frame.define(v, "residual") for v in block.inputs[:n]]
    if saved:
        frame.lines.append(f"{unpacked(saved)} = {residuals}")
    given = block.inputs[n:]
    if len(given) == 1:
        frame.env[given[0]] = cotangents
    elif given:
        names = [frame.define(v, "cotangent") for v in given]
        frame.lines.append(f"{unpacked(names)} = {cotangents}")
    frame.body(block)
    texts = iter(frame.texts(block.outputs))
    results = ["None" if is_zero else next(texts) for is_zero in rules.zeros]
    frame.returns(_tuple(results))
    function = Function(f"{name}_bwd", f"{residuals}, {cotangents}", frame.lines)
    return ["", "", *function.text_lines()]


def _tuple(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _identity(eqn: Equation, rules: Any) -> Any:
    avals = tuple(str(atom.aval) for atom in eqn.operands)
    text = str(eqn.params["call_jaxpr"].jaxpr) if len(eqn.params["call_jaxpr"].equations) < 200 else ""
    return eqn.name, jaxapi.rule_identity(rules), avals, eqn.params["num_consts"], text


def _define_and_call(
    eqn: Equation,
    frame: Frame,
    block: Block,
    n_consts: int,
    identity: Any,
    decorator: str,
    define: Any,
) -> Rhs | None:
    captured = eqn.operands[:n_consts]
    if block.constants or not hoists_in_order(block, captured):
        return None
    frame.lifter.imports.module("jax")
    known = frame.lifter.rules.get(identity) if not captured else None
    if known is None:
        known = _define(frame, block, captured, identity, decorator, define)
    text = f"{known}({', '.join(frame.texts(eqn.operands[n_consts:]))})"
    return Rhs(text, None if len(eqn.results) != 1 else lambda names: names[0])


def _define(
    frame: Frame,
    block: Block,
    captured: Sequence[Atom],
    identity: Any,
    decorator: str,
    define: Any,
) -> str:
    lifter = frame.lifter
    hint = identifier(block_name(block, "function"), "function")
    groups = [Group("x", 1)] * (len(block.inputs) - len(captured))
    if captured:
        name = frame.names.fresh(hint)
        child = frame.child()
        child.env = _closure(block, captured, frame)
    else:
        name = lifter.scope.fresh_global(hint)
        lifter.rules[identity] = name
        child = Frame(lifter, Scope(lifter.scope), {}, ambient=frame.ambient)
    parameters = child.parameters(block, groups, len(captured))
    child.body(block)
    child.returns(plain_results(block)(child))
    outer = frame if captured else Frame(lifter, lifter.scope, {}, ambient=frame.ambient)
    after = define(name, outer)
    function = Function(name, parameters, child.lines, [decorator])
    if captured:
        frame.nest([line for line in _single_blanks([*function.text_lines(), *after])])
    else:
        function.after = after
        lifter.functions.append(function)
    return name


def _closure(block: Block, captured: Sequence[Atom], frame: Frame) -> dict[Value, str]:
    return {value: frame.text(atom) for value, atom in zip(block.inputs, captured)}


def _single_blanks(lines: list[str]) -> list[str]:
    """Keep one blank line where a module has two."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept
