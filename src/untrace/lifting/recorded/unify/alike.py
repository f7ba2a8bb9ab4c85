"""What functions share that are alike: all but what stands in some places of their texts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from untrace.lifting.heads import Parameters
from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.names import body_of, stem_of
from untrace.syntax.parsed import Edit
from untrace.syntax.text import is_comment

Likeness = tuple[str, Parameters, tuple[str, ...], tuple[str, ...]]
"""What functions share; their name comes first, then their heads, and their lines."""


def grouped(
    functions: Iterable[Function], form: Callable[[Function], object]
) -> list[list[Function]]:
    """Return the functions of one name, where there are several, that have one form.

    Those that others are written below, such as rules, are left out.
    """
    able = [one for one in functions if not one.after]
    counts = Counter(stem_of(one.name) for one in able)
    groups: dict[object, list[Function]] = {}
    for one in able:
        if counts[stem := stem_of(one.name)] > 1:
            groups.setdefault((stem, form(one)), []).append(one)
    return [group for group in groups.values() if len(group) > 1]


def alike_but_for(function: Function, holes: Iterable[Edit]) -> Likeness:
    """Return what a function shares with those that differ from it in some places.

    Comments do not matter.

    Args:
      holes: The places, and what stands there in all of them.
    """
    lines = body_of(function).edited(holes).split("\n")
    lines = [line for line in lines if not is_comment(line)]
    stem, head = stem_of(function.name), tuple(function.decorators)
    return stem, function.parameters, head, tuple(lines)
