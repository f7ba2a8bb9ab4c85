"""Name the functions that one function of the program became after what it was told.

A function that was told `kind="max"` once and `kind="mean"` once is two, `pooled_max` and
`pooled_mean`, if what it does with the word is another thing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.names import (
    by_stem,
    close_gaps,
    has_word,
    rename,
)
from untrace.optional import gives, optional
from untrace.syntax.names import identifier

_LONGEST = 12
"""Most letters of a word that tells functions apart."""


@optional(gives(None))
def name_after_settings(functions: Sequence[Function], main: Function) -> None:
    """Let a word or a flag tell apart the functions that else only a number does.

    Args:
      functions: Those of a module, but for the main one.
      main: The main one.
    """
    free: list[str] = []
    for stem, group in by_stem(functions).items():
        counts = Counter(word for one in group for word in {*one.settings})
        for one in group if len(group) > 1 else ():
            told = (word for word in one.settings if counts[word] == 1)
            word = next((word for word in told if len(word) <= _LONGEST), "")
            new = identifier(f"{stem}_{word}", stem)
            if word and not _is_taken(new, [*functions, main]):
                free.append(one.name)
                rename([*functions, main], one.name, new)
                one.name = new
    close_gaps([*functions, main], free)


def _is_taken(name: str, functions: Sequence[Function]) -> bool:
    return any(one.name == name or has_word(one, name) for one in functions)
