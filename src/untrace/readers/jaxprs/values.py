"""Read the values of params: numbers, texts, containers, calls, jaxprs, and the rest.

JAX prints params by `str`, which does not quote texts and writes objects as they like.
What is no structure that is known here is kept as it is written, up to the next param.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from untrace.errors import ParseError
from untrace.readers.jaxprs.cursor import Cursor
from untrace.readers.jaxprs.numbers import is_number, number
from untrace.readers.jaxprs.syntax import Block, Blocks, Call, Name, Raw

_OPENING = {"(": ")", "[": "]", "{": "}"}
_CONSTANTS = {
    "None": None,
    "True": True,
    "False": False,
    "inf": float("inf"),
    "nan": float("nan"),
}
_NUMPY: dict[str, Any] = {
    f"np.{name}": getattr(np, name)
    for name in (
        *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64", "complex64", "complex128"),
    )
}
_TEXTS = ("name", "fmt", "msg", "policy")  # params that are texts, or known by them


class Sum(NamedTuple):
    """Two numbers or variables that are added in an index."""

    one: Any
    other: Any
    at: int


def params(parser: Cursor) -> dict[str, Any]:
    """Read params in brackets."""
    parser.take("[")
    found: dict[str, Any] = {}
    parser.skip_lines()
    while parser.word != "]":
        if not parser.is_name() or parser.next != "=":
            parser.fail("a param `name=value` or `]` is expected here")
        name = parser.word
        parser.advance(2)
        found[name] = _param(parser, name)
        parser.skip_lines()
    parser.advance()
    return found


def _param(parser: Cursor, name: str) -> Any:
    """Read the value of a param, which ends where the next one begins or none follows."""
    first, depth = parser.place, parser.depth
    if parser.word in parser.names:
        found = Name(parser.word, parser.start)
        parser.advance()
        return found.text if name in _TEXTS else found
    if name in _TEXTS:
        return _raw(parser).text
    parser.skip_lines()
    if parser.begins_block():
        return parser.block()
    try:
        if parser.word == "(" and _holds_blocks(parser):
            blocks = _blocks(parser)
            if blocks is not None:
                return blocks
            parser.place, parser.depth = first, depth
        value = _value(parser)
        if _is_over(parser):
            return value
    except ParseError:
        if parser.depth > depth + 1 and not parser.word:  # a jaxpr in it is cut off
            raise
    parser.place, parser.depth = first, depth
    return _raw(parser)


def _is_over(parser: Cursor) -> bool:
    """Whether another param follows, or the end of all."""
    if parser.word == "]":
        return True
    place = parser.place
    parser.skip_lines()
    over = parser.word == "]" or (
        parser.is_name()
        and parser.next == "="
        and parser.text[parser.start - 1] in " \n\t"
    )
    if not over:
        parser.place = place
    return over


def _raw(parser: Cursor) -> Raw:
    """Read a value as it is written, with brackets in pairs, or else without."""
    first = parser.place
    for is_paired in (True, False):
        parser.place = first
        open_brackets: list[str] = []
        while parser.word:
            word = parser.word
            if not open_brackets and parser.place > first and _is_over(parser):
                return _as_written(parser, first)
            if is_paired and word in _OPENING:
                open_brackets.append(_OPENING[word])
            elif open_brackets and word == open_brackets[-1]:
                open_brackets.pop()
            parser.advance()
    parser.place = first
    parser.fail("this value of a param has no end")


def _as_written(parser: Cursor, first: int) -> Raw:
    at = parser.starts[first]
    return Raw(parser.text[at : parser.start].strip(), at)


def _holds_blocks(parser: Cursor) -> bool:
    """Whether parentheses hold jaxprs, or names of those that are shared, without commas."""
    if parser.after_lines(1) == "{":
        return True
    place = parser.place + 1
    words, n_names = parser.words, 0
    while words[place][:1] == "\n" or words[place][:1].isalpha() or words[place] == "_":
        n_names += words[place][0] != "\n"
        place += 1
    if words[place] == "{" and n_names:
        return True
    return words[place] == ")" and n_names > 0


def _blocks(parser: Cursor) -> Blocks | None:
    """Read jaxprs up to `)`; None if other values stand among them."""
    at = parser.start
    parser.take("(")
    found: list[Block | Name] = []
    parser.skip_lines()
    while parser.word != ")":
        if parser.is_name():
            found.append(Name(parser.word, parser.start))
            parser.advance()
        elif parser.word == "," or (parser.word == "{" and not parser.begins_block()):
            return None
        else:
            found.append(parser.block())
        parser.skip_lines()
    parser.advance()
    return Blocks(tuple(found), at)


def _value(parser: Cursor) -> Any:
    """Read one value of a structure that is known."""
    parser.skip_lines()
    word, at = parser.word, parser.start
    if is_number(word):
        parser.advance()
        return number(word)
    if word in _CONSTANTS:
        parser.advance()
        return _CONSTANTS[word]
    if word[:1] in "'\"" and len(word) > 1:
        parser.advance()
        return unquoted(word)
    if word == "(":
        return _parenthesised(parser)
    if word == "[":
        return _items(parser, "]")
    if word == "{":
        return parser.block() if parser.begins_block() else _braced(parser)
    if word == "<":
        return _angled(parser)
    if word == "let":
        return parser.printed()
    if parser.is_name() or word == "*":
        parser.advance()
        if parser.word == "(" and parser.start == at + len(word):
            return _call(parser, word, at)
        return Name(word, at)
    parser.fail("a value is expected here")


def _items(parser: Cursor, end: str) -> list[Any]:
    """Read values up to a bracket, parted by commas."""
    with parser.nested():
        parser.advance()
        found: list[Any] = []
        parser.skip_lines()
        while parser.word != end:
            found.append(_value(parser))
            parser.skip_lines()
            if parser.word == ",":
                parser.advance()
                parser.skip_lines()
            elif parser.word != end:
                parser.fail(f"`,` or `{end}` is expected here")
        parser.advance()
    return found


def _parenthesised(parser: Cursor) -> Any:
    """Read a tuple, or a complex number."""
    ahead = parser.words[parser.place + 1 : parser.place + 5]
    if any(word[-1:] == "j" and is_number(word) for word in ahead):
        return complex_number(parser)
    first = parser.place
    found = _items(parser, ")")
    is_tuple = len(found) != 1 or parser.words[parser.place - 2] == ","
    return tuple(found) if is_tuple or parser.place == first + 2 else found[0]


def complex_number(parser: Cursor) -> Any:
    """Read `(1+2j)`; the only value of type `float0` is printed as `(b'',)`."""
    at, text = parser.start, ""
    parser.take("(")
    if parser.word == "b" and parser.next in ("''", '""'):
        parser.advance(2)
        parser.take(",")
        parser.take(")")
        return False
    while parser.word not in (")", "") and len(text) < 100:
        text += parser.word
        parser.advance()
    parser.take(")")
    try:
        return complex(text.replace("+-", "-"))
    except ValueError:
        raise ParseError("this is no number", parser.text, at) from None


def _braced(parser: Cursor) -> Any:
    """Read a dictionary or a set."""
    items: dict[Any, Any] = {}
    values: list[Any] = []
    with parser.nested():
        parser.advance()
        parser.skip_lines()
        while parser.word != "}":
            key = _value(parser)
            if parser.word[:1] == ":":
                kind = parser.word[1:]
                parser.advance()
                items[_hashable(parser, key)] = (
                    Name(kind, parser.start) if kind else _value(parser)
                )
            else:
                values.append(_hashable(parser, key))
            parser.skip_lines()
            if parser.word == ",":
                parser.advance()
                parser.skip_lines()
            elif parser.word != "}":
                parser.fail("`,` or `}` is expected here")
        parser.advance()
    return frozenset(values) if values else items


def _hashable(parser: Cursor, value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        parser.fail("a key must be a text or a number")
    return value


def _angled(parser: Cursor) -> Raw:
    """Read `<function f at 0x...>`, `<class 'int'>` or a name such as `<lambda>`."""
    first, depth = parser.place, 0
    while parser.word:
        depth += (parser.word == "<") - (parser.word == ">")
        parser.advance()
        if not depth:
            return _as_written(parser, first)
    parser.fail("`>` is missing")


def _call(parser: Cursor, name: str, at: int) -> Any:
    """Read the arguments of what is written like a call."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    with parser.nested():
        parser.advance()
        parser.skip_lines()
        if parser.word == ",":  # `Mesh(, axis_types=())` has no axes
            parser.advance()
        while parser.word != ")":
            if parser.is_name() and parser.next == "=":
                key = parser.word
                parser.advance(2)
                kwargs[key] = _value(parser)
            else:
                args.append(_argument(parser))
            parser.skip_lines()
            if parser.word == ",":
                parser.advance()
                parser.skip_lines()
            elif parser.word != ")":
                parser.fail("`,` or `)` is expected here")
        parser.advance()
    number_kind = _NUMPY.get(name)
    if number_kind and len(args) == 1 and isinstance(args[0], int | float | complex):
        try:
            return number_kind(args[0])
        except (OverflowError, TypeError):
            parser.fail(f"this is no `{name}`")
    return Call(name, tuple(args), kwargs, at)


def _argument(parser: Cursor) -> Any:
    """Read an argument; that of a mesh, `'x': 4`, is a pair."""
    value = _value(parser)
    if parser.word == ":" and type(value) is str:
        parser.advance()
        return value, _value(parser)
    return value


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}


def unquoted(word: str) -> str:
    """Return the text that a quoted one is, but for rare escapes.

    >>> unquoted(r"'it\\'s'")
    "it's"
    """
    if "\\" not in word:
        return word[1:-1]
    found: list[str] = []
    characters = iter(word[1:-1])
    for character in characters:
        if character == "\\":
            escaped = next(characters, "")
            found.append(_ESCAPES.get(escaped, escaped))
        else:
            found.append(character)
    return "".join(found)
