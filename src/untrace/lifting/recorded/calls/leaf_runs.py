"""Runs of a function on leaves of trees that do not tell what it took where.

`jax.tree.map(lambda x: jnp.where(on, x, 0), tree)` where `on` is in the tree: the run on
that leaf does not tell which of both it takes. Nor does one on two trees that have a leaf
in common, or one on a number, `EnvState(position, time=0)`, which may as well stand in the
function. Such runs did the same as the others if they may have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from untrace.lifting.recorded.building import merged
from untrace.lifting.recorded.terms import Literal, Name, Ref, Term, Token
from untrace.lifting.recorded.tree import Draft, Names, flat


def may_be(known: Draft, other: Draft, numbers: Mapping[str, Literal]) -> bool:
    """Whether a run did what another did, as far as it tells.

    Args:
      known: A run on leaves of which each is only that.
      other: A run on one that the function may close over, on one leaf twice, or a number.
      numbers: What stands for the parameters that held numbers in the other run.
    """
    if len(known.statements) != len(other.statements):
        return False
    if any(s.nested or s.loop for s in (*known.statements, *other.statements)):
        return False
    mine, theirs = [*_defined(known)], [*_defined(other)]
    used = {id(ref.name) for term in _terms(other) for ref in term.refs()}
    literal = {
        id(name): numbers[name.hint]
        for name, its in zip(mine, theirs)
        if name.hint == its.hint in numbers and id(its) not in used
    }
    if len(mine) != len(theirs):
        return False
    pairs = _Pairs(dict(zip(map(id, mine), theirs)), literal, known, other)
    return all(map(pairs.are_alike, _terms(known), _terms(other)))


def takes_twice(draft: Draft) -> bool:
    """Whether a run was given one array as several parameters."""
    held = [id(parameter.name.held) for parameter in draft.parameters]
    return len({*held}) < len(held)


def _defined(draft: Draft) -> Iterator[Name]:
    """Yield the names of parameters and locals, in order."""
    for parameter in draft.parameters:
        yield parameter.name
    for statement in draft.statements:
        yield from flat(statement.targets)


def _terms(draft: Draft) -> Sequence[Term]:
    result = [] if draft.result is None else [draft.result.whole()]
    return [*(statement.term.whole() for statement in draft.statements), *result]


class _Pairs:
    """The names of one run by those of another."""

    def __init__(
        self,
        names: dict[int, Name],
        literal: dict[int, Literal],
        known: Draft,
        other: Draft,
    ) -> None:
        self._names, self._literal = names, literal
        self._shapes = [_shape(s.targets) for s in known.statements]
        self._is_one = self._shapes == [_shape(s.targets) for s in other.statements]
        self._parameters = {id(parameter.name) for parameter in other.parameters}

    def are_alike(self, term: Term, other: Term) -> bool:
        parts = merged(map(self._with_number, term.tokens()))
        others = merged(other.tokens())
        if not self._is_one or len(parts) != len(others):
            return False
        return all(map(self._is_alike, parts, others))

    def _with_number(self, part: Token) -> Token:
        """Return what stands for a part in the other run: a number, perhaps."""
        ref = part.resolved() if type(part) is Ref else None
        return part if ref is None else self._literal.get(id(ref.name), part)

    def _is_alike(self, part: Token, other: Token) -> bool:
        if type(part) is not Ref or type(other) is not Ref:
            return type(part) is type(other) and part == other
        mine, theirs = part.resolved(), other.resolved()
        name = self._names.get(id(mine.name))
        if name is None and id(theirs.name) in self._parameters:
            return not theirs.path  # what is closed over, or the leaf
        is_one = (name or mine.name) is theirs.name
        if name is not None and {id(name), id(theirs.name)} <= self._parameters:
            is_one = name.held is theirs.name.held
        return is_one and mine.path == theirs.path


def _shape(targets: Names | None) -> object:
    if targets is None or isinstance(targets, Name):
        return targets is None
    return tuple(map(_shape, targets))
