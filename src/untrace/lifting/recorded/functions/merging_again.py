"""Find the merged functions that keep a program from being proved.

Functions that differ in numbers become one. Where the text cannot be proved, it is first
written without that; once it is proved so, functions are merged again name by name: first
all those that the difference does not point to, then what is left, in halves.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Set

from untrace.lifting.recorded.unify.names import stem_of
from untrace.parsing import parse, walk

MAX_TRIALS = 8
"""Each writes and traces the whole program."""


def merge_again(
    names: Set[str], suspects: Set[str], is_proved: Callable[[Set[str]], bool]
) -> None:
    """Merge as many functions as can be proved.

    Args:
      names: The names of functions that cannot all be merged.
      suspects: Those that the difference points to.
      is_proved: Tells whether the program is proved if functions of some names are
        merged. The last names for which it is are the most that were found.
    """
    n_trials = 0

    def is_good(some: frozenset[str]) -> bool:
        nonlocal n_trials
        n_trials += 1
        return n_trials <= MAX_TRIALS and is_proved(some)

    def most(bad: frozenset[str], good: frozenset[str]) -> frozenset[str]:
        """Return the names that can be merged, if `good` can, and not `bad` as well."""
        if len(bad) < 2:
            return good
        first = bad - suspects
        if not first or first == bad:
            first = frozenset(sorted(bad)[: len(bad) // 2])
        rest = bad - first
        if is_good(good | first):
            return most(rest, good | first)
        good = most(first, good)
        return good | rest if is_good(good | rest) else most(rest, good)

    most(frozenset(names), frozenset())


def pointed_to(names: Set[str], line: str, text: str) -> set[str]:
    """Return the names of functions that a line of a text calls or is a part of."""
    line = line.partition(": ")[2] or line if line.startswith("line ") else line
    lines = enumerate(text.splitlines(), 1)
    rows = {n for n, one in lines if line.strip() in one} if line else set[int]()
    found: set[str] = set()
    for node in walk(parse(text)) if rows else ():
        match node:
            case ast.FunctionDef(name=name, lineno=first, end_lineno=last):
                if not rows.isdisjoint(range(first, (last or first) + 1)):
                    found.add(stem_of(name))
            case ast.Call(func=ast.Name(id=name), lineno=row) if row in rows:
                found.add(stem_of(name))
            case _:
                pass
    return found & names
