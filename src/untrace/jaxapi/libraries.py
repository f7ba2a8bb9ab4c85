"""Which primitives are a library's, and what is remembered about them.

A library may say how its primitive is compiled by a function of JAX's, through
`mlir.lower_fun`: so much is known of a primitive without tracing anything.
"""

# These are JAX's private hooks; `tests/lifting/test_opened.py` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, TypeVar, cast

import jax
import numpy as np
from jax._src import config as _config
from jax._src.interpreters import ad as _ad
from jax._src.interpreters import batching as _batching
from jax._src.interpreters import mlir as _mlir

from untrace.jaxapi.wrappers import inner_code
from untrace.objects import closed_over

_JAX = frozenset({"jax", "jaxlib"})
_LOWERED = inner_code(_mlir.lower_fun, "f_lowered")


def library_of(primitive: Any) -> str:
    """Return the package whose function a primitive is compiled as; "" if none does."""
    function = compiled_as(primitive)
    while isinstance(function, functools.partial):
        function = function.func
    root = str(getattr(function, "__module__", None) or "jax").partition(".")[0]
    return "" if function is None or root in _JAX else root


# The primitives whose derivatives are asked about: that of one may hold it again.
asked_about: ContextVar[frozenset[Any]] = ContextVar("asked_about", default=frozenset())
_Asked = TypeVar("_Asked", bound=Callable[[Any, Mapping[str, Any], Any, Any], Any])
MAX_REMEMBERED = 1024


def remembered(function: _Asked) -> _Asked:
    """Remember the answers of a function that is asked about primitives of libraries.

    They are the same for the same primitive with the same rules, params, types and
    settings. Params that may change in place are asked about anew each time.
    """
    known: dict[Any, tuple[Any, Any]] = {}

    def asked(
        primitive: Any, params: Mapping[str, Any], avals: Any, out_avals: Any
    ) -> Any:
        if not library_of(primitive) or _may_change(tuple(params.values())):
            return function(primitive, params, avals, out_avals)
        given = tuple([(name, _exact(value)) for name, value in sorted(params.items())])
        types, settings = (tuple(avals), tuple(out_avals)), _config.trace_context()
        rules = _rules(primitive)
        around = asked_about.get()
        key = primitive, tuple(map(id, rules)), given, types, settings, around
        found = known.get(key)
        if found is None:
            answer = function(primitive, params, avals, out_avals)
            if len(known) >= MAX_REMEMBERED:
                known.clear()
            alive = dict(params), rules  # what is known by its `id`
            found = known[key] = alive, answer
        return found[1]  # another thread may forget it

    return cast(_Asked, functools.wraps(function)(asked))


def _may_change(value: Any) -> bool:
    if isinstance(value, tuple):
        return any(map(_may_change, value))
    return isinstance(value, list | dict | set | bytearray | np.ndarray)


def _rules(primitive: Any) -> tuple[Any, ...]:
    """Return how a primitive is differentiated, batched, computed and compiled now."""
    tables: tuple[Any, ...] = (
        _ad.primitive_jvps,
        _ad.primitive_transposes,
        _batching.fancy_primitive_batchers,
    )
    registered = [table.get(primitive) for table in tables]
    return *registered, primitive.impl, compiled_as(primitive)


def _exact(value: Any) -> Any:
    """Return what only the same value has: 1 is not True, and 0.0 not -0.0.

    What may have an equality of its own is known by its identity.
    """
    kind = type(value)
    if kind is tuple:
        return kind, *map(_exact, value)
    if kind in (bool, int, str, bytes, type(None)):
        return kind, value
    if kind is jax.tree_util.PyTreeDef and _is_plain(value):
        return kind, _exact_tree(value)
    return (kind, repr(value)) if kind in (float, complex) else (kind, id(value))


def _is_plain(tree: Any) -> bool:
    """Whether a tree has Python's containers alone; other classes may compare anything."""
    kind, _ = tree.node_data() or (tuple, None)
    return kind in (tuple, list, dict, type(None)) and all(
        map(_is_plain, tree.children())
    )


def _exact_tree(tree: Any) -> Any:
    kind, keys = tree.node_data() or ("leaf", ())
    return kind, _exact(tuple(keys or ())), *map(_exact_tree, tree.children())


def operand_names(primitive: Any, n_operands: int) -> tuple[str, ...] | None:
    """Return what the function that a primitive is compiled as calls the operands."""
    compiled = compiled_as(primitive)
    if compiled is None:
        return None
    parameters = list(inspect.signature(compiled).parameters.values())[:n_operands]
    kinds = {parameter.kind for parameter in parameters}
    if len(parameters) < n_operands or kinds != {
        inspect.Parameter.POSITIONAL_OR_KEYWORD
    }:
        return None
    return tuple([parameter.name for parameter in parameters])


def compiled_as(primitive: Any) -> Callable[..., Any] | None:
    """Return the function that a primitive is compiled as on all platforms."""
    entry = _mlir._lowerings.get(primitive)
    rule = getattr(entry, "rule", entry)
    if not isinstance(rule, types.FunctionType) or rule.__code__ is not _LOWERED:
        return None
    if any(primitive in rules for rules in _mlir._platform_specific_lowerings.values()):
        return None
    return closed_over(rule)["fun"]
