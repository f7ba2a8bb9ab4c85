"""Which params the rules of a primitive know, by the names that these take.

Rules that are made of several functions pass on what they do not know (`**kwargs`), so that
a primitive can be bound with params that mean nothing.
"""

# These are JAX's private hooks; `tests/readers` checks each on every version.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Iterator
from typing import Any

from jax._src.interpreters import ad as _ad
from jax._src.interpreters import mlir as _mlir

from untrace.objects import closed_over

_USUAL = ("standard_abstract_eval", "standard_multi_result_abstract_eval")


@functools.cache
def known_params(primitive: Any) -> frozenset[str] | None:
    """Return the params that rules of a primitive take by name.

    None if it is no usual one of arrays: rules of others may read what they take by no name.
    """
    rules = (
        primitive.abstract_eval,
        *(getattr(lowering, "rule", lowering) for lowering in _lowerings(primitive)),
        _ad.primitive_jvps.get(primitive),
        _ad.primitive_transposes.get(primitive),
    )
    functions = list(_functions(rules, set()))
    if not any(function.__name__ in _USUAL for function in functions):
        return None
    known = (inspect.getargs(function.__code__) for function in functions)
    return frozenset(name for args in known for name in args.args)


def _lowerings(primitive: Any) -> Iterator[Any]:
    """Yield the lowerings of a primitive, those for one platform only too."""
    tables: list[Any] = [_mlir._lowerings, *_mlir._platform_specific_lowerings.values()]
    for table in tables:
        if primitive in table:
            yield table[primitive]


def _functions(rule: Any, seen: set[int]) -> Iterator[types.FunctionType]:
    """Yield the functions that a rule is made of."""
    if id(rule) in seen:
        return
    seen.add(id(rule))
    parts: tuple[Any, ...] = ()
    if isinstance(rule, functools.partial):
        parts = (rule.func, *rule.args, *rule.keywords.values())
    elif isinstance(rule, types.MethodType):
        parts = (rule.__func__,)
    elif isinstance(rule, tuple | list):
        parts = tuple(rule)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(rule, types.FunctionType):
        yield rule
        parts = (getattr(rule, "__wrapped__", None), *closed_over(rule).values())
    for part in parts:
        yield from _functions(part, seen)
