"""Functions that are alike but for one or two numbers become one that is given them.

So do those that differ in a bool for which the program had a parameter. Numbers that are sizes
of what the functions are given are taken from there (`argument_sizes.py`).

The layers of a framework fold their own number into the random key, scale by their own
width, and so on. This works on the finished text: all calls have to be plain, and the
numbers no indices, unless the program had a parameter for them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from untrace.lifting.printing import Function
from untrace.lifting.recorded.functions.alike_keys import (
    alike_but_for_keys,
    give_parts,
)
from untrace.lifting.recorded.functions.argument_names import argument_name
from untrace.lifting.recorded.functions.argument_sizes import (
    Sizes,
    find_sizes,
    write_sizes,
)
from untrace.lifting.recorded.functions.numbered_keys import close_keys, is_in_key
from untrace.lifting.recorded.functions.plain_calls import PlainCalls
from untrace.lifting.recorded.numbers.number_texts import is_rest, write_rest
from untrace.optional import gives, makes, optional
from untrace.syntax.text import STRING, is_comment

# Characters of the statements that are shared, unless the program passed the numbers.
MIN_LENGTH = 60
MAX_NUMBERS = 2
_FLAGS = frozenset({"True", "False"})
_STRING = rf"(?P<string>{STRING})"
_PIECES = re.compile(
    _STRING
    + r"""|(?<![\w.])(?P<number>True|False|\d[\d_]*(?:\.\d*)?(?:e[+-]?\d+)?)(?![\w.])"""
)
_KEYWORD = re.compile(r"(\w+)=[\[(]*-?$")
_WORD = re.compile(r"\w+")
_VARIABLE = re.compile(r"(?<![\w.])\w+(?!\w|=(?!=))")  # and no keyword of a call


@dataclass(frozen=True, slots=True)
class Merged:
    """How functions were merged: numbers of their text became parameters.

    Attributes:
      names: The new parameters.
      places: The numbers in the text, in order, and which of these stands there.
      rests: Those that are what one of these leaves of 1: `1 - momentum`.
      sizes: The numbers that are sizes of other parameters.
    """

    names: tuple[str, ...]
    places: tuple[tuple[int, int], ...]
    rests: tuple[tuple[int, int], ...]
    sizes: Sizes


@optional(makes(set))
def merge_alike(
    functions: list[Function],
    main: Function,
    found: dict[object, Merged],
    makes_keys: bool = True,
    may_merge: Callable[[str], bool] = lambda stem: True,
) -> set[str]:
    """Merge the functions of a module that differ in numbers; return their names.

    The names are without the number of one that others have, too. By them, `may_merge`
    tells which functions may be merged.

    Functions that call those that have become one may be alike then. What was done is
    added to `found`, by what the functions have in common. Where keys may be made of
    names, `f"{name}/mean"`, functions that read others are merged, too.
    """
    before = [function.name for function in functions]
    merged: set[str] = set()
    while True:
        more = _merge_groups(functions, main, found, may_merge)
        if not more:
            close_keys(functions)
            more = _merge_parts(functions, main, makes_keys, may_merge)
        if not more:
            break
        merged |= more
    left = {function.name for function in functions}
    close_gaps([*functions, main], [name for name in before if name not in left])
    return merged


@optional(gives(None))
def give_numbers(function: Function, merged: Merged) -> dict[str, str] | None:
    """Make parameters of numbers as it was done to functions like this one.

    Returns:
      The numbers, which calls have to pass, by the parameters; None if it is not done.
    """
    numbers = _numbers(function)
    passed = [""] * len(merged.names)
    for place, position in merged.places:
        if passed[position] not in ("", numbers[place]):
            return None  # it is not the same number everywhere
        passed[position] = numbers[place]
    if any(not is_rest(numbers[place], passed[i]) for place, i in merged.rests):
        return None
    if not merged.sizes.hold(numbers, function):
        return None
    _name(function, merged)
    return dict(zip(merged.names, passed))


def _name(function: Function, merged: Merged) -> None:
    """Write names for numbers of a function, which become parameters."""
    text = "\n".join(function.lines)
    places = [m for m in _PIECES.finditer(text) if m["number"]]
    named = {index: merged.names[position] for index, position in merged.places}
    rests = {index: merged.names[position] for index, position in merged.rests}
    written = [*named.items(), *rests.items(), *merged.sizes.texts]
    for index, name in sorted(written, reverse=True):
        place = places[index]
        if index in rests:
            text = write_rest(text, place.start(), place.end(), name)
        else:
            text = f"{text[: place.start()]}{name}{text[place.end() :]}"
    function.lines = [*merged.sizes.head, *merged.sizes.shortened(text).split("\n")]
    parameters = (function.parameters, *merged.names)
    function.parameters = ", ".join([p for p in parameters if p])
    function.comment = function.signature = ""


def _merge_groups(
    functions: list[Function],
    main: Function,
    found: dict[object, Merged],
    may_merge: Callable[[str], bool],
) -> set[str]:
    groups: dict[object, list[Function]] = {}
    for function in functions:
        if not function.after and may_merge(stem_of(function.name)):
            groups.setdefault(likeness(function), []).append(function)
    merged: set[str] = set()
    for key, group in groups.items():
        if len({tuple(function.lines) for function in group}) > 1:
            made = _merge(group, functions, main)
            if made is not None:
                found[key] = made
                merged.add(stem_of(group[0].name))
    return merged


def _merge_parts(
    functions: list[Function],
    main: Function,
    makes_keys: bool,
    may_merge: Callable[[str], bool],
) -> set[str]:
    """Merge functions that read other parts of what they are given."""
    able = [one for one in functions if may_merge(stem_of(one.name))]
    for group in alike_but_for_keys(able):
        before = [(one, replace(one)) for one in [*functions, main]]
        is_given = give_parts(group, [*functions, main], makes_keys)
        if is_given and _merge(group, functions, main):
            return {stem_of(group[0].name)}
        for one, saved in before:
            one.lines, one.parameters = saved.lines, saved.parameters
            one.comment, one.signature = saved.comment, saved.signature
    return set()


def close_gaps(functions: Sequence[Function], free: list[str]) -> None:
    """Give functions with numbers the lower ones that have become free."""
    for function in functions:
        old, stem = function.name, stem_of(function.name)
        lower = [n for n in free if stem_of(n) == stem and _number(n) < _number(old)]
        if old in function.names or not lower:
            continue
        new = min(lower, key=_number)
        if any(new in _WORD.findall("\n".join(f.text_lines())) for f in functions):
            continue  # the name of a local variable
        free[free.index(new)] = old
        function.name = new
        for other in functions:
            for lines in (other.lines, other.decorators, other.after):
                lines[:] = [renamed(line, old, new) for line in lines]


def renamed(line: str, old: str, new: str) -> str:
    """Rename a function in a line, but not in its strings, nor in a comment."""
    if is_comment(line):
        return line
    pattern = rf"{_STRING}|(?<![\w.]){old}(?!\w)"
    return re.sub(pattern, lambda m: m["string"] or new, line)


def stem_of(name: str) -> str:
    """Return the name of a function without the number of one that others have, too."""
    return re.sub(r"_\d+$", "", name)


def _number(name: str) -> int:
    """Return the number of a name that others have, too; it begins with the second."""
    found = re.search(r"_(\d+)$", name)
    return int(found[1]) if found else 1


def likeness(function: Function) -> object:
    """Return what functions share that differ in numbers at most."""
    stem = stem_of(function.name)
    text = _PIECES.sub(lambda m: m["string"] or "#", "\n".join(function.lines))
    return stem, function.parameters, tuple(function.decorators), text


def _merge(
    group: Sequence[Function], functions: list[Function], main: Function
) -> Merged | None:
    first = group[0]
    columns = list(zip(*[_numbers(function) for function in group]))
    text = "\n".join(first.lines)
    places = [m for m in _PIECES.finditer(text) if m["number"]]
    differing = [i for i, column in enumerate(columns) if len(set(column)) > 1]
    is_named = [bool(_known_name(group, column)) for column in columns]
    sizes = find_sizes(text, places, columns, group, is_named)
    differing = [i for i in differing if i not in sizes]
    kinds = list(dict.fromkeys(columns[i] for i in differing))
    rests = _rests(kinds)
    kinds = [kind for kind in kinds if kind not in rests]
    flags = {kind for kind in kinds if not _FLAGS.isdisjoint(kind)}
    if flags and first.decorators:  # a jitted function would trace them
        return None
    if len(kinds) > MAX_NUMBERS:
        return None
    if kinds and re.search("[*=]", first.parameters):
        return None
    indices = {columns[i] for i in differing if _is_index(text, places[i])}
    if any(not _known_name(group, kind) for kind in indices | flags):
        return None
    keys = {columns[i] for i in differing if is_in_key(text, places[i].start())}
    if any(not (_known_name(group, k) or _shared_variable(group, k)) for k in keys):
        return None
    is_short = len("".join(first.lines)) < MIN_LENGTH
    if is_short and not all(_known_name(group, k) or k in keys for k in kinds):
        return None
    others = [f for f in [*functions, main] if f not in group]
    positions = {function.name: i for i, function in enumerate(group)}

    def passing(name: str, arguments: list[str]) -> tuple[str, list[str]]:
        numbers = [kind[positions[name]] for kind in kinds]
        return first.name, [*arguments, *numbers]

    calls = PlainCalls(positions)
    lines = [
        calls.rewrite(line, passing) if kinds else calls.renamed(line, first.name)
        for other in others
        for line in other.lines
    ]
    if calls.is_refused or any(calls.mentions(f.decorators) for f in others):
        return None
    if any(calls.mentions([*f.lines, *f.after]) for f in group):
        return None
    if any(calls.mentions(f.after) for f in others):
        return None
    used = [places[next(i for i in differing if columns[i] == k)] for k in kinds]
    hints = [_hint(text, place, group, kind) for place, kind in zip(used, kinds)]
    names = _names(text, first, hints)
    passed = [(i, kinds.index(columns[i])) for i in differing if columns[i] in kinds]
    left = {i: rests[columns[i]] for i in differing if columns[i] in rests}
    taken = {*_WORD.findall(text), *_WORD.findall(first.parameters), *names}
    written = write_sizes(sizes, columns, group, taken)
    of_one = tuple([(i, kinds.index(kind)) for i, kind in left.items()])
    merged = Merged(tuple(names), tuple(passed), of_one, written)
    _name(first, merged)
    first.shapes = [shapes for function in group for shapes in function.shapes]
    for function in group[1:]:
        first.agree(function)
    rest = iter(lines)
    for function in others:
        if calls.mentions(function.lines):
            _name_numbers(function, kinds, names)
        function.lines = [next(rest) for _ in function.lines]
    functions[:] = [f for f in functions if f not in group[1:]]
    return merged


def _rests(kinds: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], tuple[str, ...]]:
    """Return which numbers are what others leave of 1 in each of the functions."""
    return {
        kind: other
        for kind in kinds
        for other in kinds
        if all(map(is_rest, kind, other))
    }


def _name_numbers(
    function: Function, kinds: Sequence[Sequence[str]], names: Sequence[str]
) -> None:
    """Note what the numbers are that a function passes on."""
    for kind, name in zip(kinds, names):
        for number in kind:
            function.numbers.setdefault(number, name)


def _numbers(function: Function) -> list[str]:
    found = _PIECES.finditer("\n".join(function.lines))
    return [m["number"] for m in found if m["number"]]


def _is_index(text: str, place: re.Match[str]) -> bool:
    """Whether a number stands alone in brackets, as the index of a tree's part."""
    return text[: place.start()].endswith("[") and text[place.end() :].startswith("]")


def _hint(
    text: str,
    place: re.Match[str],
    group: Sequence[Function],
    numbers: Sequence[str],
) -> str:
    """Name a parameter as the program did, or after the keyword that takes the number."""
    known = _known_name(group, numbers) or _shared_variable(group, numbers)
    keyword = _KEYWORD.search(text[: place.start()])
    return known or (keyword[1] if keyword else argument_name(text, place) or "number")


def _known_name(group: Sequence[Function], numbers: Sequence[str]) -> str:
    """Return the name that the program has for a number; "" if it has none or several."""
    known = {f.numbers.get(number, "") for f, number in zip(group, numbers)}
    return known.pop() if len(known) == 1 else ""


def _shared_variable(group: Sequence[Function], numbers: Sequence[str]) -> str:
    """Return the only variable that held its number in each function; "" if there is none."""
    shared = [
        name
        for name in group[0].integers
        if all(f.integers.get(name) == n for f, n in zip(group, numbers))
    ]
    return shared[0] if len(shared) == 1 else ""


def _names(text: str, function: Function, hints: Sequence[str]) -> list[str]:
    """Make names of hints that the function does not use yet."""
    taken = {*_VARIABLE.findall(text), *_WORD.findall(function.parameters)}
    names: list[str] = []
    for hint in hints:
        name, count = hint, 2
        while name in taken:
            name, count = f"{hint}_{count}", count + 1
        taken.add(name)
        names.append(name)
    return names
