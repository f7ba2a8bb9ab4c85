"""Write `jax.vmap` and scans of a library's functions without superfluous containers.

Libraries pass `(None, x)` through `jax.vmap` and return `(y, None, Static())`, where
None stands for what is not there. An argument or a result that holds a single array is
written as this array, and its axes without the containers. What a scan carries, takes
and makes loses the parts that hold nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.lifting.recorded.naming.values import has_array, is_array
from untrace.optional import optional, unchanged
from untrace.recovery.functions import peel
from untrace.recovery.record import Body, Call, Target, is_library

Path = tuple[Any, ...]


@optional(unchanged)
def unwrapped(item: Call) -> Call:
    """Return a call of `jax.vmap` or a scan with bare arrays; other calls as they are."""
    made = item.function
    if made is jax.lax.scan:
        return _unwrapped_scan(item)
    if not isinstance(made, jaxapi.Transformed) or made.maker[1] != "vmap":
        return item
    if item.kwargs or len(item.bodies) != 1:
        return item
    (body,) = item.bodies
    names = list(body.parameters)
    if not is_library(body.code) or len(names) != len(item.args):
        return item
    paths = [way(arg, _is_object) for arg in item.args]
    out = way(item.result, _is_object)
    values = [followed(body.parameters[n], path) for n, path in zip(names, paths)]
    return replace(
        item,
        function=_with_axes(made, paths, out),
        args=tuple([followed(arg, path) for arg, path in zip(item.args, paths)]),
        result=followed(item.result, out),
        target=_part(item.target, out),
        bodies=[_with_arrays(body, dict(zip(names, values)), out)],
    )


def _unwrapped_scan(item: Call) -> Call:
    """Leave out what holds no arrays in what a scan carries, takes and makes."""
    if len(item.bodies) != 1 or len(item.args) < 3:
        return item
    (body,) = item.bodies
    results = item.result, body.result
    if not is_library(body.code) or not all(map(is_pair, results)):
        return item
    function, init, xs, *options = item.args
    parameters = {name: stripped(v) for name, v in body.parameters.items()}
    made, inner = [tuple(map(stripped, result)) for result in results]
    target = item.target
    if isinstance(target, tuple):
        target = tuple([None if isinstance(name, tuple) else name for name in target])
    return replace(
        item,
        args=(function, stripped(init), stripped(xs), *options),
        result=made,
        target=target,
        bodies=[replace(body, parameters=parameters, result=inner)],
    )


def is_pair(value: Any) -> bool:
    """Whether a value is a tuple of two."""
    return type(value) is tuple and len(value) == 2


def stripped(value: Any) -> Any:
    """Drop the parts of plain containers that hold no arrays, if there are any.

    A tuple of one part becomes this part.
    """
    if not _is_full(value):
        return () if type(value) is tuple else value
    return _stripped(value) if _has_empty_part(value) else value


def _stripped(value: Any) -> Any:
    if type(value) is dict:
        return {key: _stripped(part) for key, part in value.items() if _is_full(part)}
    if type(value) not in (tuple, list):
        return value
    parts = [_stripped(part) for part in value if _is_full(part)]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _has_empty_part(value: Any) -> bool:
    if type(value) not in (tuple, list, dict):
        return False
    parts = value.values() if type(value) is dict else value
    return any(not _is_full(part) or _has_empty_part(part) for part in parts)


def _is_full(value: Any) -> bool:
    """Whether a loop has arrays in the place of a value; numbers become such."""
    if type(value) in (tuple, list, dict):
        return any(map(_is_full, value.values() if type(value) is dict else value))
    return isinstance(value, (bool, int, float, complex)) or has_array(value)


def _with_axes(
    made: jaxapi.Transformed, paths: list[Path], out: Path
) -> jaxapi.Transformed:
    """Take the containers off the axes, and leave out what is the default then.

    A mapped function that is mapped again takes the same containers.
    """
    options, function = dict(made.options), made.function
    layer = peel(function)
    if layer is not None and layer.kind == "transformed":
        inner = layer.value
        if inner.maker[1] == "vmap":
            function = _with_axes(inner, paths, out)
    axes = options.pop("in_axes", 0)
    if isinstance(axes, (tuple, list)):
        axes = tuple([followed(axis, path) for axis, path in zip(axes, paths)])
        if isinstance(axes[0], int) and axes == axes[:1] * len(axes):
            axes = axes[0]
    if axes != 0:
        options["in_axes"] = axes
    axes = followed(options.pop("out_axes", 0), out)
    if axes != 0:
        options["out_axes"] = axes
    return replace(made, function=function, options=options)


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


def _is_object(value: Any) -> bool:
    """Whether a value is an object of a class that holds arrays."""
    return type(value) not in (tuple, list, dict) and has_array(value)


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
