"""The names of functions that have become one, and how others refer to them."""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.heads import n_plain
from untrace.lifting.printing import Function
from untrace.syntax.parsed import Edit, Parsed, parsed, replaced


def stem_of(name: str) -> str:
    """Return the name of a function without the number of one that others have, too."""
    stem, _, number = name.rpartition("_")
    return stem if stem and number.isdecimal() else name


def by_stem(functions: Sequence[Function]) -> dict[str, list[Function]]:
    """Return functions by their names without numbers."""
    groups: dict[str, list[Function]] = {}
    for function in functions:
        groups.setdefault(stem_of(function.name), []).append(function)
    return groups


def _number(name: str) -> int:
    """Return the number of a name that others have, too; it begins with the second."""
    stem = stem_of(name)
    return 1 if stem == name else int(name[len(stem) + 1 :])


def text_of(function: Function) -> str:
    """Return the statements of a function as one text."""
    return "\n".join(function.lines)


def body_of(function: Function) -> Parsed:
    """Read the statements of a function."""
    return parsed(text_of(function))


def rename(functions: Sequence[Function], old: str, new: str) -> None:
    """Let functions refer to one by another name."""

    def renamed(text: str) -> str:
        if old not in text:
            return text
        read = parsed(text)
        return read.edited(renaming(read, frozenset({old}), new))

    for function in functions:
        function.rewrite(renamed)


def renaming(text: Parsed, names: frozenset[str], new: str) -> list[Edit]:
    """Write another name wherever a text uses some."""
    return [replaced(text.span(n), new) for n in text.names() if n.id in names]


def close_gaps(functions: Sequence[Function], free: list[str]) -> None:
    """Give functions with numbers the lower ones that have become free."""
    for function in functions:
        old, stem = function.name, stem_of(function.name)
        lower = [n for n in free if stem_of(n) == stem and _number(n) < _number(old)]
        if old in function.names or not lower:
            continue
        new = min(lower, key=_number)
        if any(has_word(one, new) for one in functions):
            continue  # the name of a local variable
        free[free.index(new)] = old
        function.name = new
        rename(functions, old, new)


def has_word(function: Function, word: str) -> bool:
    """Return whether a function has a parameter, a variable or the like of this name."""
    if any(word in (one.name, one.default) for one in function.parameters):
        return True
    texts = [text for text in function.texts() if word in text]
    return any(word in parsed(text).words() for text in texts)


def fresh(hint: str, taken: set[str]) -> str:
    """Return a name that nothing has, and take it."""
    name, count = hint, 2
    while name in taken:
        name, count = f"{hint}_{count}", count + 1
    taken.add(name)
    return name


def has_special(function: Function) -> bool:
    """Whether parameters have stars or defaults."""
    return n_plain(function.parameters) < len(function.parameters)


def names_of_parameters(function: Function) -> list[str]:
    """The names of the parameters of a function."""
    return [one.name for one in function.parameters]
