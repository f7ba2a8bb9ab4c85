"""Recordings of one function at several sizes, laid on top of each other.

Calls correspond if the same functions were called in the same order. The numbers among
their arguments that differ become expressions of dimensions (`lifting.sizes`), in a copy
of the first recording. Where the recordings went different ways, it stays as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, cast

import jax

from untrace.lifting.recorded.naming.values import arrays_in
from untrace.recovery import bytecode
from untrace.recovery.record import Body, Call

Solve = Callable[[Sequence[Any]], Any]


def aligned(bodies: Sequence[Body], solve: Solve) -> Body:
    """Copy the first of several runs, with numbers replaced by what `solve` makes.

    Args:
      bodies: The same function, run at several sizes.
      solve: Is given a number in every run, if it is not the same in all.
    """
    first = bodies[0]
    if not _are_alike(bodies):
        return first
    calls = [_call(column, solve) for column in zip(*(b.calls for b in bodies))]
    parameters = merged([dict(b.parameters) for b in bodies], solve)
    result = merged([b.result for b in bodies], solve)
    return replace(first, calls=calls, parameters=parameters, result=result)


def are_alike(bodies: Sequence[Body]) -> bool:
    """Whether several runs made the same calls, and all inside of them did."""
    return _are_alike(bodies) and all(
        are_alike(runs)
        for column in zip(*(body.calls for body in bodies))
        for runs in zip(*(item.bodies for item in column))
    )


def named_sizes(bodies: Sequence[Body]) -> Iterator[tuple[str, tuple[int, ...], Body]]:
    """Yield the variables of the user that took sizes of arrays, with the sizes.

    The calls that a function makes come after it.
    """
    first = bodies[0]
    for taken in bytecode.taken_sizes(first.code):
        shapes = [_shape(body, taken) for body in bodies]
        if all(-len(shape) <= taken.axis < len(shape) for shape in shapes):
            yield taken.name, tuple([shape[taken.axis] for shape in shapes]), first
    if not _are_alike(bodies):
        return
    for column in zip(*(body.calls for body in bodies)):
        for runs in zip(*(item.bodies for item in column)):
            yield from named_sizes(runs)


def named_shapes(
    bodies: Sequence[Body], solve: Solve
) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """Yield the arrays that functions are given and return, with shapes of expressions."""
    if not _are_alike(bodies):
        return
    passed = [arrays_in([*body.parameters.values(), body.result]) for body in bodies]
    if len({*map(len, passed)}) == 1:
        for column in zip(*passed):
            shapes = [tuple(getattr(array, "shape", ())) for array in column]
            yield column[0], merged(shapes, solve)
    for items in zip(*(body.calls for body in bodies)):
        for runs in zip(*(item.bodies for item in items)):
            yield from named_shapes(runs, solve)


def _shape(body: Body, taken: bytecode.TakenSize) -> tuple[Any, ...]:
    """Return the shape that a size was taken of."""
    variables = body.locals if taken.is_local else body.parameters
    return getattr(variables.get(taken.owner), "shape", ())


def _are_alike(bodies: Sequence[Body]) -> bool:
    """Whether runs made the same calls, one level deep."""
    first = bodies[0]
    return all(
        body.code is first.code
        and len(body.calls) == len(first.calls)
        and all(map(_is_same_call, body.calls, first.calls))
        for body in bodies
    )


def _is_same_call(one: Call, other: Call) -> bool:
    return (
        _kind(one.function) == _kind(other.function)
        and len(one.args) == len(other.args)
        and one.kwargs.keys() == other.kwargs.keys()
        and len(one.bodies) == len(other.bodies)
    )


def _kind(function: Any) -> Any:
    """Return what tells functions apart that were made anew in every run."""
    name = getattr(function, "name", None) or getattr(function, "__name__", None)
    return type(function), name


def _call(items: Sequence[Call], solve: Solve) -> Call:
    first = items[0]
    args = merged([item.args for item in items], solve)
    kwargs = merged([item.kwargs for item in items], solve)
    bodies = [aligned(runs, solve) for runs in zip(*(i.bodies for i in items))]
    is_same = args is first.args and kwargs is first.kwargs
    if is_same and all(a is b for a, b in zip(bodies, first.bodies)):
        return first
    made = replace(first, args=args, kwargs=kwargs, bodies=bodies)
    if not is_same:  # the numbers that are left may be others than those that are alike
        made.formulas = tuple(
            [
                f
                for f in first.formulas
                if isinstance(f.value, float) or f.is_of_module()
            ]
        )
        made.factors = {
            int(one.value): one.name
            for formula in first.formulas
            for one in formula.parts()
            if type(one.value) is int and one.is_of_module()
        }
        made.shaped = ()
    return made


def merged(values: Sequence[Any], solve: Solve) -> Any:
    """Return the first of several values, with the numbers in it that differ solved."""
    first, kind = values[0], type(values[0])
    if any(type(value) is not kind for value in values):
        return first
    if kind is int or kind is float:
        return first if all(value == first for value in values) else solve(values)
    if isinstance(first, (tuple, list)):
        items = _merged_items(values, solve)
        if items is None:
            return first
        make: Any = kind
        return make(*items) if hasattr(first, "_fields") else make(items)
    if kind is dict:
        items = _merged_items([list(value.values()) for value in values], solve)
        is_same = all(value.keys() == first.keys() for value in values)
        return dict(zip(first, items)) if items is not None and is_same else first
    if kind is slice:
        ends = _merged_items([(v.start, v.stop, v.step) for v in values], solve)
        return first if ends is None else slice(*ends)
    if kind is jax.ShapeDtypeStruct:
        shape = _merged_items([value.shape for value in values], solve)
        return first if shape is None else _struct(first, tuple(shape))
    return first


def _merged_items(values: Sequence[Any], solve: Solve) -> list[Any] | None:
    """Merge the items of containers; None if there is nothing to change."""
    first = cast("Sequence[Any]", values[0])
    if any(len(value) != len(first) for value in values):
        return None
    items = [merged(column, solve) for column in zip(*values)]
    return None if all(a is b for a, b in zip(items, first)) else items


def _struct(struct: Any, shape: tuple[Any, ...]) -> Any:
    """Copy a `jax.ShapeDtypeStruct` with a shape that is written by names."""
    made = jax.ShapeDtypeStruct(
        shape, struct.dtype, weak_type=struct.weak_type, sharding=struct.sharding
    )
    made.shape = shape  # its constructor makes plain integers
    return made
