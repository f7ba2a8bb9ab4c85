"""What an inverse is called, and what it is given: `inverse_of_coupling(y, w)`.

An inverse takes any number of results, then known arguments. As it is called mostly, with
one result for each wanted argument, it is a function with these names: it is recorded as
one of the user's is, so that sources of programs that call it define it.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import types
from collections.abc import Callable, Sequence
from typing import Any

from untrace.capture.origins import ORIGIN, function_name, origin
from untrace.folder import OWN_FOLDER
from untrace.interpreters.inverting.problem import Asked
from untrace.recovery.classifying import recorded
from untrace.syntax.names import identifier


def named(inverted: Callable[..., Any], kind: str, asked: Asked) -> Any:
    """Return an inverse with a name, a signature and an origin.

    Args:
      inverted: Takes the results, then the known arguments.
      kind: What it is: `inverse`, `inverse_and_log_det`.
      asked: What was asked for.
    """
    plain = function_name(asked.function)
    name = kind if plain == "<lambda>" else f"{kind}_of_{identifier(plain, 'f')}"

    def inverse(*given: Any, **keywords: Any) -> Any:
        if keywords or len(given) != n_given:
            return inverted(*given, **keywords)
        return made(*given)

    signature = _signature(asked)
    n_given = -1
    made = inverted
    if signature is not None:
        names = [p.name for p in signature.parameters.values() if p.kind is _GIVEN]
        n_given, made = len(names), _calling(inverted, name, _legal(names))
        inverse.__dict__.update(__signature__=signature, __wrapped__=made)
    inverse.__name__ = inverse.__qualname__ = name
    inverse.__dict__[ORIGIN] = f"`{name}` of {origin(asked.function)}"
    return inverse


_GIVEN = inspect.Parameter.POSITIONAL_ONLY


def _signature(asked: Asked) -> inspect.Signature | None:
    """Return what an inverse takes: `y`, known arguments, keywords of the function."""
    try:
        parameters = list(inspect.signature(asked.function).parameters.values())
    except (TypeError, ValueError):
        return None
    if any(p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD) for p in parameters):
        return None
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    known: list[str] = []
    n_results = len(asked.examples) or len(positional)
    if asked.argnums is not None:
        argnums = asked.argnums
        wanted = [argnums] if isinstance(argnums, int) else list(argnums)
        places = [i % len(positional) for i in wanted if positional]
        known = [name for i, name in enumerate(positional) if i not in places]
        n_results = 1
    ys = ["y"] if n_results == 1 else [f"y_{i + 1}" for i in range(n_results)]
    keywords = [p for p in parameters if p.kind is p.KEYWORD_ONLY]
    taken = {*known, *[p.name for p in keywords]}
    ys = [f"{y}_" if y in taken else y for y in ys]
    made = [inspect.Parameter(each, _GIVEN) for each in (*ys, *known)]
    return inspect.Signature([*made, *keywords])


def _legal(names: Sequence[str]) -> tuple[str, ...]:
    """Return names that may be written: those of parameters come from anywhere."""
    legal = tuple([identifier(name, "x") for name in names])
    if len(set(legal)) < len(legal):
        return tuple([f"x_{i}" for i in range(len(legal))])
    return legal


def _calling(
    inverted: Callable[..., Any], name: str, parameters: tuple[str, ...]
) -> Callable[..., Any]:
    """Return a function with a name and parameters, which calls another one."""
    scope = {"inverted": inverted, "__builtins__": builtins}
    return recorded(types.FunctionType(_code(name, parameters), scope, name))


def _call() -> Any:
    # `inverted` is in the scope that each function has; parameters are in its code.
    return inverted(*locals().values())  # noqa: F821  # pyright: ignore


@functools.lru_cache(maxsize=1024)
def _code(name: str, parameters: tuple[str, ...]) -> types.CodeType:
    """Return the code of `_call` with parameters, which are all the locals that it has."""
    return _call.__code__.replace(
        co_name=name,
        co_qualname=name,
        co_filename=f"{OWN_FOLDER}<{name}>",
        co_varnames=parameters,
        co_argcount=len(parameters),
        co_nlocals=len(parameters),
    )
