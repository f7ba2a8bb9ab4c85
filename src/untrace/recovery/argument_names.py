"""What the caller's code calls the arguments of a call: numbers, arrays, containers."""

from __future__ import annotations

import itertools
import types
from collections.abc import Iterable
from typing import Any

from untrace import jaxapi
from untrace.recovery.array_items import array_items
from untrace.recovery.bytecode import Site
from untrace.recovery.constant_arguments import constant_arguments
from untrace.recovery.formulas import formulas
from untrace.recovery.functions import signature_of
from untrace.recovery.limits import limited_arrays
from untrace.recovery.numbers import (
    NO_NUMBERS,
    flattened,
    held_numbers,
    module_names,
    named_arrays,
    named_containers,
    number_names,
    only_names,
    say_nothing,
    shaped_arrays,
    written_numbers,
)
from untrace.recovery.record import Body, Call
from untrace.recovery.shape_parts import shape_parts
from untrace.recovery.shared_parts import shared_parts
from untrace.recovery.snapshots import Snapshots


def name_arguments(
    call: Call,
    site: Site,
    frame: types.FrameType,
    body: Body,
    snapshots: Snapshots,
    near: types.FrameType | None = None,
) -> None:
    """Note what the caller's code tells about the arguments of a call.

    Args:
      site: Where it stands.
      frame: The caller's, which is at the call.
      snapshots: Copies the containers that its variables hold.
      near: The frame that makes the call, if there is code between.
    """
    given = _given(call)
    if not site.is_library:
        call.held = NO_NUMBERS
    is_all = near is None and not site.is_starred and not body.shared
    if is_all and say_nothing(given, site):
        call.held = NO_NUMBERS  # the only one that there may be stands in the source
        return
    if body.shared:
        call.parts = shared_parts(frame, body.shared, snapshots)
    flat = flattened(given)
    names = number_names(frame, given, flat)
    call.numbers = only_names(names) if names else ()
    parameters = call.bodies[0].parameters if call.is_own else {}
    call.arrays = named_arrays(frame, flat, parameters)
    if site.is_library:
        written = written_numbers(names, site)
        call.held = frozenset(names) - written if written else call.held
        # `1 - beta` where `beta` is a parameter
        made = formulas(frame, given, body, (), near) if _has_float(flat) else ()
        call.formulas = tuple([one for one in made if isinstance(one.value, float)])
        return
    call.held = held_numbers(frame, names) if names else NO_NUMBERS
    call.module_names = module_names(names)
    call.constants = constant_arguments(frame, call, given)
    frames = [frame] if near is None else [frame, near]
    parts = [shape_parts(one, body) for one in frames]
    call.shape_parts = next(filter(None, parts), ())
    call.items = array_items(frame, flat)
    sizes = [size for part in call.shape_parts for size in part.sizes]
    written = given if near is not None else _written(call, given)
    call.formulas = formulas(frame, written, body, sizes, near)
    shaped = [shaped_arrays(one, given) for one in frames]
    call.shaped = (*itertools.chain(*shaped), *limited_arrays(frame, given))
    containers = named_containers(frame, given)
    call.containers = tuple([(n, snapshots.take(value)) for n, value in containers])


def _has_float(values: Iterable[Any]) -> bool:
    return any(isinstance(value, float) for value in values)


def _written(call: Call, given: list[Any]) -> list[Any]:
    """Leave out numbers that stand nowhere: the defaults of a public function."""
    spelling, function = call.spelling, jaxapi.open_boundary(call.function)
    n_written = spelling.n_positional if spelling is not None else len(call.args)
    rest = call.args[n_written:]
    is_plain = call.is_own or not isinstance(function, types.FunctionType)
    if is_plain or not any(type(value) in (int, float) for value in rest):
        return given
    parameters = list(signature_of(function).parameters.values())[n_written:]
    named = spelling.keywords if spelling is not None else ()
    left = [
        value
        for value, parameter in zip(rest, parameters)
        if parameter.name in named or value is not parameter.default
    ]
    return [*call.args[:n_written], *left, *call.kwargs.values()]


def _given(call: Call) -> list[Any]:
    """List what a call was given."""
    if call.is_own:
        return list(call.bodies[0].parameters.values())
    return [*call.args, *call.kwargs.values()]
