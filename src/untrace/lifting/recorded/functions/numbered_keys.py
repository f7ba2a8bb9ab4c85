"""Numbers in the keys of a function that was given such a number: `params[f"w{i}"]`.

A layer that reads `params["w0"]`, and `params["w1"]` the next time, is one function of `i`.
While functions that differ in numbers are merged, the number in a key stands beside its
text, `__key("w", 0)`, where numbers are seen; then it is a key again, or one made of `i`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from untrace.lifting.printing import Function
from untrace.syntax.text import quote

_KEY = re.compile(r"""(?<=[\w\]]\[)"(?P<key>[^"\\{}]*\d[^"\\{}]*)"(?=\])""")
_NUMBER = re.compile(r"(?<!\d)(0|[1-9]\d*)(?!\d)")
_OPEN = "__key("  # no name begins like that
_OPENED = re.compile(
    r"""(?<!\w)__key\((?P<parts>(?:"[^"\\]*"|\w+)(?:, (?:"[^"\\]*"|\w+))*)\)"""
)
_PART = re.compile(r'"(?P<text>[^"\\]*)"|(?P<value>\w+)')


def numbers_in(word: str) -> list[str]:
    """List the numbers in a key, or a part of one.

    >>> numbers_in("layer_10/w2"), numbers_in("w01")
    (['10', '2'], [])
    """
    return _NUMBER.findall(word)


def open_keys(function: Function, held: Collection[str]) -> None:
    """Let numbers in keys stand beside their text, if a key has one of those held."""
    keys = [m["key"] for line in function.lines for m in _KEY.finditer(line)]
    if any(number in held for key in keys for number in numbers_in(key)):
        function.rewrite(lambda line: _KEY.sub(lambda m: _opened(m["key"]), line))


def close_keys(functions: Iterable[Function]) -> None:
    """Write keys, of numbers or of the variables that these have become."""
    for function in functions:
        if any(_OPEN in line for line in function.lines):
            function.rewrite(lambda line: _OPENED.sub(_closed, line))


def is_in_key(text: str, position: int) -> bool:
    """Whether a number of a text is one in a key."""
    start = text.rfind(_OPEN, 0, position)
    return start >= 0 and ")" not in text[start:position]


def _opened(key: str) -> str:
    """Write a key with its numbers beside its text.

    >>> _opened("block_1/w"), _closed(_OPENED.search(_opened("block_1/w")))
    ('__key("block_", 1, "/w")', '"block_1/w"')
    >>> _closed(_OPENED.search('__key("block_", i, "/w")'))
    'f"block_{i}/w"'
    """
    pieces = _NUMBER.split(key)  # texts, with a number between each two
    parts = [quote(one) if n % 2 == 0 else one for n, one in enumerate(pieces)]
    return f"{_OPEN}{', '.join(part for part in parts if part != quote(''))})"


def _closed(match: re.Match[str]) -> str:
    parts = [one["text"] or one["value"] for one in _PART.finditer(match["parts"])]
    variables = [one["value"] for one in _PART.finditer(match["parts"])]
    texts = [
        f"{{{part}}}" if variable and not variable.isdigit() else part
        for part, variable in zip(parts, variables)
    ]
    return ("" if texts == parts else "f") + quote("".join(texts))
