"""What an interpreter is called with: a captured program, its inputs, and the way back.

All interpreters have the shape `tool(function, options)(*args)` and take what
`untrace.source` takes.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax

from untrace import jaxapi
from untrace.capture import Captured
from untrace.capture.capture import capture
from untrace.capture.jaxprs import capture_jaxpr, capture_traced
from untrace.capture.trees import accessors
from untrace.capture.user_code import user_code
from untrace.drop_in import as_inputs, update
from untrace.errors import CallError
from untrace.recovery.watching import unwatched
from untrace.result import Source

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Call:
    """A program and its inputs.

    Attributes:
      captured: The program.
      inputs: One array for each input of its jaxpr.
      returned: Makes the user's own result of the outputs of the jaxpr; arguments that
        the original changes in place are changed.
    """

    captured: Captured
    inputs: list[Any]
    returned: Callable[[Sequence[Any]], Any]

    @property
    def jaxpr(self) -> Any:
        """The closed jaxpr."""
        return self.captured.jaxpr

    @property
    def input_names(self) -> list[str]:
        """The expression that reaches each input: an argument, and the path in it."""
        named = {
            index: text
            for parameter in self.captured.parameters
            for index, text, _ in accessors(parameter.tree, parameter.name)
        }
        return [named.get(i, f"x{i}") for i in range(len(self.inputs))]


def tool(
    function: Any,
    use: Callable[[Call], Result],
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Result]:
    """Return a function of the arguments of `function` that uses its captured program.

    Args:
      function: A callable, a jaxpr or a `jax.stages.Traced` (called with the arguments
        that are not static), or a `Source` (called as its original is, or without
        arguments, at the inputs that it carries).
      use: Takes the program and its inputs.
      static_argnums: As in `jax.jit`.
      static_argnames: As in `jax.jit`.

    Returns:
      The function. It raises `CallError` if it is given other arguments than the
      program has, and `CaptureError` if the arguments cannot be traced.
    """
    if jaxapi.is_jaxpr(function):
        return lambda *inputs: use(_of_jaxpr(function, inputs))
    if jaxapi.is_traced(function):
        return lambda *args, **kwargs: use(_of_traced(function, args, kwargs))
    if isinstance(function, Source):

        def of_source(*args: Any, **kwargs: Any) -> Result:
            captured = function.captured
            if not args and not kwargs and captured.values:
                return use(_of_own_inputs(captured))
            fixed = _fixed_names(captured)
            return use(_of_function(function.load(), args, kwargs, None, fixed))

        return of_source

    def called(*args: Any, **kwargs: Any) -> Result:
        static = static_argnums, static_argnames
        return use(_of_function(function, args, kwargs, *static))

    try:
        return functools.wraps(function)(called)
    except (AttributeError, TypeError):  # a callable without a name
        return called


def _of_function(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
) -> Call:
    with unwatched(), user_code():
        captured = capture(function, args, kwargs, static_argnums, static_argnames)
    return _called(captured, {**dict(enumerate(args)), **kwargs})


def _called(captured: Captured, given: Mapping[int | str, Any]) -> Call:
    convention = captured.convention

    def returned(outputs: Sequence[Any]) -> Any:
        if convention is None:
            return outputs[0] if len(outputs) == 1 else tuple(outputs)
        result, changed = convention.returned(outputs)
        for item in convention.bound:
            if item.given in changed and item.key in given:
                update(given[item.key], changed[item.given])
        return result

    return Call(captured, _inputs(captured, captured.values), returned)


def _fixed_names(captured: Captured) -> list[str]:
    """The arguments that are no inputs of a program: it has their values."""
    convention = captured.convention
    if convention is None:
        return []
    inputs = {item.given for item in convention.bound}
    with contextlib.suppress(TypeError, ValueError):  # some have no signature
        names = inspect.signature(convention.function).parameters
        return [name for name in names if name not in inputs]
    return list(convention.static)


def _of_own_inputs(captured: Captured) -> Call:
    if any(value is None for value in captured.values):
        raise CallError(
            "the source was recovered from types alone and carries no inputs; call with "
            "arguments."
        )
    return _called(captured, {})


def _of_jaxpr(jaxpr: Any, inputs: Sequence[Any]) -> Call:
    captured = capture_jaxpr(jaxpr)
    n_inputs = len(captured.parameters)
    if len(inputs) != n_inputs:
        raise CallError(f"the jaxpr has {n_inputs} inputs; {len(inputs)} are given.")
    call = _called(captured, {})
    return Call(captured, _inputs(captured, inputs), call.returned)


def _of_traced(traced: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    captured = capture_traced(traced)
    known = jax.tree.structure(traced.args_info)
    leaves, tree = jax.tree.flatten((tuple(args), dict(kwargs)))
    if tree != known:
        raise CallError(
            f"the function was traced with the arguments {known}, and is called with "
            f"{tree}. Static arguments are left out."
        )
    result = jax.tree.structure(traced.out_info)
    return Call(captured, _inputs(captured, leaves), result.unflatten)


def _inputs(captured: Captured, values: Sequence[Any]) -> list[Any]:
    return as_inputs(values, jaxapi.split_jaxpr(captured.jaxpr)[0].in_avals)
