"""Derivative rules in the cases that they are asked in: traced, and written for each.

A rule that is told which tangents, perturbed operands or cotangents there are may do
something else for each choice of them (see `jaxapi.rule_cases`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, from_jaxpr
from untrace.lifting.blocks.derivative_rules import (
    backward_rule,
    forward_rule,
    jvp_rule,
    rule_name,
)
from untrace.lifting.blocks.lost import rule_callables
from untrace.lifting.blocks.raising_rules import raising_rule, symbolic_zeros
from untrace.lifting.frame import Frame
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import fail
from untrace.stages import staged

_WRONG_RESIDUAL = (
    "JAX takes a value that it closes over for a residual of its rules, which is an "
    "argument (it moved what a differentiated loop computes anew every time out of it), "
    "so its derivative is wrong in JAX, too"
)

Places = tuple[int, ...]
"""Which operands or results are given."""
_Made = TypeVar("_Made")


@dataclass(frozen=True, slots=True)
class Rules:
    """How to write the rules of one equation.

    Attributes:
      blocks: The traced rules.
      write: Writes them for a function of a given name, from the frame around it.
      helper: What decorates the function in the place of JAX's own decorator.
    """

    blocks: tuple[Block, ...]
    write: Callable[[str, Frame], list[str]]
    helper: str = ""


class RuleError(Exception):
    """A rule raised while it was traced."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextlib.contextmanager
def _users_code(eqn: Equation, lifter: Lifter) -> Generator[None]:
    """Trace rules of an equation in its context; they may raise anything."""
    lost = lifter.lost.error(rule_callables(eqn)) if lifter.lost else None
    if lost is not None:
        raise RuleError(lost)
    with jaxapi.rule_context(eqn.context):
        try:
            yield
        except Exception as error:
            raise RuleError(error) from error


def _cases(eqn: Equation, lifter: Lifter) -> tuple[jaxapi.RuleCase, ...]:
    operands = [atom.aval for atom in eqn.operands]
    results = eqn.result_avals
    return lifter.rule_cases.of(eqn.params, operands, results, is_copy=True)


def _places(given: Sequence[bool]) -> Places:
    return tuple([i for i, is_given in enumerate(given) if is_given])


def _dict(items: Iterable[tuple[Places, str]]) -> str:
    return "{" + ", ".join(f"{key}: {text}" for key, text in items) + "}"


@staged("derivative rules")
def _once(
    eqn: Equation, lifter: Lifter, trace: Callable[[Equation, Lifter], _Made]
) -> _Made:
    """Trace the rules of an equation, once for all writings of it."""
    known = lifter.traced_rules.get(id(eqn))
    if known is None:
        known = lifter.traced_rules[id(eqn)] = eqn, trace(eqn, lifter)
    return known[1]


def _traced_jvp(
    eqn: Equation, lifter: Lifter
) -> dict[Places, tuple[Block, list[bool]] | Exception]:
    """Trace the rule of an equation in its cases."""
    made: dict[Places, tuple[Block, list[bool]] | Exception] = {}
    for case in _cases(eqn, lifter):
        try:
            with _users_code(eqn, lifter):
                jaxpr, zeros = jaxapi.custom_jvp_rule(eqn.params, case.given)
            made[_places(case.given)] = lifter.rewrite(from_jaxpr(jaxpr)), zeros
        except RuleError as failed:
            made[_places(case.given)] = failed.error
    return made


def jvp_rules(eqn: Equation, lifter: Lifter) -> Rules:
    """Trace the rule in its cases; one that raises in all of them raises here."""
    made = _once(eqn, lifter, _traced_jvp)
    traced = [each for each in made.values() if not isinstance(each, Exception)]
    if not traced:
        raise RuleError(next(e for e in made.values() if isinstance(e, Exception)))
    n = len(eqn.operands) - eqn.params["num_consts"]

    def write(name: str, parent: Frame) -> list[str]:
        lines: list[str] = []
        names: dict[Places, str] = {}
        for places, rule in made.items():
            names[places] = rule_name(f"{name}_jvp", parent)
            if isinstance(rule, Exception):
                lines += raising_rule(names[places], rule, parent)
                continue
            given = places if eqn.params["symbolic_zeros"] else None
            lines += jvp_rule(*rule, names[places], parent, n, given)
        if not eqn.params["symbolic_zeros"]:
            return ["", "", f"@{name}.defjvp", *lines[2:]]
        (general, *others), first = names.values(), next(iter(names))
        is_only = not others and len(first) <= 1
        rule = general if is_only else _by_tangents(names, parent)
        return [*lines, "", "", f"{name}.defjvp({rule}{symbolic_zeros(eqn)})"]

    blocks = tuple([block for block, _ in traced])
    return Rules(blocks, write, _helper(eqn, "unchecked_jvp", blocks[0].outputs))


def _by_tangents(names: Mapping[Places, str], frame: Frame) -> str:
    return f"{frame.lifter.helper('by_tangents')}({_dict(names.items())})"


def _helper(eqn: Equation, helper: str, returned: Sequence[Atom]) -> str:
    """Name a helper unless a rule returns the types of its function, as JAX demands.

    Under vmap a function may return an unbatched value where its rule, which returns a
    batched tangent, returns a batch of it. JAX traces that but cannot use the rule.
    """
    block: Block = eqn.params["call_jaxpr"]
    fits = all(
        jaxapi.same_type(atom.aval, mate.aval)
        for atom, mate in zip(block.outputs, returned)
    )
    return "" if fits else helper


_Backward = tuple[Block, tuple[bool, ...]] | Exception


@dataclass(frozen=True, slots=True)
class _Traced:
    """A forward rule, and backward rules by which cotangents they are given.

    `residuals` says for each residual which operand it is, None for what is computed.
    """

    forward: Block
    residuals: tuple[int | None, ...]
    are_constant: tuple[bool, ...]
    backward: dict[Places, _Backward]

    def traced_backward(self) -> Iterator[Block]:
        """Yield the backward rules that do not raise."""
        for rule in self.backward.values():
            if not isinstance(rule, Exception):
                yield rule[0]


def _traced_vjps(eqn: Equation, lifter: Lifter) -> dict[Places, _Traced | Exception]:
    """Trace the rules of an equation in their cases."""
    cases: dict[tuple[bool, ...], list[tuple[bool, ...]]] = {}
    for case in _cases(eqn, lifter):
        cases.setdefault(case.given, []).append(case.cotangents)
    made: dict[Places, _Traced | Exception] = {}
    for given, each in cases.items():
        try:
            made[_places(given)] = _traced_vjp(eqn, given, each, lifter)
        except RuleError as failed:
            made[_places(given)] = failed.error
    return made


def vjp_rules(eqn: Equation, lifter: Lifter) -> Rules:
    """Trace the rules in their cases; ones that raise in all of them raise here."""
    made = _once(eqn, lifter, _traced_vjps)
    traced = [each for each in made.values() if not isinstance(each, Exception)]
    blocks = [block for each in traced for block in each.traced_backward()]
    if not blocks:
        raise RuleError(_first_error(made.values()))

    def write(name: str, parent: Frame) -> list[str]:
        lines, shown = _written_vjp(eqn, name, made, parent)
        return [*lines, "", "", f"{name}.defvjp({shown}{symbolic_zeros(eqn)})"]

    first = traced[0]
    n_computed = sum(source is None for source in first.residuals)
    helper = _helper(eqn, "unchecked_vjp", first.forward.outputs[n_computed:])
    return Rules((*[each.forward for each in traced], *blocks), write, helper)


def _first_error(made: Iterable[_Traced | Exception]) -> Exception:
    for each in made:
        errors = [each] if isinstance(each, Exception) else each.backward.values()
        for error in errors:
            if isinstance(error, Exception):
                return error
    raise AssertionError("none of the rules raises")


def _traced_vjp(
    eqn: Equation,
    given: tuple[bool, ...],
    cotangents: Sequence[tuple[bool, ...]],
    lifter: Lifter,
) -> _Traced:
    avals = [atom.aval for atom in eqn.operands]
    with jaxapi.asking(eqn.params):
        with _users_code(eqn, lifter):
            rule = jaxapi.custom_vjp_forward(eqn.params, avals, given)
        n_consts: int = eqn.params["num_consts"]
        if any(source is not None and source < n_consts for source in rule.residuals):
            raise fail(eqn, _WRONG_RESIDUAL)
        backward = {
            _places(each): _traced_backward(eqn, rule, each, lifter)
            for each in cotangents
        }
    forward = lifter.rewrite(from_jaxpr(rule.jaxpr))
    names = eqn.params["call_jaxpr"].debug_info.arg_names
    if names:
        debug = forward.debug_info._replace(arg_names=names)
        forward = replace(forward, debug_info=debug)
    are_constant = tuple([i in rule.constants for i in range(rule.n_residuals)])
    return _Traced(forward, rule.residuals, are_constant, backward)


def _traced_backward(
    eqn: Equation,
    forward: jaxapi.CustomVJPForward,
    cotangents: Sequence[bool],
    lifter: Lifter,
) -> _Backward:
    try:
        with _users_code(eqn, lifter):
            traced = jaxapi.custom_vjp_backward(eqn.params, forward, cotangents)
    except RuleError as failed:
        return failed.error
    if traced.has_logs:
        raise fail(eqn, "its backward rule returns logs")
    return lifter.rewrite(from_jaxpr(traced.jaxpr)), traced.zeros


def _written_vjp(
    eqn: Equation,
    name: str,
    made: Mapping[Places, _Traced | Exception],
    parent: Frame,
) -> tuple[list[str], str]:
    """Write the rules; also return how they are passed to `defvjp`."""
    lines: list[str] = []
    pairs: dict[Places, tuple[str, dict[Places, str]]] = {}
    symbolic = bool(eqn.params["symbolic_zeros"])
    is_chosen = symbolic and not _is_only(made)
    for places, each in made.items():
        fwd = rule_name(f"{name}_fwd", parent)
        pairs[places] = fwd, {}
        if isinstance(each, Exception):
            lines += raising_rule(fwd, each, parent)
            continue
        n_consts: int = eqn.params["num_consts"]
        is_told = symbolic and not is_chosen  # else it is given values alone
        lines += forward_rule(
            each.forward, each.residuals, n_consts, fwd, parent, is_told
        )
        for given, rule in each.backward.items():
            bwd = pairs[places][1][given] = rule_name(f"{name}_bwd", parent)
            if isinstance(rule, Exception):
                lines += raising_rule(bwd, rule, parent)
                continue
            read = [not is_constant for is_constant in each.are_constant]
            chosen = [i in given for i in range(len(eqn.results))]
            lines += backward_rule(*rule, bwd, parent, read, chosen)
    if not is_chosen:
        ((fwd, backward),) = pairs.values()
        return lines, f"{fwd}, {next(iter(backward.values()))}"
    chosen = _dict(
        (places, f"({fwd}, {_dict(backward.items())})")
        for places, (fwd, backward) in pairs.items()
    )
    return lines, f"*{parent.lifter.helper('by_perturbed')}({chosen})"


def _is_only(made: Mapping[Places, _Traced | Exception]) -> bool:
    """Whether there is one case, of one perturbed operand and one cotangent at most."""
    if len(made) > 1:
        return False
    ((places, each),) = made.items()
    backward = [] if isinstance(each, Exception) else list(each.backward)
    return len(places) <= 1 and len(backward) == 1 and len(backward[0]) <= 1
