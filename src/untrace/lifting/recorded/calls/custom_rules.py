"""Define functions with derivative rules: `jax.custom_jvp` and `jax.custom_vjp`.

Rules that the recorded run did not need are traced apart, at the recorded types.
"""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.errors import LiftingError
from untrace.lifting.blocks.raising_rules import exception_text
from untrace.lifting.heads import ANY_ARGUMENTS
from untrace.lifting.lifter import Lifter
from untrace.lifting.printing import Function
from untrace.lifting.recorded.building import call, display, keyword, literal_term
from untrace.lifting.recorded.calls.arguments import plain_arguments
from untrace.lifting.recorded.calls.batching_rules import batching_term
from untrace.lifting.recorded.calls.open_rules import open_rules
from untrace.lifting.recorded.calls.perturbed import perturbed_rules, refuse_lost
from untrace.lifting.recorded.calls.rule_arguments import (
    kind,
    positional_arguments,
)
from untrace.lifting.recorded.calls.rule_places import has_own_rules, place_rules
from untrace.lifting.recorded.calls.zero_tangents import chosen_rule, zero_cases
from untrace.lifting.recorded.functions.definitions import define
from untrace.lifting.recorded.functions.function_arguments import passed_term
from untrace.lifting.recorded.functions.function_values import (
    all_runs_of,
    is_passed,
    mark,
)
from untrace.lifting.recorded.functions.runs import runs_of, wrapped
from untrace.lifting.recorded.naming.values import arrays_in
from untrace.lifting.recorded.plan import Plan
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.readers import public_readers
from untrace.lifting.recorded.terms import Global, Term, is_global
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.apart import (
    perturbable,
    trace_gradient,
    trace_primal,
    trace_rules,
)
from untrace.recovery.functions import innermost, peel, positional, rules
from untrace.recovery.record import Body, Call
from untrace.stages import staged
from untrace.syntax.importable import public_home
from untrace.syntax.names import identifier


def custom_term(function: Any, bodies: Sequence[Body], writer: Writer) -> Term:
    """Define a function with its derivative rules, once; return its name.

    Args:
      function: What `jax.custom_jvp`, `jax.custom_vjp` or `custom_vmap` made.
      bodies: The runs in the call that is written.
      writer: Writes the function around it.

    Raises:
      Unwritable: If it cannot be defined.
    """
    if isinstance(function, jaxapi.CUSTOM_VMAP):
        return batching_term(function, bodies, writer)
    return _defined(function, bodies, writer, (), frozenset())


def custom_call(item: Call, writer: Writer) -> Term:
    """Write a call of a function with derivative or batching rules.

    Fixed arguments are no parameters, except for functions.
    """
    function, program = item.function, writer.program
    args, kwargs = positional_arguments(function, item.args, item.kwargs)
    if isinstance(function, jaxapi.CUSTOM_VMAP):
        made = batching_term(function, item.bodies, writer, args)
        return call(made, plain_arguments(args, kwargs, writer))
    if id(function) in program.plan.imported:
        made = _imported(function, program)
        return call(made, plain_arguments(args, kwargs, writer))
    passed = _passed(function, args, program.plan)
    made = _defined(function, item.bodies, writer, args, frozenset(passed))
    terms: list[Term] = []
    for i, value in enumerate(args):
        if i in passed:
            bodies = item.bodies
            if not all_runs_of(value, bodies):
                bodies = [_primal(function, bodies, args, program)]
            terms.append(passed_term(value, passed[i], bodies, writer))
        elif i not in function.nondiff_argnums:
            terms += plain_arguments([value], {}, writer)
    return call(made, [*terms, *plain_arguments((), kwargs, writer)])


def _imported(function: Any, program: Program) -> Term:
    """Import a function whose rules call it at ever new fixed arguments, without end."""
    module, name = public_home(function)
    program.lifter.note(
        f"`{name}` is imported from {module}: its derivative rules call it at ever new fixed "
        "arguments, and no file could hold them all."
    )
    return Term([Global(program.lifter.imports.attribute(module, name))])


def _passed(
    function: Any, args: Sequence[Any], plan: Plan
) -> dict[int, tuple[types.CodeType, str]]:
    """Return the parameters for fixed arguments that are functions, by position."""
    plain = innermost(function)
    if plain is None:
        return {}
    code = plain.__code__
    n_named = min(len(args), code.co_argcount)
    names = {i: code.co_varnames[i] for i in function.nondiff_argnums if i < n_named}
    return {
        i: (code, name)
        for i, name in names.items()
        if is_passed(args[i], name, code, plan)
    }


def _defined(
    function: Any,
    bodies: Sequence[Body],
    writer: Writer,
    args: Sequence[Any],
    passed: frozenset[int],
) -> Term:
    """Define a function with its rules; `passed` are fixed arguments that are passed.

    It is written once for each kind of arguments; variants of the same text are one.
    """
    customs = writer.program.customs
    if not args:
        ran = writer.program.runs.last(function, bodies)
        args = [] if ran is None else positional(function, ran)
    fixed = [i for i in function.nondiff_argnums if i not in passed]
    same_text = (id(function), passed, *[mark(args[i]) for i in fixed if i < len(args)])
    # What is done with them is often up to the functions that it is passed.
    key = (same_text, None if passed else kind(args, function.nondiff_argnums))
    known = customs.get(key)
    if known is not None:
        return known
    if jaxapi.gradient_function(function) is not None:
        made = _gradient_term(function, bodies, writer)
        if is_global(made):
            customs[key] = made
        return made
    body = _primal(function, bodies, args, writer.program)
    if _is_told_of_zeros(function):
        refuse_lost(body)
    maker, method = _spelling(function)
    given = [i for i in function.nondiff_argnums if i in passed]
    decorator = _decorator(maker, given, fixed, writer.program)
    # What rules of rules in regions go on from.
    names = writer.program.lifter.rule_names
    defined_by = partial(
        *(define, function, body, writer, [decorator]),
        fixed=fixed,
        keeps_defaults=True,
    )
    for text_key in (same_text, key):
        made = defined_by(key=text_key)
        customs[key] = made  # its rules may call it
        names.append(function_name(innermost(function) or function.fun))
        try:
            with open_rules(function, writer.program.open_customs, writer.program.plan):
                defined = _rules(function, body, bodies, fixed, writer)
        finally:
            names.pop()
        if is_global(made) and has_own_rules(made, defined, writer):
            made = defined_by(is_inner=True)
        if place_rules(made, method, defined, _options(function), writer):
            break  # else a variant of the same text has other rules
    if not is_global(made):
        del customs[key]
    return made


def _gradient_term(function: Any, bodies: Sequence[Body], writer: Writer) -> Term:
    """Define a function with `jax.custom_gradient`, which returns its rule, too."""
    program, given = writer.program, jaxapi.gradient_function(function)
    run = program.runs.last(function, bodies)
    if run is None:
        raise Unwritable(f"`{function_name(given)}` was not run")
    body, rule = program.plan.apart.once(
        (id(function), id(run)), lambda: trace_gradient(given, run, public_readers)
    )
    program.runs.last(body.result[1], [rule])  # the result is written by this run
    decorator = program.home_term(("jax", "custom_gradient"))
    if jaxapi.gradient_has_logs(function):
        decorator = call(decorator, [keyword("with_logs", literal_term(True))])
    return define(given, body, writer, [decorator])


def _decorator(
    maker: str, passed: Sequence[int], fixed: Sequence[int], program: Program
) -> Term:
    """Write `jax.custom_vjp`, or a partial of it with the functions that it is given."""
    home = program.home_term(("jax", maker))
    if not passed:
        return home
    left = [i - sum(j < i for j in fixed) for i in passed]
    positions = display("()", map(literal_term, left))
    partial = f"{program.lifter.imports.module('functools')}.partial"
    return call(Term([partial]), [home, keyword("nondiff_argnums", positions)])


def _spelling(function: Any) -> tuple[str, str]:
    """Return the name of its decorator, and of the method that defines its rules."""
    is_jvp = isinstance(function, jaxapi.CUSTOM_JVP)
    if jaxapi.elementwise_rules(function):
        method = "defjvps"
    else:
        method = "defjvp" if is_jvp else "defvjp"
    return "custom_jvp" if is_jvp else "custom_vjp", method


def _options(function: Any) -> list[Term]:
    """Write the options that its rules were defined with."""
    return [
        keyword(option, literal_term(True))
        for option in ("symbolic_zeros", "optimize_remat")
        if getattr(function, option, False)
    ]


def _primal(
    function: Any, bodies: Sequence[Body], args: Sequence[Any], program: Program
) -> Body:
    """Return a run of a function, tracing it if only its rules ran."""
    body = program.runs.last(function, bodies)
    if body is not None and _was_given(function, body, args):
        return body
    args = args or _given_to_rule(function, bodies)
    if not args:
        raise Unwritable(f"`{function_name(function.fun)}` was not run")
    traced = program.plan.apart.once(
        (id(function), *map(id, args)),
        lambda: trace_primal(function, args, public_readers),
    )
    return wrapped(innermost(function), traced)


def _given_to_rule(function: Any, bodies: Sequence[Body]) -> list[Any]:
    """Return the arguments of a function as a run of its forward rule shows them."""
    is_jvp = isinstance(function, jaxapi.CUSTOM_JVP)
    if (is_jvp and _is_symbolic(function)) or jaxapi.elementwise_rules(function):
        return []
    runs = [run for rule in rules(function)[:1] for run in runs_of(rule, bodies)]
    if not runs:
        return []
    held = positional(rules(function)[0], runs[-1])
    if not is_jvp:
        return held
    positions = sorted(function.nondiff_argnums)
    if len(held) != len(positions) + 2:
        return []  # it takes primals and tangents in other ways
    args = list(held[-2])
    for position, value in zip(positions, held):
        args.insert(position, value)
    return args


def _was_given(function: Any, body: Body, args: Sequence[Any]) -> bool:
    """Whether a run had the arguments of a call: equal fixed ones, and such trees."""
    held = positional(function, body)
    fixed = function.nondiff_argnums
    positions = [i for i in fixed if i < len(args)]
    return kind(held, fixed) == kind(args, fixed) and all(
        mark(held[i]) == mark(args[i]) for i in positions
    )


def _rules(
    function: Any,
    body: Body,
    bodies: Sequence[Body],
    fixed: Sequence[int],
    writer: Writer,
) -> list[Term]:
    """Define the derivative rules of a function without its fixed arguments."""
    first = [n for n, i in enumerate(function.nondiff_argnums) if i in fixed]
    made: list[Term] = []
    if _is_told_of_zeros(function):

        def raising(error: Exception) -> Term:
            return _raising_rule(function, error, writer.program.lifter)

        return [perturbed_rules(function, body, fixed, first, raising, writer)]
    try:
        runs = _rule_runs(function, body, bodies, writer.program)
    except LiftingError:
        raise
    except Exception as error:  # the user's code, which may raise anything
        rule = _raising_rule(function, error, writer.program.lifter)
        made = [rule] * len(rules(function))
        runs = []
    for rule, run in zip(rules(function), runs):
        if run is None:
            made.append(Term(["None"]))
            continue
        is_forward = rule is getattr(function, "fwd", None)
        positions, run = fixed if is_forward else first, wrapped(innermost(rule), run)
        if not positions and _is_transformed(rule):
            made.append(writer.forms.function(rule, [run], writer))
            continue
        made.append(define(rule, run, writer, fixed=positions, keeps_defaults=True))
    all_fixed = len(first) == len(function.nondiff_argnums)
    if _is_symbolic(function) and len(made) == 1 and all_fixed:
        return [_with_zeros(function, made[0], body, first, writer)]
    return made


def _is_transformed(rule: Any) -> bool:
    """Whether a rule is what a transformation made, such as `jax.jit`."""
    layer = peel(rule)
    return layer is not None and layer.kind == "transformed"


def _with_zeros(
    function: Any, general: Term, body: Body, first: Sequence[int], writer: Writer
) -> Term:
    """Define the rule for the symbolic zeros that it was given, and that it may be."""
    program, (rule,) = writer.program, rules(function)
    plain = innermost(rule)
    if plain is None:
        return general
    values = positional(function, body)
    fixed = set(function.nondiff_argnums)
    dynamic = [value for i, value in enumerate(values) if i not in fixed]
    can = perturbable(dynamic)
    _, *alone = jaxapi.tangent_choices(can)
    possible = [tuple([not given for given in each]) for each in alone]
    ran = zero_cases(plain.__code__, program.plan.recording)
    ran += [
        tuple([not given for given in case.given])
        for case in program.lifter.rule_cases.used_by(plain.__code__)
    ]
    cases: dict[tuple[bool, ...], Term] = {}
    tried = [
        zeros
        for zeros in dict.fromkeys([*ran, *possible])
        if len(zeros) == len(can) and any(zeros)
    ]
    for zeros in tried:
        try:
            (run,) = program.plan.apart.once(
                (id(function), id(body), zeros),
                partial(trace_rules, function, body, public_readers, zeros),
            )
        except LiftingError:
            raise
        except Exception:  # another function with a rule of this code ran so
            continue
        assert run is not None
        cases[zeros] = define(rule, run, writer, fixed=first, keeps_defaults=True)
    name = function_name(innermost(function) or function.fun)
    are_all = len(tried) + 1 >= 2 ** sum(can) - 1
    return chosen_rule(name, general, cases, program.lifter, are_all)


def _raising_rule(function: Any, error: Exception, lifter: Lifter) -> Term:
    """Define a rule that fails as those of a function do when they are traced."""
    name = function_name(innermost(function) or function.fun)
    where = " where every argument has a tangent" if _is_symbolic(function) else ""
    lifter.note(f"The derivative rules of `{name}` fail in JAX{where}, too.")
    rule = lifter.scope.fresh_global(identifier(f"{name}_rule", "rule"))
    lines = [f"raise {exception_text(error, lifter)}"]
    lifter.functions.append(Function(rule, ANY_ARGUMENTS, lines))
    return Term([Global(rule)])


def _is_symbolic(function: Any) -> bool:
    return bool(getattr(function, "symbolic_zeros", False))


def _is_told_of_zeros(function: Any) -> bool:
    """Whether the rules of a `jax.custom_vjp` are told of symbolic zeros."""
    return _is_symbolic(function) and not isinstance(function, jaxapi.CUSTOM_JVP)


@staged("derivative rules")
def _rule_runs(
    function: Any, body: Body, bodies: Sequence[Body], program: Program
) -> list[Body | None]:
    """Return a run of each derivative rule, tracing those that were not needed.

    Runs that were given numbers, as where the function is differentiated, do not show
    where these are used; they do for rules that need to know them.
    """
    held: dict[Any, Body] = {}
    if not _is_symbolic(function):
        codes = {getattr(innermost(r), "__code__", None): r for r in rules(function)}
        ran = [run for run in bodies if run.is_finished and run.code in codes]
        held = {codes[run.code]: run for run in ran if _are_distinct(run)}
    is_known = len(held) == len(rules(function))
    if not is_known or _was_given_numbers(function, held):
        try:
            return program.plan.apart.once(
                (id(function), id(body)),
                lambda: trace_rules(function, body, public_readers),
            )
        except Exception:  # the user's rule, which may take nothing but numbers there
            if not is_known:
                raise
    return [held[rule] for rule in rules(function)]


def _are_distinct(run: Body) -> bool:
    """Whether a run shows which of its arguments is used where."""
    arrays = list(map(id, arrays_in(list(run.parameters.values()))))
    return len(set(arrays)) == len(arrays)


def _was_given_numbers(function: Any, held: Mapping[Any, Body]) -> bool:
    """Whether the first rule was given numbers for arguments that are not fixed."""
    rule = rules(function)[0]
    values = positional(rule, held[rule])
    if isinstance(function, jaxapi.CUSTOM_JVP):  # what is fixed, primals and tangents
        given = values[-2] if len(values) > 1 else ()
    else:
        fixed = set(function.nondiff_argnums)
        given = [value for i, value in enumerate(values) if i not in fixed]
    kinds = (bool, int, float, complex)
    return any(isinstance(leaf, kinds) for leaf in jax.tree.leaves(given))
