"""Functions with derivative rules of their own: custom_jvp and custom_vjp.

The rules are kept by JAX as callables. They are traced in the cases that they may be
asked in (`rule_sets.py`) and printed as functions over flat arguments. A function is defined once where its
values are in scope: at module level, or nested where it or its rules close over values
of a function. A rule may call its own function again, which is then known by name.
Rules that make new functions with rules, whose rules make new ones, are followed twice.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation
from untrace.lifting.blocks.closures import captured_values
from untrace.lifting.blocks.error_checks import checked_for_errors
from untrace.lifting.blocks.foreign import call_of_exported
from untrace.lifting.blocks.lost import rule_callables
from untrace.lifting.blocks.raising_rules import exception_text, raising_rules
from untrace.lifting.blocks.rule_sets import RuleError, Rules, jvp_rules, vjp_rules
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame, in_plain_results, plain_results
from untrace.lifting.heads import Parameters
from untrace.lifting.names.naming import block_name
from untrace.lifting.printing import Function, Group, OutOfReach, Rhs, fail, is_literal
from untrace.syntax.names import Scope, identifier
from untrace.syntax.text import quote


@control("custom_jvp_call")
def custom_jvp(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `jax.custom_jvp`, its rule, and the call."""
    if not frame.lifter.step(eqn):
        checked = checked_for_errors(eqn, frame)
        if checked is not None:
            return checked
    return _define_and_call(
        eqn, frame, "jax.custom_jvp", lambda: jvp_rules(eqn, frame.lifter)
    )


@control("custom_vjp_call")
def custom_vjp(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `jax.custom_vjp`, its rules, and the call."""
    if not frame.lifter.step(eqn):
        exported = call_of_exported(eqn, frame)
        if exported is not None:
            return exported
    return _define_and_call(
        eqn, frame, "jax.custom_vjp", lambda: vjp_rules(eqn, frame.lifter)
    )


@control("custom_lin")
def custom_lin(eqn: Equation, frame: Frame) -> Rhs | None:
    """Refuse the forward derivative of a custom_vjp function, which JAX cannot run."""
    raise fail(
        eqn,
        "it is the derivative of a `custom_vjp` function in forward mode, which JAX "
        "traces but cannot run. Use reverse mode (`jax.grad`, `jax.vjp`), or define the function "
        "with `jax.custom_jvp`.",
    )


# ---- the function ------------------------------------------------------------------


def _define_and_call(
    eqn: Equation, frame: Frame, decorator: str, trace: Callable[[], Rules]
) -> Rhs | None:
    block: Block = eqn.params["call_jaxpr"]
    n_consts: int = eqn.params["num_consts"]
    captured = eqn.operands[:n_consts]
    if block.constants or any(map(is_literal, captured)):
        return None
    frame.lifter.imports.module("jax")
    identity = (_identity(eqn), tuple(frame.texts(captured)))
    name = _known(identity, frame) or _define(eqn, frame, identity, decorator, trace)
    text = f"{name}({', '.join(frame.texts(eqn.operands[n_consts:]))})"
    return Rhs(text, ", ".join)


def _identity(eqn: Equation) -> Any:
    rules = rule_callables(eqn)
    block: Block = eqn.params["call_jaxpr"]
    avals = tuple(str(atom.aval) for atom in eqn.operands)
    body = _Body(block.jaxpr, len(block.equations))
    return eqn.name, jaxapi.rule_identity(rules), avals, eqn.params["num_consts"], body


@dataclass(frozen=True, eq=False)
class _Body:
    """A jaxpr that is equal to those which are printed alike.

    It is printed only if another one might be the same.
    """

    jaxpr: Any
    n_equations: int

    @functools.cached_property
    def text(self) -> str:
        return str(self.jaxpr)

    def __hash__(self) -> int:
        return hash(self.n_equations)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Body) or self.n_equations != other.n_equations:
            return False
        return self.jaxpr is other.jaxpr or self.text == other.text


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
    trace: Callable[[], Rules],
) -> str:
    lifter = frame.lifter
    block: Block = eqn.params["call_jaxpr"]
    captured = eqn.operands[: eqn.params["num_consts"]]
    kept_name = block_name(block, "function")
    rules: Rules | None = None
    if jaxapi.follows_rules(lifter.rule_names, kept_name, block.jaxpr):
        try:
            rules = trace()
        except RuleError as failed:
            rules = _failing(eqn, failed.error, frame)
    is_nested = bool(captured) or (
        rules is not None and any(map(_has_tracers, rules.blocks))
    )
    hint = identifier(kept_name, "function")
    name = frame.names.fresh(hint) if is_nested else lifter.scope.fresh_global(hint)
    if block.original is not None:
        original = functools.partial(in_plain_results, block.original)
        lifter.originals[name] = original
    known = lifter.rules.setdefault(identity, [])
    known.append((name, frame.names if is_nested else lifter.scope))
    outer = frame if is_nested else _module_frame(frame)
    n_cut = lifter.n_cut_rules
    try:
        parameters, lines = _body(block, eqn.operands, len(captured), frame, outer)
        after = _write_rules(rules, eqn, name, outer)
    except OutOfReach:
        known.pop()
        raise
    if lifter.n_cut_rules > n_cut:  # elsewhere more of its rules may be written
        known.pop()
    if rules is not None and rules.helper:
        decorator = lifter.helper(rules.helper)
    function = Function(name, parameters, lines, [decorator])
    if is_nested:
        frame.nest(_single_blanks([*function.text_lines(), *after]))
    else:
        function.after = after
        lifter.functions.append(function)
    return name


def _body(
    block: Block, operands: Sequence[Atom], n_captured: int, frame: Frame, outer: Frame
) -> tuple[Parameters, list[str]]:
    child = outer.child()
    captured = operands[:n_captured]
    child.env = captured_values(block, captured, frame, child)
    groups = [Group("x", 1)] * (len(block.inputs) - n_captured)
    parameters = child.parameters(block, groups, n_captured, operands[n_captured:])
    child.body(block)
    child.returns(plain_results(block)(child))
    return parameters, child.lines


def _write_rules(
    rules: Rules | None, eqn: Equation, name: str, outer: Frame
) -> list[str]:
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
    frame.lifter.n_cut_rules += 1
    frame.lifter.note(
        f"Not recovered: the derivative rules of `{name}`, which its own rules make."
    )
    message = f"the derivative rules of {name} are made anew without end; not recovered"
    return raising_rules(eqn, name, f"NotImplementedError({quote(message)})", frame)


def _failing(eqn: Equation, error: Exception, frame: Frame) -> Rules:
    """Describe rules that fail when traced: written, they fail in the same way."""
    lifter = frame.lifter
    text = exception_text(error, lifter)
    original = jaxapi.refusing_original(error)

    def write(name: str, parent: Frame) -> list[str]:
        where = " in every case that was tried" * eqn.params["symbolic_zeros"]
        if original is None:
            lifter.note(f"The derivative rules of `{name}` fail in JAX{where}, too.")
        else:
            lifter.originals[name] = functools.partial(in_plain_results, original)
        return raising_rules(eqn, name, text, parent)

    return Rules((), write)


def _single_blanks(lines: list[str]) -> list[str]:
    """Keep one blank line where a module has two."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept
