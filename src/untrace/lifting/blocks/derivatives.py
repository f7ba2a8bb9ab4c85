"""Functions with derivative rules of their own: custom_jvp and custom_vjp.

The rules are kept by JAX as callables. They are traced with every tangent instantiated
and printed as functions over flat arguments. A function is defined once where its
values are in scope: at module level, or nested where it or its rules close over values
of a function. A rule may call its own function again, which is then known by name.
Rules that make new functions with rules, whose rules make new ones, are followed twice.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value, from_jaxpr
from untrace.lifting.blocks.control import hoists_in_order
from untrace.lifting.blocks.derivative_rules import (
    backward_rule,
    forward_rule,
    jvp_rule,
    rule_name,
)
from untrace.lifting.blocks.error_checks import checked_for_errors
from untrace.lifting.blocks.foreign import call_of_exported
from untrace.lifting.blocks.lost import rule_callables
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.lifter import Lifter
from untrace.lifting.names.naming import block_name
from untrace.lifting.printing import (
    Function,
    Group,
    OutOfReach,
    Rhs,
    control,
    fail,
    is_literal,
    unpacked,
)
from untrace.lifting.spelling import Unspellable
from untrace.syntax.names import Scope, identifier
from untrace.syntax.text import quote


@dataclass(frozen=True, slots=True)
class _Rules:
    """How to write the rules of one equation.

    Attributes:
      blocks: The traced rules.
      write: Writes them for a function of a given name, from the frame around it.
      helper: What decorates the function in the place of JAX's own decorator.
    """

    blocks: tuple[Block, ...]
    write: Callable[[str, Frame], list[str]]
    helper: str = ""


_WRONG_RESIDUAL = (
    "JAX takes a value that it closes over for a residual of its rules, which is an "
    "argument (it moved what a differentiated loop computes anew every time out of it), "
    "so its derivative is wrong in JAX, too"
)


class _RuleError(Exception):
    """A rule raised while it was traced."""

    def __init__(self, error: Exception) -> None:
        self.error = error


@contextlib.contextmanager
def _users_code(eqn: Equation, lifter: Lifter) -> Generator[None]:
    """Trace rules of an equation in its context; they may raise anything."""
    lost = lifter.lost.error(rule_callables(eqn)) if lifter.lost else None
    if lost is not None:
        raise _RuleError(lost)
    with jaxapi.rule_context(eqn.context):
        try:
            yield
        except Exception as error:
            raise _RuleError(error) from error


def _cases(eqn: Equation, lifter: Lifter) -> tuple[jaxapi.RuleCase, ...]:
    operands = [atom.aval for atom in eqn.operands]
    results = eqn.result_avals
    return lifter.rule_cases.of(eqn.params, operands, results)


def _places(given: Sequence[bool]) -> tuple[int, ...]:
    return tuple([i for i, is_given in enumerate(given) if is_given])


def _dict(items: Iterable[tuple[tuple[int, ...], str]]) -> str:
    return "{" + ", ".join(f"{key}: {text}" for key, text in items) + "}"


def _symbolic(eqn: Equation) -> str:
    return ", symbolic_zeros=True" * bool(eqn.params["symbolic_zeros"])


@control("custom_jvp_call")
def custom_jvp(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `jax.custom_jvp`, its rule, and the call."""
    if not frame.lifter.step(eqn):
        checked = checked_for_errors(eqn, frame)
        if checked is not None:
            return checked
    return _define_and_call(
        eqn, frame, "jax.custom_jvp", lambda: _jvp_rules(eqn, frame.lifter)
    )


def _jvp_rules(eqn: Equation, lifter: Lifter) -> _Rules:
    """Trace the rule in its cases; one that raises in all of them raises here."""
    made: dict[tuple[int, ...], tuple[Block, list[bool]] | Exception] = {}
    for case in _cases(eqn, lifter):
        try:
            with _users_code(eqn, lifter):
                jaxpr, zeros = jaxapi.custom_jvp_rule(eqn.params, case.given)
            made[_places(case.given)] = lifter.rewrite(from_jaxpr(jaxpr)), zeros
        except _RuleError as failed:
            made[_places(case.given)] = failed.error
    traced = [each for each in made.values() if not isinstance(each, Exception)]
    if not traced:
        raise _RuleError(next(e for e in made.values() if isinstance(e, Exception)))
    n = len(eqn.operands) - eqn.params["num_consts"]

    def write(name: str, parent: Frame) -> list[str]:
        lines: list[str] = []
        names: dict[tuple[int, ...], str] = {}
        for places, rule in made.items():
            names[places] = rule_name(f"{name}_jvp", parent)
            if isinstance(rule, Exception):
                lines += _raising(names[places], rule, parent)
                continue
            given = places if eqn.params["symbolic_zeros"] else None
            lines += jvp_rule(*rule, names[places], parent, n, given)
        if not eqn.params["symbolic_zeros"]:
            return ["", "", f"@{name}.defjvp", *lines[2:]]
        (general, *others), first = names.values(), next(iter(names))
        is_only = not others and len(first) <= 1
        rule = general if is_only else _by_tangents(names, parent)
        return [*lines, "", "", f"{name}.defjvp({rule}{_symbolic(eqn)})"]

    blocks = tuple([block for block, _ in traced])
    return _Rules(blocks, write, _helper(eqn, "unchecked_jvp", blocks[0].outputs))


def _by_tangents(names: Mapping[tuple[int, ...], str], frame: Frame) -> str:
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


@control("custom_vjp_call")
def custom_vjp(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a function decorated with `jax.custom_vjp`, its rules, and the call."""
    if not frame.lifter.step(eqn):
        exported = call_of_exported(eqn, frame)
        if exported is not None:
            return exported
    return _define_and_call(
        eqn, frame, "jax.custom_vjp", lambda: _vjp_rules(eqn, frame.lifter)
    )


_Backward = tuple[Block, tuple[bool, ...]] | Exception


@dataclass(frozen=True, slots=True)
class _Traced:
    """A forward rule, and backward rules by which cotangents they are given.

    `residuals` says for each residual which operand it is, None for what is computed.
    """

    forward: Block
    residuals: tuple[int | None, ...]
    are_constant: tuple[bool, ...]
    backward: dict[tuple[int, ...], _Backward]

    def traced_backward(self) -> Iterator[Block]:
        """Yield the backward rules that do not raise."""
        for rule in self.backward.values():
            if not isinstance(rule, Exception):
                yield rule[0]


def _vjp_rules(eqn: Equation, lifter: Lifter) -> _Rules:
    """Trace the rules in their cases; ones that raise in all of them raise here."""
    cases: dict[tuple[bool, ...], list[tuple[bool, ...]]] = {}
    for case in _cases(eqn, lifter):
        cases.setdefault(case.given, []).append(case.cotangents)
    made: dict[tuple[int, ...], _Traced | Exception] = {}
    for given, each in cases.items():
        try:
            made[_places(given)] = _traced_vjp(eqn, given, each, lifter)
        except _RuleError as failed:
            made[_places(given)] = failed.error
    traced = [each for each in made.values() if not isinstance(each, Exception)]
    blocks = [block for each in traced for block in each.traced_backward()]
    if not blocks:
        raise _RuleError(_first_error(made.values()))

    def write(name: str, parent: Frame) -> list[str]:
        lines, shown = _written_vjp(eqn, name, made, parent)
        return [*lines, "", "", f"{name}.defvjp({shown}{_symbolic(eqn)})"]

    first = traced[0]
    n_computed = sum(source is None for source in first.residuals)
    helper = _helper(eqn, "unchecked_vjp", first.forward.outputs[n_computed:])
    return _Rules((*[each.forward for each in traced], *blocks), write, helper)


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
    except _RuleError as failed:
        return failed.error
    if traced.has_logs:
        raise fail(eqn, "its backward rule returns logs")
    return lifter.rewrite(from_jaxpr(traced.jaxpr)), traced.zeros


def _written_vjp(
    eqn: Equation,
    name: str,
    made: Mapping[tuple[int, ...], _Traced | Exception],
    parent: Frame,
) -> tuple[list[str], str]:
    """Write the rules; also return how they are passed to `defvjp`."""
    lines: list[str] = []
    pairs: dict[tuple[int, ...], tuple[str, dict[tuple[int, ...], str]]] = {}
    for places, each in made.items():
        fwd = rule_name(f"{name}_fwd", parent)
        pairs[places] = fwd, {}
        if isinstance(each, Exception):
            lines += _raising(fwd, each, parent)
            continue
        symbolic = bool(eqn.params["symbolic_zeros"])
        n_consts: int = eqn.params["num_consts"]
        lines += forward_rule(
            each.forward, each.residuals, n_consts, fwd, parent, symbolic
        )
        for given, rule in each.backward.items():
            bwd = pairs[places][1][given] = rule_name(f"{name}_bwd", parent)
            if isinstance(rule, Exception):
                lines += _raising(bwd, rule, parent)
                continue
            read = [not is_constant for is_constant in each.are_constant]
            chosen = [i in given for i in range(len(eqn.results))]
            lines += backward_rule(*rule, bwd, parent, read, chosen)
    shown = {
        places: (fwd, _dict(backward.items()))
        for places, (fwd, backward) in pairs.items()
    }
    (places, (fwd, backward)), *others = pairs.items()
    is_only = len(places) <= 1 and len(backward) == 1 and len(next(iter(backward))) <= 1
    if not others and (is_only or not eqn.params["symbolic_zeros"]):
        return lines, f"{fwd}, {next(iter(backward.values()))}"
    chosen = _dict((places, f"({', '.join(each)})") for places, each in shown.items())
    return lines, f"*{parent.lifter.helper('by_perturbed')}({chosen})"


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
    eqn: Equation, frame: Frame, decorator: str, trace: Callable[[], _Rules]
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
    trace: Callable[[], _Rules],
) -> str:
    lifter = frame.lifter
    block: Block = eqn.params["call_jaxpr"]
    captured = eqn.operands[: eqn.params["num_consts"]]
    kept_name = block_name(block, "function")
    rules: _Rules | None = None
    if jaxapi.follows_rules(lifter.rule_names, kept_name, block.jaxpr):
        try:
            rules = trace()
        except _RuleError as failed:
            rules = _failing(eqn, failed.error, frame)
    is_nested = bool(captured) or (
        rules is not None and any(map(_has_tracers, rules.blocks))
    )
    hint = identifier(kept_name, "function")
    name = frame.names.fresh(hint) if is_nested else lifter.scope.fresh_global(hint)
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
) -> tuple[str, list[str]]:
    child = outer.child()
    captured = operands[:n_captured]
    child.env = _captured(block, captured, frame, child)
    groups = [Group("x", 1)] * (len(block.inputs) - n_captured)
    parameters = child.parameters(block, groups, n_captured, operands[n_captured:])
    child.body(block)
    child.returns(plain_results(block)(child))
    return parameters, child.lines


def _captured(
    block: Block, captured: Sequence[Atom], frame: Frame, child: Frame
) -> dict[Value, str]:
    """Name the values that a function closes over, as it names them.

    JAX finds them in the order in which they are read. Where a loop was differentiated,
    what it computes anew every time is moved out of it, and closed over in another order.
    """
    texts = dict(zip(block.inputs, frame.texts(captured)))
    distinct = list(dict.fromkeys(texts.values()))
    if hoists_in_order(block, captured) or len(distinct) == 1:
        return texts
    names = {text: child.names.fresh(identifier(text)) for text in distinct}
    helper = frame.lifter.helper("hoisted")
    target = unpacked(list(names.values()))
    child.lines.append(f"{target} = {helper}({', '.join(distinct)})")
    return {value: names[text] for value, text in texts.items()}


def _write_rules(
    rules: _Rules | None, eqn: Equation, name: str, outer: Frame
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
    return _raising_rules(eqn, name, f"NotImplementedError({quote(message)})", frame)


def _failing(eqn: Equation, error: Exception, frame: Frame) -> _Rules:
    """Describe rules that fail when traced: written, they fail in the same way."""
    lifter = frame.lifter
    text = exception_text(error, lifter)

    def write(name: str, parent: Frame) -> list[str]:
        where = " where every argument has a tangent" * eqn.params["symbolic_zeros"]
        lifter.note(f"The derivative rules of `{name}` fail in JAX{where}, too.")
        return _raising_rules(eqn, name, text, parent)

    return _Rules((), write)


def exception_text(error: Exception, lifter: Lifter) -> str:
    """Write an exception of the same class, or of one of its name, and the same text."""
    message = lifter.spell(str(error))
    try:
        kind = lifter.spell(type(error))
    except Unspellable:  # a class of a function
        name = lifter.spell(type(error).__name__)
        return f"type({name}, (Exception,), {{}})({message})"
    args = _alike(error)
    if args is None:
        return f"{lifter.helper('unmade')}({kind}, {message})"
    return f"{kind}({', '.join(map(lifter.spell, args))})"


def _alike(error: Exception) -> tuple[str, ...] | None:
    """Return arguments that make an exception of the same class and text, if any."""
    kind, message = type(error), str(error)
    candidates: list[tuple[str, ...]] = [(message,), ()]
    if all(type(arg) is str for arg in error.args):
        candidates.insert(0, error.args)
    # Constructors may take anything, and fail in any way on a text.
    with contextlib.suppress(Exception):
        # JAX's own errors add the address of a page that explains them.
        candidates.append((message.removesuffix(str(kind(""))),))
    for args in candidates:
        with contextlib.suppress(Exception):
            if str(kind(*args)) == message:
                return args
    return None


def _raising(name: str, error: Exception, frame: Frame) -> list[str]:
    lines = [f"raise {exception_text(error, frame.lifter)}"]
    return ["", "", *Function(name, "*args", lines).text_lines()]


def _raising_rules(eqn: Equation, name: str, error: str, parent: Frame) -> list[str]:
    rule = rule_name(f"{name}_rule", parent)
    lines = Function(rule, "*args", [f"raise {error}"]).text_lines()
    is_jvp = eqn.name == "custom_jvp_call"
    rules = (rule if is_jvp else f"{rule}, {rule}") + _symbolic(eqn)
    return [
        "",
        "",
        *lines,
        "",
        "",
        f"{name}.{'defjvp' if is_jvp else 'defvjp'}({rules})",
    ]


def _single_blanks(lines: list[str]) -> list[str]:
    """Keep one blank line where a module has two."""
    kept: list[str] = []
    for line in lines:
        if line or (kept and kept[-1]):
            kept.append(line)
    return kept
