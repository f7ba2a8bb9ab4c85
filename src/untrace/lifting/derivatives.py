"""Functions with derivative rules of their own: custom_jvp and custom_vjp.

The rules are kept by JAX as callables. They are traced with every tangent instantiated
and printed as functions over flat arguments. A function is defined once where its
values are in scope: at module level, or nested where it or its rules close over values
of a function. A rule may call its own function again, which is then known by name. Rules
that make new functions with rules, whose rules make new ones, are followed
twice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value, from_jaxpr
from untrace.lifting.control import n_unhoisted
from untrace.lifting.lifter import (
    Frame,
    Function,
    Group,
    OutOfReach,
    Rhs,
    control,
    fail,
    grouped,
    plain_results,
    unpacked,
)
from untrace.lifting.naming import block_name, input_hints
from untrace.syntax.names import Scope, identifier


@dataclass(frozen=True, slots=True)
class _Rules:
    """How to write the rules of one equation.

    Attributes:
      blocks: The traced rules.
      write: Writes them for a function of a given name, from the frame around it.
    """

    blocks: tuple[Block, ...]
    write: Callable[[str, Frame], list[str]]


@control("custom_jvp_call")
def custom_jvp(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `jax.custom_jvp`, its rule, and the call."""

    def trace() -> _Rules:
        with jaxapi.rule_context(eqn.context):
            jaxpr, out_zeros = jaxapi.custom_jvp_rule(
                dict(eqn.params), len(eqn.operands)
            )
        rule = from_jaxpr(jaxpr)
        n = len(eqn.operands) - eqn.params["num_consts"]

        def write(name: str, parent: Frame) -> list[str]:
            lines = _jvp_rule(rule, out_zeros, name, parent, n)
            if not eqn.params["symbolic_zeros"]:
                return ["", "", f"@{name}.defjvp", *lines[2:]]
            return [*lines, "", "", f"{name}.defjvp({name}_jvp, symbolic_zeros=True)"]

        return _Rules((rule,), write)

    return _define_and_call(
        eqn, frame, eqn.params["jvp_jaxpr_fun"], "jax.custom_jvp", trace
    )


@control("custom_vjp_call")
def custom_vjp(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `jax.custom_vjp`, its rules, and the call."""
    n_consts: int = eqn.params["num_consts"]

    def trace() -> _Rules:
        avals = [atom.aval for atom in eqn.operands]
        with jaxapi.rule_context(eqn.context):
            rules = jaxapi.custom_vjp_rules(dict(eqn.params), avals)
        if jaxapi.has_logs(rules):
            raise fail(eqn, "its backward rule returns logs")
        forward, backward = from_jaxpr(rules.forward), from_jaxpr(rules.backward)
        symbolic = bool(eqn.params["symbolic_zeros"])

        def write(name: str, parent: Frame) -> list[str]:
            fwd = _forward_rule(
                forward, rules.residuals, n_consts, name, parent, symbolic
            )
            bwd = _backward_rule(
                backward, len(rules.residuals), rules.zeros, name, parent
            )
            keyword = ", symbolic_zeros=True" if symbolic else ""
            return [
                *fwd,
                *bwd,
                "",
                "",
                f"{name}.defvjp({name}_fwd, {name}_bwd{keyword})",
            ]

        return _Rules((forward, backward), write)

    rules = (eqn.params["fwd_jaxpr_thunk"], eqn.params["bwd"])
    return _define_and_call(eqn, frame, rules, "jax.custom_vjp", trace)


@control("custom_lin")
def custom_lin(eqn: Equation, frame: Frame) -> Rhs | None:
    """Refuse the forward derivative of a custom_vjp function, which JAX cannot run."""
    raise fail(
        eqn,
        "it is the derivative of a `custom_vjp` function in forward mode, which JAX traces but "
        "cannot run. Use reverse mode (`jax.grad`, `jax.vjp`), or define the function "
        "with `jax.custom_jvp`.",
    )


# ---- the function ------------------------------------------------------------------


def _define_and_call(
    eqn: Equation, frame: Frame, rules: Any, decorator: str, trace: Callable[[], _Rules]
) -> Rhs | None:
    block: Block = eqn.params["call_jaxpr"]
    n_consts: int = eqn.params["num_consts"]
    captured = eqn.operands[:n_consts]
    if block.constants or n_unhoisted(block, captured):
        return None
    frame.lifter.imports.module("jax")
    identity = (_identity(eqn, rules), tuple(frame.texts(captured)))
    name = _known(identity, frame) or _define(eqn, frame, identity, decorator, trace)
    text = f"{name}({', '.join(frame.texts(eqn.operands[n_consts:]))})"
    return Rhs(text, ", ".join)


def _identity(eqn: Equation, rules: Any) -> Any:
    block: Block = eqn.params["call_jaxpr"]
    avals = tuple(str(atom.aval) for atom in eqn.operands)
    text = str(block.jaxpr) if len(block.equations) < 200 else id(block.jaxpr)
    return eqn.name, jaxapi.rule_identity(rules), avals, eqn.params["num_consts"], text


def _known(identity: Any, frame: Frame) -> str | None:
    """Return the name of a function that was defined before, where it can be seen."""
    for name, scope in frame.lifter.rules.get(identity, ()):
        seen: Scope | None = frame.names
        while seen is not None:
            if seen is scope:
                return name
            seen = seen.parent
    return None


def _define(
    eqn: Equation,
    frame: Frame,
    identity: Any,
    decorator: str,
    trace: Callable[[], _Rules],
) -> str:
    lifter = frame.lifter
    block: Block = eqn.params["call_jaxpr"]
    captured = eqn.operands[: eqn.params["num_consts"]]
    kept_name = block_name(block, "function")
    rules = (
        trace()
        if jaxapi.follows_rules(lifter.rule_names, kept_name, block.jaxpr)
        else None
    )
    is_nested = bool(captured) or (
        rules is not None and any(map(_has_tracers, rules.blocks))
    )
    hint = identifier(kept_name, "function")
    name = frame.names.fresh(hint) if is_nested else lifter.scope.fresh_global(hint)
    known = lifter.rules.setdefault(identity, [])
    known.append((name, frame.names if is_nested else lifter.scope))
    outer = frame if is_nested else _module_frame(frame)
    try:
        parameters, lines = _body(block, captured, frame, outer)
        after = _write_rules(rules, eqn, name, outer)
    except OutOfReach:
        known.pop()
        raise
    function = Function(name, parameters, lines, [decorator])
    if is_nested:
        frame.nest(_single_blanks([*function.text_lines(), *after]))
    else:
        function.after = after
        lifter.functions.append(function)
    return name


def _body(
    block: Block, captured: Sequence[Atom], frame: Frame, outer: Frame
) -> tuple[str, list[str]]:
    child = outer.child()
    child.env = {value: frame.text(atom) for value, atom in zip(block.inputs, captured)}
    groups = [Group("x", 1)] * (len(block.inputs) - len(captured))
    parameters = child.parameters(block, groups, len(captured))
    child.body(block)
    child.returns(plain_results(block)(child))
    return parameters, child.lines


def _write_rules(rules: _Rules | None, eqn: Equation, name: str, outer: Frame) -> list[str]:
    if rules is None:
        return _no_rules(eqn, name, outer)
    names = outer.lifter.rule_names
    names.append(block_name(eqn.params["call_jaxpr"], "function"))
    try:
        return rules.write(name, outer)
    finally:
        names.pop()


def _module_frame(frame: Frame) -> Frame:
    return Frame(frame.lifter, frame.lifter.scope, {}, ambient=frame.ambient)


def _has_tracers(block: Block) -> bool:
    return any(isinstance(const, jaxapi.Tracer) for _, const in block.constants)


def _no_rules(eqn: Equation, name: str, frame: Frame) -> list[str]:
    """Write rules that raise, where rules make new rules without end."""
    message = f"the derivative rules of {name} are made anew without end; not recovered"
    frame.lifter.note(
        f"Not recovered: the derivative rules of `{name}`, which its own rules make."
    )
    lines = Function(
        f"{name}_rule", "*args", [f'raise NotImplementedError("{message}")']
    ).text_lines()
    rules = ", ".join([f"{name}_rule"] * (1 if eqn.name == "custom_jvp_call" else 2))
    define = "defjvp" if eqn.name == "custom_jvp_call" else "defvjp"
    return ["", "", *lines, "", "", f"{name}.{define}({rules})"]


def _single_blanks(lines: list[str]) -> list[str]:
    """Keep one blank line where a module has two."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept


# ---- the rules ---------------------------------------------------------------------


def _rule_frame(block: Block, parent: Frame) -> Frame:
    """Start a rule's function; values of enclosing functions are free variables."""
    frame = parent.child()
    for value, const in block.constants:
        if isinstance(const, jaxapi.Tracer):
            frame.env[value] = _captured_text(const, parent)
    return frame


def _captured_text(tracer: Any, frame: Frame) -> str:
    """Return the text of the value that a tracer stands for in an enclosing function."""
    var = jaxapi.var_behind(tracer)
    outer: Frame | None = frame
    while outer is not None:
        value = _value_of(var, outer.block) if outer.block else None
        if value is not None and value in outer.env:
            return outer.env[value]
        outer = outer.outer
    shown = jaxapi.short_type(tracer.aval)
    raise OutOfReach(
        f"a derivative rule closes over a {shown} of a function that is not around its call "
        "in the jaxpr, so it cannot be written as Python. Pass the value as an argument."
    )


def _value_of(var: Any, block: Block) -> Value | None:
    """Find the value that was read from a variable of a block's own jaxpr."""
    jaxpr, _ = jaxapi.split_jaxpr(block.jaxpr)
    pairs: list[tuple[Any, Any]] = [*zip(jaxpr.invars, block.inputs)]
    pairs += zip(jaxpr.constvars, [value for value, _ in block.constants])
    for eqn, equation in zip(jaxpr.eqns, block.equations):
        pairs += zip(eqn.outvars, equation.results)
    return next((value for other, value in pairs if other is var), None)


def _jvp_rule(
    rule: Block, out_zeros: Sequence[bool], name: str, parent: Frame, n: int
) -> list[str]:
    frame = _rule_frame(rule, parent)
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
    return [
        "",
        "",
        *Function(f"{name}_jvp", f"{primals}, {tangents}", frame.lines).text_lines(),
    ]


def _zero_tangent(primal: Atom, frame: Frame) -> str:
    """Write the symbolic zero of a result's tangent space."""
    lifter = frame.lifter
    symbolic_zero = lifter.imports.attribute("jax.custom_derivatives", "SymbolicZero")
    aval = lifter.spell(primal.aval.to_tangent_aval())
    return f"{symbolic_zero}({aval})"


def _forward_rule(
    block: Block,
    sources: Sequence[int | None],
    n_consts: int,
    name: str,
    parent: Frame,
    symbolic: bool,
) -> list[str]:
    frame = _rule_frame(block, parent)
    parameters = frame.parameters(block, [Group("x", 1)] * len(block.inputs), 0)
    if symbolic:
        # With symbolic zeros a forward rule gets pairs of value and perturbed flag.
        frame.lines = [f"{frame.env[v]} = {frame.env[v]}.value" for v in block.inputs]
    frame.body(block)
    n_computed = sum(source is None for source in sources)
    texts = frame.texts(block.outputs)
    computed = iter(texts[:n_computed])
    inputs = frame.texts(block.inputs)
    residuals = [
        next(computed) if source is None else inputs[source - n_consts]
        for source in sources
    ]
    frame.returns(f"{grouped(texts[n_computed:])}, {_tuple(residuals)}")
    return ["", "", *Function(f"{name}_fwd", parameters, frame.lines).text_lines()]


def _backward_rule(
    block: Block, n: int, zeros: Sequence[bool], name: str, parent: Frame
) -> list[str]:
    frame = _rule_frame(block, parent)
    residuals, cotangents = (
        frame.names.fresh("residuals"),
        frame.names.fresh("cotangents"),
    )
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
    results = ["None" if is_zero else next(texts) for is_zero in zeros]
    frame.returns(_tuple(results))
    function = Function(f"{name}_bwd", f"{residuals}, {cotangents}", frame.lines)
    return ["", "", *function.text_lines()]


def _tuple(texts: Sequence[str]) -> str:
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"
