"""Which parameters arguments are bound to, and which of them are static."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.captured import Parameter
from untrace.capture.numbering import describe_numbered, dropped
from untrace.capture.origins import function_name
from untrace.errors import CaptureError
from untrace.syntax.names import identifier


@dataclass(frozen=True, slots=True)
class Bound:
    """An argument, by position or keyword, and the parameter that it is bound to."""

    name: str
    kind: Any
    key: int | str


def traced_arguments(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static: frozenset[int | str],
) -> list[Bound]:
    """List the arguments that are not static, in the order of the inputs."""
    bound = bound_arguments(function, len(args), list(kwargs))
    return [item for item in bound if item.key not in static]


def parameters_of(
    bound: list[Bound], treedef: Any, traced: Sequence[bool]
) -> tuple[Parameter, ...]:
    """Describe the parameters, whose leaves are numbered in the order of the inputs."""
    numbered = jax.tree.unflatten(treedef, list(range(len(traced))))
    numbers = {i: sum(traced[:i]) if t else None for i, t in enumerate(traced)}
    found: list[Parameter] = []
    for item, value in zip(bound, numbered):
        tree = dropped(describe_numbered(value), numbers)
        if tree is not None:
            name = unused(identifier(item.name, "arg"), found)
            found.append(Parameter(name, item.kind, tree))
    return tuple(found)


def unused(name: str, found: list[Parameter]) -> str:
    while any(parameter.name == name for parameter in found):
        name += "_"
    return name


def bound_arguments(
    function: Callable[..., Any], n_args: int, keywords: list[str]
) -> list[Bound]:
    """Bind arguments to parameters, in their order; `*args` and `**kwargs` spread out."""
    plain, keyword = (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.KEYWORD_ONLY,
    )
    try:
        signature = inspect.signature(function)
        arguments = signature.bind(
            *range(n_args), **{key: key for key in keywords}
        ).arguments
    except (TypeError, ValueError):
        # The call itself tells the user what is wrong with the arguments.
        unnamed = [Bound(f"arg{i}", plain, i) for i in range(n_args)]
        return [*unnamed, *(Bound(key, keyword, key) for key in keywords)]
    found: list[Bound] = []
    for name, key in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found += [Bound(f"{name}_{i}", plain, item) for i, item in enumerate(key)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found += [Bound(item, keyword, item) for item in key]
        else:
            found.append(Bound(name, keyword if kind is keyword else plain, key))
    return found


def static_keys(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
) -> frozenset[int | str]:
    """Return positions and keywords of static arguments, as `jax.jit` would see them."""
    nums = (
        (static_argnums,)
        if isinstance(static_argnums, int)
        else tuple(static_argnums or ())
    )
    names = (
        (static_argnames,)
        if isinstance(static_argnames, str)
        else tuple(static_argnames or ())
    )
    own_nums, own_names = jaxapi.static_arguments(function)
    nums, names = (*nums, *own_nums), (*names, *own_names)
    order = _signature_names(function)
    positions = {n % len(args) if -len(args) <= n < 0 else n for n in nums}
    positions |= {order.index(name) for name in names if name in order}
    keywords = {*names, *(order[n] for n in positions if n < len(order))}
    static = frozenset(
        [n for n in positions if n < len(args)] + [k for k in keywords if k in kwargs]
    )
    for key in static:
        _check_hashable(
            function, key, args[key] if isinstance(key, int) else kwargs[key], order
        )
    return static


def _check_hashable(
    function: Any, key: int | str, value: Any, order: list[str]
) -> None:
    try:
        hash(value)
    except TypeError:
        name = order[key] if isinstance(key, int) and key < len(order) else key
        raise CaptureError(
            f"static argument `{name}` of `{function_name(function)}` is a "
            f"{type(value).__name__}, which is not hashable, so `jax.jit` would refuse it "
            "too. Pass a hashable value (a tuple instead of a list), or do not mark it static."
        ) from None


def _signature_names(function: Callable[..., Any]) -> list[str]:
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return []
