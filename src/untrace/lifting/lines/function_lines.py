"""The lines of one function: what their words are, and what is known of their names."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from untrace.parsing import parse

WORD = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
_STRING = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'")
_NAME = re.compile(rf"{_STRING.pattern}|{WORD.pattern}(?!\w|=)")
LINE = re.compile(
    r"(?:(?P<name>[A-Za-z_]\w*) = |(?P<other>[\w, ()]+ = )|(?P<end>return ))(?P<text>\S.*)"
)


@dataclass(frozen=True, slots=True)
class Made:
    """What is known of a name.

    Attributes:
      place: The user's statement that it comes from; None if that is not known.
      is_named: Somebody gave it this name, perhaps but for a number.
      is_final: It is the very name that somebody gave.
      is_read: It is read from an argument.
      is_foreign: A library gave it this name.
    """

    place: Any = None
    is_named: bool = False
    is_final: bool = False
    is_read: bool = False
    is_foreign: bool = False


def line_head(found: re.Match[str]) -> str:
    """Return what stands before the expression of a line."""
    if found["name"]:
        return f"{found['name']} = "
    return found["other"] or found["end"]


@functools.lru_cache(maxsize=4096)
def parsed(text: str) -> ast.Expression | None:
    """Parse an expression; None if it is none, or its columns cannot be counted.

    The trees are kept until `forget_trees`: programs are written several times.
    """
    if not text.isascii():  # they count bytes
        return None
    try:
        return parse(text, "eval")
    except SyntaxError:
        return None


def parsed_lines(lines: Sequence[str]) -> ast.Module | None:
    """Parse lines of a function; None if their columns cannot be counted."""
    text = "\n".join(lines)
    if not text.isascii() or text.count("\n") >= len(lines):
        return None
    return _parsed(text)


@functools.lru_cache(maxsize=256)
def _parsed(text: str) -> ast.Module | None:
    try:
        return parse(text)
    except SyntaxError:
        return None


@functools.lru_cache(maxsize=4096)
def names_in(tree: ast.Expression) -> tuple[ast.Name, ...]:
    """The names that an expression reads, from left to right."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    return tuple(sorted(found, key=lambda node: node.col_offset))


_DELAYED = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.comprehension, ast.NamedExpr)


@functools.lru_cache(maxsize=4096)
def is_delayed(tree: ast.Expression) -> bool:
    """Whether parts of an expression are evaluated later, or perhaps not at all."""
    return any(isinstance(node, _DELAYED) for node in ast.walk(tree))


def forget_trees() -> None:
    """Let go of the trees that were kept, which take more memory than their texts."""
    for known in (parsed, _parsed, names_in, is_delayed):
        known.cache_clear()


def words_in(text: str) -> list[str]:
    """List the words of a text outside of its strings."""
    return WORD.findall(_STRING.sub("''", text))


def skeleton(text: str) -> tuple[str, list[str]]:
    """Return an expression with "\0" in the places of names, and the names."""
    words: list[str] = []

    def without(found: re.Match[str]) -> str:
        if found[0][0] in "\"'":
            return found[0]
        words.append(found[0])
        return "\0"

    return _NAME.sub(without, text), words


def filled(form: str, words: Sequence[str]) -> str:
    """Put names into what `skeleton` left of an expression."""
    pieces = zip(form.split("\0"), [*words, ""])
    return "".join([before + word for before, word in pieces])


def words_of_others(lines: Sequence[str]) -> list[str]:
    """List the words of the lines that nothing can be put into."""
    others: list[str] = []
    for line in lines:
        found = LINE.fullmatch(line)
        if found is None or parsed(found["text"]) is None:
            others += words_in(line)
    return others


def renumbered(lines: Sequence[str], made: Mapping[str, Made]) -> list[str]:
    """Take the numbers of names down where those before them were folded away."""
    words = set(words_in("\n".join(lines)))
    fixed = set(words_of_others(lines))
    series: dict[str, list[tuple[int, str]]] = {}
    for name in made:
        base, number = parts_of_name(name)
        if name not in fixed and not made[name].is_final:
            series.setdefault(base, []).append((number, name))
    names: dict[str, str] = {}
    for known in series.values():
        slots = [name for _, name in sorted(known)]
        kept = [name for name in slots if name in words]
        names.update((old, new) for old, new in zip(kept, slots) if old != new)
    return [with_names(line, names) for line in lines] if names else list(lines)


def parts_of_name(name: str) -> tuple[str, int]:
    """Tell a name from its number: the second of a name has number 2."""
    base, _, number = name.rpartition("_")
    is_number = number.isdecimal() and number[0] != "0" and number != "1"
    return (base, int(number)) if base and is_number else (name, 1)


def with_names(line: str, names: Mapping[str, str]) -> str:
    """Rename words that are neither in strings, nor attributes, nor keywords."""

    def new(found: re.Match[str]) -> str:
        return names.get(found[0], found[0])

    return _NAME.sub(new, line)
