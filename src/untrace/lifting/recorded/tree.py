"""The tree of a generated function before it is text: parameters, statements, loops."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from untrace.lifting.heads import Parameter
from untrace.lifting.recorded.terms import Global, Name, Ref, Term, Token
from untrace.lifting.recorded.withs import Items
from untrace.optional import Subject
from untrace.recovery.record import End, Place, Turn
from untrace.recovery.user_comments import Remark
from untrace.syntax.steps import Path

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


@dataclass(frozen=True, eq=False, slots=True)
class Tail:
    """From which axis on a shape is that of a leaf.

    Attributes:
      first: The axis.
      leaves: The leaves that a mapped function was given.
    """

    first: int
    leaves: Sequence[Any]


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
      remarks: The user's comments about it, written before.
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
    roles: dict[str, str] = field(default_factory=dict)
    context: Items | None = None
    remarks: tuple[Remark, ...] = ()

    @property
    def items(self) -> Items:
        """The `with` items that it stands under."""
        return self.context or ()


def no_count(value: int, variable: End) -> Term | None:
    """Refer to no integer that a loop counts to."""
    return None


@dataclass(eq=False, slots=True)
class Draft(Subject):
    """A function, whose text `printing.py` makes."""

    name: str
    parameters: list[Parameter[Name]] = field(default_factory=list)
    statements: list[Statement] = field(default_factory=list)
    result: Term | None = None
    decorators: list[Term] = field(default_factory=list)
    static: Callable[[int, Sequence[str]], str] | None = None
    """Writes its decorator where parameters of some names, after so many, are static."""
    types: str = ""
    annotations: dict[Name, str] = field(default_factory=dict)
    returns: str = ""
    items: dict[tuple[int, Path], str] = field(default_factory=dict)
    """The names that the program had for parts of what a name holds."""
    parts_held: dict[tuple[int, Path], str] = field(default_factory=dict)
    """Those of them that the user's function itself had."""
    lists: dict[tuple[int, ...], str] = field(default_factory=dict)
    """The names that the program had for lists of what names hold, by these."""
    displayed: dict[tuple[int, ...], str] = field(default_factory=dict)
    """The same for those that were written as displays of all their items."""
    collections: dict[frozenset[int], str] = field(default_factory=dict)
    """The same for containers of any kind."""
    others: dict[int, str] = field(default_factory=dict)
    """Other names that the program had for what names hold, in the end."""
    origins: dict[int, tuple[Name, Path]] = field(default_factory=dict)
    """Where values come from that are to be parts of parameters, by their names."""
    lift: Callable[[tuple[Name, Path]], Name] | None = None
    """Names another part of what they come from."""
    counted_to: Callable[[int, End], Term | None] = no_count
    """Refers to an integer that a loop counts to, by what stands in a turn."""
    names: tuple[str, ...] = ()
    """The names that it may have, from short to telling; `name` is one of them."""
    doc: str = ""
    """The docstring that it has in the program."""
    settings: tuple[str, ...] = ()
    """The words and flags that it was told where it ran."""
    remarks: tuple[Remark, ...] = ()
    """The user's comments about what it returns."""
    is_run: bool = False
    """A decorator runs it where it is defined, as `pl.when` does."""
    returned_in: Items = ()
    """The `with` items that the result is returned under."""
    gives_numbers: bool = False
    """Whether some of its numbers became parameters, by their places in its text."""
    is_lambda: bool = False
    """It was written as a lambda, in the expression of another function."""
    code: types.CodeType | None = None
    """The user's function that it is."""

    @property
    def subject(self) -> str:
        """Its shortest name."""
        return self.names[0] if self.names else self.name

    def locals(self) -> Iterator[Name]:
        """Yield its parameters and local variables, those of nested functions too."""
        yield from (parameter.name for parameter in self.parameters)
        for statement in self.statements:
            yield from defined(statement)
            if statement.nested is not None:
                yield from statement.nested.locals()

    def own_locals(self) -> Iterator[Name]:
        """Yield the same without those of nested functions."""
        yield from (parameter.name for parameter in self.parameters)
        for statement in self.statements:
            yield from defined(statement)

    def terms(self) -> Iterator[Term]:
        """Yield its terms, those of nested functions included."""
        for statement in self.statements:
            if statement.nested is not None:
                yield from statement.nested.terms()
            elif statement.loop is not None:
                yield from statement.loop.terms()
            else:
                yield statement.term
            for item in statement.items:
                yield Term([Global(item)])
        yield from self.decorators
        if self.result is not None:
            yield self.result

    def parts(self) -> Iterator[Token]:
        """Yield all tokens of its terms, those of nested functions included."""
        for term in self.terms():
            yield from term.tokens()

    def docstrings(self) -> Iterator[tuple[str, str]]:
        """Yield its docstring and those of nested functions, by their paths in it."""
        if self.doc:
            yield "", self.doc
        for statement in self.statements:
            if statement.nested is not None:
                for path, doc in statement.nested.docstrings():
                    yield f"{statement.nested.name}.{path}".rstrip("."), doc

    def all(self) -> Iterator[Draft]:
        """Yield the function, and those that are nested in it."""
        yield self
        for statement in self.statements:
            if statement.nested is not None:
                yield from statement.nested.all()

    def forget_types(self) -> None:
        """Leave out the comments that tell the types of nested functions."""
        for statement in self.statements:
            if statement.nested is not None:
                statement.nested.types = ""
                statement.nested.forget_types()

    def statements_left(self) -> int:
        """Count the statements that are not folded away; `with` is one, too."""
        n_left = sum(not is_folded(s.targets) for s in self.statements)
        return n_left + bool(self.returned_in)

    def lines_left(self) -> int:
        """Count the statements that are not folded away, and what is returned."""
        nested = [s.nested for s in self.statements if s.nested is not None]
        return self.statements_left() + 1 + sum(d.lines_left() for d in nested)


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
    """Whether a value is written where it is used."""
    return isinstance(targets, Name) and targets.folded is not None
