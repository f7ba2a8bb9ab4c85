"""The public functions `why_recompiled` and `watch_compiles`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax

from untrace import jaxapi
from untrace.interpreters.doors import is_known
from untrace.interpreters.programs import Program, program_of
from untrace.interpreters.recompiling.call_facts import Facts, facts_of
from untrace.interpreters.recompiling.causes import causes_of
from untrace.interpreters.recompiling.recompilations import CompileWatch, Recompilation


def why_recompiled(function: Any) -> Callable[..., Any]:
    """Say why a second call of a jitted function compiles it again.

    A jitted function is neither traced nor run: the two calls are compared in all that
    JAX looks at. Each call is described under the settings that are on when it is given,
    so the second may stand in another context (`with jax.enable_x64(True):`).

    Args:
      function: What `jax.jit` returned. Any other callable is RUN with both calls, and
        what is compiled again in the second is explained: for functions that make jitted
        functions themselves; if nothing jitted is compiled in them, they are compared as
        if `jax.jit` were around them. Or a jaxpr, a `jax.stages.Traced`, a `Source` or
        the path of a file that untrace saved, which is EXECUTED: these are not run, and
        know a first call, which need not be given: `why_recompiled("saved.py")()(*args)`.

    Returns:
      A callable that takes the arguments of the first call, and returns one that takes
      those of the second and returns a `Recompilation`, or a `CompileWatch` for functions
      that are run.

    Raises:
      CallError: If it is no function or program.
      LoadError: If a file cannot be read or executed.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> double = jax.jit(lambda x: x * 2)
    >>> print(why_recompiled(double)(jnp.ones(3))(jnp.ones(4)).causes[0])
    `x` was f32[3], is f32[4]: pad axis 0 to one size, or to one of a few
    """
    if is_known(function) or not callable(function):
        return _of_program(program_of(function))

    def first_call(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        if jaxapi.jit_call(function, args, kwargs) is None:
            return _run(function, args, kwargs)
        return _compared(function, args, kwargs)

    return first_call


def _of_program(program: Program) -> Callable[..., Any]:
    """Compare calls of what knows the types of its arguments, so that they may be left out."""
    jitted = jax.jit(program.function)

    def first_call(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        if not args and not kwargs:
            return _compared(jitted, program.examples, program.keywords)
        return _compared(jitted, args, kwargs)

    return first_call


def _compared(
    jitted: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    is_jitted: bool = True,
) -> Callable[..., Recompilation]:
    """Describe the first call, and return what compares a second one with it."""
    before = _facts(jitted, args, kwargs)

    def second_call(*args: Any, **kwargs: Any) -> Recompilation:
        after = _facts(jitted, args, kwargs)
        causes = causes_of(before, after)
        return Recompilation(after.name, after.defined, "", 0.0, causes, is_jitted)

    return second_call


def _facts(jitted: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Facts:
    call = jaxapi.jit_call(jitted, args, kwargs)
    assert call is not None  # `jax.jit` made it
    return facts_of(call)


def _run(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> Callable[..., CompileWatch | Recompilation]:
    """Run a function that is not jitted, and return what runs it again."""
    watch = CompileWatch()
    with watch:
        function(*args, **kwargs)
    as_jitted = _compared(jax.jit(function), args, kwargs, is_jitted=False)

    def run_again(*args: Any, **kwargs: Any) -> CompileWatch | Recompilation:
        watch.recompilations = ()
        with watch:
            function(*args, **kwargs)
        has_compiled = bool(watch.recompilations or watch.n_first)
        return watch if has_compiled else as_jitted(*args, **kwargs)

    return run_again


def watch_compiles(show: bool = True) -> CompileWatch:
    """Watch what JAX compiles, and explain what is compiled again.

    Start before the first call of what you are interested in: a compilation is explained
    by an earlier one that was seen.

    Args:
      show: Print a table on standard error at the end.

    Returns:
      A context manager; afterwards it has `.recompilations`, and `print` shows them.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> double = jax.jit(lambda x: x * 2)
    >>> with watch_compiles(show=False) as watch:
    ...     for n in (3, 4):
    ...         _ = double(jnp.ones(n))
    >>> [cause.kind for cause in watch.recompilations[0].causes]
    ['shape']
    """
    return CompileWatch(show)
