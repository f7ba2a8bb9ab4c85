"""What a generated function consists of before it is text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.withs import Items
from untrace.recovery.record import Place, Turn

if TYPE_CHECKING:
    from untrace.lifting.recorded.function import Draft

Names = Name | tuple["Names", ...]
Trail = tuple[Place | None, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """That a statement takes one row of an array.

    Attributes:
      index: Which one.
      length: How many there are.
      can_move: No cotangent depends on when it is taken.
      is_next: Python took it, as the next one of a loop.
    """

    index: int
    length: int
    can_move: bool
    is_next: bool = False


@dataclass(eq=False, slots=True)
class Loop:
    """`for variables in over:` and the statements of one turn."""

    variables: tuple[Names, ...]
    over: Term
    body: list[Statement]

    def terms(self) -> Iterator[Term]:
        """Yield the expressions in its head and in its body."""
        yield self.over
        for statement in self.body:
            if statement.loop is not None:
                yield from statement.loop.terms()
            else:
                yield statement.term

    def refs(self) -> Iterator[Ref]:
        """Yield the references in its head and in its body."""
        for term in self.terms():
            yield from term.refs()


@dataclass(eq=False, slots=True)
class Statement:
    """`targets = term`, or the definition of a nested function.

    Attributes:
      targets: The names to assign to.
      term: The value.
      is_effect: It must stay even if nobody uses its value.
      nested: The function to define.
      comment: Written after the statement.
      origin: The user's statement, written in a comment before.
      loop: It is a loop; `targets` are all names that it gives a value.
      is_row: It unpacks what a function of the module returns.
      is_tuple: Its value is a plain tuple, if it is one at all; no list or named tuple.
      is_start: It gives a variable of a loop its first value.
      row: The row of an array that it takes, if it does only that.
      whole: The name of the array whose rows it unpacks, if Python iterated over it.
      site: Where the call that it writes was written.
      trail: The same, behind where the dissolved functions around it were called.
      turn: What the variables of the program's loops held, the innermost one's first.
      bound: The variables of the comprehension that it is.
      roles: The names that the program has for numbers in it.
      context: The `with` items that it stands under; None if nobody has said yet.
    """

    targets: Names | None = None
    term: Term = field(default_factory=Term)
    is_effect: bool = False
    nested: Draft | None = None
    comment: str = ""
    origin: str = ""
    loop: Loop | None = None
    is_row: bool = False
    is_tuple: bool = True
    is_start: bool = False
    row: Row | None = None
    whole: Name | None = None
    site: object = None
    trail: Trail = ()
    turn: Turn = ()
    bound: tuple[Name, ...] = ()
    roles: dict[str, str] = field(default_factory=dict[str, str])
    context: Items | None = None

    @property
    def items(self) -> Items:
        """The `with` items that it stands under."""
        return self.context or ()


def flat(targets: Names | None) -> Iterator[Name]:
    """Yield the names among nested targets."""
    if isinstance(targets, Name):
        yield targets
    elif targets is not None:
        for target in targets:
            yield from flat(target)


def defined(statement: Statement) -> Iterator[Name]:
    """Yield the names that a statement gives a value, or that are bound inside of it."""
    if statement.loop is not None:
        for inner in statement.loop.body:
            yield from inner.bound if inner.loop is None else defined(inner)
    yield from statement.bound
    yield from flat(statement.targets)


def is_folded(targets: Names | None) -> bool:
    """Tell whether a value is written where it is used."""
    return isinstance(targets, Name) and targets.folded is not None
