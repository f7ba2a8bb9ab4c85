"""String literals, comments and docstrings: the only ways of a foreign string into text.

What comes in may be any string, also an instance of a subclass that shows itself
otherwise. What goes out is made of printable characters, on one line; a docstring has
lines of its own. Names are made in `names`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from untrace.printable import printable, printable_lines

QUOTES = ("'", '"')
STRING = r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'"""
"""What matches a string literal, as a regular expression."""
WIDTH_COLS = 85
"""Of the lines of docstrings."""


def quote(text: str) -> str:
    r"""Write a string literal, double-quoted where that needs no more escapes.

    >>> print(quote("it's"), quote('say "hi"'), quote("a\nb"))
    "it's" 'say "hi"' "a\nb"
    """
    literal = str.__repr__(text)
    if literal[0] == '"' or '"' in literal:
        return literal
    return '"' + literal[1:-1].replace("\\'", "'") + '"'


def comment(text: str) -> str:
    r"""Write a comment.

    >>> comment("one\ntwo")
    '# one\\ntwo'
    """
    return f"# {printable(text)}"


def is_comment(line: str) -> bool:
    """Whether a line of text is a comment and nothing else."""
    return line.lstrip().startswith("#")


def docstring(text: str) -> str:
    r"""Write text as a docstring, whatever it contains.

    >>> print(docstring('say "hi"').replace('"', "'"))
    '''say 'hi'
    '''
    """
    paragraphs = printable_lines(text.strip("\n")).split("\n")
    lines = [
        line
        for paragraph in paragraphs
        for line in (
            textwrap.wrap(paragraph, WIDTH_COLS)
            if len(paragraph) > WIDTH_COLS
            else [paragraph]
        )
    ]
    return _triple_quoted(lines)


def kept_docstring(text: str) -> str:
    r"""Write text as a docstring whose lines are those that it has.

    >>> print(kept_docstring("one\n  two\\n").replace('"', "'"))
    r'''one
      two\n
    '''
    """
    lines = [line.rstrip() for line in printable_lines(text.strip("\n")).split("\n")]
    whole = "\n".join(lines)
    is_raw = "\\" in whole and '"""' not in whole and not whole.endswith(("\\", '"'))
    if not is_raw:
        return _triple_quoted(lines)
    end = "\n" if len(lines) > 1 else ""
    return f'r"""{whole}{end}"""'


def _triple_quoted(lines: Sequence[str]) -> str:
    # Escaped last, so that no escape is torn apart.
    safe = "\n".join(lines).replace("\\", "\\\\").replace('"""', r"\"\"\"")
    end = "\n" if len(lines) > 1 or safe.endswith('"') else ""
    return f'"""{safe}{end}"""'


def occurs(name: str, text: str) -> bool:
    """Whether a name occurs in a text as a whole word.

    A regular expression that begins with a word's boundary is tried at every character.
    """
    start = text.find(name)
    while start >= 0:
        stop = start + len(name)
        around = text[start - 1 : start] + text[stop : stop + 1]
        if not any(char.isalnum() or char == "_" for char in around):
            return True
        start = text.find(name, stop)
    return False
