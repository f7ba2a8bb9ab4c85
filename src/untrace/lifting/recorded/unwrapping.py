"""Write `jax.vmap` of a library's function without the containers around its arrays.

Libraries pass `(None, x)` through `jax.vmap` and return `(y, None, Static())`, where
None stands for what is not there. An argument or a result that holds a single array is
written as this array, and its axes without the containers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.lifting.recorded.values import has_array, is_array
from untrace.recovery.record import Body, Call, Target, is_library

Path = tuple[Any, ...]


def unwrapped(item: Call) -> Call:
    """Return a call of `jax.vmap` with bare arrays; other calls as they are."""
    made = item.function
    if not isinstance(made, jaxapi.Transformed) or made.maker[1] != "vmap":
        return item
    if item.kwargs or len(item.bodies) != 1:
        return item
    (body,) = item.bodies
    names = list(body.parameters)
    if not is_library(body.code) or len(names) != len(item.args):
        return item
    paths = [way(arg) for arg in item.args]
    out = way(item.result)
    values = [followed(body.parameters[n], path) for n, path in zip(names, paths)]
    return replace(
        item,
        function=_with_axes(made, paths, out),
        args=tuple([followed(arg, path) for arg, path in zip(item.args, paths)]),
        result=followed(item.result, out),
        target=_part(item.target, out),
        bodies=[_with_arrays(body, dict(zip(names, values)), out)],
    )


def _with_axes(
    made: jaxapi.Transformed, paths: list[Path], out: Path
) -> jaxapi.Transformed:
    """Take the containers off the axes, and leave out what is the default then."""
    options = dict(made.options)
    axes = options.pop("in_axes", 0)
    if isinstance(axes, (tuple, list)):
        axes = tuple([followed(axis, path) for axis, path in zip(axes, paths)])
        axes = axes[0] if axes == axes[:1] * len(axes) else axes
    if axes != 0:
        options["in_axes"] = axes
    axes = followed(options.pop("out_axes", 0), out)
    if axes != 0:
        options["out_axes"] = axes
    return replace(made, options=options)


def _with_arrays(body: Body, values: Mapping[str, Any], out: Path) -> Body:
    return replace(body, parameters=values, result=followed(body.result, out))


def way(value: Any, is_whole: Callable[[Any], bool] = is_array) -> Path:
    """Return the keys that lead through plain containers to the only thing they hold.

    That is an array, or a container that `is_whole`.
    """
    keys: list[Any] = []
    while not is_array(value) and not is_whole(value):
        if type(value) in (tuple, list):
            items = list(enumerate(value))
        elif type(value) is dict:
            items = list(value.items())
        else:
            return ()
        full = [(key, part) for key, part in items if has_array(part)]
        if len(full) != 1:
            return ()
        keys.append(full[0][0])
        value = full[0][1]
    return tuple(keys)


def followed(value: Any, path: Path) -> Any:
    """Follow a path, or stop where one value stands for all of a tree."""
    for key in path:
        if type(value) not in (tuple, list, dict):
            return value
        value = value[key]
    return value


def _part(target: Target, path: Path) -> Target:
    """Return the name that a caller gave to the part of a result."""
    for key in path:
        if not isinstance(target, tuple):
            return None
        target = target[key] if isinstance(key, int) and key < len(target) else None
    return target
