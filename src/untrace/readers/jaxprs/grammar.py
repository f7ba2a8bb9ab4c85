"""Read the tree of a printed jaxpr by recursive descent.

    printed   = { "let" name "=" jaxpr "in" } jaxpr
    jaxpr     = "{" "lambda" binders ";" binders "." "let" equations
                "in" "(" atoms ")" "}"
    equation  = [ binders "=" ] primitive [ "[" params "]" ] atoms
              | binder "<-" ref indices                       (get)
              | [ binder "," ref indices ] "<-" [ ref indices "," ] atom     (swap)
              | ref indices "+=" atom                         (addupdate)

Equations stand on lines of their own or are parted by semicolons. Operands go on over
several lines, which indent further; variables may be called `in`, `let`, `inf`.
"""

from __future__ import annotations

import bisect
import re
from typing import Any

from untrace.readers.jaxprs import values
from untrace.readers.jaxprs.accesses import Accesses
from untrace.readers.jaxprs.numbers import is_number, number
from untrace.readers.jaxprs.syntax import (
    Binder,
    Block,
    Equation,
    Literal,
    Name,
    Printed,
)
from untrace.readers.jaxprs.tokens import Tokens

_CONSTANTS = {"True": True, "False": False, "inf": float("inf"), "nan": float("nan")}

_MARKED = frozenset((*_CONSTANTS, "in"))
_SIMPLE = re.compile(r"\[(?:[^\[\]{}<'\"]++|\[[^\[\]{}<'\"]*+\])*+\]")
"""Params that hold no jaxprs, quotations or other brackets than a list."""


def read(tokens: Tokens) -> tuple[Printed, int]:
    """Return the tree of what the tokens begin with, and where it ends in the text.

    Raises:
      ParseError: If it is no printed jaxpr.
    """
    parser = Parser(tokens)
    found = parser.printed()
    return found, parser.starts[parser.place - 1] + 1


class Parser(Accesses):
    """A place in the tokens; every method reads one thing and goes behind it."""

    has_constants = False
    is_outermost = False

    def __init__(self, tokens: Tokens) -> None:
        super().__init__(tokens)
        self.known_params: dict[str, dict[str, Any]] = {}

    # -- jaxprs

    def printed(self) -> Printed:
        """Read a jaxpr and those that are defined before it."""
        at, shared = self.start, dict[str, Block]()
        self.skip_lines()
        while self.word == "let":
            name, block = self.definition()
            shared[name] = block
        if not self.begins_block():
            self.fail("a jaxpr begins with `{ lambda`, possibly after `let name = ...`")
        self.is_outermost = self.depth == 0
        block = self.block()
        return Printed(shared, block, at, self.has_constants)

    def definition(self) -> tuple[str, Block]:
        """Read `let name = jaxpr in`."""
        self.take("let")
        first = self.start
        while self.word and not (self.word == "=" and self.next == "{"):
            self.advance()
        name = self.text[first : self.start].strip()
        self.take("=")
        block = self.block()
        self.skip_lines()
        self.take("in")
        self.skip_lines()
        return name, block

    def begins_block(self) -> bool:
        """Whether a jaxpr begins here."""
        return self.word == "{" and self.after_lines(1) == "lambda"

    def block(self) -> Block:
        """Read a jaxpr."""
        at = self.start
        with self.nested():
            self.skip_lines()
            self.take("{")
            self.skip_lines()
            self.take("lambda")
            constvars = self.binders()
            self.has_constants |= bool(constvars) and not self.is_outermost
            self.is_outermost = False
            self.take(";")
            invars = self.binders()
            self.take(".", "the inputs of a jaxpr end with `.`")
            self.skip_lines()
            self.take("let")
            equations = self.equations()
            self.take("in")
            outvars = self.outvars()
            if self.word == ":":  # effects, which equations tell
                self.skip_effects()
            self.skip_lines()
            self.take("}", "a jaxpr ends with `}` after its results")
        return Block(constvars, invars, equations, outvars, at)

    def binders(self) -> list[Binder]:
        """Read variables, with their types or without."""
        found: list[Binder] = []
        self.skip_lines()
        while self.is_name() or self.word == "*":
            name, at = self.word, self.start
            self.advance()
            found.append(Binder(name, self.type(), at))
            self.skip_lines()
            if self.word == ",":
                self.advance()
                self.skip_lines()
        return found

    def type(self) -> str:
        """Read a type, if there is one."""
        word = self.word
        if len(word) < 2 or word[0] != ":":
            return ""
        self.advance()
        return word[1:]

    def outvars(self) -> list[Any]:
        """Read the results of a jaxpr."""
        found: list[Any] = []
        self.skip_lines()
        is_open = self.word == "("
        if is_open:
            self.advance()
            self.skip_lines()
        while self.word not in (")", "}", ""):
            found.append(self.atom())
            self.skip_lines()
            if self.word == ",":
                self.advance()
                self.skip_lines()
        if is_open:
            self.take(")", "the results of a jaxpr stand in parentheses")
        return found

    def skip_effects(self) -> None:
        """Pass by `: { effects }`."""
        self.advance()
        self.skip_lines()
        while self.word not in ("}", ""):
            self.advance()
        self.take("}")

    # -- equations

    def equations(self) -> list[Equation]:
        """Read equations up to `in`."""
        found: list[Equation] = []
        self.skip_lines()
        column = self.column()
        while not self.is_end():
            if self.word == "":
                self.fail(
                    "the text ends inside of a jaxpr",
                    "It is cut off, or a bracket is missing: give all of it.",
                )
            found.append(self.equation(column))
            self.skip_lines()
            while self.word == ";":
                self.advance()
                self.skip_lines()
        return found

    def is_end(self) -> bool:
        """Whether the keyword `in` stands here; a variable may be called so."""
        return self.word == "in" and self.after_lines(1) in ("(", "")

    def equation(self, column: int) -> Equation:
        """Read one equation; those beside it begin in a column."""
        binders: list[Binder] = []
        words = self.words
        while self.is_name():
            place = self.place
            kind = words[place + 1]
            if kind[:1] != ":" or len(kind) < 2:
                break
            binders.append(Binder(words[place], kind[1:], self.starts[place]))
            self.place = place + 2
            self.skip_lines()
        if not binders:
            binders = self.untyped_binders()
        word = self.word
        if word == "=":
            self.advance()
            self.skip_lines()
        elif binders and word == "<-":
            return self.get(binders)
        elif binders and word == ",":
            return self.swap(binders)
        elif binders:
            self.fail("a variable is bound by `=` and a primitive")
        at, primitive = self.start, self.word
        if not self.is_name():
            self.fail("an equation names its primitive here")
        self.advance()
        params, written = dict[str, Any](), ""
        if self.word == "[":
            if not binders and self.is_index():
                return self.stored(Name(primitive, at))
            params, written = self.params()
        operands = self.operands(column)
        return Equation(binders, primitive, params, operands, at, written)

    def params(self) -> tuple[dict[str, Any], str]:
        """Read params in brackets; return them also as they are written.

        Those that are written alike are read once.
        """
        first = self.start
        simple = _SIMPLE.match(self.text, first)
        written = simple[0] if simple else ""
        known = self.known_params.get(written)
        if known is not None:
            end = first + len(written)
            self.place = bisect.bisect_left(self.starts, end, self.place)
            return known, written
        found = values.params(self)
        if written and first + len(written) == self.starts[self.place - 1] + 1:
            self.known_params[written] = found
        return found, self.text[first : self.start]

    def untyped_binders(self) -> list[Binder]:
        """Read the variables before a `=` on this line, if there is one."""
        words, place = self.words, self.place
        while words[place] and words[place][0] not in "\n[;":
            if words[place] in ("=", "<-", ","):
                break
            place += 1
        if words[place] not in ("=", "<-", ",") or place == self.place:
            return []
        if words[place] != "=" and place != self.place + 1:
            return []
        found: list[Binder] = []
        while self.place < place:
            if not self.is_name():
                self.fail("a variable is expected here")
            found.append(Binder(self.word, "", self.start))
            self.advance()
        return found

    def operands(self, column: int) -> list[Any]:
        """Read operands up to the next equation."""
        found: list[Any] = []
        words, starts = self.words, self.starts
        while True:
            place = self.place
            word = words[place]
            if word.isidentifier() and word not in _MARKED:
                after = words[place + 1]
                if after[:1] != ":" and after not in ("[", "="):
                    found.append(Name(word, starts[place]))
                    self.place = place + 1
                    continue
            if word == "" or word in ";})],":
                return found
            if word[0] == "\n":
                self.skip_lines()
                if self.column() <= column and not self.is_end():
                    return found
                if self.begins_equation():
                    return found
                continue
            if word == "in" and self.is_end():
                return found
            if self.begins_equation():
                return found
            found.append(self.atom())

    def begins_equation(self) -> bool:
        """Whether what stands here can be no operand."""
        if not self.is_name() or self.word in _CONSTANTS:
            return False
        after = self.next
        return after in ("[", "=") or (after[:1] == ":" and len(after) > 1)

    def atom(self) -> Any:
        """Read a variable or a literal."""
        word, at = self.word, self.start
        if word in _CONSTANTS:
            self.advance()
            kind = self.type()
            # A variable may be called `inf`; who knows what is bound will say.
            is_constant = kind or word in ("True", "False")
            return (
                Literal(_CONSTANTS[word], kind, at) if is_constant else Name(word, at)
            )
        if self.is_name() or word == "*":
            self.advance()
            return Name(word, at)
        if is_number(word):
            self.advance()
            return Literal(number(word), self.type(), at)
        if word == "(":
            return Literal(values.complex_number(self), self.type(), at)
        if word == "[" and self.after_lines(1) == "...":
            self.advance(2)
            self.take("]")
            self.has_constants = True
            return Literal(..., self.type(), at)
        self.fail("a variable or a literal is expected here")
