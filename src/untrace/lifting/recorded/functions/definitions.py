"""Define functions that were passed to transformations, by one of their runs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from untrace.lifting.heads import Parameter
from untrace.lifting.recorded.building import call, keyword, text_term
from untrace.lifting.recorded.expressions import without_objects
from untrace.lifting.recorded.functions.annotations import annotate
from untrace.lifting.recorded.functions.function_names import start
from untrace.lifting.recorded.functions.function_values import Given, is_empty_tree
from untrace.lifting.recorded.functions.held_numbers import held_by
from untrace.lifting.recorded.functions.library import (
    lambda_term,
    operator_function,
    shortened,
)
from untrace.lifting.recorded.functions.nested import seen
from untrace.lifting.recorded.functions.parameters import (
    grouped,
    passed_parameters,
    with_used_defaults,
)
from untrace.lifting.recorded.naming.naming import name_locals
from untrace.lifting.recorded.naming.results import name_results
from untrace.lifting.recorded.naming.unpacking import unpack_parameters
from untrace.lifting.recorded.naming.values import has_array
from untrace.lifting.recorded.printing import free_name
from untrace.lifting.recorded.terms import Global, Name, Term
from untrace.lifting.recorded.tree import Draft
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.defaults import all_defaults
from untrace.recovery.functions import (
    already_bound,
    closed_over,
    innermost,
    n_bound_starred,
)
from untrace.recovery.record import Body, is_library
from untrace.recovery.snapshots import is_copy
from untrace.syntax.precedence import LAMBDA


def define(
    function: Any,
    body: Body,
    writer: Writer,
    decorators: Sequence[Term] = (),
    fixed: Iterable[int] = (),
    key: Any = None,
    drops_static: bool = False,
    is_called: bool = False,
    kept: frozenset[str] = frozenset(),
    keeps_defaults: bool = False,
    is_run: bool = False,
    is_jitted: bool = False,
    static: Callable[[int, Sequence[str]], str] | None = None,
    passed: dict[str, str] | None = None,
    is_inner: bool = False,
) -> Term:
    """Define a function that is passed to a transformation; return its name.

    Args:
      function: The function, with what is bound of its arguments.
      body: The run that is written.
      writer: Writes the function around it.
      decorators: What is written above it.
      fixed: The positions of parameters that are dropped.
      key: Tells it apart from functions of the same text.
      drops_static: Whether parameters that hold no arrays are dropped.
      is_called: Whether it is called at once.
      kept: Parameters that hold no arrays and are not dropped all the same.
      keeps_defaults: Whether parameters that hold their defaults are not dropped, since
        JAX gives all of them.
      is_run: Whether a decorator runs it at once.
      is_jitted: Whether it is passed to `jax.jit`, which knows it by its name.
      static: Writes the decorator where parameters of some names are static, which
        come after so many others.
      passed: Gets the numbers that a call has to pass, if it is called at once.
      is_inner: Whether it is defined inside the function around it in any case.
    """
    program = writer.program
    draft = start(body, program.plan.levels, is_decorated=is_jitted or bool(decorators))
    is_module = body.code.co_name == "__call__" and not (decorators or is_called)
    parent, caller = (None, writer) if is_module else (writer, None)
    is_foreign = is_library(body.code)
    inner = Writer(program, draft, parent, caller, is_foreign, is_module, body.setting)
    inner.given = Given(body)
    bound = {} if decorators else bound_values(function, body)
    dropped = bound_parameters(function, body, keeps_defaults) - bound.keys()
    dropped |= {n for i, n in enumerate(body.parameters) if i in set(fixed)}
    if drops_static:
        dropped |= static_names(body) - kept - bound.keys()
    inner.dropped = frozenset(dropped)
    if body in program.open_runs:  # the one that it is called in, for want of its own
        raise Unwritable(f"`{body.code.co_name}` was not run where it calls itself")
    program.open_runs.append(body)
    try:
        free = {} if parent is None else closed_over(function)
        n_bound = n_bound_starred(function, body.code)
        _write_run(body, dropped, inner, free, bool(decorators), n_bound)
    finally:
        program.open_runs.pop()
    used = {p.name.hint for p in draft.parameters if p.name.uses or p.name.captured}
    unused = bound.keys() - used
    draft.parameters = [p for p in draft.parameters if p.name.hint not in unused]
    draft.decorators, draft.static, draft.is_run = list(decorators), static, is_run
    if is_run and body.code.co_name == "_":
        draft.name = "_"
    program.finish(draft)
    if inner.lifted:
        made = _of_module(inner, writer)
        if made is not None:
            return made
    is_lambda = (
        draft.name == "function" and not bound
    ) or body.code.co_name == "<lambda>"
    if inner.is_library and not is_called:
        sign = operator_function(draft)
        if sign is not None:
            return program.home_term(sign)
    if is_lambda and not (draft.statements_left() or decorators or is_called):
        return lambda_term(draft)
    if inner.is_library and not (is_lambda or is_called):
        starred = {n: len(v) for n, v in body.parameters.items() if type(v) is tuple}
        jit = program.home_term(("jax", "jit"))
        is_bare = [d.parts for d in decorators] == [jit.parts]
        short = None if decorators and not is_bare else shortened(draft, starred)
        if short and (is_jitted or is_bare) and len(short.parts) > 1:
            short = None  # JAX would know a lambda by no name
        if short is not None:
            return call(jit, [short]) if is_bare else short
    if (
        is_run
        or is_inner
        or inner.is_closure
        or any(list(d.refs()) for d in decorators)
        or _sees(draft)
    ):
        made = writer.nest(draft)
    else:
        held = {} if static is None else held_by(body, (), program, is_static=True)
        made = Term([Global(program.function(draft, key, passed=passed, **held))])
    terms = _bound_terms(
        function, {n: v for n, v in bound.items() if n in used}, body, writer
    )
    return call(_partial(writer), [made, *terms]) if terms else made


def _partial(writer: Writer) -> Term:
    return writer.program.home_term(("functools", "partial"))


def bound_values(function: Any, body: Body) -> dict[str, Any]:
    """Return what `partial(f, params, scale=2.0)` binds to the user's function.

    Those are what holds arrays, and floats that are given by name.
    """
    is_users = not is_library(body.code) and body.code.co_name != "<lambda>"
    if not (isinstance(function, functools.partial) and is_users):
        return {}
    if function.func is not innermost(function):
        return {}
    code, args = body.code, function.args
    names: Sequence[str] = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    # One of JAX is a tree, whose arrays are those of the call around.
    if type(function) is not functools.partial or len(args) > code.co_argcount:
        names = ()
    held = {n: v for n, v in zip(names, args) if has_array(v)}
    for name, value in function.keywords.items():
        if type(value) is float or (has_array(value) and name in names):
            held[name] = value
    return held


def _bound_terms(
    function: Any, bound: Mapping[str, Any], body: Body, writer: Writer
) -> list[Term]:
    """Write what is bound as the user did: by its place or name; a float by its name."""
    names = body.code.co_varnames[: len(function.args)] if bound else ()
    first = [writer.value(bound[name]) for name in names if name in bound]
    named = [
        keyword(n, writer.number(v) if type(v) is float else writer.value(v))
        for n, v in bound.items()
        if n not in names
    ]
    return first + named


def _sees(draft: Draft) -> bool:
    """Whether a function names one that is nested around it, as rules name their own."""
    around = seen(draft)
    for ref in around:
        ref.name.captured = True
    return bool(around)


def _of_module(inner: Writer, writer: Writer) -> Term | None:
    """Define a method that is passed as a function of its module's parameters, too.

    Modules of one kind share it then. What is short stays one expression, and what needs
    more than one sub-tree a nested function; then None is returned.
    """
    draft, program = inner.draft, writer.program
    n_left = draft.statements_left()
    trees = grouped(inner) if n_left else []
    if len(trees) != 1 or any(p.stars or p.is_keyword for p in draft.parameters):
        inner.is_closure = True
        for name, origin in inner.lifted:
            _see(name, writer.reach(origin, name.is_tree))
        return None
    name, origin = trees[0]
    given: list[str] = []
    for parameter in draft.parameters:
        given.append(free_name(parameter.name.hint, set(given)))
    draft.parameters.insert(0, Parameter(name))
    draft.types = ""
    function = Term([Global(program.function(draft))])
    passed = writer.reach(origin, name.is_tree)
    head = ", ".join(given)
    called = call(function, [passed, *map(text_term, given)])
    return Term([f"lambda {head}: ", *called.parts], LAMBDA)


def _see(name: Name, term: Term) -> None:
    """Let a nested function see a value of the function around it."""
    (ref,) = term.refs()
    name.alias = ref.name, ref.path
    ref.name.uses += name.uses - 1
    ref.name.captured = True


def _write_run(
    body: Body,
    dropped: frozenset[str],
    writer: Writer,
    free: Mapping[str, Any],
    is_decorated: bool = False,
    n_bound: int = 0,
) -> None:
    """Write a run as a function without the parameters that are dropped."""
    draft = writer.draft
    draft.code = None if is_library(body.code) else body.code
    writer.traced = body.traced
    passed_parameters(body, dropped, writer, n_bound)
    unpack_parameters({**free, **body.parameters}, body.code, writer)
    writer.body(body.calls)
    name_locals(body.locals, writer)
    name_results(body.result, body.locals, writer)
    # What is above it may take a function, as `jax.custom_gradient` does.
    result = body.result if is_decorated else without_objects(body.result)
    draft.result = writer.value(result)
    draft.parameters = with_used_defaults(draft.parameters)
    named = {p.name: p.name.held for p in draft.parameters}
    shown = [value for name, value in named.items() if name.hint not in dropped]
    annotate(draft, named, body.result, writer, body, shown)


def bound_parameters(
    function: Any, body: Body, keeps_defaults: bool = False
) -> frozenset[str]:
    """Return the parameters that are bound already, or fixed, and so are dropped."""
    n_bound, keywords = already_bound(function)
    # Of the parameters themselves, some may be left out already.
    if body.opened is None:  # `*args` take what the others leave
        names = list(body.code.co_varnames[: body.code.co_argcount])
    else:
        names = list(body.parameters)
    defaults = frozenset[str]() if keeps_defaults else default_names(function, body)
    return frozenset({*names[:n_bound], *keywords, *defaults})


def default_names(function: Any, body: Body) -> frozenset[str]:
    """Return the parameters that hold their default.

    That of `lambda x, w=w: x @ w` is an array of the function around it.
    """
    plain = innermost(function)
    defaults = all_defaults(plain) if plain is not None else {}
    return frozenset(
        name
        for name, value in body.parameters.items()
        if name in defaults and is_copy(value, defaults[name])
    )


def static_names(body: Body) -> frozenset[str]:
    """Return the parameters that are fixed: they hold no arrays."""
    return frozenset(
        name
        for name, value in body.parameters.items()
        if not has_array(value) and not is_empty_tree(value)
    )
