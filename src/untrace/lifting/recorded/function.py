"""A generated function between recording and text: statements, folding, names.

Folding puts the value of an expression where it is used, as the user had written it,
and never changes the order of evaluation: with another order, cotangents would be added
in another order too. Pending expressions are kept on a stack; a statement may take the
topmost ones if it evaluates them in the same order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field

from untrace.lifting.blocks.wholes import MIN_WHOLE, kept_whole
from untrace.lifting.printing import INDENT, Function
from untrace.lifting.recorded.functions.returned import (
    MAX_LINE,
    is_long_tuple,
    returned_text,
)
from untrace.lifting.recorded.repeats.turn_names import taken_up
from untrace.lifting.recorded.terms import Global, Name, Part, Ref, Term, display
from untrace.lifting.recorded.withs import Items, shared, under_contexts
from untrace.lifting.recorded.withs import Row as Line
from untrace.recovery.record import Place, Turn
from untrace.syntax.names import RESERVED, identifier

Names = Name | tuple["Names", ...]
Trail = tuple[Place | None, ...]

# Characters of an expression that is written inside another, as it was in the program:
# one of the user's, one of a library's, and one that a library had given a name.
MAX_OWN, MAX_FOLDED, MAX_FOREIGN = 160, 72, 56
MAX_COMPREHENSION = 110
FOREVER = 1 << 60
_FIRST_WORD = re.compile(r"^\w+")


@dataclass(frozen=True, slots=True)
class Row:
    """That a statement takes one row of an array.

    Attributes:
      index: Which one.
      length: How many there are.
      can_move: No cotangent depends on when it is taken.
      is_next: Python took it, as the next one of a loop.
    """

    index: int
    length: int
    can_move: bool
    is_next: bool = False


@dataclass(eq=False, slots=True)
class Loop:
    """`for variables in over:` and the statements of one turn."""

    variables: tuple[Names, ...]
    over: Term
    body: list[Statement]

    def terms(self) -> Iterator[Term]:
        """Yield the expressions in its head and in its body."""
        yield self.over
        for statement in self.body:
            if statement.loop is not None:
                yield from statement.loop.terms()
            else:
                yield statement.term

    def refs(self) -> Iterator[Ref]:
        """Yield the references in its head and in its body."""
        for term in self.terms():
            yield from term.refs()


@dataclass(eq=False, slots=True)
class Statement:
    """`targets = term`, or the definition of a nested function.

    Attributes:
      targets: The names to assign to.
      term: The value.
      is_effect: It must stay even if nobody uses its value.
      nested: The function to define.
      comment: Written after the statement.
      origin: The user's statement, written in a comment before.
      loop: It is a loop; `targets` are all names that it gives a value.
      is_row: It unpacks what a function of the module returns.
      is_start: It gives a variable of a loop its first value.
      row: The row of an array that it takes, if it does only that.
      whole: The name of the array whose rows it unpacks, if Python iterated over it.
      site: Where the call that it writes was written.
      trail: The same, behind where the dissolved functions around it were called.
      turn: What the variables of the program's loops held, the innermost one's first.
      bound: The variables of the comprehension that it is.
      roles: The names that the program has for numbers in it.
      context: The `with` items that it stands under; None if nobody has said yet.
    """

    targets: Names | None = None
    term: Term = field(default_factory=Term)
    is_effect: bool = False
    nested: Draft | None = None
    comment: str = ""
    origin: str = ""
    loop: Loop | None = None
    is_row: bool = False
    is_start: bool = False
    row: Row | None = None
    whole: Name | None = None
    site: object = None
    trail: Trail = ()
    turn: Turn = ()
    bound: tuple[Name, ...] = ()
    roles: dict[str, str] = field(default_factory=dict[str, str])
    context: Items | None = None

    @property
    def items(self) -> Items:
        """The `with` items that it stands under."""
        return self.context or ()


@dataclass(eq=False, slots=True)
class Parameter:
    """A parameter: `x`, `*args`, or keyword-only; `default` is the text of its default."""

    name: Name
    stars: str = ""
    is_keyword: bool = False
    default: str = ""


@dataclass(eq=False, slots=True)
class Draft:
    """A function whose text is not made yet."""

    name: str
    parameters: list[Parameter] = field(default_factory=list[Parameter])
    statements: list[Statement] = field(default_factory=list[Statement])
    result: Term | None = None
    decorators: list[Term] = field(default_factory=list[Term])
    types: str = ""
    annotations: dict[Name, str] = field(default_factory=dict[Name, str])
    returns: str = ""
    items: dict[tuple[int, str], str] = field(
        default_factory=dict[tuple[int, str], str]
    )
    """The names that the program had for parts of what a name holds."""
    lists: dict[tuple[int, ...], str] = field(
        default_factory=dict[tuple[int, ...], str]
    )
    """The names that the program had for lists of what names hold, by these."""
    collections: dict[frozenset[int], str] = field(
        default_factory=dict[frozenset[int], str]
    )
    """The same for containers of any kind."""
    others: dict[int, str] = field(default_factory=dict[int, str])
    """Other names that the program had for what names hold, in the end."""
    origins: dict[int, tuple[Name, str]] = field(
        default_factory=dict[int, "tuple[Name, str]"]
    )
    """Where values come from that are to be parts of parameters, by their names."""
    lift: Callable[[tuple[Name, str]], Name] | None = None
    """Names another part of what they come from."""
    names: tuple[str, ...] = ()
    """The names that it may have, from short to telling; `name` is one of them."""
    returned_in: Items = ()
    """The `with` items that the result is returned under."""

    def render(
        self, taken: Set[str] = frozenset(), imported: Set[str] = frozenset()
    ) -> Function:
        """Write the function.

        Args:
          taken: Names that numbers must not make of others.
          imported: Names that the module imports, which locals must not hide.
        """
        hints = {identifier(name.hint) for name in self.locals()}
        forbidden = {*self._foreign_names(imported), *(taken - hints)}
        for parameter in self.parameters:
            name = parameter.name
            is_idle = name.hint == "_" and not (name.uses or name.captured)
            text = "_" if is_idle else free_name(name.hint, forbidden)
            name.text = (
                text if text not in forbidden else free_name(name.hint, forbidden)
            )
            forbidden.add(name.text)
        fixed = {p.name.text for p in self.parameters}
        forbidden -= fixed
        rows = self._rows(forbidden, fixed, taken, imported)
        if self.result is not None:
            text = self.result.render()
            if text != "None":
                rows.append((self.returned_in, f"return {returned_text(text)}"))
        lines = under_contexts(rows)
        unpacked = [flat(s.targets) for s in self.statements if s.is_row]
        values = {name.text for names in unpacked for name in names}
        if len(values) >= MIN_WHOLE:
            lines = kept_whole(lines, str, 0, values)
        decorators = [term.render() for term in self.decorators]
        return Function(
            self.name,
            self.parameter_text(),
            lines,
            decorators,
            comment=self.types,
            signature=self._signature(),
        )

    def _signature(self) -> str:
        """Write the annotated parameters and result, if there are annotations."""
        if not self.annotations:
            return ""
        returned = f" -> {self.returns}" if self.returns else ""
        return f"({self.parameter_text(self.annotations)}){returned}"

    def parameter_text(self, annotations: Mapping[Name, str] | None = None) -> str:
        """Write the parameter list."""
        known = annotations or {}
        texts: list[str] = []
        starred = False
        for parameter in self.parameters:
            if parameter.is_keyword and not starred:
                texts.append("*")
                starred = True
            starred = starred or parameter.stars == "*"
            kind = "" if parameter.stars else known.get(parameter.name, "")
            text = parameter.stars + parameter.name.text
            text = f"{text}: {kind}" if kind else text
            equals = " = " if kind else "="
            texts.append(f"{text}{equals}{parameter.default}".removesuffix(equals))
        return ", ".join(texts)

    def locals(self) -> Iterator[Name]:
        """Yield its parameters and local variables, those of nested functions too."""
        yield from (parameter.name for parameter in self.parameters)
        for statement in self.statements:
            yield from defined(statement)
            if statement.nested is not None:
                yield from statement.nested.locals()

    def _rows(
        self,
        forbidden: set[str],
        parameters: set[str],
        taken: Set[str],
        imported: Set[str],
    ) -> list[Line]:
        """Write the statements, giving names in order."""
        holders = {p.name.text: p.name for p in self.parameters}
        rows: list[Line] = []
        origin = ""
        for index, statement in enumerate(self.statements):
            _give_names(statement, index, holders, forbidden)
            if _is_folded(statement.targets):
                continue
            if statement.nested is not None:
                statement.nested.name = _target(statement.targets)
                made = statement.nested.render(taken, imported)
                _define(made, statement.items, rows)
                continue
            lines: list[str] = []
            if statement.loop is None:
                origin = _write(statement, lines, origin)
            else:
                origin = _write_loop(statement.loop, lines, origin)
            rows += [(statement.items, line) for line in lines]
        return rows

    def _foreign_names(self, imported: Set[str]) -> Iterator[str]:
        """Yield the names from outside that the function mentions."""
        own = {id(p.name) for p in self.parameters}
        own |= {id(n) for s in self.statements for n in defined(s)}
        for part in self.parts():
            if type(part) is Global:
                yield from _FIRST_WORD.findall(part.text)
            elif type(part) is str:
                yield from (name for name in imported if name in part)
            elif type(part) is Ref:
                name = part.resolved().name
                if id(name) not in own and name.text:
                    yield name.text

    def parts(self) -> Iterator[Part]:
        """Yield all parts of its terms, those of nested functions included."""
        for statement in self.statements:
            if statement.nested is not None:
                yield from statement.nested.parts()
            else:
                yield from _parts(statement)
            for item in statement.items:
                yield Global(item)
        for term in self.decorators:
            yield from term.parts
        if self.result is not None:
            yield from self.result.parts

    def statements_left(self) -> int:
        """Count the statements that are not folded away; `with` is one, too."""
        n_left = sum(not _is_folded(s.targets) for s in self.statements)
        return n_left + bool(self.returned_in)

    def lines_left(self) -> int:
        """Count the statements that are not folded away, and what is returned."""
        nested = [s.nested for s in self.statements if s.nested is not None]
        return self.statements_left() + 1 + sum(d.lines_left() for d in nested)

    # ---- folding -------------------------------------------------------------------

    def finish(self) -> None:
        """Drop statements that nothing uses, fold single uses, note last uses."""
        self.drop_dead()
        self._return_call()
        self._fold()
        self._note_last_uses()

    def drop_dead(self) -> None:
        """Drop the statements whose results nothing uses."""
        kept: list[Statement] = []
        for statement in reversed(self.statements):
            names = list(flat(statement.targets))
            is_used = any(name.uses or name.captured for name in names)
            if statement.is_effect or is_used:
                kept.append(statement)
                continue
            for ref in statement.term.refs():
                ref.name.uses -= 1
        self.statements = kept[::-1]

    def _return_call(self) -> None:
        """Return the last call as it is, if a library names its parts and returns them."""
        last = self.statements[-1] if self.statements else Statement()
        names = list(flat(last.targets))
        is_call = isinstance(last.targets, tuple) and not (last.is_row or last.items)
        if self.result is None or not is_call:
            return
        if any(name.is_given and not name.is_foreign for name in names):
            return
        is_only = all(name.uses == 1 and not name.captured for name in names)
        if is_only and _merged(self.result.parts) == _merged(_shape(last.targets)):
            self.statements.pop()
            self.result = last.term

    def _fold(self) -> None:
        pending = self.fold_all(self.statements)
        if self.result is not None:
            waiting = list(pending)
            self._take(self.result, pending)
            if is_long_tuple(self.result.render()):
                _keep_foreign([name for name, _ in waiting])
            if any(name.folded is not None for name, _ in waiting):
                self.returned_in = waiting[-1][1].items

    def fold_all(self, statements: Sequence[Statement]) -> list[tuple[Name, Statement]]:
        """Fold expressions into statements; return what could be folded after them."""
        pending: list[tuple[Name, Statement]] = []
        for statement in statements:
            if statement.nested is not None:
                continue
            if pending and pending[-1][1].items != statement.items:
                pending.clear()
            if statement.loop is not None:
                self.fold_all(statement.loop.body)
                pending.clear()
                continue
            if statement.bound:  # what is before it is not evaluated in every turn
                pending.clear()
            self._take(statement.term, pending)
            name = statement.targets
            if (
                isinstance(name, Name)
                and (not name.is_given or name.is_foreign)
                and name.uses == 1
                and not name.captured
                and not statement.is_effect
                and not statement.is_start
            ):
                pending.append((name, statement))
            else:
                pending.clear()
        return pending

    @staticmethod
    def _take(term: Term, pending: list[tuple[Name, Statement]]) -> None:
        """Fold the topmost pending expressions into a term that uses them in order."""
        waiting = {id(name): position for position, (name, _) in enumerate(pending)}
        used = [waiting[id(r.name)] for r in term.refs() if id(r.name) in waiting]
        order = {position: index for index, position in enumerate(used)}
        first = after = len(pending)
        while order.get(first - 1, after) < order.get(first, len(used)):
            first -= 1
        is_whole = len(term.parts) == 1 and type(term.parts[0]) is Ref
        is_full = is_split = False
        for position in range(first, len(pending)):
            name, statement = pending[position]
            unnamed = MAX_FOLDED if name.is_foreign else MAX_OWN
            unnamed = MAX_COMPREHENSION if statement.bound else unnamed
            limit = MAX_FOREIGN if name.is_given else unnamed
            fits = statement.term.length() <= limit
            is_full |= fits and name.is_given and _fills_line(term, statement.term)
            if is_whole or (fits and not (is_full and name.is_given)):
                name.folded = statement.term
            else:  # what was evaluated before it must stay before it
                is_split = True
                for earlier in range(first, position):
                    pending[earlier][0].folded = None
        del pending[0 if is_split else first :]

    def _note_last_uses(self) -> None:
        for index, statement in enumerate(self.statements):
            if statement.loop is not None:
                for term in statement.loop.terms():
                    _mark(term, index)
            elif statement.nested is None and not _is_folded(statement.targets):
                _mark(statement.term, index)
        if self.result is not None:
            _mark(self.result, FOREVER)


def _mark(term: Term, index: int) -> None:
    for ref in term.refs():
        ref.name.last_use = max(ref.name.last_use, index)
        if ref.name.folded is not None:
            _mark(ref.name.folded, index)


def flat(targets: Names | None) -> Iterator[Name]:
    """Yield the names among nested targets."""
    if isinstance(targets, Name):
        yield targets
    elif targets is not None:
        for target in targets:
            yield from flat(target)


def _shape(targets: Names | None) -> list[Part]:
    """Return what a tuple of targets looks like as a value."""
    if not isinstance(targets, tuple):
        return [Ref(name) for name in flat(targets)]
    return display("()", [Term(_shape(target)) for target in targets]).parts


def _merged(parts: Sequence[Part]) -> list[str | Name]:
    """Return the parts of a term with text in one piece, whatever it was put together of."""
    found: list[str | Name] = [""]
    for part in parts:
        if isinstance(part, Ref) and not part.path:
            found += [part.name, ""]
        else:
            text = part if isinstance(part, str) else repr(part)
            found[-1] = f"{found[-1]}{text}"
    return found


def defined(statement: Statement) -> Iterator[Name]:
    """Yield the names that a statement gives a value, or that are bound inside of it."""
    if statement.loop is not None:
        for inner in statement.loop.body:
            yield from inner.bound if inner.loop is None else defined(inner)
    yield from statement.bound
    yield from flat(statement.targets)


def _fills_line(around: Term, term: Term) -> bool:
    """Tell whether one line would be too short for an expression inside another.

    Then values that a library had given a name keep it, all of them. A method of the
    expression only follows it: `(...).reshape(2, -1)` is no expression around it.
    """
    if isinstance(around.parts[0], Ref) and sum(1 for _ in around.refs()) == 1:
        return False
    before = around.length()
    return before <= MAX_LINE < before + term.length()


def _keep_foreign(names: Sequence[Name]) -> None:
    """Keep the names that a library gave, and those of what is evaluated before."""
    last = max([i for i, name in enumerate(names) if name.is_given], default=-1)
    for name in names[: last + 1]:
        name.folded = None


def _is_folded(targets: Names | None) -> bool:
    return isinstance(targets, Name) and targets.folded is not None


def _target(targets: Names | None, is_top: bool = True) -> str:
    if targets is None:
        return ""
    if isinstance(targets, Name):
        return targets.text
    inner = ", ".join(_target(target, False) for target in targets)
    if len(targets) == 1:
        return f"({inner},)"
    return inner if is_top else f"({inner})"


def _parts(statement: Statement) -> Iterator[Part]:
    if statement.loop is None:
        yield from statement.term.parts
        return
    for term in statement.loop.terms():
        yield from term.parts


def _give_names(
    statement: Statement, index: int, holders: dict[str, Name], forbidden: set[str]
) -> None:
    """Choose the names of what a statement defines; `holders` are those in use.

    In a loop a name is in use until its end, since it begins again.
    """
    is_block = statement.loop is not None or statement.bound
    last = index - 1 if is_block else index
    shared_texts = taken_up(statement.loop, index, holders) if statement.loop else {}
    for name in defined(statement):
        if name.folded is not None or name.alias is not None:
            continue
        if id(name) in shared_texts:
            name.text = shared_texts[id(name)]
            continue
        if statement.loop is not None and holders.get(name.text) is name:
            continue  # its first value has the name
        is_shown = name.is_given and not name.is_weak
        if name.uses == 0 and not is_shown:
            name.text = "_"
            continue
        busy = {
            text
            for text, holder in holders.items()
            if holder.last_use > last or holder.captured
        }
        name.text = free_name(name.hint, forbidden | busy)
        holders[name.text] = name


def _write(statement: Statement, lines: list[str], origin: str) -> str:
    """Write an assignment; return where the latest comment says it comes from."""
    if statement.origin and statement.origin != origin:
        origin = statement.origin
        lines.append(f"# {origin}")
    text = statement.term.render()
    target = _target(statement.targets)
    if statement.is_start and text == target:
        return origin
    comment = f"  {statement.comment}" if statement.comment else ""
    is_unused = all(name.uses == 0 for name in flat(statement.targets))
    if statement.targets is None or is_unused:
        lines.append(text + comment)
    else:
        lines.append(f"{target} = {text}{comment}")
    return origin


def _write_loop(loop: Loop, lines: list[str], origin: str) -> str:
    """Write a loop; return where the latest comment says it comes from."""
    several = loop.variables
    names = several if len(several) > 1 else several[0] if several else None
    lines.append(f"for {_target(names) or '_'} in {loop.over.render()}:")
    rows: list[Line] = []
    for inner in loop.body:
        written: list[str] = []
        if inner.loop is not None:
            origin = _write_loop(inner.loop, written, origin)
        elif not _is_folded(inner.targets):
            origin = _write(inner, written, origin)
        rows += [(inner.items, line) for line in written]
    lines += [INDENT + line for line in under_contexts(rows)]
    return origin


def free_name(hint: str, forbidden: set[str]) -> str:
    """Make an identifier that is not forbidden, with a number if it has to be."""
    name = identifier(hint)
    if name not in forbidden and name not in RESERVED:
        return name
    count = 2
    while f"{name}_{count}" in forbidden:
        count += 1
    return f"{name}_{count}"


def _define(made: Function, items: Items, rows: list[Line]) -> None:
    """Write a nested function; before the `with` that it would be the first under."""
    items = shared(rows[-1][0] if rows else (), items)
    if rows and rows[-1][1]:
        rows.append((items, ""))
    rows += [(items, line) for line in (*made.text_lines(), "")]
