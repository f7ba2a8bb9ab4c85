"""Give names back their numbers' places once others of their kind are gone.

`x_4` and `x_9` become `x` and `x_2` where nothing is called `x` any more, in a function
and in those inside it. A name that an enclosing function defines stays as it is.
"""

from __future__ import annotations

import ast
import collections
from collections.abc import Iterable, Iterator, Sequence

from untrace.lifting.lines.function_lines import (
    parsed_lines,
    parts_of_name,
    with_names,
    words_in,
)
from untrace.lifting.lines.names_read import names_read, own_names


def renamed(lines: Sequence[str], free: Iterable[str]) -> list[str]:
    """Take the numbers of names down to those that are free.

    Args:
      lines: The body of a function, unindented.
      free: Names that nothing has any more.
    """
    tree = parsed_lines(lines)
    if tree is None:
        return list(lines)
    words = set(words_in("\n".join(lines)))
    series: dict[str, list[int]] = collections.defaultdict(list)
    for word in words:
        base, number = parts_of_name(word)
        series[base].append(number)
    names: dict[str, str] = {}
    given: set[str] = set()  # `x_2` is a number of `x`, and the first of its own kind
    for base in free:
        if base in words:
            continue
        known = [f"{base}_{number}" for number in sorted(series.get(base, ()))]
        slots = (slot for slot in _slots(base) if slot in known or slot not in words)
        anew = dict(zip(known, (slot for slot in slots if slot not in given)))
        given.update(anew.values())
        names.update({old: new for old, new in anew.items() if old != new})
    foreign = _foreign(tree, names, lines)
    if foreign:  # its place is taken
        taken = {parts_of_name(name)[0] for name in foreign}
        names = {k: v for k, v in names.items() if parts_of_name(k)[0] not in taken}
    return [
        line if line.lstrip().startswith("#") else with_names(line, names)
        for line in lines
    ]


def _slots(base: str) -> Iterator[str]:
    yield base
    number = 1
    while True:
        number += 1
        yield f"{base}_{number}"


def _foreign(tree: ast.Module, names: dict[str, str], lines: Sequence[str]) -> set[str]:
    """List the names that are read but not defined here."""
    own = set(own_names(tree.body))
    readings = names_read(tree, names, lines)
    return {name for reading in readings for name in reading.names} - own
