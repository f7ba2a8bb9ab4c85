"""Contexts of statements that become those of a loop.

A loop has new statements, made of those of its turns. What these stood under is noted
before, by the names that they define, and restored after. An expression in the place of a
loop, `[f(x) for x in xs]`, stands under what all of its turns do.
"""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.recorded.tree import Loop, Statement, flat
from untrace.lifting.recorded.withs import Items


def are_together(turns: Sequence[Sequence[Statement]]) -> bool:
    """Whether all statements of some turns stand under the same."""
    return len({statement.items for turn in turns for statement in turn}) == 1


class KeptContexts:
    """What the statements of a function stand under.

    Attributes:
      is_empty: There is no `with`.
      is_regular: Statements that were written at one place stand under the same, so that
        the turns of a loop do.
    """

    def __init__(self, statements: Sequence[Statement]) -> None:
        self._known: dict[int, Items] = {
            id(name): statement.items
            for statement in statements
            for name in flat(statement.targets)
        }
        found = {(s.site, s.items) for s in statements if s.site is not None}
        self.is_empty = not any(statement.items for statement in statements)
        self.is_regular = len({site for site, _ in found}) == len(found)

    def restore(self, statements: Sequence[Statement]) -> None:
        """Let the statements of loops stand under what those of their turns did."""
        for statement in statements:
            if statement.loop is not None:
                statement.context = self._restore(statement.loop)

    def _restore(self, loop: Loop) -> Items:
        """Restore the contexts in a loop; return what all of it stands under."""
        for inner in loop.body:
            known = [self._known.get(id(name), ()) for name in flat(inner.targets)]
            inner.context = known[0] if known else ()
        found = {inner.items for inner in loop.body}
        if len(found) > 1:
            return ()
        for inner in loop.body:
            inner.context = ()
        return found.pop()
