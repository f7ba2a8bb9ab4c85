"""Write the axes of `jax.vmap` for objects of libraries without these objects.

Frameworks give `jax.vmap` a tree of axes that has the class of the argument, with a
number where this has an array. What the file has instead of such an object holds its
arrays alone; one axis stands for all of them if they share it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax

from untrace import jaxapi
from untrace.optional import optional, unchanged
from untrace.recovery.record import Call

_PLAIN = (tuple, list, dict)
_MIXED = object()


@optional(unchanged)
def with_plain_axes(item: Call) -> Call:
    """Return a call of `jax.vmap` whose axes are numbers in plain containers.

    Other calls are returned as they are, as is one whose object mixes axes.
    """
    made = item.function
    if not isinstance(made, jaxapi.Transformed) or made.maker[1] != "vmap":
        return item
    options = dict(made.options)
    given = {"in_axes": tuple(item.args), "out_axes": item.result}
    for option, value in given.items():
        axes = options.get(option, 0)
        if _has_object(axes) and not item.kwargs:
            axes = _plain(axes, value)
            options[option] = options[option] if axes is _MIXED else axes
    return replace(item, function=replace(made, options=options))


def _has_object(axes: Any) -> bool:
    """Whether there is an object of a class in a tree of axes."""
    if type(axes) in _PLAIN:
        parts = axes.values() if type(axes) is dict else axes
        return any(map(_has_object, parts))
    return not jax.tree_util.all_leaves([axes], is_leaf=_is_none)


def _plain(axes: Any, value: Any) -> Any:
    """Write one axis for every object in a tree of axes; `_MIXED` if that is wrong."""
    if not _has_object(axes):
        return axes
    if type(axes) in (tuple, list) and isinstance(value, (tuple, list)):
        parts = [_plain(axis, part) for axis, part in zip(axes, value)]
        return _MIXED if _MIXED in parts else type(axes)(parts)
    if type(axes) is dict and isinstance(value, dict):
        made = {key: _plain(axis, value[key]) for key, axis in axes.items()}
        return _MIXED if _MIXED in made.values() else made
    found = _axes_of_leaves(axes, value)
    return found[0] if found and found[:1] * len(found) == found else _MIXED


def _axes_of_leaves(axes: Any, value: Any) -> list[Any]:
    """List the axis of every leaf of an argument."""
    spread = jax.tree.map(
        lambda axis, part: [axis] * len(jax.tree.leaves(part)),
        axes,
        value,
        is_leaf=_is_none,
    )
    return jax.tree.leaves(spread, is_leaf=_is_none)


def _is_none(value: Any) -> bool:
    return value is None
