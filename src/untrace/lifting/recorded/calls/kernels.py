"""Write kernels of Pallas as they were made: `pl.pallas_call(kernel, out_shape, ...)`.

The kernel and the index maps of its block specs are functions of the program, written
by their runs. What else there is has the notation that it has at level "lax".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.lifting.blocks.kernels import block_shape
from untrace.lifting.blocks.state import memory_text, pallas, scratch_text
from untrace.lifting.frame import Frame
from untrace.lifting.recorded.building import (
    call,
    display,
    keyword,
    literal_term,
    text_term,
)
from untrace.lifting.recorded.functions.definitions import define
from untrace.lifting.recorded.terms import Global, Term
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.record import Body, Call
from untrace.syntax.names import Scope

_COUNT = "num_scalar_prefetch"
_IN_SPEC = ("grid", "in_specs", "out_specs", "scratch_shapes")
"""What stands in the grid spec of a kernel that prefetches scalars."""


def kernel_term(
    made: jaxapi.Transformed, kernel: Term, bodies: Sequence[Body], writer: Writer
) -> Term:
    """Write `pl.pallas_call` of a kernel, with what is not the default."""
    frame = Frame(writer.program.lifter, Scope(), {})
    options = dict(made.options)
    first = [kernel, _out_shape(options.pop("out_shape"), writer)]
    terms = {
        name: keyword(name, _option(name, value, bodies, writer, frame))
        for name, value in options.items()
    }
    if _COUNT in terms:
        tpu = frame.lifter.imports.attribute("jax.experimental.pallas", "tpu", "pltpu")
        inner = [terms.pop(name) for name in (_COUNT, *_IN_SPEC) if name in terms]
        spec = call(Term([Global(f"{tpu}.PrefetchScalarGridSpec")]), inner)
        first.append(keyword("grid_spec", spec))
    home = Term([Global(f"{pallas(frame)}.pallas_call")])
    return call(home, [*first, *terms.values()])


def is_guard(function: Any) -> bool:
    """Whether a function is what `pl.when` made of another."""
    return (
        isinstance(function, jaxapi.Transformed) and function.maker == jaxapi.WHEN_HOME
    )


def write_guarded(made: jaxapi.Transformed, item: Call, writer: Writer) -> None:
    """Define a function under `@pl.when(condition)`, which runs it."""
    home = writer.program.home_term(made.maker)
    decorator = call(home, [writer.value(made.options["condition"])])
    body = writer.program.runs.last(made.function, item.bodies)
    if body is None:
        raise Unwritable("what `pl.when` guards was not run while recording")
    define(made.function, body, writer, [decorator], is_run=True)


def _out_shape(shapes: Any, writer: Writer) -> Term:
    if type(shapes) is tuple:
        return display("[]", [_out_shape(shape, writer) for shape in shapes])
    return writer.forms.static(shapes, writer)


def _option(
    name: str, value: Any, bodies: Sequence[Body], writer: Writer, frame: Frame
) -> Term:
    if name in ("in_specs", "out_specs"):
        return _specs(value, bodies, writer, frame)
    if name == "scratch_shapes":
        return _scratch(value, frame)
    if name == "grid":
        return writer.value(value)
    return literal_term(value, frame.lifter.spell(value))


def _specs(specs: Any, bodies: Sequence[Body], writer: Writer, frame: Frame) -> Term:
    """Write block specs, and the lists that they stand in."""
    if type(specs) in (tuple, list):
        return display("[]", [_specs(one, bodies, writer, frame) for one in specs])
    if type(specs).__name__ != "BlockSpec":
        raise Unwritable(f"a {type(specs).__name__} among block specs is not known")
    terms: list[Term] = []
    if specs.block_shape is not None:
        terms.append(text_term(block_shape(specs.block_shape, frame)))
    function = jaxapi.index_map(specs)
    if function is not None:
        term = writer.function(function, bodies)
        terms.append(term if terms else keyword("index_map", term))
    if specs.memory_space is not None:
        term = text_term(memory_text(specs.memory_space, frame))
        terms.append(keyword("memory_space", term))
    if specs.pipeline_mode is not None:
        term = text_term(frame.lifter.spell(specs.pipeline_mode))
        terms.append(keyword("pipeline_mode", term))
    return call(Term([Global(f"{pallas(frame)}.BlockSpec")]), terms)


def _scratch(shapes: Any, frame: Frame) -> Term:
    """Write the types of buffers, in the list or dict that they stand in."""
    if type(shapes) in (tuple, list):
        return display("[]", [_scratch(shape, frame) for shape in shapes])
    text = scratch_text(shapes.get_ref_aval(), frame)
    if text is None:
        raise Unwritable("a scratch buffer has no notation")
    return text_term(text)
