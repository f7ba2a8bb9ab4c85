"""A program that only calls one jitted function is that function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from untrace.lifting.printing import Function
from untrace.lifting.recorded.functions.library import names_in
from untrace.lifting.recorded.terms import CALL, Global, Group, Term
from untrace.lifting.recorded.tree import Draft
from untrace.optional import optional, unchanged


@optional(unchanged)
def opened(
    main: Function,
    functions: list[Function],
    drafts: Mapping[Function, Draft],
    jit: str,
) -> Function:
    """Return the main function with the text of the one that it only calls, if it does.

    Args:
      main: The main function.
      functions: The others; that one is taken out.
      drafts: The trees of them.
      jit: What `jax.jit` is called in the file.
    """
    inner, makers = _only_call(drafts[main])
    if len(main.lines) != 1 or main.after or not {*makers} <= {jit}:
        return main
    if inner not in functions or inner.after or main.parameters != inner.parameters:
        return main
    if any(inner.name in names_in(one, drafts) for one in functions):
        return main
    functions.remove(inner)
    decorators = [*main.decorators, *makers, *inner.decorators]
    taken = {function.name for function in functions}
    name = main.name if main.names[0] in taken else main.names[0]
    return replace(
        main, name=name, lines=inner.lines, decorators=decorators, docs=inner.docs
    )


def _only_call(draft: Draft) -> tuple[Function | None, list[str]]:
    """Return the function that is called with all parameters alone, and what makes it.

    `return f(x, y)` has no maker, `return jax.jit(f)(x, y)` has one.
    """
    result = Term() if draft.result is None else draft.result.opened()
    match result.parts:
        case [Global() as called, Group() as passed]:
            makers: list[str] = []
        case [
            Global() as maker,
            Group(items=[Term(parts=[called])]),
            Group() as passed,
        ]:
            makers = [maker.text]
        case _:
            return None, []
    refs = [item.ref and item.ref.resolved() for item in passed.items]
    given = [ref and not ref.path and ref.name for ref in refs]
    is_all = passed.kind == CALL and given == [one.name for one in draft.parameters]
    function = called.symbol if isinstance(called, Global) and is_all else None
    return (function if isinstance(function, Function) else None), makers
