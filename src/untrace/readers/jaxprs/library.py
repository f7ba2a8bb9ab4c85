"""The function of JAX that a printed call with a derivative rule is.

What such a call computes is printed, its rule is not. If JAX has a function of that name
which traces to the very equations, at the operands as they are or in a batch, the rule is
that of this function. Numbers that it is told beside its operands are not printed: they are
tried, and the rule is known if all that give the equations have one derivative.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax

from untrace.jaxapi import unprinted

Function = Callable[..., Any]

_STATICS = (None, -1, 0, 1, 2, 3)
_MOST_BATCHED = 4  # operands of which each may be batched or not


class Library:
    """What of JAX is called in one text."""

    def __init__(self) -> None:
        self._known: dict[Any, Any] = {}

    def params(self, primitive: str, name: str, call: Any, avals: Sequence[Any]) -> Any:
        """Return the params of a call of the function of JAX that it is; None if of none."""
        key = primitive, name, str(call), tuple(avals)
        if key not in self._known:
            self._known[key] = _found(*key)
        return self._known[key]


def _found(primitive: str, name: str, shown: str, avals: Sequence[Any]) -> Any:
    for function in unprinted.library_rules(name):
        told = list(_told(function, len(avals)))
        for candidates in (told, [*_in_batches(told, avals)]):
            found = [
                (one, made)
                for one in candidates
                if (made := unprinted.rule_params(one, avals, primitive)) is not None
                and str(made["call_jaxpr"]) == shown
            ]
            if found and _is_certain([one for one, _ in found], avals):
                return found[0][1]
    return None


def _told(function: Any, n_operands: int) -> Iterator[Function]:
    """Yield a function of operands alone, for what it may be told beside them."""
    parameters = [*inspect.signature(function).parameters.values()]
    if any(p.kind is not p.POSITIONAL_OR_KEYWORD for p in parameters):
        yield function
        return
    usual = [None if p.default is p.empty else p.default for p in parameters]
    statics = function.nondiff_argnums
    operands = [i for i in range(len(parameters)) if i not in statics]
    for chosen in itertools.combinations(operands, min(n_operands, len(operands))):
        yield _with_operands(function, usual, chosen)
        for position, value in itertools.product(statics, _STATICS):
            if value is not usual[position]:
                given = [*usual[:position], value, *usual[position + 1 :]]
                yield _with_operands(function, given, chosen)


def _with_operands(
    function: Function, given: Sequence[Any], chosen: tuple[int, ...]
) -> Function:
    def of_operands(*args: Any) -> Any:
        named = dict(zip(chosen, args))
        return function(*[named.get(i, value) for i, value in enumerate(given)])

    return of_operands


def _in_batches(
    functions: Sequence[Function], avals: Sequence[Any]
) -> Iterator[Function]:
    """Yield functions under `jax.vmap`, along any axis, and twice along the first."""
    axes = [*_axes(avals)]
    for function in functions:
        for in_axes, out_axes in axes:
            yield jax.vmap(function, in_axes, out_axes)
        yield jax.vmap(jax.vmap(function))


def _axes(avals: Sequence[Any]) -> Iterator[tuple[tuple[int | None, ...], int]]:
    if len(avals) > _MOST_BATCHED:
        return
    for in_axes in itertools.product((0, None), repeat=len(avals)):
        if any(axis is not None for axis in in_axes):
            yield in_axes, 0
    for axis in range(1, min((aval.ndim for aval in avals), default=0)):
        yield (axis,) * len(avals), axis
        yield (axis,) * len(avals), 0


def _is_certain(functions: list[Function], avals: Sequence[Any]) -> bool:
    """Whether all functions have one derivative."""
    if len(functions) == 1:
        return True
    return len({_derivative(function, avals) for function in functions}) == 1


def _derivative(function: Function, avals: Sequence[Any]) -> str:
    def pulled_back(*args: Any) -> Any:
        out, pull_back = jax.vjp(function, *args)
        return pull_back(out)

    return str(jax.make_jaxpr(pulled_back)(*avals))
