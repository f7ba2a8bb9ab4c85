"""Functions that are alike but for a few numbers become one that is given them.

So do those that differ in a bool for which the program had a parameter.

The layers of a framework fold their own number into the random key, scale by their own
width, and so on. All calls have to be plain, and the numbers no indices, unless the program had
a parameter for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from untrace.lifting.heads import n_plain, plain_head
from untrace.lifting.printing import Function
from untrace.lifting.recorded.numbers.number_texts import is_rest
from untrace.lifting.recorded.unify.alike import Likeness, alike_but_for
from untrace.lifting.recorded.unify.argument_names import argument_name
from untrace.lifting.recorded.unify.calls import is_mentioned, mentions, rewrite_calls
from untrace.lifting.recorded.unify.names import (
    body_of,
    fresh,
    has_special,
    names_of_parameters,
    rename,
)
from untrace.lifting.recorded.unify.places import (
    Number,
    edits_of,
    is_index,
    keyword_of,
    numbers_of,
    operand,
    passed_text,
)
from untrace.optional import gives, optional
from untrace.syntax.parsed import Parsed, Span

# Characters of the statements that are shared, unless the program passed the numbers; of
# those for each number where there are more than two.
MIN_LENGTH = 60
MAX_NUMBERS = 2
MAX_MORE_NUMBERS = 6
_FLAGS = frozenset({"True", "False"})

Column = tuple[str, ...]
"""The numbers that stand in one place of functions that are alike."""


@dataclass(frozen=True, slots=True)
class Merged:
    """How functions were merged: numbers of their text became parameters.

    Attributes:
      names: The new parameters.
      places: The numbers in the text, in order, and which of these stands there.
      derived: Those that one of these tells: how much more they are, `degree + 1`, or None
        for what it leaves of 1, `1 - momentum`.
      front: How many parameters stand before the new ones.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    derived: tuple[tuple[int, int, int | None], ...]
    front: int


def likeness(function: Function) -> Likeness:
    """Return what functions share that differ in numbers at most."""
    body = body_of(function)
    blank = dict.fromkeys(numbers_of(function), "0")
    return alike_but_for(function, edits_of(body, blank))


@optional(gives(None))
def give_numbers(function: Function, merged: Merged) -> dict[str, str] | None:
    """Make parameters of numbers as it was done to functions like this one.

    Returns:
      What calls have to pass, by the parameters; None if it is not done.
    """
    numbers = numbers_of(function)
    texts = [number.text for number in numbers]
    passed = [""] * len(merged.names)
    for place, position in merged.places:
        if passed[position] not in ("", texts[place]):
            return None  # it is not the same number everywhere
        passed[position] = texts[place]
    if any(more not in _tells(texts[i], passed[k]) for i, k, more in merged.derived):
        return None
    _name(function, merged)
    return dict(zip(merged.names, passed))


def _name(function: Function, merged: Merged) -> None:
    """Write names for numbers of a function, which become parameters."""
    body, numbers = body_of(function), numbers_of(function)
    written = {numbers[i]: merged.names[position] for i, position in merged.places}
    for i, position, more in merged.derived:
        name = merged.names[position]
        text = f"1 - {name}" if more is None else f"{name} {'+-'[more < 0]} {abs(more)}"
        written[numbers[i]] = operand(body, numbers[i], text)
    function.lines = body.edited(edits_of(body, written)).split("\n")
    if function.static is not None and merged.names:
        function.decorators = [function.static(merged.front, merged.names)]
    first, last = (
        function.parameters[: merged.front],
        function.parameters[merged.front :],
    )
    function.parameters = *first, *plain_head(*merged.names), *last
    function.comment = function.signature = ""


def merge_numbers(
    group: Sequence[Function], functions: list[Function], main: Function
) -> Merged | None:
    """Let functions that are alike but for numbers be the first of them.

    Args:
      functions: All functions of the module but for the main one; it loses those that the
        first of the group stands for.
      main: The main one.

    Returns:
      What was done; None if they cannot be one.
    """
    first, body = group[0], body_of(group[0])
    numbers = numbers_of(first)
    texts = [[number.text for number in numbers_of(one)] for one in group]
    columns: list[Column] = list(zip(*texts, strict=True))
    differing = [i for i, one in enumerate(columns) if len(set(one)) > 1]
    kinds = list(dict.fromkeys(columns[i] for i in differing))
    derived = _derived(kinds, group)
    kinds = [kind for kind in kinds if kind not in derived]
    in_keys = {columns[i] for i in differing if numbers[i].in_key}
    indices = {columns[i] for i in differing if is_index(body, numbers[i])}
    if not _may_be_given(group, kinds, indices, in_keys):
        return None
    used = [numbers[next(i for i in differing if columns[i] == k)] for k in kinds]
    hints = [_hint(body, number, group, kind) for number, kind in zip(used, kinds)]
    parameters = names_of_parameters(first)
    taken = {*body.variables(), *parameters}
    names = [fresh(hint, taken) for hint in hints]
    front = _front(first, names)
    if not _let_pass(group, functions, main, kinds, front):
        return None
    passed = [(i, kinds.index(columns[i])) for i in differing if columns[i] in kinds]
    told = [(i, *derived[columns[i]]) for i in differing if columns[i] in derived]
    others = tuple([(i, kinds.index(kind), more) for i, kind, more in told])
    merged = Merged(tuple(names), tuple(passed), others, front)
    _name(first, merged)
    for function in group[1:]:
        first.agree(function)
    functions[:] = [f for f in functions if f not in group[1:]]
    for function in [*functions, main]:
        if is_mentioned(function, frozenset({first.name})) and function is not first:
            _note_numbers(function, kinds, names)
    return merged


def _may_be_given(
    group: Sequence[Function],
    kinds: Sequence[Column],
    indices: set[Column],
    in_keys: set[Column],
) -> bool:
    """Whether functions that differ in some numbers may be given them."""
    first = group[0]
    flags = {kind for kind in kinds if not _FLAGS.isdisjoint(kind)}
    if kinds and first.decorators and first.static is None:  # it would trace them
        return False
    length = len("".join(first.lines))
    limit = max(MAX_NUMBERS, min(MAX_MORE_NUMBERS, length // MIN_LENGTH))
    if len({*kinds} - in_keys) > limit or (
        first.decorators and kinds and has_special(first)
    ):
        return False
    if any(not _known_name(group, kind) for kind in indices | flags):
        return False
    if any(not (_known_name(group, k) or _shared_variable(group, k)) for k in in_keys):
        return False
    return length >= MIN_LENGTH or all(
        _known_name(group, k) or k in in_keys for k in kinds
    )


def _front(function: Function, names: Sequence[str]) -> int:
    """How many parameters of a function stand before new ones, as they do in the program.

    Where it does not tell, they come last, but for those with defaults.
    """
    if function.decorators:
        return len(function.parameters)
    order = [*function.keywords]
    later = {*order[order.index(names[0]) :]} if {*names[:1]} & {*order} else ()
    plain = function.parameters[: n_plain(function.parameters)]
    return next((i for i, one in enumerate(plain) if one.name in later), len(plain))


def _let_pass(
    group: Sequence[Function],
    functions: Sequence[Function],
    main: Function,
    kinds: Sequence[Column],
    front: int,
) -> bool:
    """Let all calls of functions be of the first, and pass numbers; tell whether they can."""
    names = frozenset(one.name for one in group)
    positions = {function.name: i for i, function in enumerate(group)}
    if any(is_mentioned(one, names) for one in group):
        return False
    others = [one for one in [*functions, main] if one not in group]
    if not kinds:
        heads = [[*one.decorators, "\n".join(one.after)] for one in others]
        if any(mentions(text, names) for head in heads for text in head):
            return False
        for one in group[1:]:
            rename(others, one.name, group[0].name)
        return True

    def passing(
        name: str, arguments: Sequence[Span], _: Parsed
    ) -> tuple[str, Sequence[str | Span]]:
        numbers = [passed_text(kind[positions[name]]) for kind in kinds]
        return group[0].name, [*arguments[:front], *numbers, *arguments[front:]]

    return rewrite_calls(others, names, passing)


def _derived(
    kinds: Sequence[Column], group: Sequence[Function]
) -> dict[Column, tuple[Column, int | None]]:
    """Return which numbers others tell in each of the functions, and how.

    One is so much more than another only if the program has a name for that alone.
    """
    found: dict[Column, tuple[Column, int | None]] = {}
    named = [kind for kind in kinds if _known_name(group, kind)]
    for kind in kinds:
        for other in kinds:
            ways = set.intersection(*map(_tells, kind, other))
            if kind in named or other not in named:
                ways &= {None}
            if ways:
                found[kind] = other, ways.pop()
    return found


def _tells(number: str, other: str) -> set[int | None]:
    """How a number tells another one: how much more that is, None for what it leaves of 1."""
    ways: set[int | None] = {None} if is_rest(number, other) else set()
    if number.isdecimal() and other.isdecimal():
        ways.add(int(number) - int(other))
    return ways


def _note_numbers(
    function: Function, kinds: Sequence[Column], names: Sequence[str]
) -> None:
    """Note what the numbers are that a function passes on."""
    for kind, name in zip(kinds, names):
        for number in kind:
            function.numbers.setdefault(number, name)


def _hint(
    body: Parsed, number: Number, group: Sequence[Function], column: Column
) -> str:
    """Name a parameter as the program did, or after the keyword that takes the number."""
    known = _known_name(group, column) or _shared_variable(group, column)
    named = known or keyword_of(body, number)
    return named or ("" if number.in_key else argument_name(body, number)) or "number"


def _known_name(group: Sequence[Function], numbers: Column) -> str:
    """Return the name that the program has for a number; "" if it has none or several."""
    known = {f.numbers.get(number, "") for f, number in zip(group, numbers)}
    return known.pop() if len(known) == 1 else ""


def _shared_variable(group: Sequence[Function], numbers: Column) -> str:
    """Return the only variable that held its number in each function; "" if there is none."""
    shared = [
        name
        for name in group[0].integers
        if all(f.integers.get(name) == n for f, n in zip(group, numbers))
    ]
    return shared[0] if len(shared) == 1 else ""
