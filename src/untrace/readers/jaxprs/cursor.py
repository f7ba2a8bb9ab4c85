"""A place in the tokens of a text, and what is said when it is not understood there."""

from __future__ import annotations

import abc
import contextlib
from collections.abc import Generator
from typing import NoReturn

from untrace.errors import ParseError
from untrace.readers.jaxprs.syntax import Block, Printed
from untrace.readers.jaxprs.tokens import Tokens

MAX_DEPTH = 100
"""How deep jaxprs and values may nest."""


ADVICE = (
    "A jaxpr is read as `print(jax.make_jaxpr(f)(x))` prints it; if this is one, its "
    "text was changed here, or a newer JAX has another syntax."
)


class Cursor(abc.ABC):
    """A place in the tokens of a text, at which a jaxpr may stand."""

    def __init__(self, tokens: Tokens) -> None:
        self.text, self.words, self.starts, self.names = tokens
        self.place = 0
        self.last = len(self.words) - 1
        self.depth = 0

    @abc.abstractmethod
    def begins_block(self) -> bool:
        """Whether a jaxpr begins here."""

    @abc.abstractmethod
    def block(self) -> Block:
        """Read a jaxpr."""

    @abc.abstractmethod
    def printed(self) -> Printed:
        """Read a jaxpr and those that are defined before it."""

    @property
    def word(self) -> str:
        """The token here; "" at the end."""
        return self.words[self.place]

    @property
    def next(self) -> str:
        """The token behind this one."""
        return self.words[self.place + 1] if self.words[self.place] else ""

    @property
    def start(self) -> int:
        """Where the token here begins in the text."""
        return self.starts[self.place]

    def advance(self, count: int = 1) -> None:
        """Go on by some tokens, to the end at most."""
        place = self.place + count
        self.place = place if place < self.last else self.last

    def skip_lines(self) -> None:
        """Go behind line breaks."""
        words, place = self.words, self.place
        while words[place][:1] == "\n":
            place += 1
        self.place = place

    def after_lines(self, distance: int) -> str:
        """Return the first token from so far on that is no line break."""
        place = min(self.place + distance, len(self.words) - 1)
        while self.words[place][:1] == "\n":
            place += 1
        return self.words[place]

    def column(self) -> int:
        """Return how far the token here is from the start of its line."""
        start = self.start
        return start - self.text.rfind("\n", 0, start) - 1

    def is_name(self) -> bool:
        """Whether a name stands here."""
        first = self.words[self.place][:1]
        return first.isalpha() or first == "_"

    def take(self, word: str, otherwise: str = "") -> None:
        """Go behind a token that must stand here.

        Raises:
          ParseError: If another one does.
        """
        if self.words[self.place] != word:
            self.fail(otherwise or f"`{word}` is expected here")
        self.advance()

    @contextlib.contextmanager
    def nested(self) -> Generator[None, None, None]:
        """Go one level deeper.

        Raises:
          ParseError: If that is too deep.
        """
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"this nests deeper than {MAX_DEPTH} levels")
        yield
        self.depth -= 1

    def fail(self, problem: str, advice: str = "") -> NoReturn:
        """Say what is wrong here."""
        if not self.word and not advice:
            problem = f"the text ends here, and {problem}"
            advice = "It is cut off, or a bracket is missing: give all of it."
        advice = advice or ADVICE
        raise ParseError(problem, self.text, self.start, advice)
