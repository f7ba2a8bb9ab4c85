"""Read accesses of mutable arrays: `a <- b[0:2]`, `b[0] <- a`, `b[0] += a`."""

from __future__ import annotations

import abc
from typing import Any

from untrace.readers.jaxprs import values
from untrace.readers.jaxprs.cursor import Cursor
from untrace.readers.jaxprs.syntax import Binder, Equation, Name, Slice


class Accesses(Cursor):
    """A place in the tokens, at which an access may stand."""

    @abc.abstractmethod
    def atom(self) -> Any:
        """Read a variable or a literal."""

    def is_index(self) -> bool:
        """Whether brackets hold an index and no params."""
        ahead = [
            w for w in self.words[self.place + 1 : self.place + 6] if w[:1] != "\n"
        ]
        return len(ahead) < 2 or ahead[1] != "=" or not ahead[0].isidentifier()

    def get(self, binders: list[Binder]) -> Equation:
        """Read `<- ref[index]` behind a binder."""
        at = self.start
        self.take("<-")
        name, indices = self.indexed()
        return Equation(binders, "get", {"indices": indices}, [name], at)

    def swap(self, binders: list[Binder]) -> Equation:
        """Read `, ref[index] <- ref[index], value` behind a binder."""
        self.take(",")
        self.skip_lines()
        name, indices = self.indexed()
        at = self.start
        self.take("<-")
        self.skip_lines()
        self.indexed()
        self.take(",")
        self.skip_lines()
        return Equation(binders, "swap", {"indices": indices}, [name, self.atom()], at)

    def stored(self, name: Name) -> Equation:
        """Read `[index] <- value` or `[index] += value` behind a reference."""
        indices = self.indices()
        at, word = self.start, self.word
        if word not in ("<-", "+="):
            self.fail("`<-` or `+=` is expected behind an index")
        self.advance()
        self.skip_lines()
        primitive = "swap" if word == "<-" else "addupdate"
        operands = [name, self.atom()]
        binders = [Binder("_", "", at)] if primitive == "swap" else []
        return Equation(binders, primitive, {"indices": indices}, operands, at)

    def indexed(self) -> tuple[Name, Any]:
        """Read a reference and its index."""
        self.skip_lines()
        if not self.is_name():
            self.fail("a reference is expected here")
        name = Name(self.word, self.start)
        self.advance()
        return name, self.indices()

    def indices(self) -> list[list[Any]]:
        """Read one or more indices in brackets, `[...]` for none."""
        found: list[list[Any]] = []
        while self.word == "[":
            self.advance()
            if self.words[self.place] == "...":
                self.advance()
            else:
                found.append(self.index())
            self.take("]", "an index ends with `]`")
        return found

    def index(self) -> list[Any]:
        """Read what stands in the brackets of an index."""
        found: list[Any] = []
        while self.word not in ("]", ""):
            at = self.start
            parts: list[Any] = [self.bound()]
            while self.word[:1] == ":":
                word = self.word
                self.advance()
                parts.append(Name(word[1:], at) if len(word) > 1 else self.bound())
            found.append(Slice(tuple(parts), at) if len(parts) > 1 else parts[0])
            if self.word != ",":
                break
            self.advance()
        return found

    def bound(self) -> Any:
        """Read an end of a slice: nothing, or a variable or number with what is added."""
        if self.word in (",", "]", "") or self.word[:1] == ":":
            return None
        found = self.atom()
        while self.word == "+":
            self.advance()
            other = self.atom()
            found = values.Sum(found, other, found.at)
        return found
