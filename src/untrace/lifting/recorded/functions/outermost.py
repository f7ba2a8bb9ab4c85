"""A program that only calls one jitted function is that function."""

from __future__ import annotations

import re
from dataclasses import replace

from untrace.lifting.printing import Function
from untrace.optional import optional, unchanged

_CALL = re.compile(r"return (?P<function>\w+)\((?P<given>[\w, ]*)\)")
_JITTED = re.compile(
    r"return (?P<jit>[\w.]+)\((?P<function>\w+)\)\((?P<given>[\w, ]*)\)"
)


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
    found = _CALL.fullmatch(main.lines[0]) or _JITTED.fullmatch(main.lines[0])
    if found is None or found.groupdict().get("jit", jit) != jit:
        return main
    inner = next((f for f in functions if f.name == found["function"]), None)
    if inner is None or inner.after or inner.parameters != found["given"]:
        return main
    if main.parameters != inner.parameters or _is_named(inner, functions):
        return main
    functions.remove(inner)
    made = [jit] if "jit" in found.groupdict() else []
    decorators = [*main.decorators, *made, *inner.decorators]
    taken = {function.name for function in functions}
    name = main.name if main.names[0] in taken else main.names[0]
    return replace(
        main, name=name, lines=inner.lines, decorators=decorators, docs=inner.docs
    )


def _is_named(function: Function, functions: list[Function]) -> bool:
    """Whether a function is mentioned by another one, or by itself."""
    word = re.compile(rf"\b{function.name}\b")
    lines = [line for one in functions for line in (*one.decorators, *one.lines)]
    return any(word.search(line) for line in lines)
