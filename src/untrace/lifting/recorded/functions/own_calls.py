"""Write calls of the user's functions, and of libraries': as calls, or what they do.

What a function needs from outside becomes a parameter: the smallest sub-tree.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Mapping, Sequence
from typing import Any

from untrace.lifting.heads import Parameter
from untrace.lifting.recorded.building import call, keyword, starred
from untrace.lifting.recorded.expressions import built, constant_term, with_numbers
from untrace.lifting.recorded.functions.annotations import annotate
from untrace.lifting.recorded.functions.function_arguments import (
    passed_term,
    write_given_call,
)
from untrace.lifting.recorded.functions.function_names import start
from untrace.lifting.recorded.functions.function_values import Given
from untrace.lifting.recorded.functions.held_numbers import by_value, held_by
from untrace.lifting.recorded.functions.keywords import keywords_of
from untrace.lifting.recorded.functions.needs import Kept
from untrace.lifting.recorded.functions.parameters import (
    grouped,
    own_parameters,
    trailing_defaults,
)
from untrace.lifting.recorded.naming.naming import name_locals, name_nameless, rename
from untrace.lifting.recorded.naming.results import name_results
from untrace.lifting.recorded.naming.unpacking import unpack_parameters
from untrace.lifting.recorded.naming.values import tree_key
from untrace.lifting.recorded.terms import Global, Name, Term
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.unify.places import number_term
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.numbers import spell_float
from untrace.recovery.record import Body, Call, is_library
from untrace.syntax.names import identifier


def write_own_call(item: Call, writer: Writer) -> None:
    """Write a call of a Python function."""
    body = item.bodies[0]
    function = writer.given_function(body)
    if function is not None and item not in writer.program.plan.dissolved:
        write_given_call(item, function, writer)
        return
    if not writer.program.is_dissolved(item):
        _write_kept(item, body, writer)
        return
    is_weak = is_library(body.code)
    trail, turn, was_library = writer.trail, writer.turn, writer.is_library
    writer.n_dissolving += is_weak
    writer.is_library = was_library and is_weak  # the user's function in a wrapper
    writer.trail, writer.turn = (*trail, item.place), (*item.turn, *turn)
    writer.body(body.calls)
    name_locals(body.locals, writer)
    writer.n_dissolving -= is_weak
    writer.trail, writer.turn, writer.is_library = trail, turn, was_library
    rename(item.result, item.target, writer)


def _write_kept(item: Call, body: Body, writer: Writer) -> None:
    """Define a function of the module, or one that the program passes on, and call it."""
    program = writer.program
    shown = program.plan.shown(item)
    draft = start(body, program.plan.levels, is_called=True)
    is_nested = _stays_inside(body.code, writer)
    inner = Writer(
        program,
        draft,
        parent=writer if is_nested else None,
        caller=None if is_nested else writer,
        is_library=is_library(body.code),
        setting=body.setting,
    )
    inner.given = Given(body)
    draft.code = None if inner.is_library else body.code
    made = own_parameters(item, inner)
    program.open_calls.append(item)
    unpack_parameters(body.parameters, body.code, inner)
    inner.body(body.calls)
    name_locals(body.locals, inner)
    handed_on = program.plan.handed_on.get(item, ())
    hints = [(id(one.value), identifier(one.hint)) for one in handed_on if one.hint]
    name_nameless(hints, inner)
    name_results(shown.result, body.locals, inner)
    draft.result = inner.value(shown.result)
    annotate(draft, dict(made), shown.result, inner, body, [value for _, value in made])
    program.open_calls.pop()
    program.finish(draft)
    stars = {} if inner.is_library else _stars(body.code)
    arguments = _arguments(made, inner, writer, stars, item)
    if is_nested:
        writer.assign(item, call(writer.nest(draft), arguments), shown)
        writer.lose(item, shown)
        return
    is_plain = all(one.lead is None for one in arguments)
    passed: dict[str, str] = {}
    function = program.function(
        draft,
        keywords=keywords_of(item),
        passed=passed if is_plain else None,
        **held_by(body, item.turn, program),
    )
    if passed:
        names = [one.name for one in function.parameters]
        front = names.index(next(iter(passed)))
        arguments[front:front] = map(number_term, passed.values())
    term = call(Term([Global(function)]), arguments)
    statement = writer.assign(item, term, shown)
    statement.roles = {**by_value(passed), **statement.roles}
    writer.lose(item, shown)
    if inner.is_library and not program.n_trials:
        is_part = writer.is_library and body.code.co_name != "__call__"
        caller = writer.draft if is_part else None
        opens = writer.in_library and not program.options.keep_types
        kept = Kept(
            *(item, shown.result, statement, function, opens),
            *(draft, writer.draft, arguments, term.tokens(), caller),
        )
        program.references.kept.append(kept)


def _stays_inside(code: types.CodeType, writer: Writer) -> bool:
    """Whether a function is defined inside of its caller, which also passes it on.

    It closes over what it needs then, however it is called.
    """
    around = writer.draft.code
    is_inner = around is not None and any(one is code for one in around.co_consts)
    return is_inner and writer.program.plan.is_passed(code)


def _stars(code: types.CodeType) -> dict[str, str]:
    """Return the parameters that take what is left of the arguments, with their stars."""
    names = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    flags = (inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")
    given = [stars for flag, stars in flags if code.co_flags & flag]
    return dict(zip(map(identifier, names), given))


def _arguments(
    made: list[tuple[Name, Any]],
    inner: Writer,
    writer: Writer,
    stars: Mapping[str, str],
    item: Call,
) -> list[Term]:
    """Give a function the parameters that it uses; return what is passed by them."""
    draft = inner.draft
    used = [(name, value) for name, value in made if name.uses or name.captured]
    rest = [(name, value) for name, value in used if name.hint in stars]
    named = [(name, value) for name, value in used if name.hint not in stars]
    defaults = {} if rest else trailing_defaults(named, item.bodies[0].defaults)
    n_given = _count_given(named, defaults, item)
    arguments = _positional(named[:n_given], item, inner, writer)
    for name, _ in named:
        text = spell_float(defaults[name.hint]) if name.hint in defaults else ""
        draft.parameters.append(Parameter(name, text))
    if inner.lifted:
        draft.types = ""
    front, back = 0, len(named) - len(defaults)
    keywords = {key for _, value in rest if isinstance(value, dict) for key in value}
    for name, origin in grouped(inner, item.bodies[0]):
        if name.hint in keywords:  # which Python would take for this parameter
            name.hint += "_2"
        is_weight = name.is_tree or bool(origin[1])
        place = front if is_weight else back
        front, back = front + is_weight, back + 1
        draft.parameters.insert(place, Parameter(name))
        arguments.insert(place, writer.reach(origin, name.is_tree))
    for name, value in rest:
        draft.parameters.append(Parameter(name, stars=stars[name.hint]))
        if isinstance(value, dict):
            arguments += [keyword(k, writer.value(v, k)) for k, v in value.items()]
        else:
            arguments += [writer.value(part) for part in value]
    return arguments


def _positional(
    given: Sequence[tuple[Name, Any]], item: Call, inner: Writer, writer: Writer
) -> list[Term]:
    """Write what is passed by parameters, in order: `*state`, if the caller did so."""
    arguments: list[Term] = []
    position = 0
    while position < len(given):
        values = [value for _, value in given[position:]]
        whole = None if inner.lifted else _starred(values, item, writer)
        if whole is None:
            arguments.append(_argument(given[position], item, inner, writer))
            position += 1
        else:
            arguments.append(starred(writer.value(whole)))
            position += len(whole)
    return arguments


def _starred(
    values: Sequence[Any], item: Call, writer: Writer
) -> tuple[Any, ...] | None:
    """Return a tuple with a name that the first of some values are all of."""
    if item.spelling is not None:  # there is no star
        return None
    for _, held in item.containers:
        if not isinstance(held, tuple) or not 1 < len(held) <= len(values):
            continue
        found = writer.find(writer.values.key(held))
        is_whole = all(a is b for a, b in zip(held, values))
        if is_whole and found is not None and not found[1]:
            return held
    return None


def _argument(
    pair: tuple[Name, Any], item: Call, inner: Writer, writer: Writer
) -> Term:
    """Write what is passed by a parameter."""
    name, value = pair
    body = item.bodies[0]
    if inner.given.takes(value):
        return passed_term(value, (body.code, name.hint), [body], writer)
    if (id(body.code), name.hint) in writer.program.plan.whole:
        return _whole(name, value, writer)
    if name.hint in item.constants and type(value) is float:
        return constant_term(value, writer)
    return writer.value(value, name.hint)


def _whole(name: Name, value: Any, writer: Writer) -> Term:
    """Build an object that is passed; it has the name of the parameter."""
    tree, arrays = with_numbers(value, writer)
    writer.program.rearranged.append(tree)
    key = tree_key(tree, arrays)
    if writer.find(key) is None:
        made = Name(name.hint, True)
        term = built(tree, arrays, writer)
        writer.define(value, made)
        writer.values.add(key, made)
        writer.draft.statements.append(Statement(made, term))
    return built(tree, arrays, writer)


def _count_given(
    named: Sequence[tuple[Name, Any]], defaults: Mapping[str, float], item: Call
) -> int:
    """Count the arguments that are passed: those behind have their defaults."""
    spelled = item.spelling.keywords if item.spelling else ()
    for n_given in range(len(named), 0, -1):
        name, value = named[n_given - 1]
        default = defaults.get(name.hint)
        has_default = type(value) in (int, float) and repr(value) == repr(default)
        if not has_default or name.hint in spelled:
            return n_given
    return 0
