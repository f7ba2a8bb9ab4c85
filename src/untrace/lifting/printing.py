"""What printing functions take and give: statements, functions, groups of inputs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from untrace import jaxapi
from untrace.errors import LiftingError
from untrace.ir import Atom, Equation, Literal
from untrace.lifting.heads import Parameters, head_text
from untrace.optional import Signal, Subject
from untrace.recovery.made_keys import KeyParts
from untrace.syntax.text import comment, kept_docstring

MAX_NESTING = 8


LOWEST_STEP = 2


INDENT = "    "
MAX_HEAD = 84  # columns of a `def` line with its comment, which may be indented


# Frozen for the type checker alone, as in `ir.program`: every equation makes one.
@dataclass(frozen=TYPE_CHECKING, slots=True)
class Rhs:
    """The right-hand side of an assignment, and how its results are unpacked.

    `target` writes the left-hand side from the names of the results; None means one
    name for a single result and a tuple otherwise.
    """

    text: str
    target: Callable[[list[str]], str] | None = None


@dataclass(eq=False, slots=True)
class Function(Subject):
    """One `def` of the module.

    `numbers` are parameters of the original that held integers, by what they held, and
    `integers` what all its variables held that did, in order; `in_keys` the numbers of
    parameters of which keys may be made, `key_parts` keys that are known to be, with the
    places of what they are made of; `names` those that it may have, from short to telling.
    `keywords` are the parameters that calls of the program pass, and whether all do so by
    keyword.
    `docs` are docstrings, by the names of nested functions ("" for its own, "a.b" for `b` in
    `a`); what reads and rewrites lines does not see them. `settings` are the words and flags
    that it was told where it ran. `static` writes its
    decorator where parameters of some names, after so many others, are static, if it can.
    `again` writes its text with the names that functions have by now.
    """

    name: str
    parameters: Parameters
    lines: list[str]
    decorators: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)
    comment: str = ""
    signature: str = ""
    numbers: dict[str, str] = field(default_factory=dict)
    integers: dict[str, str] = field(default_factory=dict)
    in_keys: frozenset[str] = frozenset()
    key_parts: dict[str, KeyParts] = field(default_factory=dict)
    names: tuple[str, ...] = ()
    keywords: dict[str, bool] = field(default_factory=dict)
    docs: dict[str, str] = field(default_factory=dict)
    settings: tuple[str, ...] = ()
    static: Callable[[int, Sequence[str]], str] | None = None
    again: Callable[[], Function] | None = None

    @property
    def subject(self) -> str:
        """Its shortest name."""
        return self.names[0] if self.names else self.name

    def agree(self, other: Function) -> None:
        """Keep what another function, which this one stands for, says of itself, too."""
        self.settings = tuple([s for s in self.settings if s in other.settings])
        for name, is_keyword in other.keywords.items():
            self.keywords[name] = is_keyword and self.keywords.get(name, True)
        self.docs = {k: v for k, v in self.docs.items() if other.docs.get(k) == v}

    def write_again(self) -> None:
        """Write its text with the names that functions have by now, if it has any."""
        if self.again is None:
            return
        made = self.again()
        self.parameters, self.decorators = made.parameters, made.decorators
        self.lines = made.lines
        self.signature = self.signature and made.signature
        self.comment = self.comment and made.comment

    def described_lines(self, shown: set[str]) -> list[str]:
        """Write the function out with its docstrings, unindented.

        Args:
          shown: Docstrings that functions before have, of which the first paragraph is
            enough; those of this one are added.
        """
        docs = {
            path: doc.partition("\n\n")[0] if doc in shown else doc
            for path, doc in self.docs.items()
        }
        shown.update(self.docs.values())
        lines = self.text_lines()
        return with_docstrings(lines, docs) if docs else lines

    def text_lines(self) -> list[str]:
        """Write the function out, unindented and without docstrings."""
        body = self.lines or ["pass"]
        head = [
            *(f"@{d}" for d in self.decorators),
            self._head(),
        ]
        return [*head, *(INDENT + line if line else "" for line in body), *self.after]

    def texts(self) -> Iterator[str]:
        """Yield all that it is written with but for its head; each can be parsed."""
        yield "\n".join(self.lines)
        yield from self.decorators
        yield "\n".join(self.after)

    def rewrite(self, text: Callable[[str], str]) -> None:
        """Write all of it anew, but for its head."""
        self.lines = _rewritten(self.lines, text)
        self.decorators = [*map(text, self.decorators)]
        self.after = _rewritten(self.after, text)

    def _head(self) -> str:
        head = f"def {self.name}{self.signature or f'({head_text(self.parameters)})'}:"
        line = f"{head}  {comment(self.comment)}"
        return line if self.comment and len(line) <= MAX_HEAD else head


def _rewritten(lines: list[str], text: Callable[[str], str]) -> list[str]:
    return text("\n".join(lines)).split("\n") if lines else []


def with_docstrings(lines: Sequence[str], docs: Mapping[str, str]) -> list[str]:
    """Write docstrings below the heads of functions.

    Args:
      lines: A function that is not laid out yet: every head is one line.
      docs: Docstrings by the path of a nested function; "" for the outermost one's.
    """
    written: list[str] = []
    path: list[tuple[int, str]] = []  # the functions around, and their indentation
    for line in lines:
        written.append(line)
        text = line.lstrip()
        depth = len(line) - len(text)
        if not text:
            continue
        while path and path[-1][0] >= depth:
            path.pop()
        if text.startswith("def "):
            path.append((depth, text[len("def ") :].partition("(")[0]))
            doc = docs.get(".".join(name for _, name in path[1:]), "")
            indent = " " * depth + INDENT
            rows = kept_docstring(doc).split("\n") if doc else []
            written += [indent + row if row else "" for row in rows]
    return written


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive inputs of a block that form one parameter."""

    name: str
    size: int
    is_tuple: bool = False
    stars: str = ""


class OutOfReach(LiftingError, Signal):
    """A derivative rule needs a value of a function that is not around it."""


def unpacked(names: Sequence[str]) -> str:
    """Write names as the target of a tuple assignment ("" for none)."""
    return f"({names[0]},)" if len(names) == 1 else ", ".join(names)


def tuple_text(texts: Sequence[str]) -> str:
    """Write a tuple."""
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def grouped(texts: Sequence[str], empty: str = "()") -> str:
    """Write one text bare and several as a tuple."""
    if len(texts) == 1:
        return texts[0]
    return f"({', '.join(texts)})" if texts else empty


def fail(eqn: Equation, reason: str) -> LiftingError:
    """Describe an equation that cannot be written, and where it came from."""
    operands = " ".join(str(atom.aval.str_short()) for atom in eqn.operands)
    results = " ".join(str(aval.str_short()) for aval in eqn.result_avals)
    place = jaxapi.user_frame(eqn.source_info)
    where = f" ({place})" if place else ""
    return LiftingError(
        f"cannot write `{eqn.name}` {operands} -> {results}{where} as Python: {reason}"
    )


def is_literal(atom: Atom) -> bool:
    """Whether an operand is a literal."""
    return type(atom) is Literal
