"""Write `eval_jaxpr` as the function that the jaxpr was traced from, in the same run.

Libraries trace a function first, to know what it closes over, and evaluate the jaxpr
afterwards. The calls of the function were recorded when it was traced; its arguments,
and the values that it closed over, stand for those that the jaxpr is given.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.lifting.recorded.naming.naming import name_locals, rename
from untrace.lifting.recorded.naming.values import arrays_in, is_array
from untrace.lifting.recorded.plan import Restart
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.record import Body, Call, calls_inside, is_library


def write_evaluated(item: Call, writer: Writer) -> None:
    """Write the calls that a function made when the jaxpr was traced.

    Raises:
      Unwritable: If it was not traced in this run, or not from what is known of it.
    """
    jaxpr, consts, *args = item.args
    known = writer.program.plan.traced
    if not known:
        known.update(_traced(writer.program.plan.recording))
    if id(jaxpr) not in known:
        raise Unwritable("the jaxpr was not traced by this program")
    closed, run = known[id(jaxpr)]
    given = jax.tree.leaves(list(run.parameters.values()))
    made, results = jax.tree.leaves(run.result), jax.tree.leaves(item.result)
    if len(given) != len(args) or len(made) != len(results):
        raise Unwritable("the jaxpr was traced from more than arrays")
    if any(id(value) in writer.passed_on for value in [*closed.consts, *given]):
        raise Unwritable("the jaxpr is evaluated more than once")
    _pass_on([*closed.consts, *given], [*consts, *args], writer)
    _note_strong(run, given, args, writer.program)
    _pass_on(*_made_constants(closed, consts, run), writer)
    is_weak = is_library(run.code)
    writer.n_dissolving += is_weak
    writer.body(run.calls)
    name_locals(run.locals, writer)
    writer.n_dissolving -= is_weak
    _pass_on(results, made, writer)
    rename(item.result, item.target, writer)


def _note_strong(
    run: Body, given: Sequence[Any], args: Sequence[Any], program: Program
) -> None:
    """Note which weak arrays of a run stand for strong ones, in one evaluation or another.

    Numbers beside them are not converted to their types, as Python's operators would.

    Raises:
      Restart: If there was no need to know so far.
    """
    pairs = [
        (v, other) for v, other in zip(given, args) if getattr(v, "weak_type", False)
    ]
    if run.code in program.plan.strong:
        program.strong.update(id(value) for value, _ in pairs)
    elif not all(jaxapi.aval_of(other).weak_type for _, other in pairs):
        program.plan.strong.add(run.code)
        raise Restart


def _pass_on(values: Sequence[Any], given: Sequence[Any], writer: Writer) -> None:
    """Let the values of one trace stand for those of another."""
    for value, other in zip(values, given):
        if is_array(value):
            writer.pass_on(value, other)


def _made_constants(
    closed: Any, consts: Sequence[Any], run: Body
) -> tuple[list[Any], list[Any]]:
    """Pair what the function made and JAX took as a constant with what is given for it.

    `jnp.asarray` of a NumPy array is such a constant where it is traced.
    """
    body, _ = jaxapi.split_jaxpr(closed)
    given = dict(zip(body.constvars, consts))
    pairs = [
        (value, given[var])
        for item in calls_inside(run)
        for value in arrays_in(item.result)
        if isinstance(value, jaxapi.Tracer)
        and (var := jaxapi.var_behind(value)) in given
        and value is not given[var]
    ]
    return [value for value, _ in pairs], [other for _, other in pairs]


def _traced(body: Body) -> Iterator[tuple[int, tuple[Any, Body]]]:
    """Yield the jaxprs that a run made, by identity, and the runs they were traced in."""
    for item in calls_inside(body):
        made = item.function
        if isinstance(made, jaxapi.Transformed) and made.maker[1] == "make_jaxpr":
            closed = item.result[0] if type(item.result) is tuple else item.result
            if len(item.bodies) == 1:
                yield id(getattr(closed, "jaxpr", closed)), (closed, item.bodies[0])
