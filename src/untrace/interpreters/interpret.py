"""Evaluate a function equation by equation: the way to write an interpreter of one's own.

The function is traced once; then a handler is called with every equation, in order, and
its operands. It may look at them, return something else, take the time, or stop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from untrace import jaxapi
from untrace.extension import load_entry_points
from untrace.interpreters.called import Call, tool
from untrace.interpreters.evaluate import Handler, evaluate


def interpret(
    function: Any,
    handler: Handler,
    *,
    static_argnums: int | Sequence[int] | None = None,
    static_argnames: str | Sequence[str] | None = None,
) -> Callable[..., Any]:
    """Evaluate a function equation by equation, each by a handler.

    The handler is called as `handler(step, *operands)` and returns the result of the
    equation, or a sequence of all if its primitive has several. `step(*operands)`
    evaluates it as JAX does, and what it has inside with the handler, too: `jit`,
    derivative rules and `checkpoint` by their bodies, `scan` and `while` turn by turn,
    the branch of a `cond` that is taken. `step.bind(*operands)` evaluates it as a whole.
    `step.name`, `step.params`, `step.equation` and `step.path` say which one it is.

    Any exception that the handler raises ends the evaluation and reaches the caller as
    it is: raise one of your own to stop. Equations keep their named scopes and
    tracebacks: errors point to the user's line, and so does what is traced anew.

    The function that comes back can be transformed by `jax.jit`, `jax.vmap`,
    `jax.grad` and `untrace.source` like any other. Where values are traced, loops and
    branches stay what they are, and the handler sees their bodies once.

    Args:
      function: A callable, a jaxpr, also a printed one, a `jax.stages.Traced`, a `Source`, or the path of a
        file that untrace saved, which is EXECUTED.
      handler: Called with every equation and its operands.
      static_argnums: As in `jax.jit`.
      static_argnames: As in `jax.jit`.

    Returns:
      A function of the arguments of `function`; for a `Source` those of its original, for a
      file those of its function, or none for the inputs that it carries. It returns what
      the function returns, in the same containers.
      Kernels and host functions are evaluated as a whole.

    Raises:
      CaptureError: If the arguments cannot be traced.
      CallError: If they are not those that a traced program was traced with.
      LoadError: If a file cannot be read.

    >>> import jax.numpy as jnp
    >>> def with_cosine(step, *operands):
    ...     return jnp.cos(*operands) if step.name == "sin" else step(*operands)
    >>> float(interpret(lambda x: jnp.sin(x) + 1, with_cosine)(0.0))
    2.0
    """
    load_entry_points()

    def run(call: Call) -> Any:
        outputs = evaluate(call.jaxpr, call.inputs, handler, jaxapi.equation_context)
        return call.returned(outputs)

    return tool(function, run, static_argnums, static_argnames)
