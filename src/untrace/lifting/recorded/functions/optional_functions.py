"""Functions that are alike but for a function that one of them applies become one.

`dense(p, x, jax.nn.relu)` and `dense_2(p, x)`, whose author passes `act=None` for the
latter, are written as he wrote them: the parameter is None unless it is given. This works on
the finished text.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from untrace.lifting.printing import INDENT, Function
from untrace.lifting.recorded.functions.merging import close_gaps, renamed, stem_of
from untrace.lifting.recorded.functions.plain_calls import split
from untrace.optional import gives, optional

_NAME = re.compile(r"[^\W\d]\w*")


@optional(gives(None))
def merge_optional(functions: list[Function], main: Function) -> None:
    """Merge the functions of a module that apply another one with those that do not."""
    before = [function.name for function in functions]
    groups: dict[str, list[Function]] = {}
    for function in functions:
        groups.setdefault(stem_of(function.name), []).append(function)
    for group in groups.values():
        for full, plain in itertools.permutations(group, 2):
            if full in functions and plain in functions:
                _merge(full, plain, functions, main)
    left = {function.name for function in functions}
    close_gaps([*functions, main], [name for name in before if name not in left])


def _merge(
    full: Function, plain: Function, functions: list[Function], main: Function
) -> None:
    if not _is_bare(full, plain):
        return
    *shared, last = split(full.parameters) or [""]
    if shared != split(plain.parameters) or not _NAME.fullmatch(last):
        return
    lines = _guarded(full.lines, plain.lines, last)
    if lines is None:
        return
    full.lines, full.parameters = lines, ", ".join([*shared, f"{last}=None"])
    full.comment = ""
    full.shapes += plain.shapes
    full.agree(plain)
    first, other = sorted([full.name, plain.name], key=len)
    full.name = first
    functions.remove(plain)
    for one in [*functions, main]:
        one.rewrite(lambda line: renamed(line, other, first))


def _is_bare(*functions: Function) -> bool:
    """Whether functions have no decorators, annotations and statements behind them."""
    return not any(f.decorators or f.after or f.signature for f in functions)


def _guarded(full: Sequence[str], plain: Sequence[str], name: str) -> list[str] | None:
    """Write the lines of both functions; None if they differ in more than one.

    >>> _guarded(["y = x + 1", "return f(y)"], ["y = x + 1", "return y"], "f")
    ['y = x + 1', 'return y if f is None else f(y)']
    >>> _guarded(["y = f(x + 1)", "return y"], ["y = x + 1", "return y"], "f")
    ['y = x + 1', 'if f is not None:', '    y = f(y)', 'return y']
    """
    used = [i for i, line in enumerate(full) if re.search(rf"\b{name}\b", line)]
    if len(used) != 1:
        return None
    (index,) = used
    before, line, after = full[:index], full[index], full[index + 1 :]
    found = re.fullmatch(rf"(\s*)(return|\w+ =) {name}\((.*)\)", line)
    if found is None or re.search(rf"\b{name}\b", found[3]):
        return None
    start, target, value = found.groups()
    variable = target.removesuffix(" =")
    applied = [
        f"{start}if {name} is not None:",
        f"{start}{INDENT}{variable} = {name}({variable})",
    ]
    without = f"{start}{target} {value}"
    if variable == value and [*before, *after] == [*plain]:
        return [*before, *applied, *after]
    if [*before, without, *after] != [*plain]:
        return None
    if target != "return":
        return [*before, without, *applied, *after]
    if not _NAME.fullmatch(value):
        return None
    returned = f"{without} if {name} is None else {name}({value})"
    return [*before, returned, *after]
