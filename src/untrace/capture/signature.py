"""Which parameters arguments are bound to, and which of them are static."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import jax

from untrace import jaxapi
from untrace.capture.numbering import dropped
from untrace.capture.origins import function_name
from untrace.capture.parameters import Bound, Parameter
from untrace.capture.trees import describe_each
from untrace.errors import CaptureError
from untrace.syntax.names import HELPER_NAMES, identifier
from untrace.syntax.text import quote


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
    bound: list[Bound], arguments: Sequence[Any], traced: Sequence[bool]
) -> tuple[Parameter, ...]:
    """Describe the parameters, whose leaves are numbered in the order of the inputs."""
    numbers = {i: sum(traced[:i]) if t else None for i, t in enumerate(traced)}
    found: list[Parameter] = []
    for item, described in zip(bound, describe_each(arguments)):
        tree = dropped(described, numbers)
        if tree is not None:
            found.append(Parameter(item.name, item.kind, tree))
    return tuple(found)


def renamed_note(bound: Sequence[Bound]) -> list[str]:
    """Say which arguments have other names than the function gives them, if any have."""
    pairs = [(b.given, b.name) for b in bound if b.given != b.name]
    if not pairs:
        return []
    listed = ", ".join(f"`{name}` for {quote(given)}" for given, name in pairs)
    return [f"Names of arguments that cannot be kept: {listed}."]


def legal_names(given: Iterable[str], taken: Sequence[str] = ()) -> list[str]:
    """Return legal names, each another, for arguments of any names."""
    names: list[str] = []
    for name in given:
        others = {*names, *taken, *HELPER_NAMES}
        names.append(unused(identifier(name, "arg"), others))
    return names


def unused(name: str, taken: Collection[str]) -> str:
    """Return a name like this one that is not taken."""
    while name in taken:
        name += "_"
    return name


def bound_arguments(
    function: Callable[..., Any], n_args: int, keywords: list[str]
) -> list[Bound]:
    """Bind arguments to parameters, in their order; `*args` and `**kwargs` spread out."""
    found = _bound(function, n_args, keywords)
    names = legal_names([given for given, _, _ in found])
    return [
        Bound(name, kind, key, str.__str__(given))
        for name, (given, kind, key) in zip(names, found)
    ]


def _bound(
    function: Callable[..., Any], n_args: int, keywords: list[str]
) -> list[tuple[str, Any, int | str]]:
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
        unnamed = [(f"arg{i}", plain, i) for i in range(n_args)]
        return [*unnamed, *((key, keyword, key) for key in keywords)]
    found: list[tuple[str, Any, int | str]] = []
    for name, key in arguments.items():
        kind = signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_POSITIONAL:
            found += [(f"{name}_{i}", plain, item) for i, item in enumerate(key)]
        elif kind is inspect.Parameter.VAR_KEYWORD:
            found += [(item, keyword, item) for item in key]
        else:
            found.append((name, keyword if kind is keyword else plain, key))
    return found


def check_static(
    function: Any,
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
) -> None:
    """Refuse static arguments that `jax.jit` refuses, with its own error.

    Raises:
      ValueError: If the function has no such parameters, or names one twice; or if
        there is no function.
      TypeError: If they are neither numbers nor names.
    """
    if static_argnums is None and static_argnames is None:
        return
    if not callable(function):
        raise ValueError(
            "static_argnums and static_argnames are those of a function; what is traced "
            "already has none"
        )
    jax.jit(function, static_argnums=static_argnums, static_argnames=static_argnames)


def static_keys(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
) -> frozenset[int | str]:
    """Return positions and keywords of static arguments, as `jax.jit` would see them."""
    check_static(function, static_argnums, static_argnames)
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
