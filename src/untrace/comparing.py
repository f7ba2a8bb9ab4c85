"""The public function `diff`: two programs, and the statements in which they differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from untrace import jaxapi
from untrace.extension import load_entry_points
from untrace.interpreters.comparing.compare import compare_programs
from untrace.interpreters.comparing.comparison import Comparison
from untrace.interpreters.doors import captured_program, is_known, is_path


def diff(
    before: Any,
    after: Any,
    *,
    context: int = 3,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Any:
    """Whether two programs are the same, and in which statements they differ.

    Functions are traced and not run. What "the same" means is what it means for
    `untrace.source`: "equal" programs have the same equations in the same order,
    "equivalent" ones the same data flow. Names of variables and parameters count for
    neither; the trees of the results do.

    Args:
      before: A callable, a jaxpr, also a printed one, a `jax.stages.Traced`, a `Source`, or the path of a
        file that untrace saved, which is EXECUTED.
      after: The same.
      context: How many statements to show around each that differs.
      static_argnums: As in `jax.jit`, for both.
      static_argnames: As in `jax.jit`, for both.

    Returns:
      If one of them is a callable, a callable that takes the arguments of both and
      returns a `Comparison`; otherwise the `Comparison`.

    Raises:
      CaptureError: If the arguments cannot be traced.
      LoadError: If a file cannot be read.

    >>> import jax.numpy as jnp
    >>> found = diff(lambda x: jnp.sin(x) * 2.0, lambda x: jnp.sin(x) * 2.5)(jnp.ones(3))
    >>> found.verdict, found.differences[0].what
    ('different', '2.0 became 2.5')
    """
    static = static_argnums, static_argnames

    def with_arguments(*args: Any, **kwargs: Any) -> Comparison:
        calls = [Call(each, args, kwargs) for each in (before, after)]
        return diff_calls(calls[0], calls[1], context, *static)

    if is_known(before) and is_known(after):
        return with_arguments()
    return with_arguments


class Call(NamedTuple):
    """A program, and the arguments of a callable."""

    program: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = {}


def diff_calls(
    before: Call,
    after: Call,
    context: int = 3,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Comparison:
    """Compare two programs that each have arguments of their own (see `diff`)."""
    load_entry_points()
    static = static_argnums, static_argnames
    are_anew = is_path(before.program) or is_path(after.program)
    programs = before.program, after.program
    traced = filter(jaxapi.is_traced, programs)
    told = sorted({what for each in traced for what in jaxapi.told_to_jit(each)})
    with jaxapi.outside_traces():
        sides = [captured_program(*call, *static) for call in (before, after)]
        found = compare_programs(sides[0], sides[1], context, are_anew)
    if not told:
        return found
    note = f"what `jax.jit` was told besides ({', '.join(told)})"
    return replace(found, notes=(*found.notes, note))
