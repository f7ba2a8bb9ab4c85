"""What of a library's functions is needed: parts of their results, or no function at all.

A library returns all that any caller may want: `(y1, None, {"y0": y0}, state)`. When the
program is written, the references show which parts are used; it is written again with
functions that return only these. A function that is called once is written where it is
called if it is one short expression, or a few lines of what another function of the
library does; one that is no longer than its own head is, wherever it is called.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import (
    Collection,
    Hashable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, TypeVar

from untrace.capture.trees import members
from untrace.lifting.heads import head_text
from untrace.lifting.printing import Function
from untrace.lifting.recorded.building import without_lead
from untrace.lifting.recorded.naming.paths import last_word
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.printing import parameters_of
from untrace.lifting.recorded.terms import (
    CALL,
    TUPLE_OF,
    Global,
    Group,
    Name,
    Ref,
    Term,
    Token,
)
from untrace.lifting.recorded.tree import Draft, Names, Statement
from untrace.optional import Subject, gives, optional
from untrace.recovery.record import Call, Target
from untrace.syntax.steps import Attribute, Path, Step

MAX_INLINE = 64  # characters of the expression of a function that is called once
FEW_LINES = 3  # of a function that is no better than what it does, with two parameters
MAX_LINES = 16  # of such a function and what calls it, together

# Which members of a tuple are needed: all of it, nothing, or each member for itself.
Need = bool | tuple["Need", ...]


@dataclass(frozen=True, eq=False, slots=True)
class Returned(Subject):
    """A call of a library's function, of whose result not all may be needed.

    Attributes:
      item: The call as it was recorded.
      result: What of its result the function returns.
      statement: The call as it is written; its targets may still be split.
      function: What all calls of the function have in common.
      opens: Whether objects in its result may be taken apart: a library calls it.
      draft: The tree of the function, if it is known.
    """

    item: Call
    result: Any
    statement: Statement
    function: Hashable
    opens: bool
    draft: Draft | None

    @property
    def subject(self) -> str:
        """The function, by this call of it."""
        return self.item.subject


@dataclass(frozen=True, eq=False, slots=True)
class Kept(Returned):
    """A call of a library's function that was written as a call.

    Attributes:
      draft: Its tree.
      home: The function that calls it.
      arguments: What it is passed.
      parts: How the call was written.
      caller: What calls it, if it is only a part of that for those who read it.
    """

    function: Function
    draft: Draft
    home: Draft
    arguments: Sequence[Term]
    parts: Sequence[Token]
    caller: Draft | None


_Returned = TypeVar("_Returned", bound=Returned)


@dataclass(eq=False, slots=True)
class References:
    """What a program refers to.

    Attributes:
      kept: The calls of a library's functions.
      jitted: The calls of those that it has jitted.
      paths: The paths of all references, by name, with how many there are of each.
      made: What values of functions are computed from, by their names.
      lost: Names that nothing assigns, for what calls do not return any more. Lines that
        refer to them were found to be of no use, or the calls return all of it again.
      left_out: The same, for what is in fields of stand-ins that nothing reads.
    """

    kept: list[Kept] = field(default_factory=list)
    jitted: list[Returned] = field(default_factory=list)
    paths: dict[Name, Counter[Path]] = field(default_factory=dict)
    made: dict[Name, list[Ref]] = field(default_factory=dict)
    lost: list[tuple[Name, Call]] = field(default_factory=list)
    left_out: list[Name] = field(default_factory=list)

    def add(self, draft: Draft) -> None:
        """Take note of the names that a function refers to."""
        for part in draft.parts():
            if type(part) is Ref:
                ref = part.resolved()
                self.paths.setdefault(ref.name, Counter())[ref.path] += 1
        for one in draft.statements:
            if isinstance(one.targets, Name) and not (one.is_effect or one.loop):
                tokens = one.term.tokens()
                self.made[one.targets] = [t for t in tokens if type(t) is Ref]


def needs(references: References, whole: set[Call]) -> dict[Call, Need]:
    """Return what is needed of the results of calls, where that is not all.

    Args:
      references: What the program refers to.
      whole: Calls of which everything is needed, and others of these functions; more
        are added.
    """
    whole |= {item for name, item in references.lost if name in references.paths}
    returned = [*references.kept, *references.jitted]
    groups: list[list[Returned]] = []
    for group in _by_function(returned).values():
        if any(kept.item in whole for kept in group):
            whole.update(kept.item for kept in group)
        else:
            groups.append(group)
    uses = _Uses(references)
    found: dict[Call, Need] = {}
    while True:
        read = uses.read()
        for group in groups:
            need = part_needed(group[0], group, read)
            if isinstance(need, tuple):
                found.update({kept.item: need for kept in group})
        # All of them, since each may be of more than one call.
        if not any([uses.narrow(kept, found.get(kept.item)) for kept in returned]):
            return found


class _Uses:
    """What is read of each name, if functions return no more than what is needed.

    Attributes:
      left: The paths that are read, by name, with how many references there are of each.
    """

    def __init__(self, references: References) -> None:
        self.made = references.made
        self.left = {name: Counter(paths) for name, paths in references.paths.items()}
        # The paths that are left of a reference, by its `id`.
        self._paths: dict[int, list[Path]] = {}

    def read(self) -> dict[Name, list[Path]]:
        """Return the paths that are read of each name."""
        left = self.left.items()
        return {name: [p for p in paths if paths[p] > 0] for name, paths in left}

    def narrow(self, kept: Returned, need: Need | None) -> bool:
        """Read only what is needed of what a function returns; tell whether that is new."""
        if not isinstance(need, tuple) or kept.draft is None:
            return False
        term = kept.draft.result
        parts = [] if term is None else _returned(term, kept.result, need)
        return any([self._read(ref, paths) for ref, paths in parts])

    def _read(self, ref: Ref, accesses: Sequence[Path]) -> bool:
        """Read only some parts of a reference, and of what is computed for it alone."""
        known = ref.resolved()
        paths = [(*known.path, *access) for access in accesses]
        before = self._paths.get(id(ref), [known.path])
        if paths == before:
            return False
        self._paths[id(ref)] = paths
        left = self.left.setdefault(known.name, Counter())  # loops have their own names
        left.subtract(before)
        left.update(paths)
        if not paths and not any(left.values()):
            for inner in self.made.get(known.name, ()):
                self._read(inner, ())
        return True


def _returned(term: Term, result: Any, need: Need) -> Iterator[tuple[Ref, list[Path]]]:
    """Yield the references that a function returns, where that is plain, with what is needed.

    Args:
      term: What it returns: a reference, a tuple, an object or `state._replace(y=y)`.
      result: The value of that.
      need: What calls need of it.
    """
    if term.ref is not None:
        yield term.ref, _accesses(result, need)
        return
    inner = members(result, is_array) if isinstance(need, tuple) else []
    if not isinstance(need, tuple) or len(inner) != len(need):
        tokens = term.tokens() if need is False else []
        yield from [(one, []) for one in tokens if isinstance(one, Ref)]
        return
    group = term.parts[-1]
    if not isinstance(group, Group):
        return
    if type(result) is tuple:
        if group.kind == TUPLE_OF and len(group.items) == len(need):
            for item, (_, value), one in zip(group.items, inner, need):
                yield from _returned(item, value, one)
        return
    given = {Attribute(item.keyword): item for item in group.items if item.keyword}
    first, *after = term.parts
    if isinstance(first, Ref) and after[0] == "._replace":
        rest = [key not in given and one for (key, _), one in zip(inner, need)]
        if given:
            yield first, _accesses(result, tuple(rest))
    for (key, value), one in zip(inner, need):
        if key in given:
            yield from _returned(without_lead(given[key]), value, one)


def _accesses(value: Any, need: Need) -> list[Path]:
    """List the accesses to the parts of a value that are needed."""
    parts = members(value, is_array) if isinstance(need, tuple) else []
    if not isinstance(need, tuple) or len(parts) != len(need):
        return [] if need is False else [()]
    pairs = zip(parts, need)
    return [(key, *p) for (key, part), one in pairs for p in _accesses(part, one)]


@optional(gives(True))
def part_needed(
    first: Returned, group: Sequence[Returned], paths: Mapping[Name, Collection[Path]]
) -> Need:
    """Return what is needed of the result of a function.

    Args:
      first: A call of it.
      group: All calls.
      paths: The paths of all references, by name.
    """
    need: Need = False
    for kept in group:
        names = kept.statement.targets
        need = _either(need, _named(kept, kept.result, names, paths))
    return need


def called_once(references: References, drafts: Iterable[Draft]) -> list[list[Kept]]:
    """List the functions that are better written where they are called, by their calls.

    One that is passed on as well, `jax.vmap(f)`, is needed as it is.

    Args:
      references: What the program refers to.
      drafts: The trees of its functions.
    """
    read, called = _times(drafts)
    found: list[list[Kept]] = []
    grown: Counter[Draft] = Counter()
    for group in _by_function(references.kept).values():
        name = group[-1].function.name
        if read[name] != called[name]:
            continue
        if is_better_inside(group[-1], called[name] == 1, grown):
            found.append(group)
    return found


def _times(drafts: Iterable[Draft]) -> tuple[Counter[str], Counter[str]]:
    """Count how often functions of the module are referred to, and how often called."""
    read: Counter[str] = Counter()
    called: Counter[str] = Counter()
    for draft in drafts:
        read.update(part.text for part in draft.parts() if type(part) is Global)
        sequences = [parts for term in draft.terms() for parts in term.sequences()]
        for part, after in (pair for one in sequences for pair in pairwise(one)):
            if type(part) is Global and type(after) is Group and after.kind == CALL:
                called[part.text] += 1
    return read, called


@optional(gives(False))
def is_better_inside(kept: Kept, is_called_once: bool, grown: Counter[Draft]) -> bool:
    """Whether a function is better written where it is called.

    Args:
      kept: A call of it.
      is_called_once: Whether there is no other one.
      grown: By how many lines functions grow by what is written inside of them.
    """
    if _is_trivial(kept.draft):
        return True
    if not is_called_once:
        return False
    if _is_short(kept.draft):
        return True
    if kept.caller is None or grown[kept.draft]:
        return False
    n_lines = kept.draft.lines_left()
    few = max(FEW_LINES, len(kept.draft.parameters) + 1)
    around = kept.caller.lines_left() + grown[kept.caller]
    if n_lines > few or around + n_lines > MAX_LINES:
        return False
    grown[kept.caller] += n_lines
    return True


def _by_function(calls: Iterable[_Returned]) -> dict[Hashable, list[_Returned]]:
    groups: dict[Hashable, list[_Returned]] = {}
    for kept in calls:
        groups.setdefault(kept.function, []).append(kept)
    return groups


def _is_short(draft: Draft) -> bool:
    if draft.result is None or draft.statements_left():
        return False
    return len(draft.result.render()) <= MAX_INLINE


def _is_trivial(draft: Draft) -> bool:
    """Whether a function is one expression that says no more than its head."""
    if draft.result is None or draft.statements_left() or draft.decorators:
        return False
    if any(parameter.name.uses != 1 for parameter in draft.parameters):
        return False
    head = f"def {draft.name}({head_text(parameters_of(draft))}): return"
    return len(draft.result.render()) <= len(head)


def narrowed(item: Call, found: Iterable[Need]) -> Call:
    """Return a call as if it had returned only what is needed."""
    for need in found:
        if isinstance(need, tuple):
            result, target = _one(_narrowed(item.result, item.target, need))
            item = replace(item, result=result, target=target)
    return item


def _narrowed(value: Any, target: Target, need: Need) -> list[tuple[Any, Target]]:
    """List what is needed of a value, with the names that the caller has for it.

    The parts of an object are listed with those of what holds it.
    """
    parts = members(value, is_array) if isinstance(need, tuple) else []
    if not isinstance(need, tuple) or len(parts) != len(need):
        return [(value, target)]
    is_plain = type(value) is tuple
    if not is_plain:
        targets: Sequence[Target] = [last_word([step.word]) for step, _ in parts]
    elif isinstance(target, tuple) and len(target) == len(need):
        targets = target
    else:
        targets = [None] * len(need)
    found: list[tuple[Any, Target]] = []
    for (_, part), name, wanted in zip(parts, targets, need):
        if wanted is not False:
            inner = _narrowed(part, name, wanted)
            found += [_one(inner)] if is_plain and type(part) is tuple else inner
    return found


def _one(parts: Sequence[tuple[Any, Target]]) -> tuple[Any, Target]:
    """Put parts into a tuple, if there are several."""
    if len(parts) == 1:
        return parts[0]
    targets = tuple([target for _, target in parts])
    return tuple([part for part, _ in parts]), targets if any(targets) else None


def _named(
    kept: Returned,
    result: Any,
    names: Names | None,
    paths: Mapping[Name, Collection[Path]],
) -> Need:
    """Return what is needed of a result whose parts have names."""
    if isinstance(names, tuple) and type(result) is tuple:
        return _merged([_named(kept, r, n, paths) for r, n in zip(result, names)])
    if not isinstance(names, Name):
        return True
    return _reached(result, paths.get(names, ()), kept.opens)


def _reached(value: Any, paths: Collection[Path], opens: bool) -> Need:
    """Return what is needed of a value if these paths from it are used."""
    if not paths:
        return False
    can_open = opens or type(value) is tuple
    parts = members(value, is_array) if can_open and () not in paths else []
    if not parts:
        return True
    return _merged([_reached(part, _after(key, paths), opens) for key, part in parts])


def _after(step: Step, paths: Collection[Path]) -> set[Path]:
    """Return the rest of the paths that begin with a step."""
    return {path[1:] for path in paths if path[:1] == (step,)}


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
