"""Define functions with batching rules: `custom_vmap` and `sequential_vmap`.

A rule that the recorded run did not need is traced apart, with every argument batched.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import jax

from untrace import jaxapi
from untrace.capture.origins import function_name
from untrace.lifting.recorded.calls.rule_places import is_global, place_rules
from untrace.lifting.recorded.functions.definitions import define
from untrace.lifting.recorded.readers import public_readers
from untrace.lifting.recorded.terms import Term
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.recovery.apart import run_apart, struct
from untrace.recovery.functions import innermost
from untrace.recovery.record import Body

if TYPE_CHECKING:
    from untrace.lifting.recorded.program import Program
    from untrace.lifting.recorded.writer import Writer

_MODULE = "jax.custom_batching"


def batching_term(function: Any, bodies: Sequence[Body], writer: Writer) -> Term:
    """Define a function with its batching rule, once; return its name.

    Raises:
      Unwritable: If it was not run.
    """
    program = writer.program
    key = id(function)
    known = program.customs.get(key)
    if known is not None:
        return known
    body = program.runs.last(function, bodies)
    if body is None:
        raise Unwritable(f"`{function_name(function.fun)}` was not run")
    is_sequential = jaxapi.is_sequential(function)
    maker = "sequential_vmap" if is_sequential else "custom_vmap"
    decorator = program.home_term((_MODULE, maker))
    made = define(function, body, writer, [decorator], key=key)
    program.customs[key] = made  # its rule may call it
    if not is_sequential:
        run = _rule_run(function, body, bodies, program)
        rule = define(function.vmap_rule, run, writer)
        place_rules(made, "def_vmap", [rule], [], writer)
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
    known, key = program.plan.rules, (id(function), id(body))
    if key not in known:
        size = jaxapi.BATCH_SIZES[0]
        args = [struct(value) for value in body.parameters.values()]
        flags = jax.tree.map(lambda _: True, args)
        batched = jax.tree.map(lambda leaf: _batched(leaf, size), args)
        static = [size, flags]
        known[key] = run_apart(rule, tuple(batched), public_readers, static)
    return known[key]


def _batched(leaf: Any, size: int) -> Any:
    shape = (size, *leaf.shape)
    return jax.ShapeDtypeStruct(shape, leaf.dtype, weak_type=leaf.weak_type)
