"""Write functions as values: public names, transformations, decorated definitions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.errors import reason
from untrace.lifting.recorded.building import call, display, keyword, literal_term
from untrace.lifting.recorded.calls.arguments import plain_arguments
from untrace.lifting.recorded.calls.custom_rules import custom_term
from untrace.lifting.recorded.calls.kernels import kernel_term
from untrace.lifting.recorded.calls.opening import opened_function
from untrace.lifting.recorded.expressions import static_term
from untrace.lifting.recorded.functions.definitions import (
    bound_parameters,
    default_names,
    define,
    static_names,
)
from untrace.lifting.recorded.functions.function_arguments import passed_term
from untrace.lifting.recorded.functions.function_values import is_passed
from untrace.lifting.recorded.functions.parameters import (
    is_left_out,
    is_spread,
    spread_items,
)
from untrace.lifting.recorded.naming.values import arrays_in, has_array
from untrace.lifting.recorded.terms import Global, Term, is_global
from untrace.lifting.recorded.unify.places import number_term
from untrace.lifting.recorded.unwritable import UnknownArray, Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.homes import public_name
from untrace.recovery.functions import (
    Layer,
    already_bound,
    innermost,
    n_bound_starred,
    peel,
    starred,
)
from untrace.recovery.record import Body, Call, calls_inside, is_library

# The kinds of layers that are functions of Python, perhaps with arguments bound.
_OF_PYTHON = frozenset({"function", "method", "partial"})
# Transformations whose functions are defined with them as decorators.
_DECORATORS = frozenset({"jit", "checkpoint", "pmap"})
# The option that says which parameters are static.
_STATIC = {"jit": "static_argnames", "checkpoint": "static_argnums"}
# Those that hand floats on as they are, unless these are differentiated or batched.
_HAND_ON = frozenset(
    {"grad", "hessian", "jacfwd", "jacrev", "value_and_grad", "vmap"},
)
# Those whose function takes the arguments of the call.
_SAME_ARGUMENTS = frozenset(
    {
        *("checkpoint", "grad", "jacfwd", "jacrev", "jit", "pmap", "value_and_grad"),
        "vmap",
    }
)


def callable_term(function: Any, bodies: Sequence[Body], writer: Writer) -> Term:
    """Write a callable: a public name, a transformation, a definition."""
    is_made = isinstance(function, jaxapi.FUNCTION_RESULTS)
    known = writer.find(writer.values.key(function) if is_made else id(function))
    known = known or writer.find_function(function)
    if known is not None:
        return writer.ref(known)
    home = None if isinstance(function, jaxapi.Transformed) else public_name(function)
    if home is not None:
        return writer.program.home_term(home)
    opened = _opened(function, bodies, writer)
    if opened is not None:
        return opened
    layer = peel(function)
    bound = _bound(layer)
    if bound is not None:
        return _partial(bound, bodies, writer)
    if layer is None and getattr(function, "__module__", "") == "_operator":
        operator = writer.program.lifter.imports.module("operator")
        return Term([Global(f"{operator}.{function_name(function)}")])
    if layer is None:
        return static_term(function, writer)
    if layer.kind == "transformed":
        return _transformed(layer.value, bodies, writer)
    if layer.kind == "custom":
        return custom_term(layer.value, bodies, writer)
    body = writer.program.runs.anywhere(function, bodies)
    if body is not None:
        return define(function, body, writer)
    if jaxapi.is_inside_jax(function):  # such as a policy for `jax.checkpoint`
        return static_term(function, writer)
    raise Unwritable(f"`{function_name(function)}` was not run while recording")


def _is_made(function: Any) -> bool:
    """Whether a function is public, or what a transformation made."""
    layer = peel(function)
    made = layer is not None and layer.kind in ("transformed", "custom")
    return made or bool(public_name(function))


def _bound(layer: Layer | None) -> functools.partial[Any] | None:
    """Return what binds arguments of a public or transformed function, methods as well."""
    if layer is None or layer.kind not in ("partial", "method"):
        return None
    if not _is_made(layer.inner):
        return None
    if layer.kind == "partial":
        return layer.value
    return functools.partial(layer.inner, layer.value.__self__)


def _partial(
    function: functools.partial[Any], bodies: Sequence[Body], writer: Writer
) -> Term:
    """Write what binds arguments of a public or transformed function."""
    inner = callable_term(function.func, bodies, writer)
    args, kwargs = list(function.args), dict(function.keywords)
    # A public function has all its parameters, jitted as it may be.
    layer = None if public_name(function.func) else peel(function.func)
    if layer is not None and layer.kind == "transformed":
        args, kwargs = _left(layer.value, args, kwargs, bodies, writer)
    elif layer is not None and layer.kind == "custom":
        fixed = getattr(layer.value, "nondiff_argnums", ())
        args = [a for i, a in enumerate(args) if i not in fixed]
    bound = plain_arguments(args, kwargs, writer, bodies)
    if not bound:
        return inner
    partial = f"{writer.program.lifter.imports.module('functools')}.partial"
    return call(Term([Global(partial)]), [inner, *bound])


def transformed_call(made: jaxapi.Transformed, item: Call, writer: Writer) -> Term:
    """Write a call of a transformed function."""
    bodies = writer.program.runs.shown_by(item)
    writer.program.shapes.enter(item, bodies)
    passed = _passed_parameters(made, bodies, writer)
    if passed:
        return _static_call(made, passed, item, bodies, writer)
    numbers: dict[str, str] = {}
    if _is_inlined(made, item, writer):
        function = _inner(made, bodies, writer, is_called=True)
    else:
        function = _transformed(made, bodies, writer, numbers)
    args, kwargs = list(item.args), dict(item.kwargs)
    if made.maker[1] in _SAME_ARGUMENTS:
        args, kwargs = _left(made, args, kwargs, bodies, writer)
    given = {n: number_term(number) for n, number in numbers.items()}
    last = [keyword(n, term) if kwargs else term for n, term in given.items()]
    return call(function, [*plain_arguments(args, kwargs, writer), *last])


def _left(
    made: jaxapi.Transformed,
    args: list[Any],
    kwargs: dict[str, Any],
    bodies: Sequence[Body],
    writer: Writer,
) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments that are not fixed."""
    dropped = _fixed_arguments(made, bodies, writer)
    body = writer.program.runs.given_to(made, bodies)
    left = set(body.parameters) - dropped if body is not None else ()
    args = [a for i, a in enumerate(args) if i not in dropped]
    return args, {k: v for k, v in kwargs.items() if k in left or has_array(v)}


def _is_inlined(made: jaxapi.Transformed, item: Call, writer: Writer) -> bool:
    """Whether a library only has a function jitted for its cache.

    JAX inlines what it is traced to. Integers would be numbers without it, which
    functions treat in their own ways (`x**2`).
    """
    given = [*item.args, *item.kwargs.values()]
    return (
        writer.in_library
        and made.maker[1] == "jit"
        and jaxapi.jax_inlines(made)
        and not any(type(value) in (bool, int) for value in given)
        and not any(map(_has_rules, item.bodies))
    )


def _has_rules(run: Body) -> bool:
    """Whether a run calls functions with derivative rules.

    Where a jitted function is differentiated, JAX leaves out of such calls what is not used.
    """
    custom = (jaxapi.CUSTOM_JVP, jaxapi.CUSTOM_VJP)
    return any(
        isinstance(item.function, custom) and public_name(item.function) is None
        for item in calls_inside(run)
    )


def _passed_parameters(
    made: jaxapi.Transformed, bodies: Sequence[Body], writer: Writer
) -> frozenset[str]:
    """Return the static parameters of the user's jitted function that take functions."""
    layer = peel(made.function)
    if made.maker[1] != "jit" or layer is None or layer.kind != "function":
        return frozenset()
    body = writer.program.runs.given_to(made, bodies)
    is_named = layer.value.__name__ != "<lambda>"
    if body is None or not is_named or is_library(body.code):
        return frozenset()
    if writer.program.opens_jit() or writer.find_function(made) is not None:
        return frozenset()
    plan, values = writer.program.plan, body.parameters.items()
    passed = {n for n, v in values if is_passed(v, n, body.code, plan)}
    return frozenset(passed) - bound_parameters(made.function, body)


def _static_call(
    made: jaxapi.Transformed,
    passed: frozenset[str],
    item: Call,
    runs: Sequence[Body],
    writer: Writer,
) -> Term:
    """Write a call of a jitted function that takes functions as static arguments."""
    program = writer.program
    body = program.runs.given_to(made, runs)
    assert body is not None
    static = (static_names(body) | bound_parameters(made.function, body)) - passed
    left = [name for name in body.parameters if name not in static]
    positions = [literal_term(i) for i, name in enumerate(left) if name in passed]
    given = positions[0] if len(positions) == 1 else display("()", positions)
    fixed = frozenset(i for i, name in enumerate(body.parameters) if name in static)
    more = [keyword("static_argnums", given)]
    decorator = decorator_term(made, writer, fixed, more)
    function = define(
        made.function, body, writer, [decorator], drops_static=True, kept=passed
    )
    bodies = [*runs, body]
    terms: list[Term] = []
    for name, value in zip(body.parameters, item.args):
        if name in passed:
            terms.append(passed_term(value, (body.code, name), bodies, writer))
        elif name not in static:
            terms += plain_arguments([value], {}, writer)
    for name, value in item.kwargs.items():
        if name in passed:
            term = passed_term(value, (body.code, name), bodies, writer)
            terms.append(keyword(name, term))
        elif name not in static:
            terms += plain_arguments([], {name: value}, writer)
    return call(function, terms)


def decorator_term(
    made: jaxapi.Transformed,
    writer: Writer,
    fixed: frozenset[Any] = frozenset(),
    more: Sequence[Term] = (),
) -> Term:
    """Write `jax.jit`, or `functools.partial(jax.jit, static_argnums=0)`.

    `fixed` are the positions of the arguments that the definition leaves out, `more`
    options that are written last.
    """
    imports = writer.program.lifter.imports
    home = writer.program.home_term(made.maker)
    options = [*_option_terms(made, fixed, writer), *more]
    if not options:
        return home
    partial = f"{imports.module('functools')}.partial"
    return call(Term([partial]), [home, *options])


def _with_static(
    made: jaxapi.Transformed,
    writer: Writer,
    fixed: frozenset[Any],
    n_before: int,
    names: Sequence[str],
) -> str:
    """Write `functools.partial(jax.jit, static_argnames="n")`.

    `names` are those of static parameters, which come after `n_before` others.
    """
    option = _STATIC[made.maker[1]]
    static: Sequence[Any] = names
    if option == "static_argnums":
        static = range(n_before, n_before + len(names))
    given = static[0] if len(names) == 1 else (*static,)
    return decorator_term(
        made, writer, fixed, [keyword(option, writer.value(given))]
    ).render()


def given_options(made: jaxapi.Transformed) -> dict[str, Any]:
    """Return the options but for shardings that are left to JAX."""
    return {
        name: value
        for name, value in made.options.items()
        if not name.endswith("_shardings") or jax.tree.leaves(value)
    }


def _opened(function: Any, bodies: Sequence[Body], writer: Writer) -> Term | None:
    """Write what JAX makes of a transformed function, if it is to be opened."""
    run = writer.program.runs.opened(function, bodies)
    item = run.opened if run is not None else None
    if item is None or not writer.program.opens(item):
        return None
    held = set(map(id, arrays_in((item.args, item.kwargs))))
    try:
        region = writer.program.region(item, lambda array: id(array) in held)
        return opened_function(item, region, writer).value(writer)
    except UnknownArray:
        raise
    except Exception as error:  # the recorder stands on private names of JAX
        writer.program.plan.closed[item] = reason(error)
        writer.program.is_stale = True
        return None


def _transformed(
    made: jaxapi.Transformed,
    bodies: Sequence[Body],
    writer: Writer,
    passed: dict[str, str] | None = None,
) -> Term:
    """Write `jax.vmap(f, in_axes=1)`.

    `passed` gets the numbers that its call has to pass, if it is called at once.
    """
    if made.maker[1] == "jit" and writer.program.opens_jit():
        return _inner(made, bodies, writer, passed is not None)
    if made.maker[1] in _DECORATORS:
        decorated = _decorated(made, bodies, writer, passed)
        if decorated is not None:
            return decorated
    made = _as_hessian(made)
    writer.program.n_transforming += 1
    inner = _inner(made, bodies, writer)
    writer.program.n_transforming -= 1
    if made.maker == jaxapi.KERNEL_HOME:
        return kernel_term(made, inner, bodies, writer)
    fixed = _fixed_arguments(made, bodies, writer)
    home = writer.program.home_term(made.maker)
    return call(home, [inner, *_option_terms(made, fixed, writer)])


def _as_hessian(made: jaxapi.Transformed) -> jaxapi.Transformed:
    """`jax.hessian` where it is what JAX makes of it: `jacfwd` of `jacrev`."""
    layer = peel(made.function)
    inner = layer.value if layer is not None else None
    if not isinstance(inner, jaxapi.Transformed) or made.static != inner.static:
        return made
    is_hessian = (made.maker, inner.maker) == (("jax", "jacfwd"), ("jax", "jacrev"))
    if not is_hessian or dict(made.options) != dict(inner.options):
        return made
    return jaxapi.Transformed(("jax", "hessian"), inner.function, made.options)


def _inner(
    made: jaxapi.Transformed,
    bodies: Sequence[Body],
    writer: Writer,
    is_called: bool = False,
) -> Term:
    """Write the function that a transformation was given."""
    layer = peel(made.function)
    is_plain = layer is not None and layer.kind in _OF_PYTHON
    is_plain = is_plain and _bound(layer) is None
    if is_plain and public_name(made.function) is None:
        body = writer.program.runs.last(made.function, bodies)
        if body is not None and writer.find_function(made.function) is None:
            return define(
                *(made.function, body, writer),
                drops_static=made.maker[1] in _SAME_ARGUMENTS,
                kept=_floats_given(made, body),
                is_called=is_called,
                is_jitted=made.maker[1] == "jit",
            )
    return callable_term(made.function, bodies, writer)


def _decorated(
    made: jaxapi.Transformed,
    bodies: Sequence[Body],
    writer: Writer,
    passed: dict[str, str] | None,
) -> Term | None:
    """Define a function with its transformations as decorators.

    `passed` gets the numbers that its call has to pass, if it is called at once.
    """
    plain = innermost(made)
    if plain is not None and writer.program.plan.is_called(plain.__code__):
        return None  # one function serves for both
    makers: list[jaxapi.Transformed] = []
    function: Any = made
    while True:
        is_made = isinstance(function, jaxapi.Transformed)
        if writer.find_function(function) is not None:
            return None
        if not is_made and public_name(function) is not None:
            return None  # `jnp.sin` is jitted itself
        layer = peel(function)
        if layer is None or layer.kind == "method":
            break
        if writer.program.runs.opened(function, bodies) is not None:
            break
        if layer.kind == "transformed" and layer.value.maker[1] in _DECORATORS:
            makers.append(layer.value)
            function = layer.inner
            continue
        break
    plain = peel(function)
    if plain is None or plain.kind != "function" or public_name(function):
        return None
    if plain.value.__name__ == "<lambda>":
        return None
    body = writer.program.runs.anywhere(function, bodies)
    if body is None:
        raise Unwritable(f"`{function_name(function)}` was not run while recording")
    fixed = _fixed_arguments(made, bodies, writer)
    decorators = [decorator_term(maker, writer, fixed) for maker in makers]
    defined = writer.program.defined
    texts = tuple([decorator.render() for decorator in decorators])
    key = body, fixed, texts, passed is None
    if key not in defined:  # else JAX had traced it, and this is the same run
        static, given = None, dict[str, str]()
        if len(makers) == 1 and makers[0].maker[1] in _STATIC:
            static = functools.partial(_with_static, makers[0], writer, fixed)
        term = define(
            *(function, body, writer, decorators),
            drops_static=True,
            static=static,
            passed=None if passed is None else given,
        )
        if len(term.parts) > 1 or not is_global(term):
            return term  # it may be one of the function around it
        defined[key] = term, given
    term, given = defined[key]
    if passed is not None:
        passed.update(given)
    return term


def _fixed_arguments(
    made: jaxapi.Transformed, bodies: Sequence[Body], writer: Writer
) -> frozenset[Any]:
    """Return positions and names of arguments that are fixed: they are no arrays.

    The definition of a function has no parameters for these, nor for what is its default.
    """
    body = writer.program.runs.given_to(made, bodies)
    if body is None:
        return frozenset()
    static = static_names(body) - _floats_given(made, body)
    static |= default_names(made.function, body)
    names = list(body.parameters)
    if body.opened is None:  # then they are those of a call, not of the function
        n_bound, _ = already_bound(made.function)
        names = names[n_bound : body.code.co_argcount]
    fixed = {i for i, n in enumerate(names) if n in static} | static
    if body.opened is None and body.code.co_flags & inspect.CO_VARARGS:
        (rest, *_), spreads = starred(body.code), is_spread(body)
        left = spread_items(body)[n_bound_starred(made.function, body.code) :]
        items = enumerate(left, len(names))
        fixed |= {
            i for i, one in items if rest in static or (spreads and is_left_out(one))
        }
    return frozenset(fixed)


def _floats_given(made: jaxapi.Transformed, body: Body) -> frozenset[str]:
    """Return the parameters of the user's function that are given floats as they are."""
    function: Any = made
    layer = peel(function)
    while layer is not None and layer.kind == "transformed":
        if layer.value.maker[1] not in _HAND_ON:
            return frozenset()
        function = layer.inner
        layer = peel(function)
    is_named = body.code.co_name != "<lambda>" and not is_library(body.code)
    if layer is None or layer.kind not in _OF_PYTHON or not is_named:
        return frozenset()
    plain = innermost(function)
    if plain is None or plain.__code__ is not body.code:
        return frozenset()
    return frozenset({n for n, v in body.parameters.items() if type(v) is float})


def _option_terms(
    made: jaxapi.Transformed, fixed: frozenset[Any], writer: Writer
) -> list[Term]:
    """Write the options of a function without the arguments that are fixed."""
    given = {k: _placed(k, v, fixed) for k, v in given_options(made).items()}
    if given.get("argnums") == 0:  # the default, now that others are left out
        del given["argnums"]
    return [keyword(k, writer.value(v)) for k, v in given.items()]


def _placed(name: str, value: Any, fixed: frozenset[Any]) -> Any:
    """Return an option for a function without the arguments that are fixed."""
    if name == "in_axes" and type(value) is tuple:
        return tuple(axis for i, axis in enumerate(value) if i not in fixed)
    if name not in ("argnums", "donate_argnums"):
        return value
    if type(value) is int:
        return _moved(value, fixed)
    return type(value)(_moved(i, fixed) for i in value)


def _moved(position: int, fixed: frozenset[Any]) -> int:
    """Return the position of an argument once those that are fixed are left out."""
    return position - sum(type(i) is int and 0 <= i < position for i in fixed)
