"""Write the main function of a recorded computation: the one that the user gave."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture import Captured
from untrace.capture.inputs import has_state
from untrace.lifting.heads import Parameter
from untrace.lifting.printing import Function
from untrace.lifting.recorded.building import literal_term
from untrace.lifting.recorded.calls.callables import callable_term, decorator_term
from untrace.lifting.recorded.calls.calls import write_as_made
from untrace.lifting.recorded.expressions import static_term, value_term
from untrace.lifting.recorded.functions.annotations import annotate
from untrace.lifting.recorded.functions.parameters import number_name
from untrace.lifting.recorded.naming.naming import name_locals, targets
from untrace.lifting.recorded.naming.results import name_results
from untrace.lifting.recorded.naming.transformed import opened_name
from untrace.lifting.recorded.naming.unpacking import unpack_parameters
from untrace.lifting.recorded.naming.values import arrays_in
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.statements import write_body
from untrace.lifting.recorded.terms import Name, Term
from untrace.lifting.recorded.tree import Draft, Statement
from untrace.lifting.recorded.writer import Forms, Writer
from untrace.lifting.spelling.homes import public_name
from untrace.lifting.spelling.numbers import spell_float
from untrace.optional import gives, optional
from untrace.recovery.classifying import is_handed_over, passes_on
from untrace.recovery.defaults import all_defaults
from untrace.recovery.docstrings import docstring_of
from untrace.recovery.functions import innermost, peel
from untrace.recovery.instructions import instructions_of
from untrace.recovery.record import Body, Call, is_library
from untrace.recovery.targets import stored
from untrace.recovery.unflattening import unflattening
from untrace.syntax.names import identifier

FORMS = Forms(
    value=value_term,
    static=static_term,
    function=callable_term,
    body=write_body,
    as_made=write_as_made,
    targets=targets,
)


_STAGED = frozenset({"checkpoint", "jit", "pmap"})
"""Transformations that trace a function as a whole, whatever it is given."""


def main_function(captured: Captured, program: Program, name: str) -> Function:
    root: Body = captured.recording
    program.lifter.scope.reserve(parameter.name for parameter in captured.parameters)
    decorators: list[Term] = []
    is_jitted = False
    calls, result = root.calls, root.result
    values = root.parameters
    whole = _whole_call(root)
    if whole is not None:
        body = whole.bodies[-1]
        layer: Any = peel(whole.function)
        fixed = _fixed_positions(body, captured)
        while layer is not None and layer.kind == "transformed":
            made = layer.value
            if made.maker[1] != "jit" or not program.opens_jit():
                is_jitted |= made.maker[1] == "jit"
                writer = Writer(program, Draft(""), forms=FORMS)
                decorators.append(decorator_term(made, writer, fixed))
            layer = peel(layer.inner)
        calls, result = body.calls, body.result
        values = {n: body.parameters.get(n, v) for n, v in values.items()}
    elif len(root.calls) == 1 and program.options.name is None:
        name = _wrapper_name(root.calls[0], name)
    draft = Draft(name)
    writer = Writer(program, draft, setting=root.setting, forms=FORMS)
    writer.traced = root.traced
    for parameter in captured.parameters:
        made = Name(parameter.name, True, is_parameter=True)
        writer.define(values[parameter.name], made)
        if has_state(values[parameter.name]):
            program.modules.add(parameter.name)
        is_keyword = parameter.kind is parameter.kind.KEYWORD_ONLY
        draft.parameters.append(Parameter(made, is_keyword=is_keyword))
    shown = [values[p.name] for p in captured.parameters]
    program.named_sizes.update(_named_sizes(captured, shown))
    run = _main_run(whole, root)
    program.main_code = run.code
    writer.dropped = _static_names(run, captured)
    if run is not root and whole is None and _is_made_here(captured):
        program.plan.dissolved.add(_calls(root)[0])
    draft.doc = docstring_of(run.code)
    draft.code = None if is_library(run.code) else run.code
    program.is_wrapper = run is not root and is_library(run.code)
    if draft.code is not None:
        _hold_numbers(run, captured, writer)
    unpack_parameters(values, run.code, writer)
    _write_calls(calls, writer)
    if not program.is_one_call:
        name_locals(run.locals, writer)
        name_results(result, run.locals, writer)
    draft.result = writer.value(result)
    if not is_jitted and _hoists(calls):
        decorators.append(program.home_term(("jax", "jit")))
    draft.decorators = decorators
    named = {p.name: values[p.name.hint] for p in draft.parameters}
    known = _with_function(run, captured)
    annotate(draft, named, result, writer, known, shown)
    program.finish(draft)
    made_function = program.render(draft)
    made_function.again = lambda: program.render(draft)
    program.drafts[made_function] = draft
    made_function.names = (name,)
    made_function.name = program.lifter.scope.fresh_global(name)
    return made_function


@optional(gives(None))
def _hold_numbers(run: Body, captured: Captured, writer: Writer) -> None:
    """Write the numbers that parameters held which are fixed, or by default: `dt = 0.001`.

    They are variables, and no parameters: what the program does with others is not known.
    What the function itself gives another value is left out.
    """
    given = {parameter.name for parameter in captured.parameters}
    changed = {n for one in instructions_of(run.code)[0] for n in stored(one)}
    for name, value in run.parameters.items():
        is_left = identifier(name, "arg") not in given and name not in changed
        if type(value) in (int, float) and is_left:
            held = number_name(name, value, writer)
            literal = literal_term(value, spell_float(value))
            writer.draft.statements.append(Statement(held, literal))
            writer.n_formulas += 1


def _write_calls(calls: Sequence[Call], writer: Writer) -> None:
    """Write the calls of what the user's own function does, which a library may have made."""
    is_weak, first = False, [one for one in calls if one.function is unflattening]
    rest = [one for one in calls if one not in first]
    if len(rest) == 1 and rest[0].is_own:
        body = rest[0].bodies[0]
        if first:
            writer.body(first)
        calls, is_weak = body.calls, is_library(body.code)
    writer.n_dissolving += is_weak
    writer.body(calls)
    writer.n_dissolving -= is_weak


def _with_function(run: Body, captured: Captured) -> Body:
    """Return a run with the function that the user gave, if it is the run of that."""
    given = captured.convention.function if captured.convention else None
    function = innermost(given)
    is_that = function is not None and function.__code__ is run.code
    return replace(run, defined=function) if is_that else run


def _static_names(run: Body, captured: Captured) -> frozenset[str]:
    """Return the parameters that got static arguments, and not what they are by default."""
    function = _with_function(run, captured).defined
    defaults = all_defaults(function) if function is not None else {}
    left = {parameter.name for parameter in captured.parameters} | defaults.keys()
    return frozenset(run.parameters.keys() - left)


def _named_sizes(captured: Captured, shown: Sequence[Any]) -> dict[int, Sequence[Any]]:
    """Return the shapes of arrays with the names of their sizes, by their `id`.

    They are those of the inputs, and those that functions were given and returned.
    """
    if captured.dimensions is None:
        return {}
    arrays = [array for value in shown for array in arrays_in(value)]
    shapes = captured.dimensions.shapes
    inputs = zip(arrays, shapes) if len(arrays) == len(shapes) else ()
    pairs = [*captured.dimensions.arrays, *inputs]
    return {id(array): shape for array, shape in pairs}


def _is_made_here(captured: Captured) -> bool:
    """Whether this package made the function around what the user gave it."""
    function = captured.convention.function if captured.convention else None
    code = getattr(function, "__code__", None)
    return code is not None and passes_on(code.co_filename) and not is_handed_over(code)


def _fixed_positions(body: Body, captured: Captured) -> frozenset[int]:
    """Return the positions of the arguments that are no parameters of the program."""
    names = {parameter.name for parameter in captured.parameters}
    own = [identifier(name, "arg") for name in body.parameters]
    return frozenset(i for i, name in enumerate(own) if name not in names)


def _main_run(whole: Call | None, root: Body) -> Body:
    """Return the run of the user's own function."""
    if whole is not None:
        return whole.bodies[-1]
    calls = _calls(root)
    if len(calls) == 1 and calls[0].is_own:
        return calls[0].bodies[0]
    return root


def _calls(root: Body) -> list[Call]:
    """List the calls of a program but for those that move arrays in and out of objects.

    JAX calls these, and what classes do then, where the program is given such.
    """
    return [
        item
        for item in root.calls
        if item.function is not unflattening
        and (not item.is_own or item.bodies[0].calls)
    ]


def _whole_call(root: Body) -> Call | None:
    """Return the call of a jitted or checkpointed function that is all of the program."""
    calls = _calls(root)
    if len(calls) != 1 or root.traced:
        return None
    item = calls[0]
    made = item.function
    if not isinstance(made, jaxapi.Transformed) or not item.bodies:
        return None
    names = list(root.parameters)
    function: Any = made
    while True:
        layer = peel(function)
        if layer is None or layer.kind not in ("transformed", "function"):
            return None
        if layer.kind == "function":
            break
        if layer.value.maker[1] not in _STAGED:
            return None
        function = layer.inner
    body = item.bodies[-1]
    if body.function is not layer.value or not set(item.kwargs) <= set(body.parameters):
        return None
    if not set(names) <= set(body.parameters):
        return None
    returned = [id(array) for array in arrays_in(root.result)]
    return item if returned == [id(array) for array in arrays_in(item.result)] else None


def _hoists(calls: Iterable[Call]) -> bool:
    """Whether what the program computes depends on which of its values are traced.

    `jax.closure_convert` makes arguments of the traced values that a function closes
    over, and of no others. The text gives as many as there were while recording, so it
    has to be traced wherever it runs.
    """
    for item in calls:
        if item.function is jax.closure_convert:
            if item.result[1]:
                return True
        elif (
            item.bodies
            and not _is_staged(item)
            and any(_hoists(body.calls) for body in item.bodies)
        ):
            return True
    return False


def _is_staged(item: Call) -> bool:
    """Whether JAX traces the functions of a call, whatever it is given."""
    if isinstance(item.function, jaxapi.Transformed):
        return item.function.maker[1] in _STAGED
    home = None if item.function is None else public_name(item.function)
    return home is not None and home[0].startswith("jax.lax")


def _wrapper_name(item: Call, name: str) -> str:
    """Name a program that is one call of a transformed function."""
    is_made = not item.is_own and isinstance(item.function, jaxapi.Transformed)
    return opened_name(item.function, item.args) if is_made else name
