"""Read example inputs that are given as types: `--args 'f32[8,128], {"w": bf16[3]}, n=3'`.

Types are written as JAX prints them; shapes are enough, since functions are traced.
Numbers, strings, tuples, lists and dicts are Python's. The text is parsed by a grammar
and never evaluated.
"""

from __future__ import annotations

from typing import Any, NoReturn

import jax

from untrace.errors import ParseError
from untrace.readers.jaxprs.types import Types

_CONSTANTS = {"None": None, "True": True, "False": False}
_CLOSING = {"(": ")", "[": "]", "{": "}"}
ADVICE = "Write types as JAX prints them, as in: --args 'f32[8,128], i32[], n=3'"


def read_arguments(text: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and keyword arguments that a text lists.

    Arrays are `jax.ShapeDtypeStruct`s. Symbols in shapes are symbolic dimensions.

    Raises:
      ParseError: If it is not understood.

    >>> read_arguments("f32[8,2], (i32[], 0.5), n=3")[1]
    {'n': 3}
    """
    reader = _Reader(text)
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    while not reader.is_at_end():
        name = reader.keyword()
        if name is None and kwargs:
            reader.fail("an argument without a name after one with a name")
        if name in kwargs:
            reader.fail(f"`{name}` is given twice")
        if name is None:
            args.append(reader.value())
        else:
            kwargs[name] = reader.value()
        if not reader.is_at_end():
            reader.take(",")
    return tuple(args), kwargs


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.types = Types()

    def fail(self, problem: str, position: int | None = None) -> NoReturn:
        at = self.position if position is None else position
        raise ParseError(problem, self.text, at, ADVICE)

    def is_at_end(self) -> bool:
        return not self.peek()

    def peek(self) -> str:
        """The next character that is no space, or "" at the end."""
        rest = self.text[self.position :]
        self.position += len(rest) - len(rest.lstrip())
        return self.text[self.position : self.position + 1]

    def take(self, character: str) -> None:
        if self.peek() != character:
            found = self.peek() or "the end"
            self.fail(f"`{character}` expected, not {found!r}")
        self.position += 1

    def word(self) -> str:
        """Take letters, digits and what numbers have, without moving past spaces."""
        start = self.position
        while self.text[self.position : self.position + 1].isalnum() or (
            self.text[self.position : self.position + 1] in ("_", ".", "+", "-")
        ):
            self.position += 1
        return self.text[start : self.position]

    def keyword(self) -> str | None:
        """Take `name =`, if that comes next."""
        self.peek()
        start = self.position
        name = self.word()
        if name.isidentifier() and self.peek() == "=":
            self.position += 1
            return name
        self.position = start
        return None

    def value(self) -> Any:
        character = self.peek()
        if character in _CLOSING:
            return self._container(character)
        if character in ("'", '"'):
            return self._string(character)
        start = self.position
        self.position += character == "~"  # a weak type
        word = self.word()
        if self.text[self.position : self.position + 1] in ("[", "<"):
            return self._type(start)
        if word in _CONSTANTS:
            return _CONSTANTS[word]
        for kind in (int, float, complex):
            try:
                return kind(word)
            except ValueError:
                continue
        self.fail(f"`{word or character or 'the end'}` is no value", start)

    def _type(self, start: int) -> Any:
        """Take a type, up to its closing bracket."""
        end = self.text.find("]", start)
        if end < 0:
            self.fail("a type has no closing bracket", start)
        end += 1
        self.position = end
        try:
            aval = self.types.read(self.text[start:end].replace(" ", ""))
        except ValueError as error:
            self.fail(str(error), start)
        if not hasattr(aval, "shape"):
            self.fail("what is no array cannot be made up", start)
        weak = bool(getattr(aval, "weak_type", False))
        return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=weak)

    def _string(self, quote: str) -> str:
        end = self.text.find(quote, self.position + 1)
        if end < 0:
            self.fail("a string has no end")
        text = self.text[self.position + 1 : end]
        if "\\" in text:
            self.fail("a string with backslashes is not read")
        self.position = end + 1
        return text

    def _container(self, opening: str) -> Any:
        start, closing = self.position, _CLOSING[opening]
        self.position += 1
        items: list[Any] = []
        has_comma = False
        while self.peek() != closing:
            if self.is_at_end():
                self.fail(f"`{opening}` has no `{closing}`", start)
            item = self.value()
            if opening == "{":
                self.take(":")
                item = (item, self.value())
            items.append(item)
            if self.peek() != closing:
                self.take(",")
                has_comma = True
        self.position += 1
        if opening == "{":
            return dict(items)
        if opening == "[":
            return items
        return items[0] if len(items) == 1 and not has_comma else tuple(items)
