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
from pathlib import Path
from typing import Any, TypeVar

import jax

from untrace import jaxapi
from untrace.capture import Captured
from untrace.capture.trees import accessors
from untrace.drop_in import as_inputs, update
from untrace.errors import CallError
from untrace.interpreters.doors import captured_program, is_known, is_path
from untrace.readers.formats import read
from untrace.recovery.watching import unwatched
from untrace.result import Source
from untrace.saved_program import open_saved

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
      function: A callable; a jaxpr, a printed one (its text or a file in which it stands)
        or a `jax.stages.Traced` (called with the arguments that are not static); a
        `Source` or the path of a saved file, which is EXECUTED (called as its original
        or its function is, or without arguments, at the inputs that it carries).
      use: Takes the program and its inputs.
      static_argnums: As in `jax.jit`.
      static_argnames: As in `jax.jit`.

    Returns:
      The function. It raises `CallError` if it is given other arguments than the
      program has, `CaptureError` if the arguments cannot be traced, and `LoadError` if
      a file cannot be read.
    """
    static = static_argnums, static_argnames
    function = read(function)

    def called(*args: Any, **kwargs: Any) -> Result:
        return use(_call(function, args, kwargs, *static))

    if is_known(function):
        return called
    try:
        return functools.wraps(function)(called)
    except (AttributeError, TypeError):  # a callable without a name
        return called


def _call(
    function: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    static_argnums: int | Sequence[int] | None,
    static_argnames: str | Sequence[str] | None,
) -> Call:
    if jaxapi.is_jaxpr(function):
        return _of_jaxpr(function, args, kwargs)
    if jaxapi.is_traced(function):
        return _of_traced(function, args, kwargs)
    has_arguments = bool(args or kwargs)
    given: dict[int | str, Any] = {**dict(enumerate(args)), **kwargs}
    if isinstance(function, Source):
        if not has_arguments and function.captured.values:
            return _of_own_inputs(function.captured)
        static_argnums, static_argnames = None, _fixed_names(function.captured)
        function = function.load()
    with unwatched():
        if is_path(function):
            saved = open_saved(Path(function))
            captured = (
                saved.captured_at(args, kwargs) if has_arguments else saved.captured()
            )
        else:
            static = static_argnums, static_argnames
            captured = captured_program(function, args, kwargs, *static)
    if any(value is None for value in captured.values):
        raise CallError("a program that is evaluated needs values, not types alone.")
    return _called(captured, given)


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


def _of_jaxpr(jaxpr: Any, inputs: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    captured = captured_program(jaxpr)
    n_inputs = len(captured.values)
    if len(inputs) != n_inputs or kwargs:
        n_given = len(inputs) + len(kwargs)
        raise CallError(
            f"the jaxpr has {n_inputs} inputs, without names; {n_given} are given."
        )
    call = _called(captured, {})
    return Call(captured, _inputs(captured, inputs), call.returned)


def _of_traced(traced: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Call:
    captured = captured_program(traced)
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
