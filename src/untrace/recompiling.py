"""The public functions `why_recompiled` and `watch_compiles`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from untrace import jaxapi
from untrace.interpreters.recompiling.call_facts import facts_of
from untrace.interpreters.recompiling.causes import causes_of
from untrace.interpreters.recompiling.recompilations import CompileWatch, Recompilation


def why_recompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Say why a second call of a jitted function compiles it again.

    A jitted function is neither traced nor run: the two calls are compared in all that
    JAX looks at. Each call is described under the settings that are on when it is given,
    so the second may stand in another context (`with jax.enable_x64(True):`).

    Args:
      function: What `jax.jit` returned. Any other callable is RUN with both calls, and
        what is compiled again in the second is explained: for functions that make jitted
        functions themselves.

    Returns:
      A callable that takes the arguments of the first call, and returns one that takes
      those of the second and returns a `Recompilation`, or a `CompileWatch` for functions
      that are run.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> double = jax.jit(lambda x: x * 2)
    >>> print(why_recompiled(double)(jnp.ones(3))(jnp.ones(4)).causes[0])
    `x` was f32[3], is f32[4]: pad axis 0 to one size, or to one of a few
    """

    def first_call(*args: Any, **kwargs: Any) -> Callable[..., Any]:
        call = jaxapi.jit_call(function, args, kwargs)
        if call is None:
            watch = CompileWatch()
            with watch:
                function(*args, **kwargs)

            def run_again(*args: Any, **kwargs: Any) -> CompileWatch:
                watch.recompilations = ()
                with watch:
                    function(*args, **kwargs)
                return watch

            return run_again
        before = facts_of(call)

        def second_call(*args: Any, **kwargs: Any) -> Recompilation:
            again = jaxapi.jit_call(function, args, kwargs)
            assert again is not None  # it was one a moment ago
            after = facts_of(again)
            causes = causes_of(before, after)
            return Recompilation(after.name, after.defined, "", 0.0, causes)

        return second_call

    return first_call


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
