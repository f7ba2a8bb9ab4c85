"""Write functions that a library jits with the arguments that they get, one by one.

`equinox.filter_jit` puts what the user's function takes into containers of its own, and
returns the result beside a marker. Written is `jax.jit(make_step)(model, opt_state, x)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.lifting.printing import Function
from untrace.lifting.recorded.calls.callables import given_options
from untrace.lifting.recorded.functions.needs import Returned, narrowed
from untrace.lifting.recorded.functions.parameters import name_inside
from untrace.lifting.recorded.naming.shapes import Shapes
from untrace.lifting.recorded.naming.values import (
    arrays_in,
    has_array,
    is_array,
)
from untrace.lifting.recorded.terms import Global
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.optional import optional, unchanged
from untrace.recovery.functions import innermost, peel, starred
from untrace.recovery.record import Body, Call, is_library
from untrace.recovery.snapshots import CONTAINERS
from untrace.syntax.names import identifier


@optional(unchanged)
def with_own_arguments(shown: Call, item: Call, writer: Writer) -> Call:
    """Return a call of a library's jitted function without the containers around arrays.

    Args:
      shown: The call as it is written so far; one of another function is returned.
      item: The call as it was recorded.
      writer: Writes the function around it.
    """
    made = shown.function
    if not _is_jit(made) or shown.kwargs:
        return shown
    shapes = writer.program.shapes
    runs = writer.program.runs.shown_by(item)
    shapes.enter(item, runs)
    body = _run(item, runs, writer)
    if body is None:
        return shown
    plain = _with_parts(shown, runs[0], body, shapes)
    if writer.is_main and writer.program.is_wrapper and _takes_all(plain, writer):
        whole = _as_program(plain, writer.program.plan.recording.result)
        if whole is not None:
            writer.program.plan.dissolved |= set(_only_user_call(body))
            writer.program.is_one_call = True
            return whole
    if plain is shown or given_options(plain.function):
        return plain
    return writer.program.plan.shown(plain, item)


def _with_parts(shown: Call, run: Body, body: Body, shapes: Shapes) -> Call:
    """Return a call with the arguments that its function takes in the run that shows it.

    Args:
      run: The run as it was recorded.
      body: As it is written.
      shapes: What flat lists of leaves stand for.
    """
    made = shown.function
    if starred(body.code):  # they are spread where it is defined
        return replace(shown, bodies=[body])
    static, _ = made.static
    whole = _kept_whole(run, body)
    parts = [
        []
        if i in static
        else [arg]
        if i in whole
        else list(_parts(arg, shapes, _NUMBERS))
        for i, arg in enumerate(shown.args)
    ]
    options = given_options(made)
    donated = options.pop("donate_argnums", ())
    if options:
        return shown
    if sum(map(len, parts)) != len(body.parameters):
        raise Unwritable("its arguments are not those of the run that shows it")
    positions = [i for i, held in enumerate(parts) for _ in held]
    given = tuple([n for n, i in enumerate(positions) if i in donated])
    if given:
        options["donate_argnums"] = given
    function = jaxapi.Transformed(made.maker, made.function, options)
    args = tuple([part for held in parts for part in held])
    return replace(shown, function=function, args=args, bodies=[body])


def _takes_all(shown: Call, writer: Writer) -> bool:
    """Whether a call takes the parameters of the program, in order."""
    found = [writer.values.find(writer.values.key(arg)) for arg in shown.args]
    names = [where[0] for where in found if where is not None and not where[1]]
    parameters = [parameter.name for parameter in writer.draft.parameters]
    return len(found) == len(parameters) and names == parameters


def _as_program(shown: Call, result: Any) -> Call | None:
    """Return a call with what the program returns, if all of it is of its result."""
    (body,) = shown.bodies
    pairs = zip(arrays_in(shown.result), arrays_in(body.result))
    inside = {id(outer): inner for outer, inner in pairs}
    leaves, treedef = jax.tree.flatten(result)
    if not all(id(leaf) in inside or not is_array(leaf) for leaf in leaves):
        return None
    made = jax.tree.unflatten(treedef, [inside.get(id(leaf), leaf) for leaf in leaves])
    bodies = [replace(body, result=made)]
    return replace(shown, result=result, target=None, bodies=bodies)


def note_result(shown: Call, item: Call, statement: Statement, writer: Writer) -> None:
    """Take note of a call, so that its function returns only what is needed.

    The arguments are those of `with_own_arguments`, and the call as it is written.
    """
    writer.lose(item, shown)
    if (
        shown.bodies == item.bodies
        or not _is_jit(shown.function)
        or given_options(shown.function)
    ):
        return
    structure = jax.tree.structure(shown.result)
    key = f"jitted {id(innermost(shown.function.function))} {structure}"
    opens = not writer.program.options.keep_types
    function = statement.term.parts[0]
    symbol = function.symbol if isinstance(function, Global) else None
    draft = writer.program.drafts.get(symbol) if isinstance(symbol, Function) else None
    returned = Returned(item, shown.result, statement, key, opens, draft)
    writer.program.references.jitted.append(returned)


def _is_jit(made: Any) -> bool:
    return isinstance(made, jaxapi.Transformed) and made.maker[1] == "jit"


def _run(item: Call, runs: Sequence[Body], writer: Writer) -> Body | None:
    """Return the run of the function, as it is to be written; None if it is no such."""
    known = writer.program.jitted
    function = innermost(item.function.function)
    if function is None or not is_library(function.__code__):
        return None
    if _is_transformed(item.function.function):
        return None
    if len(runs) != 1:
        return None
    (body,) = runs
    if body not in known:
        if body.code is not function.__code__:
            return None
        shown = replace(body)
        if not starred(body.code):
            named = _named_dicts(item, body, writer)
            shown.parameters = _named_parts(body, writer.program.shapes, named)
        plan = writer.program.plan
        if starred(body.code):
            plan.dissolved |= set(_only_user_call(body))
        steps = plan.needs.get(item, ())
        shown.result = narrowed(replace(item, result=body.result), steps).result
        known[body] = shown
    return known[body]


def _is_transformed(function: Any) -> bool:
    """Whether there is more than `jax.jit` around the Python function.

    The axes of `jax.vmap` and such are about its arguments as they are.
    """
    while (layer := peel(function)) is not None and layer.inner is not None:
        if layer.kind == "transformed" and not _is_jit(layer.value):
            return True
        function = layer.inner
    return False


def _only_user_call(body: Body) -> list[Call]:
    """Return the call of the user's function that a library's wrapper is there for."""
    own = [one for one in body.calls if one.is_own]
    user = [one for one in own if not is_library(one.bodies[0].code)]
    return user if len(user) == 1 else []


def _named_dicts(item: Call, body: Body, writer: Writer) -> set[str]:
    """Return the parameters that take dicts which the caller has a name for.

    They are no containers that a library puts arguments into.
    """
    if len(item.args) != len(body.parameters):
        return set()
    return {
        name
        for (name, inner), arg in zip(body.parameters.items(), item.args)
        if type(inner) is type(arg) is dict and has_array(arg)
        if writer.locate(writer.values.key(arg)) is not None
    }


def _kept_whole(run: Body, body: Body) -> set[int]:
    """Return the positions of what a run is given as it was recorded."""
    kept = {id(value) for value in body.parameters.values() if type(value) is dict}
    return {i for i, v in enumerate(run.parameters.values()) if id(v) in kept}


def _named_parts(body: Body, shapes: Shapes, named: Set[str]) -> Mapping[str, Any]:
    """Return what a run was given, part by part, by the names that its callees have.

    Args:
      shapes: What flat lists of leaves stand for.
      named: The parameters that stay whole.
    """
    found: dict[str, Any] = {}
    for name, value in body.parameters.items():
        for part in [value] if name in named else _parts(value, shapes):
            hint = name
            if part is not value:
                hint = shapes.name(part) or name_inside(part, body) or name
            hint = identifier(hint)
            while hint in found:
                hint += "_"
            found[hint] = part
    return found


_NUMBERS = (bool, int, float, complex, np.generic)


def _parts(value: Any, shapes: Shapes, numbers: tuple[type, ...] = ()) -> Iterator[Any]:
    """Yield the parts of plain containers that hold arrays, or are numbers.

    A number that a jitted function is given is an array inside.
    """
    if isinstance(value, numbers):
        yield value
        return
    if not has_array(value) and not (numbers and jax.tree.leaves(value)):
        return
    if type(value) in (tuple, list) and shapes.knows(value):
        yield from shapes.parts(value)
    elif type(value) in CONTAINERS:
        for part in jax.tree.leaves(value, is_leaf=lambda part: part is not value):
            yield from _parts(part, shapes, numbers)
    else:
        yield value
