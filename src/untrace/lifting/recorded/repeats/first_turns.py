"""First turns of loops that Python has computed a part of: `0.9 * v`, where v begins as 0.0.

The first turn of `v = 0.9 * v + x` adds 0.0 to x, and all others a product. So that all
turns are alike, the first one gets the statement that it lacks, `product = 0.9 * 0.0`.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from untrace.lifting.recorded.repeats.slots import plain_text
from untrace.lifting.recorded.terms import Global, Literal, Name, Part, Ref, Term, Token
from untrace.lifting.recorded.tree import Statement
from untrace.parsing import parse

BEGINS = Literal("0.0", 0.0), Literal("1.0", 1.0), Literal("0", 0), Literal("1", 1)
"""What variables of loops begin as."""
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


@dataclass(frozen=True, eq=False, slots=True)
class Completion:
    """A statement that a first turn lacks: what it is before, and what reads it.

    Attributes:
      before: Where it belongs.
      reader: The statement of the first turn that has a number in its place,
      term: and its expression with the new name.
    """

    made: Statement
    before: Statement
    reader: Statement
    term: Term
    number: Term

    def undo(self) -> None:
        """Write the number again, since there is no loop."""
        assert isinstance(self.made.targets, Name)
        self.made.targets.folded = self.number


def complete_first_turns(
    statements: Sequence[Statement], sites: Sequence[object], following: Sequence[int]
) -> list[Completion]:
    """Find the statements that first turns lack.

    Args:
      statements: Those of a function.
      sites: What the same statement of another turn has in common with each.
      following: The next statement of the same site, or 0.
    """
    firsts: dict[object, int] = {}
    for index, site in enumerate(sites):
        firsts.setdefault(site, index)
    found: list[Completion] = []
    for first, later in enumerate(following):
        if not later or firsts[sites[first]] != first or sites[first] is None:
            continue
        for place, maker in _makers(statements, first, later):
            if firsts[sites[maker]] == maker and sites[maker] is not None:
                one = _completion(statements, sites, (first, later, place, maker))
                found += [one] if one is not None else []
    return found


def with_completions(
    statements: Sequence[Statement], completions: Sequence[Completion]
) -> list[Statement]:
    """Return statements with those that first turns lack."""
    made: list[Statement] = []
    for statement in statements:
        made += [one.made for one in completions if one.before is statement]
        made.append(statement)
    for one in completions:
        one.reader.term = one.term
    return made


def _makers(
    statements: Sequence[Statement], first: int, later: int
) -> Iterator[tuple[int, int]]:
    """Yield the parts of a statement that are made after its first turn, and by what."""
    for place, part in enumerate(statements[later].term.tokens()):
        if type(part) is Ref and not part.path:
            for maker in range(later - 1, first, -1):
                if statements[maker].targets is part.resolved().name:
                    yield place, maker


def _completion(
    statements: Sequence[Statement],
    sites: Sequence[object],
    where: tuple[int, int, int, int],
) -> Completion | None:
    first, later, place, maker = where
    reader, made = statements[first], statements[maker]
    mine, other = reader.term.tokens(), statements[later].term.tokens()
    n_after = len(other) - place - 1
    middle = mine[place : len(mine) - n_after]
    rest = [*mine[:place], *mine[len(mine) - n_after :]]
    if not middle or len(mine) < place + n_after:
        return None
    if not all(map(_is_alike, rest, [*other[:place], *other[place + 1 :]])):
        return None
    begin = _begin(made.term.tokens(), middle)
    ends = [n for n in range(first + 1) if sites[n] == sites[maker + 1]]
    if begin is None or not ends or not isinstance(made.targets, Name):
        return None
    name = Name(made.targets.hint, uses=1)
    tokens = made.term.tokens()
    term = made.term.of_parts([[begin if type(t) is Ref else t] for t in tokens])
    new = Statement(name, term, site=made.site, trail=made.trail, turn=reader.turn)
    new.roles, new.context = made.roles, reader.context
    part = other[place]
    assert type(part) is Ref
    pieces: list[list[Part]] = [[token] for token in mine]
    pieces[place : len(mine) - n_after] = [[] for _ in middle]
    pieces[place] = [Ref(name, (), part.level)]
    read = reader.term.of_parts(pieces)
    return Completion(new, statements[ends[-1]], reader, read, Term([*middle]))


def _is_alike(mine: Token, other: Token) -> bool:
    if type(mine) is Ref or type(other) is Ref:
        return type(mine) is type(other)
    return plain_text(mine) == plain_text(other)


def _begin(parts: Sequence[Token], number: Sequence[Token]) -> Literal | None:
    """Return what a value begins as that an expression makes a number of."""
    if sum(type(part) is Ref for part in parts) != 1 or any(
        type(part) is Ref for part in number
    ):
        return None
    value = _value(number)
    for begin in BEGINS:
        made = _value([begin if type(part) is Ref else part for part in parts])
        if made is not None and type(made) is type(value) and repr(made) == repr(value):
            return begin
    return None


def _value(parts: Sequence[Token]) -> float | None:
    """Return the value of arithmetic on numbers; None if it is none."""
    texts = [p.number if type(p) is Global else plain_text(p) for p in parts]
    try:
        return _evaluated(parse("".join(texts), "eval").body)
    except (SyntaxError, ValueError, ArithmeticError):
        return None


def _evaluated(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return _BINARY[type(node.op)](_evaluated(node.left), _evaluated(node.right))
    raise ValueError("no arithmetic")
