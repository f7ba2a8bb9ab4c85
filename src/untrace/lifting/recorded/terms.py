"""Expressions whose operands may still be folded into them.

A `Term` is text with references to names in between, and what stands in brackets is a
`Group` of terms. Whether a name is written, or the expression that defines it, is decided
when the whole function is known (`printing.py`), so parentheses are placed only when text
is made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from untrace.capture.dict_keys import quoted, spelled
from untrace.lifting.recorded.naming.paths import index_of, part_of
from untrace.lifting.recorded.symbols import Constant as Constant
from untrace.lifting.recorded.symbols import Global as Global
from untrace.lifting.recorded.symbols import Literal as Literal
from untrace.syntax.precedence import ATOM, LAMBDA, LEVELS, TUPLE
from untrace.syntax.steps import Path, Slice, leads_into


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
    alias: tuple[Name, Path] | None = None
    members: Mapping[Path, Name] | None = None
    held: Any = None
    reach: int = 0


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to a name, or to a part of what it holds, in a place of some level."""

    name: Name
    path: Path = ()
    level: int = TUPLE

    def resolved(self) -> Ref:
        """Follow aliases, and parts of what is taken apart."""
        ref = self
        while True:
            if ref.name.alias is not None:
                name, path = ref.name.alias
                ref = Ref(name, (*path, *ref.path), ref.level)
            elif ref.name.members is not None:
                way, known = ref.path, ref.name.members.items()
                path, name = next(one for one in known if leads_into(way, one[0]))
                ref = Ref(name, way[len(path) :], ref.level)
            else:
                return ref


TUPLE_OF, LIST, DICT, CALL, INDEX, PARENS, BARE = range(7)
"""The kinds of groups; the items of a bare one have no brackets around them."""
_BRACKETS = ("()", "[]", "{}", "()", "[]", "()", ("", ""))
DISPLAYS = frozenset({TUPLE_OF, LIST, DICT})
STARS, KEYWORD, KEY = range(3)


class Lead(NamedTuple):
    """What stands before an item: `*`, `axis=`, `"key": `.

    Attributes:
      kind: Whether it is stars, a keyword or a key.
      word: The stars, the keyword, or the key itself.
    """

    kind: int
    word: Any

    @property
    def text(self) -> str:
        """All of it, as it is written."""
        if self.kind == KEY:
            return f"{quoted(self.word)}: "
        return f"{self.word}=" if self.kind == KEYWORD else self.word


@dataclass(slots=True)
class Group:
    """What stands in brackets: the items of a display, the arguments of a call, an index.

    Attributes:
      kind: Which of these.
      items: The expressions between the commas.
      tail: What follows the item of a comprehension: ` for x in xs`; the comma of an
        index that is a tuple of one.
    """

    kind: int
    items: list[Term]
    tail: list[Part] = field(default_factory=list)

    @property
    def is_display(self) -> bool:
        """Whether it is a tuple, a list or a dict, and no comprehension."""
        return self.kind in DISPLAYS and not self.tail

    def brackets(self) -> tuple[str, str]:
        """What stands before the items, and behind them."""
        first, last = _BRACKETS[self.kind]
        is_single = self.kind == TUPLE_OF and len(self.items) == 1 and not self.tail
        return first, f",{last}" if is_single else last

    def add_tokens(self, found: list[Token]) -> None:
        """Add what it consists of to what was found."""
        first, last = self.brackets()
        if first:
            found.append(first)
        is_next = False
        for item in self.items:
            if is_next:
                found.append(", ")
            is_next = True
            if item.lead is not None:
                found.append(item.lead.text)
            _add_tokens(item.parts, found)
        if self.tail:
            _add_tokens(self.tail, found)
        if last:
            found.append(last)

    def rebuilt(self, pieces: Iterator[Sequence[Part]]) -> list[Part]:
        """Return the same with others in the place of each token.

        What has lost its bracket is no group any more.
        """
        first, last = self.brackets()
        if first:
            begin = next(pieces)
            if list(begin) != [first]:
                rest = range(len(Term([self]).tokens()) - 1)
                return [*begin, *[part for _ in rest for part in next(pieces)]]
        items: list[Term] = []
        for index, item in enumerate(self.items):
            for _ in range((index > 0) + (item.lead is not None)):
                next(pieces)
            items.append(Term(_rebuilt(item.parts, pieces), item.level, item.lead))
        tail = _rebuilt(self.tail, pieces)
        if last:
            next(pieces)
        return [Group(self.kind, items, tail)]

    def whole(self) -> Group:
        """Return the same with what is folded into it as its parts."""
        items = [item.whole() for item in self.items]
        return Group(self.kind, items, Term(self.tail).whole().parts)

    def render(self) -> str:
        """The text."""
        first, last = self.brackets()
        return f"{first}{', '.join(self.texts())}{''.join(map(_text, self.tail))}{last}"

    def texts(self) -> list[str]:
        """The texts of the items; those that stand in a row are one, `*x[1:5]`."""
        can_star = len(self.items) >= MIN_WHOLE and self.kind not in (DICT, BARE)
        return _with_stars(self) if can_star else [i.render() for i in self.items]


Token = str | Ref | Global | Literal
Part: TypeAlias = "Token | Group"


def _add_tokens(parts: Sequence[Part], found: list[Token]) -> None:
    for part in parts:
        if type(part) is Group:
            part.add_tokens(found)
        else:
            found.append(part)  # type: ignore[arg-type]


def _rebuilt(parts: Sequence[Part], pieces: Iterator[Sequence[Part]]) -> list[Part]:
    made: list[Part] = []
    for part in parts:
        made += part.rebuilt(pieces) if type(part) is Group else next(pieces)
    return made


@dataclass(slots=True)
class Term:
    """An expression.

    Attributes:
      parts: Text, references and groups, in order.
      level: How tightly it binds.
      lead: What stands before it in a group.

    Others take the place of its parts as a whole: its tokens are kept.
    """

    parts: list[Part] = field(default_factory=list)
    level: int = ATOM
    lead: Lead | None = None
    _tokens: tuple[list[Part], list[Token]] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def tokens(self) -> Sequence[Token]:
        """List its parts with those of groups in their places, and the brackets of these."""
        known = self._tokens
        if known is None or known[0] is not self.parts:
            found: list[Token] = []
            _add_tokens(self.parts, found)
            known = self._tokens = self.parts, found
        return known[1]

    def refs(self) -> Iterator[Ref]:
        """Yield the references, in the order in which Python evaluates them."""
        for part in self.tokens():
            if type(part) is Ref:
                yield part.resolved()

    @property
    def ref(self) -> Ref | None:
        """The reference that it is, if it is nothing else."""
        part = self.parts[0] if len(self.parts) == 1 and self.lead is None else None
        return part if type(part) is Ref else None

    @property
    def group(self) -> Group | None:
        """The group that it is, if it is nothing else."""
        part = self.parts[0] if len(self.parts) == 1 and self.lead is None else None
        return part if type(part) is Group else None

    @property
    def is_starred(self) -> bool:
        """Whether all of its items stand for it: `*x`."""
        return self.lead is not None and self.lead.kind == STARS

    @property
    def keyword(self) -> str:
        """The keyword that it is passed by; "" if it is none."""
        is_keyword = self.lead is not None and self.lead.kind == KEYWORD
        return self.lead.word if self.lead is not None and is_keyword else ""

    def groups(self) -> list[Group]:
        """List the groups in it, those inside of others behind these."""
        return [p for parts in self.sequences() for p in parts if type(p) is Group]

    def sequences(self) -> list[Sequence[Part]]:
        """List its parts, and those of the items of groups in it."""
        found: list[Sequence[Part]] = [self.parts]
        for parts in found:  # which grows
            for part in parts:
                if type(part) is Group:
                    found += [item.parts for item in part.items]
                    found.append(part.tail)
        return found

    def opened(self) -> Term:
        """Return the expression that a reference to a folded name stands for."""
        term = self
        while (part := term.ref) is not None:
            ref = part.resolved()
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

    def all_parts(self) -> Iterator[Token]:
        """Yield the tokens, those of folded expressions instead of references to them."""
        for part in self.tokens():
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
            if type(part) is Group:
                parts.append(part.whole())
                continue
            ref = part.resolved() if type(part) is Ref else None
            literal = part.literal if type(part) is Global else None
            if literal is not None and literal.text == _text(part):
                parts.append(literal)  # it has no name any more
                continue
            if ref is None or ref.name.folded is None:
                is_named = ref is not None and ref.name.text
                parts.append(_text(part) if is_named else part)
                continue
            parts += placed(ref.name.folded.whole(), ATOM if ref.path else ref.level)
            parts += [spelled(ref.path)] if ref.path else []
        return Term(parts, self.level, self.lead)

    def of_parts(self, parts: Sequence[Sequence[Part]]) -> Term:
        """Return the same kind of expression with others in the place of each token."""
        return Term(_rebuilt(self.parts, iter(parts)), self.level, self.lead)

    def map_refs(self, changed: Callable[[Ref], Part]) -> None:
        """Let it have others in the place of its references."""
        self.parts = _mapped(self.parts, changed, None)

    def map_groups(self, changed: Callable[[Group], Sequence[Part]]) -> None:
        """Let it have others in the place of its groups, the inner ones first."""
        if any(type(part) is Group for part in self.parts):
            self.parts = _mapped(self.parts, None, changed)

    def render(self) -> str:
        """Write the expression."""
        text = "".join([_text(part) for part in self.parts])
        return text if self.lead is None else self.lead.text + text


def _mapped(
    parts: Sequence[Part],
    of_ref: Callable[[Ref], Part] | None,
    of_group: Callable[[Group], Sequence[Part]] | None,
) -> list[Part]:
    """Return parts with others in the place of references and groups.

    Groups are made anew, since several expressions may have them.
    """
    made: list[Part] = []
    for part in parts:
        if type(part) is Ref and of_ref is not None:
            made.append(of_ref(part))
        elif type(part) is Group:
            items = [
                Term(_mapped(item.parts, of_ref, of_group), item.level, item.lead)
                for item in part.items
            ]
            tail = _mapped(part.tail, of_ref, of_group)
            group = Group(part.kind, items, tail)
            made += [group] if of_group is None else of_group(group)
        else:
            made.append(part)
    return made


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
        """Return such a statement with others in the place of each token."""
        n_place = len(self.place.tokens())
        place, value = parts[:n_place], parts[n_place + 1 :]
        return update(self.place.of_parts(place), self.value.of_parts(value))

    def map_refs(self, changed: Callable[[Ref], Part]) -> None:
        """Let it have others in the place of its references."""
        self.place.map_refs(changed)
        self.value.map_refs(changed)
        self.parts = [*self.place.parts, " = ", *self.value.parts]

    def map_groups(self, changed: Callable[[Group], Sequence[Part]]) -> None:
        """Let it have others in the place of its groups, the inner ones first."""
        self.place.map_groups(changed)
        self.value.map_groups(changed)
        self.parts = [*self.place.parts, " = ", *self.value.parts]

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
    parts = [*place.parts, " = ", *value.parts]
    return Update(parts, LAMBDA, place=place, value=value)


def _plain(parts: list[Part]) -> Term:
    """Return the right side of an operator for a place that takes any expression."""
    if len(parts) == 1 and type(parts[0]) is Ref:
        return Term(placed(Term([Ref(parts[0].name, parts[0].path, LAMBDA)]), LAMBDA))
    group = Term(parts).group
    return group.items[0] if group is not None and group.kind == PARENS else Term(parts)


def _text(part: Part) -> str:
    if type(part) is str:
        return part
    if type(part) is Group:
        return part.render()
    if type(part) is Global or type(part) is Literal:
        return part.text
    assert type(part) is Ref
    ref = part.resolved()
    folded = ref.name.folded
    if folded is None:
        text = ref.name.text or ref.name.hint
        return text + spelled(ref.path) if ref.path else text
    text = folded.render()
    needed = ATOM if ref.path else ref.level
    return (f"({text})" if folded.level < needed else text) + spelled(ref.path)


MIN_WHOLE, MIN_ROW = 3, 4  # members in order that are written `*x`, and `*x[1:5]`


def _with_stars(group: Group) -> list[str]:
    """Write members of a tuple that stand in a row as a part of it: `f(y, *x[1:5])`."""
    found: list[str] = []
    position, items = 0, group.items
    while position < len(items):
        count, text = _row(items, position)
        if count == len(items) and group.kind == TUPLE_OF:
            found.append(f"*{text},")
        else:
            found.append(f"*{text}" if count else items[position].render())
        position += count or 1
    return found


def _row(items: Sequence[Term], position: int) -> tuple[int, str]:
    """Count the members in order, of what a name holds, that begin at a position.

    Returns:
      How many there are, and what they are together; 0 and "" if they are few.
    """
    first = _member(items[position])
    if first is None:
        return 0, ""
    name, path, start = first
    count = 1
    for item in items[position + 1 :]:
        if _member(item) != (name, path, start + count):
            break
        count += 1
    if count < MIN_WHOLE:
        return 0, ""
    held = part_of(name.held, path)
    length = len(held) if isinstance(held, (tuple, list)) else 0
    is_whole = (start, length) == (0, count)
    if isinstance(held, Mapping) or (count < MIN_ROW and not is_whole):
        return 0, ""
    bounds = () if is_whole else (Slice(start or None, start + count),)
    return count, f"{name.text or name.hint}{spelled((*path, *bounds))}"


def _member(item: Term) -> tuple[Name, Path, int] | None:
    """Return what an item is a member of, and which; None if it is none."""
    part = item.ref
    if part is None:
        return None
    ref = part.resolved()
    index = index_of(ref.path[-1]) if ref.path else None
    if index is None or ref.name.folded is not None:
        return None
    return ref.name, ref.path[:-1], index


def placed(term: Term, level: int) -> list[Part]:
    """Return the parts of a term for a place that binds as tightly as `level`."""
    if (ref := term.ref) is not None:
        return [Ref(ref.name, ref.path, max(level, ref.level))]
    if term.level < level:
        return [Group(PARENS, [Term(term.parts, term.level)])]
    return list(term.parts)


def is_global(term: Term) -> bool:
    """Whether an expression begins with a name of the module."""
    return type(term.parts[0]) is Global


def is_bound(term: Term) -> bool:
    """Whether an expression sees a value of the function around it.

    The parameters of a lambda have their names already.
    """
    return any(not ref.name.text for ref in term.all_refs())
