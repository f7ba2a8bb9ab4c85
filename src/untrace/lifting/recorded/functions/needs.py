"""What of a library's functions is needed: parts of their results, or no function at all.

A library returns all that any caller may want: `(y1, None, {"y0": y0}, state)`. When the
program is written, the references show which parts are used; it is written again with
functions that return only these. A function that is called once is written where it is
called if it is one short expression, or a few lines of what another function of the
library does; one that is no longer than its own head is, wherever it is called.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from untrace.lifting.recorded.function import Draft, Names, Statement
from untrace.lifting.recorded.terms import Name, Ref
from untrace.recovery.record import Call, Target

MAX_INLINE = 64  # characters of the expression of a function that is called once
FEW_LINES = 3  # of a function that is no better than what it does, with two parameters
MAX_LINES = 16  # of such a function and what calls it, together
_CALLED = re.compile(r"(?<![\w.])(\w+)\(")

# Which members of a tuple are needed: all of it, nothing, or each member for itself.
Need = bool | tuple["Need", ...]


@dataclass(frozen=True, eq=False, slots=True)
class Kept:
    """A call of a library's function that was written as a call.

    Attributes:
      item: The call as it was recorded.
      result: What of its result the function returns.
      statement: The call as it is written; its targets may still be split.
      function: The name of the function.
      draft: The function.
      caller: What calls it, if it is only a part of that for those who read it.
    """

    item: Call
    result: Any
    statement: Statement
    function: str
    draft: Draft
    caller: Draft | None


@dataclass(eq=False, slots=True)
class References:
    """What a program refers to.

    Attributes:
      kept: The calls of a library's functions.
      paths: The paths of all references, by name.
    """

    kept: list[Kept] = field(default_factory=list[Kept])
    paths: dict[Name, set[str]] = field(default_factory=dict[Name, "set[str]"])

    def add(self, draft: Draft) -> None:
        """Take note of the names that a function refers to."""
        for part in draft.parts():
            if type(part) is Ref:
                ref = part.resolved()
                self.paths.setdefault(ref.name, set()).add(ref.path)


def needs(references: References) -> dict[Call, Need]:
    """Return what is needed of the results of calls, where that is not all."""
    found: dict[Call, Need] = {}
    for group in _by_function(references).values():
        need: Need = False
        for kept in group:
            names = kept.statement.targets
            need = _either(need, _named(kept.result, names, references.paths))
        if isinstance(need, tuple):
            found.update({kept.item: need for kept in group})
    return found


def called_once(references: References, lines: Iterable[str]) -> set[Call]:
    """Return the calls of functions that are better written where they are called.

    Args:
      references: What the program refers to.
      lines: Its text.
    """
    times = Counter(_CALLED.findall("\n".join(lines)))
    found: set[Call] = set()
    grown: Counter[str] = Counter()
    for function, group in _by_function(references).items():
        kept = group[-1]
        if _is_trivial(kept.draft):
            found.update(kept.item for kept in group)
        if times[function] != 2:  # its head, and the call
            continue
        n_lines = kept.draft.lines_left()
        if _is_short(kept.draft):
            found.update(kept.item for kept in group)
        elif kept.caller is not None and not grown[kept.draft.name]:
            few = max(FEW_LINES, len(kept.draft.parameters) + 1)
            around = kept.caller.lines_left() + grown[kept.caller.name]
            if n_lines <= few and around + n_lines <= MAX_LINES:
                grown[kept.caller.name] += n_lines
                found.update(kept.item for kept in group)
    return found


def _by_function(references: References) -> dict[str, list[Kept]]:
    groups: dict[str, list[Kept]] = {}
    for kept in references.kept:
        groups.setdefault(kept.function, []).append(kept)
    return groups


def _is_short(draft: Draft) -> bool:
    if draft.result is None or draft.statements_left():
        return False
    return len(draft.result.render()) <= MAX_INLINE


def _is_trivial(draft: Draft) -> bool:
    """Tell whether a function is one expression that says no more than its head."""
    if draft.result is None or draft.statements_left() or draft.decorators:
        return False
    if any(parameter.name.uses != 1 for parameter in draft.parameters):
        return False
    head = f"def {draft.name}({draft.parameter_text()}): return"
    return len(draft.result.render()) <= len(head)


def narrowed(item: Call, steps: Iterable[Need]) -> Call:
    """Return a call as if it had returned only what is needed."""
    for need in steps:
        target = _narrowed_target(item.target, need)
        item = replace(item, result=_narrowed(item.result, need), target=target)
    return item


def _narrowed(value: Any, need: Need) -> Any:
    if not isinstance(need, tuple) or type(value) is not tuple:
        return value
    parts = [_narrowed(part, n) for part, n in zip(value, need) if n is not False]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _narrowed_target(target: Target, need: Need) -> Target:
    if not isinstance(need, tuple) or not isinstance(target, tuple):
        return target
    if len(target) != len(need):
        return None
    parts = [_narrowed_target(t, n) for t, n in zip(target, need) if n is not False]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _named(
    result: Any, names: Names | None, paths: Mapping[Name, Collection[str]]
) -> Need:
    """Return what is needed of a result whose parts have names."""
    if isinstance(names, tuple) and type(result) is tuple:
        return _merged([_named(r, n, paths) for r, n in zip(result, names)])
    return _reached(result, paths.get(names, ())) if isinstance(names, Name) else True


def _reached(value: Any, paths: Collection[str]) -> Need:
    """Return what is needed of a value if these paths from it are used."""
    if not paths:
        return False
    if "" in paths or type(value) is not tuple:
        return True
    keys = [f"[{i}]" for i in range(len(value))]
    return _merged(
        [
            _reached(part, {p[len(key) :] for p in paths if p.startswith(key)})
            for part, key in zip(value, keys)
        ]
    )


def _merged(parts: list[Need]) -> Need:
    """Return one answer if it is the same for all members."""
    if all(part is True for part in parts):
        return True
    return tuple(parts) if any(part is not False for part in parts) else False


def _either(first: Need, second: Need) -> Need:
    if isinstance(first, tuple) and isinstance(second, tuple):
        return _merged([_either(a, b) for a, b in zip(first, second)])
    if first is True or second is True:
        return True
    return second if first is False else first
