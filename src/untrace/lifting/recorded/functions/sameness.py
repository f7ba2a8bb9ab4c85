"""Tell which functions are one: their text is the same but for names of parameters.

A function that takes `params` once and `target_params` another time is one function, as
is one whose inner functions were run at several types, which their comments tell. Names of
parameters that are called matter: `act=jnp.tanh` is not `norm=jnp.tanh`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from untrace.lifting.heads import head_text
from untrace.lifting.printing import Function
from untrace.syntax.text import STRING

_STRING = rf"(?P<string>{STRING})"
_NESTED_TYPES = re.compile(r"^(\s*def .*:)  # .*$")


def meaning(function: Function) -> tuple[str, ...]:
    """Return the text of a function without what does not matter."""
    lines, head = [*untyped(function.lines), *function.decorators], function.parameters
    text = "\n".join(lines)
    has_stars = any(one.stars or one.is_keyword for one in head)
    names = [
        one.name
        for one in (() if has_stars else head)
        if not re.search(rf"(?<![\w.]){one.name}\(", text)
    ]
    if not names:
        return head_text(head), *lines
    numbered = {name: f"${i}" for i, name in enumerate(names)}
    # Attributes and the keywords of calls are no parameters.
    words = re.compile(rf"{_STRING}|(?<![\w.])({'|'.join(names)})(?!\w|=(?!=))")
    blank = [one._replace(name="$") if one.name in numbered else one for one in head]
    return head_text(tuple(blank)), *[
        words.sub(lambda m: m["string"] or numbered[m[2]], line) for line in lines
    ]


def untyped(lines: Sequence[str]) -> list[str]:
    """Leave out the comments that tell the types of inner functions."""
    return [_NESTED_TYPES.sub(r"\1", line) for line in lines]
