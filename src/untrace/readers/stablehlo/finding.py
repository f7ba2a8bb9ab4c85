"""Find modules of StableHLO in a text around them: an issue, a mail, a log."""

from __future__ import annotations

import re
from collections.abc import Iterator

from untrace.readers.quoting import blank, mark_before, without_marks

MAX_TRIED = 20
"""How many beginnings of modules in a text are tried, if the first ones are none."""

_FUNCTION = r'(?:func\.func[ \t]+(?:public[ \t]+|private[ \t]+)?@|"func\.func"[ \t]*\()'
_MODULE = re.compile(
    r"\bmodule[ \t]*(?:@[\w.$-]+[ \t]*|@\"[^\"\n]*\"[ \t]*)?(?:attributes[ \t]*)?\{"
    r'|"builtin\.module"[ \t]*\(|' + _FUNCTION
)
_NEXT_FUNCTION = re.compile(r"\s*" + _FUNCTION)
_ALIAS = re.compile(r"#\w+ = ")
_PARTS = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|[][(){}\n]')


def holds_module(program: object) -> bool:
    """Whether a line of a text begins like a module or a function.

    >>> holds_module("It prints\\n> module @jit_f {\\n> }")
    True
    >>> holds_module("the module { of which }")
    False
    """
    return isinstance(program, str) and next(_places(program), None) is not None


def modules_in(text: str) -> Iterator[str]:
    """Yield the text with spaces for all but one module or function, for each in turn."""
    end = tried = 0
    for start in _places(text):
        if start < end or tried == MAX_TRIED:
            continue
        mark = mark_before(text, start) or ""
        first, end = _with_aliases(text, start, mark)
        module = without_marks("\n" + text[first:end], mark)[1:]
        yield blank(text[:first]) + module + blank(text[end:])
        tried += 1


def _places(text: str) -> Iterator[int]:
    for found in _MODULE.finditer(text):
        if mark_before(text, found.start()) is not None:
            yield found.start()


def _with_aliases(text: str, start: int, mark: str) -> tuple[int, int]:
    """Return where the lines of a module begin and end, with aliases and functions."""
    first = text.rfind("\n", 0, start) + 1
    while first:
        line = text.rfind("\n", 0, first - 1) + 1
        if not _ALIAS.match(text[line:first].removeprefix(mark).lstrip(" ")):
            break
        first = line
    end = _closing(text, start)
    is_function = _NEXT_FUNCTION.match(text, start) is not None
    while end < len(text):
        line = text.find("\n", end + 1)
        line = len(text) if line < 0 else line
        after = text[end + 1 : line].removeprefix(mark).lstrip(" ")
        if is_function and _NEXT_FUNCTION.match(after):
            line = _closing(text, end + 1)
        elif after and not _ALIAS.match(after):
            break
        end = line
    return first, end


def _closing(text: str, start: int) -> int:
    """Return where the line ends in which all brackets are closed, or the text."""
    depth, has_opened = 0, False
    for part in _PARTS.finditer(text, start):
        if part[0] in "([{":
            depth, has_opened = depth + 1, True
        elif part[0] in ")]}":
            depth -= 1
        elif part[0] == "\n" and has_opened and depth <= 0:
            return part.start()
    return len(text)
