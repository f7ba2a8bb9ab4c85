"""A program that only calls one jitted function is that function."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from untrace.lifting.heads import plain_head
from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.calls import is_mentioned
from untrace.lifting.recorded.unify.names import body_of
from untrace.optional import optional, unchanged


@optional(unchanged)
def opened(main: Function, functions: list[Function], jit: str) -> Function:
    """Return the main function with the text of the one that it only calls, if it does.

    Args:
      main: The main function.
      functions: The others; that one is taken out.
      jit: What `jax.jit` is called in the file.
    """
    if len(main.lines) != 1 or main.after:
        return main
    called, maker, given = _only_call(main)
    if maker not in ("", jit):
        return main
    inner = next((f for f in functions if f.name == called), None)
    if inner is None or inner.after or inner.parameters != plain_head(*given):
        return main
    named = frozenset({inner.name})
    is_named = any(is_mentioned(one, named) for one in functions)
    if main.parameters != inner.parameters or is_named:
        return main
    functions.remove(inner)
    decorators = [*main.decorators, *filter(None, [maker]), *inner.decorators]
    taken = {function.name for function in functions}
    name = main.name if main.names[0] in taken else main.names[0]
    return replace(
        main, name=name, lines=inner.lines, decorators=decorators, docs=inner.docs
    )


def _only_call(main: Function) -> tuple[str, str, Sequence[str]]:
    """Return the function that is called with variables alone, what makes it, and these.

    The text `return f(x, y)` has no maker, `return jax.jit(f)(x, y)` has one.
    """
    body = body_of(main)
    match body.nodes[0]:
        case ast.Return(value=ast.Call(func=function, args=args, keywords=[])):
            pass
        case _:
            return "", "", ()
    given = [one.id for one in args if isinstance(one, ast.Name)]
    if len(given) < len(args):
        return "", "", ()
    match function:
        case ast.Name(id=name):
            return name, "", given
        case ast.Call(func=maker, args=[ast.Name(id=name)], keywords=[]):
            return name, body.source(maker), given
        case _:
            return "", "", ()
