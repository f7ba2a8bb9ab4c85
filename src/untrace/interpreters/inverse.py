"""Functions run backwards: the public functions.

`inverse(f)` traces `f`, marks its results as known, lets knowledge spread through its
equations until the inputs are known (`inverting/`), and computes them. It is an ordinary
function: it can be jitted, mapped, differentiated, inverted, and written as source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from untrace.extension import load_entry_points
from untrace.interpreters.inverting.naming import named
from untrace.interpreters.inverting.problem import Asked, Problem
from untrace.interpreters.programs import program_of


def inverse(
    function: Any,
    *examples: Any,
    argnums: int | Sequence[int] | None = None,
    principal: bool = False,
    check: bool | None = None,
) -> Callable[..., Any]:
    """Return the inverse of a function, made of its equations.

    The function is traced; its results are taken as known, and each equation is solved
    for what it lacks, or evaluated if it lacks nothing, until the arguments are known.

    Args:
      function: A callable whose arguments and result are pytrees of arrays; or a jaxpr, a
        `jax.stages.Traced`, a `Source`, or the path of a file that untrace saved, which
        is EXECUTED. Of these, static arguments are left out.
      *examples: One for each positional argument of a callable, arrays or
        `jax.ShapeDtypeStruct`s: the types at which it is traced. They are not needed if
        each argument has the type of the result at its place.
      argnums: The arguments that are wanted; all positional ones by default. The others
        are given, after the results.
      principal: Invert functions that are not injective on their principal branch: `sin`
        on [-pi/2, pi/2], even powers, `abs` and `cosh` on x >= 0.
      check: Apply the function to what was found, and compare with what was given, where
        values are known (not under `jax.jit`). By default only if more numbers are given
        than found, unless there are factors of matrices among them, which are not unique.

    Returns:
      A function of the result, then of the arguments that are not wanted, in their
      order, and of keyword arguments of `f`: `inverse(f)(y)`. The parts of a tuple that
      `f` returns may be given one by one: `inverse(f)(*ys)`. It returns the wanted
      argument, or the tuple of them.

    Raises:
      InverseError: When called, if the function is not invertible. The message names the
        equation, its line, and why; or if the check finds that applying the function
        does not give back what was given.
      LoadError: If a file cannot be read or executed.

    >>> import jax, jax.numpy as jnp
    >>> f = lambda x: jnp.exp(jnp.tanh(x))
    >>> float(inverse(f)(f(0.5)).round(4))
    0.5
    """
    known = getattr(function, "__inverse_of__", None)
    if known is not None and not examples and argnums is None and not check:
        return known
    asked = _asked(function, examples, argnums, principal, check)

    def inverted(*given: Any, **keywords: Any) -> Any:
        return Problem(asked, given, keywords).solve(False)[0]

    made = named(inverted, "inverse", asked)
    if argnums is None and not principal:
        made.__dict__["__inverse_of__"] = asked.function
    return made


def inverse_and_log_det(
    function: Any,
    *examples: Any,
    argnums: int | Sequence[int] | None = None,
    principal: bool = False,
    check: bool | None = None,
) -> Callable[..., Any]:
    """Return the inverse of a function together with log |det| of its derivative.

    It is log |det dx/dy|, the one of the *inverse*: the density of y = f(x) is
    `log p(y) = base.log_prob(x) + log_det` for `x, log_det = inverse_and_log_det(f)(y)`.
    The one of `f` itself at x is its negative. It is a single number for all elements of
    the arguments together; for a batch use `jax.vmap`.

    Args:
      function: As for `inverse`.
      *examples: As for `inverse`.
      argnums: As for `inverse`; the derivative is the one by the wanted arguments.
      principal: As for `inverse`.
      check: As for `inverse`.

    Returns:
      A function as `inverse` returns it, whose result is a pair: what the inverse
      returns, and log |det|, `f32[]`. Complex numbers count as two real ones.

    Raises:
      InverseError: When called, as for `inverse`; if there are not as many inputs as
        results; or if log |det| of an equation cannot be computed cheaply.

    >>> import jax.numpy as jnp
    >>> x, log_det = inverse_and_log_det(lambda x: 2 * x)(jnp.ones(3))
    >>> round(float(log_det), 4)  # 3 log(1/2)
    -2.0794
    """
    asked = _asked(function, examples, argnums, principal, check)

    def inverted(*given: Any, **keywords: Any) -> Any:
        return Problem(asked, given, keywords).solve(True)

    return named(inverted, "inverse_and_log_det", asked)


def _asked(function: Any, examples: tuple[Any, ...], *options: Any) -> Asked:
    load_entry_points()
    program = program_of(function)
    return Asked(program.function, examples or program.examples, *options)
