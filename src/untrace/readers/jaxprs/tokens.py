"""Split a printed jaxpr into tokens, in one pass.

Line breaks are tokens, since they part equations where nothing else does; other white
space is none. A type after a colon, such as `:f32[3,4]`, is one token.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

# Every alternative begins with another character or is of plain classes of characters:
# nothing is looked at twice, however the text goes on.
_TOKEN = re.compile(
    r"""
    \n[ \t]*                                      # a line break, and how far it indents
  | :~?\w+\[[\d,]*\](?![{(])                       # a plain type
  | :~?(?:Ref|MemRef|AbstractRef|AbstractMemoryRef|AbstractFuture)
      (?:<[^<>\n]*>)?\{(?:[^{}\n]|\{[^{}\n]*\})*\}
  | :~?[A-Za-z]\w*(?:<[^<>\n]*>)?(?:\[[^\[\]\n]*\])?(?:\{[^{}\n]*\})?
  | 0x[0-9a-fA-FX]+
  | -?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?j?(?![A-Za-z_])
  | -(?:inf|nan)j?\b
  | [^\W\d]\w*(?:[.-][^\W\d]\w*)*
  | '(?:[^'\\\n]|\\.)*'
  | "(?:[^"\\\n]|\\.)*"
  | <-|\+=|->|\.\.\.
  | \S
    """,
    re.VERBOSE,
)


class Tokens(NamedTuple):
    """The tokens of a text.

    Attributes:
      text: The whole text.
      words: The tokens as they are written; the last is "", for the end.
      starts: Where each begins.
      names: Names of definitions that are one token each.
    """

    text: str
    words: list[str]
    starts: list[int]
    names: frozenset[str] = frozenset()


def split(
    text: str, start: int = 0, end: int | None = None, names: Sequence[str] = ()
) -> Tokens:
    """Return the tokens of a part of a text.

    What has one of the names is one token where it is defined or the value of a param.

    >>> split("{ lambda ; a:f32[3]. let").words
    ['{', 'lambda', ';', 'a', ':f32[3]', '.', 'let', '']
    """
    end = len(text) if end is None else end
    words: list[str] = []
    starts: list[int] = []
    for found in _pattern(names).finditer(text, start, end):
        words.append(found.group())
        starts.append(found.start())
    return Tokens(text, [*words, ""], [*starts, end], frozenset(names))


def _pattern(names: Sequence[str]) -> re.Pattern[str]:
    if not names:
        return _TOKEN
    longest_first = sorted(names, key=len, reverse=True)
    listed = "|".join(map(re.escape, longest_first))
    named = rf"(?:(?<==)|(?<=let\ ))(?:{listed})(?=[\]\s])"
    return re.compile(f"{named}|{_TOKEN.pattern}", re.VERBOSE)
