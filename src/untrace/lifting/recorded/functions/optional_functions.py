"""Functions that are alike but for functions that some of them apply become one.

`dense(p, x, jax.nn.relu)` and `dense_2(p, x)`, whose author passes `act=None` for the
latter, are written as he wrote them: the parameter is None unless it is given. This works on
the finished text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from untrace.lifting.printing import INDENT, Function
from untrace.lifting.recorded.functions.merging import close_gaps, renamed, stem_of
from untrace.lifting.recorded.functions.plain_calls import PlainCalls, split
from untrace.optional import gives, optional

_NAME = re.compile(r"[^\W\d]\w*")


@optional(gives(None))
def merge_optional(functions: list[Function], main: Function) -> None:
    """Merge the functions of a module that apply others with those that apply fewer."""
    before = [function.name for function in functions]
    groups: dict[str, list[Function]] = {}
    for function in functions:
        groups.setdefault(stem_of(function.name), []).append(function)
    for group in groups.values():
        for full in sorted(group, key=lambda one: -len(split(one.parameters))):
            if full in functions:
                plain = [one for one in group if one in functions and one is not full]
                _merge(full, plain, functions, main)
    left = {function.name for function in functions}
    close_gaps([*functions, main], [name for name in before if name not in left])


@dataclass(frozen=True, slots=True)
class _Use:
    """The only line that applies a parameter: its place, and what may stand there.

    `guarded` are the lines that apply the parameter if it is given; `without` those of a
    function that has no such parameter.
    """

    index: int
    guarded: Sequence[str]
    without: Sequence[str]


def _merge(
    full: Function, group: Sequence[Function], functions: list[Function], main: Function
) -> None:
    """Let a function be those of a group, too, that lack some of its parameters."""
    uses = {
        name: use
        for name in split(full.parameters)
        if (use := _use(full.lines, name)) is not None
    }
    lacking = [(one, _lacking(full, one, uses)) for one in group]
    found = [(one, names) for one, names in lacking if names]
    while found and not _may_lack(full, {n for _, names in found for n in names}):
        first = min((names for _, names in found), key=lambda n: _places(full, n))
        found = [(one, names) for one, names in found if names != first]
    users = [*functions, main]
    found = [
        (one, names)
        for one, names in found
        if _rewrite_calls(one, full, names, [u for u in users if u is not one])
    ]
    optional_ = {name for _, names in found for name in names}
    if not optional_:
        return
    full.lines = _with(full.lines, {uses[n].index: uses[n].guarded for n in optional_})
    full.parameters = ", ".join(
        f"{name}=None" if name in optional_ else name for name in split(full.parameters)
    )
    full.comment = ""
    for one, _ in found:
        full.shapes += one.shapes
        full.agree(one)
        functions.remove(one)
    name = min([full.name, *[one.name for one, _ in found]], key=len)
    old, full.name = full.name, name
    for one in [*functions, main]:
        one.rewrite(lambda line: renamed(line, old, name))


def _lacking(
    full: Function, plain: Function, uses: Mapping[str, _Use]
) -> tuple[str, ...]:
    """Return the parameters that a function lacks which is another one without them."""
    if any(f.decorators or f.after or f.signature for f in (full, plain)):
        return ()
    shared = split(plain.parameters)
    names = tuple([name for name in split(full.parameters) if name not in shared])
    if [n for n in split(full.parameters) if n in shared] != shared:
        return ()
    if not all(name in uses for name in names):
        return ()
    lines = _with(full.lines, {uses[name].index: uses[name].without for name in names})
    return names if lines == plain.lines else ()


def _with(lines: Sequence[str], others: Mapping[int, Sequence[str]]) -> list[str]:
    """Return lines with others in some places."""
    parts = [others.get(index, [line]) for index, line in enumerate(lines)]
    return [line for part in parts for line in part]


def _places(full: Function, names: Sequence[str]) -> list[int]:
    parameters = split(full.parameters)
    return [parameters.index(name) for name in names]


def _may_lack(full: Function, names: set[str]) -> bool:
    """Whether all parameters from the first of some on may have defaults."""
    parameters = split(full.parameters)
    first = min(_places(full, [*names]))
    return all(one in names or "=" in one for one in parameters[first:])


def _rewrite_calls(
    plain: Function, full: Function, names: Sequence[str], users: Sequence[Function]
) -> bool:
    """Let calls of a function be those of another one that has more parameters.

    What comes after one that is not given is passed by its name.

    Returns:
      Whether that was possible; nothing was changed if not.
    """
    shared = split(plain.parameters)
    n_before = min(_places(full, names))
    if len(shared) <= n_before:  # a call or not: the other one takes the same
        for one in users:
            one.rewrite(lambda line: renamed(line, plain.name, full.name))
        return True
    calls = PlainCalls([plain.name])

    def change(_: str, arguments: list[str]) -> tuple[str, list[str]] | None:
        if len(arguments) != len(shared):
            return None
        later = zip(shared[n_before:], arguments[n_before:])
        named = [f"{name}={argument}" for name, argument in later]
        return full.name, [*arguments[:n_before], *named]

    lines = {
        line for one in users for line in (*one.lines, *one.decorators, *one.after)
    }
    new = {line: calls.rewrite(line, change) for line in lines}
    if calls.is_refused:
        return False
    for one in users:
        one.rewrite(lambda line: new.get(line, line))
    return True


def _use(lines: Sequence[str], name: str) -> _Use | None:
    """Return the only line that applies a parameter; None if that is no plain one.

    >>> _use(["y = x + 1", "return f(y)"], "f")
    _Use(index=1, guarded=['return y if f is None else f(y)'], without=['return y'])
    >>> _use(["y = f(x)", "return y"], "f").guarded
    ['y = x', 'if f is not None:', '    y = f(y)']
    >>> _use(["y = f(y)"], "f")
    _Use(index=0, guarded=['if f is not None:', '    y = f(y)'], without=[])
    """
    if not _NAME.fullmatch(name):
        return None
    used = [i for i, line in enumerate(lines) if re.search(rf"\b{name}\b", line)]
    found = None
    if len(used) == 1:
        found = re.fullmatch(rf"(\s*)(return|\w+ =) {name}\((.*)\)", lines[used[0]])
    if found is None or re.search(rf"\b{name}\b", found[3]):
        return None
    start, target, value = found.groups()
    if target == "return":
        if not _NAME.fullmatch(value):
            return None
        without = f"{start}return {value}"
        given = f"{without} if {name} is None else {name}({value})"
        return _Use(used[0], [given], [without])
    variable = target.removesuffix(" =")
    before = [] if variable == value else [f"{start}{target} {value}"]
    applied = f"{start}{INDENT}{variable} = {name}({variable})"
    return _Use(
        used[0], [*before, f"{start}if {name} is not None:", applied], [*before]
    )
