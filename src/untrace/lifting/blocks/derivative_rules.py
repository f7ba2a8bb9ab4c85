"""Write derivative rules, which were traced, as functions over flat arguments.

A rule that closes over values of a function around it is written inside that function,
where the values are free variables.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Value
from untrace.lifting.frame import Frame
from untrace.lifting.heads import plain_head
from untrace.lifting.names.naming import input_hints
from untrace.lifting.printing import (
    Function,
    Group,
    OutOfReach,
    grouped,
    is_literal,
    tuple_text,
)


def _rule_frame(block: Block, parent: Frame) -> Frame:
    """Start a rule's function; values of enclosing functions are free variables."""
    frame = parent.child()
    for value, const in block.constants:
        if isinstance(const, jaxapi.Tracer):
            frame.env[value] = _captured_text(const, parent)
    return frame


def _captured_text(tracer: Any, frame: Frame) -> str:
    """Return the text of the value that a tracer of an outer function stands for."""
    var = jaxapi.var_behind(tracer)
    outer: Frame | None = frame
    while outer is not None:
        value = _value_of(var, outer.block) if outer.block else None
        if value is not None and value in outer.env:
            return outer.env[value]
        outer = outer.outer
    shown = jaxapi.short_type(tracer.aval)
    raise OutOfReach(
        f"a derivative rule closes over a {shown} of a function that is not around its "
        "call in the jaxpr, so it cannot be written as Python. Pass it as an argument."
    )


def _value_of(var: Any, block: Block) -> Value | None:
    """Find the value that was read from a variable of a block's own jaxpr."""
    jaxpr, _ = jaxapi.split_jaxpr(block.jaxpr)
    pairs: list[tuple[Any, Any]] = [*zip(jaxpr.invars, block.inputs)]
    pairs += zip(jaxpr.constvars, [value for value, _ in block.constants])
    for eqn, equation in zip(jaxpr.eqns, block.equations):
        pairs += zip(eqn.outvars, equation.results)
    return next((value for other, value in pairs if other is var), None)


def rule_name(hint: str, parent: Frame) -> str:
    """Name a rule: other functions may be called as rules usually are."""
    is_global = parent.names is parent.lifter.scope
    return parent.names.fresh_global(hint) if is_global else parent.names.fresh(hint)


def jvp_rule(
    rule: Block,
    out_zeros: Sequence[bool],
    name: str,
    parent: Frame,
    n: int,
    given: Sequence[int] | None = None,
) -> list[str]:
    """Write the rule of a custom_jvp function, called `name`.

    It takes `n` primals and as many tangents, of which those at `given` are used; None
    stands for all.
    """
    frame = _rule_frame(rule, parent)
    hints = input_hints(rule)
    primals, tangents = frame.names.fresh("primals"), frame.names.fresh("tangents")
    first = [frame.define(v, hints[i]) for i, v in enumerate(rule.inputs[:n])]
    places = range(n) if given is None else given
    second = ["_"] * n if len(rule.inputs) > n else []
    for place, value in zip(places, rule.inputs[n:], strict=True):
        second[place] = frame.define(value, f"{first[place]}_dot")
    for names, whole in ((first, primals), (second, tangents)):
        if names:
            frame.unpack(names, whole)
    frame.body(rule)
    texts = frame.texts(rule.outputs)
    n_out = len(out_zeros)
    out_tangents = _tangents(rule.outputs[:n_out], out_zeros, texts[n_out:], frame)
    frame.returns(f"{grouped(texts[:n_out])}, {grouped(out_tangents)}")
    return [
        "",
        "",
        *Function(name, plain_head(primals, tangents), frame.lines).text_lines(),
    ]


def _tangents(
    primals: Sequence[Atom], zeros: Sequence[bool], nonzero: list[str], frame: Frame
) -> list[str]:
    """Write the tangents of results; symbolic zeros next to each other in one go."""
    texts: list[str] = []
    rest = iter(nonzero)
    for is_zero, group in itertools.groupby(zip(primals, zeros), lambda pair: pair[1]):
        members = [primal for primal, _ in group]
        if not is_zero:
            texts += [next(rest) for _ in members]
        elif len(members) == 1 or any(map(is_literal, members)):
            texts += [_zero_tangent(primal, frame) for primal in members]
        else:
            known = ", ".join(frame.texts(members))
            texts.append(f"*map({_symbolic_zero(frame)}.from_primal_value, ({known}))")
    return texts


def _zero_tangent(primal: Atom, frame: Frame) -> str:
    """Write the symbolic zero of a result's tangent space."""
    if not is_literal(primal):
        return f"{_symbolic_zero(frame)}.from_primal_value({frame.text(primal)})"
    aval = frame.lifter.spell(primal.aval.to_tangent_aval())
    return f"{_symbolic_zero(frame)}({aval})"


def _symbolic_zero(frame: Frame) -> str:
    return frame.lifter.imports.attribute("jax.custom_derivatives", "SymbolicZero")


def forward_rule(
    block: Block,
    sources: Sequence[int | None],
    n_consts: int,
    name: str,
    parent: Frame,
    symbolic: bool,
) -> list[str]:
    """Write the forward rule, `name`, of a custom_vjp function: results and residuals."""
    frame = _rule_frame(block, parent)
    parameters = frame.parameters(block, [Group("x", 1)] * len(block.inputs), 0)
    if symbolic:
        # With symbolic zeros a forward rule gets pairs of value and perturbed flag.
        frame.lines += [f"{frame.env[v]} = {frame.env[v]}.value" for v in block.inputs]
    frame.body(block)
    n_computed = sum(source is None for source in sources)
    texts = frame.texts(block.outputs)
    computed = iter(texts[:n_computed])
    inputs = frame.texts(block.inputs)
    residuals = [
        next(computed) if source is None else inputs[source - n_consts]
        for source in sources
    ]
    frame.returns(f"{grouped(texts[n_computed:])}, {tuple_text(residuals)}")
    return ["", "", *Function(name, parameters, frame.lines).text_lines()]


def backward_rule(
    block: Block,
    zeros: Sequence[bool],
    name: str,
    parent: Frame,
    residuals_read: Sequence[bool],
    given: Sequence[bool],
) -> list[str]:
    """Write the backward rule, `name`, of a custom_vjp function: cotangents of its inputs.

    Args:
      block: The traced rule.
      zeros: Which of the cotangents are symbolic zeros.
      name: What to call it.
      parent: Where it is written.
      residuals_read: For each residual whether it is one of the block's inputs.
      given: The same of the cotangents of the results.
    """
    frame = _rule_frame(block, parent)
    residuals, cotangents = (
        frame.names.fresh("residuals"),
        frame.names.fresh("cotangents"),
    )
    values = iter(block.inputs)
    saved = [
        frame.define(next(values), "residual") if r else "_" for r in residuals_read
    ]
    if any(residuals_read):
        frame.unpack(saved, residuals)
    if len(given) == 1 and any(given):
        frame.env[next(values)] = cotangents
    elif any(given):
        names = [frame.define(next(values), "cotangent") if g else "_" for g in given]
        frame.unpack(names, cotangents)
    frame.body(block)
    texts = iter(frame.texts(block.outputs))
    results = ["None" if is_zero else next(texts) for is_zero in zeros]
    frame.returns(tuple_text(results))
    function = Function(name, plain_head(residuals, cotangents), frame.lines)
    return ["", "", *function.text_lines()]
