"""Write one recorded call as it was made, by the kind of what was called."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.lifting.recorded.building import call
from untrace.lifting.recorded.calls.arguments import plain_arguments, public_arguments
from untrace.lifting.recorded.calls.callables import transformed_call
from untrace.lifting.recorded.calls.custom_rules import custom_call
from untrace.lifting.recorded.calls.elementwise import of_one_leaf, unmapped
from untrace.lifting.recorded.calls.equations import write_equation
from untrace.lifting.recorded.calls.error_checks import error_check_term
from untrace.lifting.recorded.calls.evaluated import write_evaluated
from untrace.lifting.recorded.calls.jitted import note_result, with_own_arguments
from untrace.lifting.recorded.calls.kernels import is_guard, write_guarded
from untrace.lifting.recorded.calls.new_aux import with_new_aux
from untrace.lifting.recorded.calls.operators import (
    method_term,
    operator_term,
    update_term,
)
from untrace.lifting.recorded.calls.plain_axes import with_plain_axes
from untrace.lifting.recorded.calls.respelling import plain_convolution, respelled
from untrace.lifting.recorded.calls.scalars import scalar_of, with_numbers
from untrace.lifting.recorded.calls.tree_maps import Unrolled, tree_call
from untrace.lifting.recorded.calls.unwrapping import unwrapped
from untrace.lifting.recorded.functions.library import shorter
from untrace.lifting.recorded.functions.own_calls import write_own_call
from untrace.lifting.recorded.naming.naming import rename
from untrace.lifting.recorded.naming.paths import part_of
from untrace.lifting.recorded.naming.values import Found, arrays_in
from untrace.lifting.recorded.terms import Term, placed
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.homes import public_name
from untrace.recovery.record import Call
from untrace.syntax.precedence import ATOM


def write_as_made(item: Call, writer: Writer) -> None:
    """Write a call as statements of a function."""
    if item.function is None:
        write_own_call(item, writer)
        return
    spelled = _spelled(item, writer) if writer.in_library else item
    function = spelled.function
    if isinstance(function, jaxapi.Operator):
        writer.assign(item, operator_term(spelled, writer))
    elif isinstance(function, jaxapi.Method):
        writer.assign(item, method_term(spelled, writer))
    elif isinstance(function, jaxapi.Property):
        owner = writer.value(spelled.args[0])
        if function.name != "at":
            term = Term([*placed(owner, ATOM), f".{function.name}"])
            writer.assign(item, term)
    elif isinstance(function, jaxapi.Update):
        writer.assign(item, update_term(item, writer))
    elif isinstance(function, jaxapi.Primitive):
        write_equation(item, writer)
    elif is_guard(function):
        write_guarded(function, item, writer)
    elif function is jaxapi.eval_jaxpr:
        write_evaluated(item, writer)
    elif not _is_maker(item):
        spelled = plain_convolution(with_plain_axes(spelled), writer.in_library)
        shown = spelled
        if writer.in_library:
            shown = with_own_arguments(unwrapped(spelled), item, writer)
            shown = with_new_aux(shown, writer)
        try:
            term = _public_call(shown, writer)
        except Unrolled:
            for run in item.bodies:
                writer.body(run.calls)
            rename(item.result, item.target, writer)
        else:
            statement = writer.assign(item, term, shown)
            note_result(shown, item, statement, writer)


def _spelled(item: Call, writer: Writer) -> Call:
    """Return a library's call as people write it."""
    scalars = writer.program.scalars_here()
    number = scalar_of(item)
    if number is not None:
        scalars[id(item.result)] = number
    return with_numbers(respelled(shorter(of_one_leaf(unmapped(item)))), scalars)


def _public_call(item: Call, writer: Writer) -> Term:
    """Write a call of a function that is no Python function of the user's or a library's."""
    function = item.function
    is_made = jaxapi.is_made(function)
    key = id(function) if is_made else writer.values.key(function)
    known = writer.find(key) if key is not None else None
    if known is None and is_made:
        raise Unwritable("it is a function of JAX's that no recorded call made")
    if known is not None and is_made:
        n_bound = _n_bound(known) if jaxapi.is_converted(function) else 0
        if jaxapi.is_linearized(function):
            n_bound = jaxapi.n_residuals(function)
            _refuse_other_residuals(known, item.args[:n_bound], writer)
        args = plain_arguments(item.args[n_bound:], item.kwargs, writer)
        return call(writer.ref(known), args)
    known = known or writer.find_called(item, function)
    home = public_name(function)
    if known is not None:
        arguments = public_arguments(item, writer) if home else _plain(item, writer)
        return call(writer.ref(known), arguments)
    if home is not None and home[0].startswith("jax.tree"):
        return tree_call(item, home, writer)
    if home is not None:
        if home[0].startswith("jax.numpy"):
            _keep_items([*item.args, *item.kwargs.values()], writer)
        text = writer.program.home_term(home)
        args = public_arguments(item, writer)
        return call(text, args)
    if isinstance(function, jaxapi.Transformed):
        return transformed_call(function, item, writer)
    check = jaxapi.error_check(function, item.args)
    if check is not None:
        return error_check_term(check, writer)
    if isinstance(function, (jaxapi.CUSTOM_JVP, jaxapi.CUSTOM_VJP, jaxapi.CUSTOM_VMAP)):
        return custom_call(item, writer)
    raise Unwritable(f"`{function_name(function)}` has no public name")


def _keep_items(values: Iterable[Any], writer: Writer) -> None:
    """Keep all fields of NamedTuples that a function is given as arrays of their items."""
    for value in values:
        if isinstance(value, list | tuple):
            if hasattr(value, "_fields"):
                writer.program.rearranged.append(writer.values.tree(value)[0])
            _keep_items(value, writer)


def _plain(item: Call, writer: Writer) -> list[Term]:
    return plain_arguments(item.args, item.kwargs, writer)


def _refuse_other_residuals(known: Found, residuals: Any, writer: Writer) -> None:
    """Refuse a linear map that is applied with others than those that its name holds.

    It may have been mapped, as trees are, or be evaluated by a library in a jaxpr that is
    given other constants.

    Raises:
      Unwritable: If so.
    """
    name, path = known
    held = arrays_in(part_of(name.held, path))
    is_same = list(map(id, held)) == list(map(id, arrays_in(residuals)))
    if not is_same or any(map(writer.is_another, held)):
        raise Unwritable("what it was linearized at is another value here")


def _n_bound(known: Found) -> int:
    """Count the arguments that are bound to the function that a name stands for."""
    held = known[0].held
    is_bound = isinstance(held, functools.partial) and not known[1]
    return len(held.args) if is_bound else 0


def _is_maker(item: Call) -> bool:
    """Whether a call only made a function, which is written where it is used."""
    return callable(item.result) and jaxapi.transformed(item.result) is not None
