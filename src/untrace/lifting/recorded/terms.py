"""Expressions whose operands may still be folded into them.

A `Term` is text with references to names in between. Whether a name is written, or the
expression that defines it, is decided when the whole function is known (`printing.py`),
so parentheses are placed only when text is made.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from untrace.capture.dict_keys import quoted
from untrace.lifting.recorded.naming.paths import part_of
from untrace.syntax.precedence import ATOM, COMPARE, LAMBDA, LEVELS, POWER, TUPLE, UNARY


@dataclass(eq=False, slots=True)
class Name:
    """A local name of a generated function.

    Attributes:
      hint: What to call it.
      is_given: Somebody named it; it is not folded away.
      is_weak: That was inside a function that is dissolved; its caller may rename it.
      is_foreign: A library named it: it is folded away where that is short.
      text: The final identifier, once it is known.
      uses: How many references there are.
      captured: A nested function refers to it.
      folded: The expression that is written in its place.
      is_parameter: It is a parameter, which is never renamed.
      is_starred: It takes what is left of what is unpacked: `key, *keys = ...`.
      is_tree: It stands for a container.
      alias: Another name and the path that leads from there to this value.
      members: The names that stand for its parts, by their paths, if it is taken apart.
      held: What it stood for in the recorded run.
      reach: How many characters lead to it from the parameter that it will be a part of.
    """

    hint: str
    is_given: bool = False
    text: str = ""
    uses: int = 0
    last_use: int = -1
    captured: bool = False
    folded: Term | None = None
    is_tree: bool = False
    is_weak: bool = False
    is_foreign: bool = False
    is_parameter: bool = False
    is_starred: bool = False
    alias: tuple[Name, str] | None = None
    members: Mapping[str, Name] | None = None
    held: Any = None
    reach: int = 0


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a name, or to a part of what it holds, in a place of some level."""

    name: Name
    path: str = ""
    level: int = TUPLE

    def resolved(self) -> Ref:
        """Follow aliases, and parts of what is taken apart."""
        ref = self
        while True:
            if ref.name.alias is not None:
                name, path = ref.name.alias
                ref = Ref(name, path + ref.path, ref.level)
            elif ref.name.members is not None:
                step = first_step(ref.path)
                ref = Ref(ref.name.members[step], ref.path[len(step) :], ref.level)
            else:
                return ref


def first_step(path: str) -> str:
    """Return the first step of a path if it is an index or a key, else ""."""
    return path[: path.find("]") + 1] if path[:1] == "[" else ""


class Symbol(Protocol):
    """A function of the module, whose name is only known once all is written."""

    name: str


@dataclass(eq=False, slots=True)
class Constant:
    """A number of the module.

    Attributes:
      name: What it is called.
      number: Its text, which stands for the name if that is used only once.
      is_refused: Another number claims the name, so none has it.
    """

    name: str
    number: str
    is_refused: bool = False


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a function or number of the module, which locals must not hide."""

    symbol: str | Symbol | Constant

    @property
    def text(self) -> str:
        """What is written now; the name of a function may still change."""
        symbol = self.symbol
        if type(symbol) is str:
            return symbol
        if type(symbol) is Constant and symbol.is_refused:
            # Brackets around a sign depend on the place (`Numbers.with_inlined`).
            return symbol.name if symbol.number[0] == "-" else symbol.number
        return symbol.name  # type: ignore[union-attr]

    @property
    def number(self) -> str:
        """The number that it stands for; "" for a function."""
        return self.symbol.number if type(self.symbol) is Constant else ""


Part = str | Ref | Global


@dataclass(slots=True)
class Term:
    """An expression."""

    parts: list[Part] = field(default_factory=list)
    level: int = ATOM

    def refs(self) -> Iterator[Ref]:
        """Yield the references, in the order in which Python evaluates them."""
        for part in self.parts:
            if type(part) is Ref:
                yield part.resolved()

    def opened(self) -> Term:
        """Return the expression that a reference to a folded name stands for."""
        term = self
        while len(term.parts) == 1 and type(term.parts[0]) is Ref:
            ref = term.parts[0].resolved()
            if ref.name.folded is None or ref.path:
                break
            term = ref.name.folded
        return term

    def length(self) -> int:
        """Return how long the expression will be, in characters."""
        parts = list(self.all_parts())
        length = len(self.render())
        length += sum(p.resolved().name.reach for p in parts if type(p) is Ref)
        numbers = [p for p in parts if type(p) is Global and p.number]
        if numbers:  # the name of one that is used twice stays
            single = [p for p in numbers if numbers.count(p) == 1]
            length += sum(len(p.number) - len(p.text) for p in single)
        return length

    def all_parts(self) -> Iterator[Part]:
        """Yield the parts, those of folded expressions instead of references to them."""
        for part in self.parts:
            folded = part.resolved().name.folded if type(part) is Ref else None
            if folded is None:
                yield part
            else:
                yield from folded.all_parts()

    def all_refs(self) -> Iterator[Ref]:
        """Yield the references, those in folded expressions instead of these."""
        for part in self.all_parts():
            if type(part) is Ref:
                yield part.resolved()

    def whole(self) -> Term:
        """Return the expression with what is folded into it as its parts.

        Numbers that lost their names become text, as do the parameters of a lambda, which
        have their names already.
        """
        parts: list[Part] = []
        for part in self.parts:
            ref = part.resolved() if type(part) is Ref else None
            if type(part) is Global and part.number == part.text:
                parts.append(part.number)  # it has no name any more
                continue
            if ref is None or ref.name.folded is None:
                is_named = ref is not None and ref.name.text
                parts.append(_text(part) if is_named else part)
                continue
            parts += placed(ref.name.folded.whole(), ATOM if ref.path else ref.level)
            parts += [ref.path] if ref.path else []
        return Term(parts, self.level)

    def of_parts(self, parts: Sequence[Sequence[Part]]) -> Term:
        """Return the same kind of expression with others in the place of each part."""
        return Term([*itertools.chain.from_iterable(parts)], self.level)

    def render(self) -> str:
        """Write the expression."""
        return "".join([_text(part) for part in with_stars(self.parts)])


@dataclass(slots=True)
class Update(Term):
    """The statement `place = value`, where the place is a part of a mutable array.

    Attributes:
      place: What is written to.
      value: What is written; Python evaluates it first.
    """

    place: Term = field(default_factory=Term)
    value: Term = field(default_factory=Term)

    def refs(self) -> Iterator[Ref]:
        """Yield the references, in the order in which Python evaluates them."""
        yield from self.value.refs()
        yield from self.place.refs()

    def whole(self) -> Update:
        """Return the statement with what is folded into it as its parts."""
        return update(self.place.whole(), self.value.whole())

    def of_parts(self, parts: Sequence[Sequence[Part]]) -> Update:
        """Return such a statement with others in the place of each part."""
        n_place = len(self.place.parts)
        place, value = parts[:n_place], parts[n_place + 1 :]
        return update(self.place.of_parts(place), self.value.of_parts(value))

    def render(self) -> str:
        """Write the statement, `place += more` if the value is that."""
        place, made = self.place.render(), self.value.opened()
        is_plain = all(ref.name.folded is None for ref in self.place.refs())
        if is_plain and made.level in _AUGMENTED and len(made.parts) > 2:
            left, sign, *right = made.parts
            if _text(left) == place and _text(sign) in _SIGNS:
                return f"{place}{_text(sign)[:-1]}= {_plain(right).render()}"
        return f"{place} = {self.value.render()}"


_SIGNS = frozenset({" + ", " - ", " * ", " / "})
_AUGMENTED = frozenset({LEVELS["+"], LEVELS["*"]})


def update(place: Term, value: Term) -> Update:
    """Write `place = value`."""
    return Update([*place.parts, " = ", *value.parts], LAMBDA, place, value)


def _plain(parts: list[Part]) -> Term:
    """Return the right side of an operator for a place that takes any expression."""
    if len(parts) == 1 and type(parts[0]) is Ref:
        return Term(placed(Term([Ref(parts[0].name, parts[0].path, LAMBDA)]), LAMBDA))
    return Term(parts[1:-1] if len(parts) == 3 and parts[0] == "(" else parts)


def text_term(text: str) -> Term:
    """Make a term of text that is an atom, or a number with its sign."""
    return Term([text], UNARY if text.startswith("-") else ATOM)


def _text(part: Part) -> str:
    if type(part) is str:
        return part
    if type(part) is Global:
        return part.text
    assert type(part) is Ref
    ref = part.resolved()
    folded = ref.name.folded
    if folded is None:
        return (ref.name.text or ref.name.hint) + ref.path
    text = folded.render()
    needed = ATOM if ref.path else ref.level
    return (f"({text})" if folded.level < needed else text) + ref.path


MIN_WHOLE, MIN_ROW = 3, 4  # members in order that are written `*x`, and `*x[1:5]`


def with_stars(parts: Sequence[Part]) -> Sequence[Part]:
    """Write members of a tuple that stand in a row as a part of it: `f(y, *x[1:5])`."""
    if sum(type(part) is Ref for part in parts) < MIN_WHOLE:
        return parts
    found: list[Part] = []
    position = 0
    while position < len(parts):
        count, text = _row(parts, position)
        stop = position + 2 * count - 1
        before = _text(found[-1])[-1:] if count and found else ""
        after = _text(parts[stop])[:1] if count and stop < len(parts) else ""
        if count and before in ("(", "[", " ") and after in (")", "]", ","):
            is_only = before == "(" and after == ")" and not _is_called(found)
            found.append(f"*{text}," if is_only else f"*{text}")
            position = stop
        else:
            found.append(parts[position])
            position += 1
    return found


def _row(parts: Sequence[Part], position: int) -> tuple[int, str]:
    """Count the members in order, of what a name holds, that begin at a position.

    Returns:
      How many there are, and what they are together; 0 and "" if they are few.
    """
    first = _member(parts[position])
    if first is None:
        return 0, ""
    name, path, start = first
    count = 1
    while (last := position + 2 * count) < len(parts) and parts[last - 1] == ", ":
        if _member(parts[last]) != (name, path, start + count):
            break
        count += 1
    if count < MIN_WHOLE:
        return 0, ""
    held = part_of(name.held, path)
    length = len(held) if isinstance(held, (tuple, list)) else 0
    is_whole = (start, length) == (0, count)
    if isinstance(held, Mapping) or (count < MIN_ROW and not is_whole):
        return 0, ""
    bounds = "" if is_whole else f"[{start or ''}:{start + count}]"
    return count, f"{name.text or name.hint}{path}{bounds}"


def _member(part: Part) -> tuple[Name, str, int] | None:
    """Return what a reference is a member of, and which; None if it is none."""
    if type(part) is not Ref:
        return None
    ref = part.resolved()
    before, _, index = ref.path.removesuffix("]").rpartition("[")
    if not index.isdecimal() or ref.name.folded is not None:
        return None
    return ref.name, before, int(index)


def _is_called(parts: Sequence[Part]) -> bool:
    """Whether the bracket that parts end with is that of a call."""
    text = "".join([_text(part) for part in parts[-2:]])
    return len(text) > 1 and (text[-2].isalnum() or text[-2] in "_)]")


def placed(term: Term, level: int) -> list[Part]:
    """Return the parts of a term for a place that binds as tightly as `level`."""
    if len(term.parts) == 1 and type(term.parts[0]) is Ref:
        ref = term.parts[0]
        return [Ref(ref.name, ref.path, max(level, ref.level))]
    if term.level < level:
        return ["(", *term.parts, ")"]
    return list(term.parts)


def enclosed(term: Term, level: int) -> Term:
    """Return a term that stands in parentheses if it binds as `level` does, or less."""
    parts = placed(term, level + 1)
    return Term(parts, ATOM if parts[0] == "(" else term.level)


def joined(terms: Iterable[Term], separator: str = ", ") -> list[Part]:
    """Return the parts of several terms with commas between."""
    parts: list[Part] = []
    for term in terms:
        if parts:
            parts.append(separator)
        parts += placed(term, LAMBDA)
    return parts


def call(function: Term, arguments: Iterable[Term]) -> Term:
    """Write a call."""
    return Term([*placed(function, ATOM), "(", *joined(arguments), ")"])


def keyword(name: str, term: Term) -> Term:
    """Write a keyword argument."""
    return Term([f"{name}=", *placed(term, LAMBDA)])


def binary(left: Term, operator: str, right: Term) -> Term:
    """Write a binary operation that groups to the left; a power, to the right."""
    level = LEVELS[operator]
    first, second = (level + 1, UNARY) if level == POWER else (level, level + 1)
    if level == COMPARE:  # a row of comparisons is another thing
        first = level + 1
    sign = f" {operator} "
    return Term([*placed(left, first), sign, *placed(right, second)], level)


def display(brackets: str, terms: list[Term]) -> Term:
    """Write a tuple or list."""
    comma = "," if brackets == "()" and len(terms) == 1 else ""
    return Term([brackets[0], *joined(terms), comma + brackets[1]])


def dict_term(items: Iterable[tuple[Any, Term]], bases: Iterable[Term] = ()) -> Term:
    """Write a dict, `{**base, "key": value}`."""
    entries = [["**", *placed(base, ATOM)] for base in bases]
    for key, term in items:
        entries.append([f"{quoted(key)}: ", *placed(term, LAMBDA)])
    parts = [part for entry in entries for part in (", ", *entry)]
    return Term(["{", *parts[1:], "}"])


def is_global(term: Term) -> bool:
    """Whether an expression begins with a name of the module."""
    return type(term.parts[0]) is Global


def is_bound(term: Term) -> bool:
    """Whether an expression sees a value of the function around it.

    The parameters of a lambda have their names already.
    """
    return any(not ref.name.text for ref in term.all_refs())
