"""A function traced at its arguments, of which any leaf may be no array."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax

from untrace.capture.inputs import are_dynamic
from untrace.capture.origins import function_name
from untrace.capture.user_code import user_code
from untrace.interpreters.sub_programs import split


class Traced(NamedTuple):
    """A function at the types of some arguments.

    Attributes:
      jaxpr: The closed jaxpr.
      leaves: Those of the positional and keyword arguments.
      dynamic: Which of them are inputs of the jaxpr.
      arguments: The tree of both.
      types: Those of the results.
      result: The tree of the results.
    """

    jaxpr: Any
    leaves: list[Any]
    dynamic: list[bool]
    arguments: Any
    types: list[Any]
    result: Any


def traced(
    function: Callable[..., Any],
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    advice: str = "",
) -> Traced:
    """Trace a function.

    Args:
      function: Its arguments and result are pytrees.
      args: Arrays, or what has their shapes and dtypes.
      keywords: The same.
      advice: What to add to an error of the function.
    """
    leaves, tree = jax.tree.flatten((list(args), dict(keywords)))
    dynamic = list(are_dynamic([list(args), dict(keywords)], frozenset()))
    results: list[Any] = []

    def flat(*values: Any) -> list[Any]:
        rest = iter(values)
        full = [next(rest) if d else leaf for d, leaf in zip(dynamic, leaves)]
        made_args, made_keywords = jax.tree.unflatten(tree, full)
        made = function(*made_args, **made_keywords)
        results[:] = [jax.tree.structure(made)]
        return jax.tree.leaves(made)

    flat.__name__ = flat.__qualname__ = function_name(function)
    with user_code(advice):
        jaxpr = jax.make_jaxpr(flat)(*[x for x, d in zip(leaves, dynamic) if d])
    types = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype) if hasattr(aval, "dtype") else aval
        for aval in split(jaxpr)[0].out_avals
    ]
    return Traced(jaxpr, leaves, dynamic, tree, types, results[0])
