"""Turn stretches of statements that repeat into one function that is called for each.

A stretch is a run of statements; two stretches are alike if their statements have the
same text once local names are numbered and what comes from outside is numbered too, in
the order of use. Layers of a network and unrolled loops come back as a function of the
running value and of their own part of the parameters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from untrace.lifting.recorded.folding import finish
from untrace.lifting.recorded.naming.paths import common, last_word, steps
from untrace.lifting.recorded.terms import (
    Global,
    Name,
    Part,
    Ref,
    Symbol,
    Term,
    call,
    display,
)
from untrace.lifting.recorded.tree import Draft, Names, Parameter, Statement, flat
from untrace.optional import gives, optional

MIN_STATEMENTS = 4
MIN_REPEATS = 3
MAX_PERIOD = 400
_NUMBER = re.compile(r"\d+")

Path = tuple[Name, str]


@optional(gives(None))
def outline_repeats(draft: Draft, define: Callable[[Draft], Symbol]) -> None:
    """Replace repeated stretches of a function by calls of a new one."""
    while True:
        found = _find(draft.statements)
        if found is None:
            return
        start, period, count = found
        stretches = [
            _Stretch.read(
                draft.statements[start + i * period : start + (i + 1) * period]
            )
            for i in range(count)
        ]
        stop = start + count * period
        outputs = _outputs(stretches, draft, stop)
        calls = _outlined(stretches, outputs, draft, define)
        draft.statements[start:stop] = calls


@dataclass(slots=True)
class _Stretch:
    """Consecutive statements: the names they define, and what they use from outside."""

    statements: list[Statement]
    locals: list[Name]
    outside: list[Path]
    key: tuple[Any, ...]

    @staticmethod
    def read(statements: Sequence[Statement]) -> _Stretch:
        local: dict[int, int] = {}
        names: list[Name] = []
        outside: dict[tuple[int, str], int] = {}
        paths: list[Path] = []
        key: list[Any] = []
        for statement in statements:
            for part in statement.term.parts:
                if type(part) is not Ref:
                    key.append(_plain(part))
                    continue
                ref = part.resolved()
                if id(ref.name) in local:
                    key.append((local[id(ref.name)], ref.path))
                    continue
                place = (id(ref.name), ref.path)
                if place not in outside:
                    outside[place] = len(paths)
                    paths.append((ref.name, ref.path))
                key.append(("outside", outside[place]))
            key.append(_shape(statement.targets))
            for name in flat(statement.targets):
                local[id(name)] = len(names)
                names.append(name)
        return _Stretch(list(statements), names, paths, tuple(key))


def _shape(targets: Names | None) -> Any:
    if targets is None or isinstance(targets, Name):
        return targets is None
    return tuple([_shape(target) for target in targets])


def _find(statements: Sequence[Statement]) -> tuple[int, int, int] | None:
    """Find the first stretch that is repeated: start, number of statements, times."""
    texts = [_text(statement) for statement in statements]
    following: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        following.setdefault(text, []).append(index)
    position = {text: 0 for text in following}
    for start, text in enumerate(texts):
        position[text] += 1
        for after in following[text][position[text] : position[text] + 3]:
            period = after - start
            if not MIN_STATEMENTS <= period <= MAX_PERIOD:
                continue
            if _is_periodic(texts[start:after]):
                continue  # of something shorter, which is fine as it is
            count = _count(texts, start, period)
            if count >= MIN_REPEATS:
                count = _alike(statements, start, period, count)
            if count >= MIN_REPEATS:
                return _aligned(statements, texts, start, period, count)
    return None


def _aligned(
    statements: Sequence[Statement],
    texts: Sequence[str],
    start: int,
    period: int,
    count: int,
) -> tuple[int, int, int]:
    """Cut stretches where few values pass from one to the next, not inside of a thought.

    The first statements that repeat may be the end of something that is a little different.
    """
    crossing = _crossing(statements, start, start + 2 * period)
    for first in sorted(
        range(start, start + period), key=lambda first: crossing[first + period]
    ):
        n_left = count if first == start else _count(texts, first, period)
        if n_left < max(MIN_REPEATS, count - 1):
            continue
        n_alike = _alike(statements, first, period, n_left)
        if n_alike >= max(MIN_REPEATS, count - 1):
            return first, period, n_alike
    return start, period, count


def _crossing(statements: Sequence[Statement], start: int, stop: int) -> dict[int, int]:
    """Count for each statement the values that are made before it and used from there on.

    Only what is made from `start` on is counted, and its uses up to the next stretch.
    """
    made: dict[int, int] = {}
    used: dict[int, int] = {}
    following = statements[start : stop + (stop - start) // 2]
    for index, statement in enumerate(following, start):
        for part in statement.term.parts:
            if type(part) is Ref:
                used[id(part.resolved().name)] = index
        for name in flat(statement.targets):
            made[id(name)] = index
    counts = dict.fromkeys(range(start, stop), 0)
    for key, index in made.items():
        for between in range(index + 1, min(used.get(key, index), stop - 1) + 1):
            counts[between] += 1
    return counts


def _text(statement: Statement) -> str:
    """Write a statement without names; equal texts may be alike."""
    is_block = statement.nested is not None or statement.loop or statement.bound
    if is_block or statement.is_effect:
        return f"#{id(statement)}"
    parts = ["·" if type(p) is Ref else _plain(p) for p in statement.term.parts]
    return "".join(parts)


def _plain(part: Part) -> str:
    """Return the text of a part that is no reference."""
    return part if isinstance(part, str) else getattr(part, "text", "")


def _count(texts: Sequence[str], start: int, period: int) -> int:
    count = 1
    first = texts[start : start + period]
    while texts[start + count * period : start + (count + 1) * period] == first:
        count += 1
    return count


def _is_periodic(texts: Sequence[str]) -> bool:
    """Whether a stretch itself is made of shorter ones."""
    n = len(texts)
    for period in range(1, MIN_STATEMENTS):
        if n % period == 0 and all(texts[i] == texts[i % period] for i in range(n)):
            return True
    return False


def _alike(statements: Sequence[Statement], start: int, period: int, count: int) -> int:
    """Count the stretches from the first on that are alike in all but names."""
    first = _Stretch.read(statements[start : start + period])
    if any(name.captured for name in first.locals):
        return 0
    shapes = [_NUMBER.sub("#", path) for _, path in first.outside]
    for i in range(1, count):
        other = _Stretch.read(statements[start + i * period : start + (i + 1) * period])
        same = other.key == first.key and not any(n.captured for n in other.locals)
        if not same or [_NUMBER.sub("#", p) for _, p in other.outside] != shapes:
            return i
    return count


def _outputs(stretches: Sequence[_Stretch], draft: Draft, stop: int) -> list[int]:
    """Return which of its names the rest of the function needs from a stretch."""
    needed: set[int] = set()
    index = {id(name): i for s in stretches for i, name in enumerate(s.locals)}
    owner = {id(name): s for s in stretches for name in s.locals}
    for stretch in stretches:
        for name, _ in stretch.outside:
            if id(name) in owner:
                needed.add(index[id(name)])
    rest: Iterator[Part] = Draft("", [], draft.statements[stop:], draft.result).parts()
    for part in rest:
        if type(part) is Ref:
            name = part.resolved().name
            if id(name) in index:
                needed.add(index[id(name)])
    return sorted(needed)


def _outlined(
    stretches: Sequence[_Stretch],
    outputs: list[int],
    draft: Draft,
    define: Callable[[Draft], Symbol],
) -> list[Statement]:
    """Define the function of a stretch, and write its calls."""
    first = stretches[0]
    groups = _groups(stretches)
    made = Draft(f"{draft.name}_step")
    mapped: dict[tuple[int, str], Path] = {}
    for group in groups:
        hint = _hint(stretches, group)
        parameter = Name(hint, True)
        made.parameters.append(Parameter(parameter))
        for position, rest in zip(group.positions, group.rests):
            name, path = first.outside[position]
            mapped[id(name), path] = parameter, rest
    copies = {
        id(n): Name(n.hint, n.is_given, is_weak=n.is_weak, is_foreign=n.is_foreign)
        for n in first.locals
    }
    for statement in first.statements:
        term = Term(
            [_moved(p, copies, mapped) for p in statement.term.parts],
            statement.term.level,
        )
        targets = _copied(statement.targets, copies)
        copy = Statement(targets, term, comment=statement.comment)
        copy.remarks = statement.remarks
        made.statements.append(copy)
    results = [_use(copies[id(first.locals[i])], "") for i in outputs]
    made.result = results[0] if len(results) == 1 else display("()", results)
    finish(made)
    function = Term([Global(define(made))])
    return [_call(function, stretch, groups, outputs) for stretch in stretches]


def _call(
    function: Term, stretch: _Stretch, groups: Sequence[_Group], outputs: list[int]
) -> Statement:
    for statement in stretch.statements:
        for ref in statement.term.refs():
            ref.name.uses -= 1
    arguments: list[Term] = []
    for group in groups:
        name, path = stretch.outside[group.positions[0]]
        shared = "".join(steps(path)[: group.depth])
        arguments.append(_use(name, shared))
    names = [stretch.locals[i] for i in outputs]
    for name in names:
        name.is_given, name.is_foreign = True, False
    targets: Names = names[0] if len(names) == 1 else tuple(names)
    made = Statement(targets, call(function, arguments))
    made.site, made.trail = stretch.statements[0].site, stretch.statements[0].trail
    return made


def _use(name: Name, path: str) -> Term:
    name.uses += 1
    return Term([Ref(name, path)])


def _moved(
    part: Part, copies: dict[int, Name], mapped: dict[tuple[int, str], Path]
) -> Part:
    if type(part) is not Ref:
        return part
    ref = part.resolved()
    name, path = copies.get(id(ref.name)), ref.path
    if name is None:
        name, path = mapped[id(ref.name), ref.path]
    name.uses += 1
    return Ref(name, path, ref.level)


def _copied(targets: Names | None, copies: dict[int, Name]) -> Names | None:
    if targets is None:
        return None
    if isinstance(targets, Name):
        return copies[id(targets)]
    return tuple([_copied(target, copies) or () for target in targets])


# ---- parameters --------------------------------------------------------------------


@dataclass(slots=True)
class _Group:
    """Values from outside that are parts of one container, which becomes a parameter."""

    positions: list[int]
    depth: int
    rests: list[str]


def _groups(stretches: Sequence[_Stretch]) -> list[_Group]:
    """Group what all stretches use from outside: parts of one sub-tree go together."""
    first = stretches[0]
    by_name: dict[tuple[int, ...], list[int]] = {}
    for position in range(len(first.outside)):
        owners = tuple([id(s.outside[position][0]) for s in stretches])
        by_name.setdefault(owners, []).append(position)
    groups: list[_Group] = []
    for positions in by_name.values():
        paths = [[steps(s.outside[p][1]) for p in positions] for s in stretches]
        depth = min(len(common(ways)) for ways in paths)
        rests = ["".join(way[depth:]) for way in paths[0]]
        alike = all(["".join(w[depth:]) for w in ways] == rests for ways in paths)
        if alike:
            groups.append(_Group(positions, depth, rests))
            continue
        for p in positions:
            groups.append(_Group([p], len(steps(first.outside[p][1])), [""]))
    return groups


def _hint(stretches: Sequence[_Stretch], group: _Group) -> str:
    """Name a parameter: after the value that runs through, or the place in a tree."""
    name, path = stretches[0].outside[group.positions[0]]
    way = steps(path)[: group.depth]
    if way:
        return last_word(way)
    second = stretches[1].outside[group.positions[0]][0]
    return second.hint if second is not name else name.hint
