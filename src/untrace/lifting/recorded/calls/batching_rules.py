"""Define functions with batching rules: `custom_vmap` and `sequential_vmap`.

A rule that the recorded run did not need is traced apart, with every argument batched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.lifting.recorded.calls.open_rules import open_rules
from untrace.lifting.recorded.calls.rule_arguments import kind
from untrace.lifting.recorded.calls.rule_places import place_rules
from untrace.lifting.recorded.functions.definitions import define
from untrace.lifting.recorded.program import Program
from untrace.lifting.recorded.readers import public_readers
from untrace.lifting.recorded.terms import Term, is_global
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.apart import run_apart, struct, trace_primal
from untrace.recovery.functions import innermost, positional
from untrace.recovery.record import Body

_MODULE = "jax.custom_batching"


def batching_term(
    function: Any, bodies: Sequence[Body], writer: Writer, args: Sequence[Any] = ()
) -> Term:
    """Define a function with its batching rule; return its name.

    It is written once for each kind of arguments; variants of the same text are one.

    Raises:
      Unwritable: If it was not run, or its rule makes it anew without end.
    """
    program = writer.program
    body = program.runs.last(function, bodies)
    if not args and body is not None:
        args = positional(function, body)
    key = id(function), kind(args)
    known = program.customs.get(key)
    if known is not None:
        return known
    if body is None and not args:
        raise Unwritable(f"`{function_name(function.fun)}` was not run")
    if body is None or kind(positional(function, body)) != kind(args):
        body = trace_primal(function, args, public_readers)
    is_sequential = jaxapi.is_sequential(function)
    maker = "sequential_vmap" if is_sequential else "custom_vmap"
    decorator = program.home_term((_MODULE, maker))
    for text_key in (id(function), key):
        made = define(
            function, body, writer, [decorator], key=text_key, keeps_defaults=True
        )
        program.customs[key] = made  # its rule may call it
        if is_sequential:
            break
        run = _rule_run(function, body, bodies, program)
        with open_rules(function, program.open_customs, program.plan):
            rule = define(function.vmap_rule, run, writer, keeps_defaults=True)
        if place_rules(made, "def_vmap", [rule], [], writer):
            break  # else a variant of the same text has another rule
    if not is_global(made):
        del program.customs[key]
    return made


def _rule_run(
    function: Any, body: Body, bodies: Sequence[Body], program: Program
) -> Body:
    """Return a run of the rule of a function, of which a run is given."""
    rule = function.vmap_rule
    code = getattr(innermost(rule), "__code__", None)
    given = [run for run in bodies if run.is_finished and run.code is code]
    if given:
        return given[-1]

    def traced() -> Body:
        size = jaxapi.BATCH_SIZES[0]
        args = [struct(value) for value in positional(function, body)]
        flags = jax.tree.map(lambda _: True, args)
        batched = jax.tree.map(lambda leaf: _batched(leaf, size), args)
        return run_apart(rule, tuple(batched), public_readers, [size, flags])

    return program.plan.apart.once((id(function), id(body)), traced)


def _batched(leaf: Any, size: int) -> Any:
    shape = (size, *leaf.shape)
    return jax.ShapeDtypeStruct(shape, leaf.dtype, weak_type=leaf.weak_type)
