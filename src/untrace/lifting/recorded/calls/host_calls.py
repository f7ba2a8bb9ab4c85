"""Functions that run on the host: what `jax.pure_callback` and others are given.

They do not run while a program is traced, so there is no run to write them by. They are
imported, or a stand-in is in their place.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
from jax.experimental import io_callback

from untrace.lifting.blocks.standins import host_function_of
from untrace.lifting.recorded.terms import Global, Term
from untrace.lifting.recorded.unwritable import Unwritable
from untrace.lifting.recorded.writer import Writer
from untrace.lifting.spelling.homes import public_name
from untrace.recovery.record import Call

_ROLE, _RESULT = "callback", "result_shape_dtypes"
_WITH_RESULT = (jax.pure_callback, io_callback)
_CALLBACKS = (*_WITH_RESULT, jax.debug.callback)


def is_host_function(role: str, item: Call) -> bool:
    """Whether the argument of a call that has a role runs on the host."""
    return role == _ROLE and item.function in _CALLBACKS


def host_term(function: Any, item: Call, writer: Writer) -> Term:
    """Write the function that a call runs on the host."""
    inner = function.func if isinstance(function, functools.partial) else function
    if public_name(inner) is not None:
        return writer.function(function, [])
    result: Any = None
    if item.function in _WITH_RESULT:
        given = [*item.args[2:], *(v for k, v in item.kwargs.items() if k != _RESULT)]
        if not writer.program.options.keep_types and not _is_plain(given):
            raise Unwritable("its host function takes classes that are not imported")
        result = item.args[1] if len(item.args) > 1 else item.kwargs[_RESULT]
    name = host_function_of(function, result, writer.program.lifter)
    return Term([Global(name)])


def _is_plain(tree: Any) -> bool:
    """Whether a tree is one of tuples, lists and dicts."""
    if isinstance(tree, (tuple, list)):
        return all(map(_is_plain, tree))
    if type(tree) is dict:
        return all(map(_is_plain, tree.values()))
    return jax.tree_util.all_leaves([tree], is_leaf=lambda node: node is None)
