"""The text of a generated function: its names are chosen, and its tree is written."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Set
from dataclasses import dataclass

from untrace.lifting.blocks.wholes import MIN_WHOLE, kept_whole
from untrace.lifting.heads import Parameter, Parameters, head_text
from untrace.lifting.printing import INDENT, Function
from untrace.lifting.recorded.folding import note_last_uses
from untrace.lifting.recorded.functions.returned import returned_text
from untrace.lifting.recorded.repeats.turn_names import taken_up
from untrace.lifting.recorded.terms import (
    BARE,
    LIST,
    PARENS,
    TUPLE_OF,
    Global,
    Name,
    Ref,
    Term,
    Token,
)
from untrace.lifting.recorded.tree import (
    Draft,
    Loop,
    Names,
    Statement,
    defined,
    flat,
    is_folded,
)
from untrace.lifting.recorded.withs import (
    FreeRow,
    Items,
    placed_between,
    shared,
    under_contexts,
)
from untrace.lifting.recorded.withs import Row as Line
from untrace.recovery.user_comments import Remark
from untrace.syntax.names import RESERVED, identifier
from untrace.syntax.text import comment


def render(
    draft: Draft, taken: Set[str] = frozenset(), imported: Set[str] = frozenset()
) -> Function:
    """Write the function.

    Args:
      draft: Its tree, whose names get their texts.
      taken: Names that numbers must not make of others.
      imported: Names that the module imports, which locals must not hide.
    """
    hints = {identifier(name.hint) for name in draft.locals()}
    forbidden = {*_foreign_names(draft, imported), *(taken - hints)}
    for parameter in draft.parameters:
        name = parameter.name
        is_idle = name.hint == "_" and not (name.uses or name.captured)
        text = "_" if is_idle else free_name(name.hint, forbidden)
        name.text = text if text not in forbidden else free_name(name.hint, forbidden)
        forbidden.add(name.text)
    fixed = {p.name.text for p in draft.parameters}
    forbidden -= fixed
    rows = _rows(draft, forbidden, taken, imported)
    if draft.result is not None:
        text = returned_text(draft.result)
        if text != "None":
            rows.append((draft.returned_in, f"return {text}"))
    lines = under_contexts(rows)
    unpacked = [flat(s.targets) for s in draft.statements if s.is_row]
    values = {name.text for names in unpacked for name in names}
    if len(values) >= MIN_WHOLE:
        used = {*forbidden, *fixed, *(name.text for name in draft.locals())}

        def fresh(hint: str) -> str:
            used.add(made := free_name(hint, used))
            return made

        lines = kept_whole(lines, fresh, 0, values)
    decorators = [term.render() for term in draft.decorators]
    return Function(
        draft.name,
        parameters_of(draft),
        lines,
        decorators,
        comment=draft.types,
        signature=signature(draft),
        docs=dict(draft.docstrings()),
        settings=draft.settings,
        static=draft.static,
    )


def text_so_far(draft: Draft) -> str:
    """Write a function that is not complete, for those who watch the passes over it.

    Nothing is left of that: a name that has a text is taken for one that is settled.
    """
    names = [(name, name.text, name.last_use) for name in draft.locals()]
    titles = [(each, each.name) for each in draft.all()]
    note_last_uses(draft)
    text = "\n".join(render(draft).text_lines())
    for name, written, last_use in names:
        name.text, name.last_use = written, last_use
    for each, title in titles:
        each.name = title
    return text


def signature(draft: Draft) -> str:
    """Write the annotated parameters and result, if there are annotations."""
    if not draft.annotations:
        return ""
    returned = f" -> {draft.returns}" if draft.returns else ""
    kinds = {name.text: kind for name, kind in draft.annotations.items()}
    return f"({head_text(parameters_of(draft), kinds)}){returned}"


def parameters_of(draft: Draft) -> Parameters:
    """The parameters of a function, whose names have their texts."""
    return tuple([Parameter(one.name.text, *one[1:]) for one in draft.parameters])


def _rows(
    draft: Draft, forbidden: set[str], taken: Set[str], imported: Set[str]
) -> list[Line]:
    """Write the statements, giving names in order."""
    holders = {p.name.text: p.name for p in draft.parameters}
    rows: list[FreeRow] = []
    origin, remarks = "", _Remarks()
    kept = _read_later(draft)
    for index, statement in enumerate(draft.statements):
        _give_names(statement, index, holders, forbidden, kept)
        remarks.hold(statement.remarks)
        if is_folded(statement.targets):
            continue
        if statement.nested is not None:
            statement.nested.name = _target(statement.targets)
            made = render(statement.nested, taken, imported)
            _define(made, statement.items, rows)
            continue
        lines: list[str] = []
        if statement.loop is None:
            lines += remarks.taken()
            origin = _write(statement, lines, origin)
        else:
            origin = _write_loop(statement.loop, lines, origin, remarks)
        items = None if _computes_nothing(statement) else statement.items
        rows += [(items, line) for line in lines]
    remarks.hold(draft.remarks)
    rows += [(draft.returned_in, line) for line in remarks.taken()]
    return placed_between(rows)


def _computes_nothing(statement: Statement) -> bool:
    """Whether a statement only puts values into a tuple or list, or names one."""
    is_plain = statement.loop is None and statement.row is None and not statement.items
    return is_plain and _is_display(statement.term)


def _is_display(term: Term) -> bool:
    if (ref := term.ref) is not None:
        folded = ref.resolved().name.folded
        return folded is None or _is_display(folded)
    group = term.group
    is_plain = group is not None and group.kind in _PLAIN and not group.tail
    return is_plain and group is not None and all(map(_is_display, group.items))


_PLAIN = frozenset({TUPLE_OF, LIST, BARE, PARENS})


class _Remarks:
    """The user's comments that are still to be written, each once.

    One about a statement that is written inside of another one, further down, stands
    before that.
    """

    def __init__(self) -> None:
        self._seen: set[tuple[str, int]] = set()
        self._texts: list[str] = []

    def hold(self, remarks: Iterable[Remark]) -> None:
        """Keep comments for the next statement that is written."""
        for remark in remarks:
            if remark.place not in self._seen:
                self._seen.add(remark.place)
                self._texts.append(remark.text)

    def taken(self) -> list[str]:
        """Return the comments that were kept, as lines."""
        lines, self._texts = [comment(text) for text in self._texts], []
        return lines


def _foreign_names(draft: Draft, imported: Set[str]) -> Iterator[str]:
    """Yield the names from outside that the function mentions."""
    own = set(map(id, draft.locals()))
    for part in draft.parts():
        if type(part) is Global:
            yield part.text.partition(".")[0]
        elif type(part) is str:
            yield from (name for name in imported if name in part)
        elif type(part) is Ref:
            name = part.resolved().name
            if id(name) not in own and name.text:
                yield name.text


def _target(targets: Names | None, is_top: bool = True) -> str:
    if targets is None:
        return ""
    if isinstance(targets, Name):
        return targets.text if is_top else "*" * targets.is_starred + targets.text
    inner = ", ".join(_target(target, False) for target in targets)
    if len(targets) == 1:
        return f"({inner},)"
    return inner if is_top else f"({inner})"


def _read_later(draft: Draft) -> set[Name]:
    """Return what is read by functions that may be called again: those with a name.

    What a lambda reads is read when the statement is done that it stands in.
    """
    found: set[Name] = set()
    for statement in draft.statements:
        parts: Iterable[Token] = ()
        if statement.nested is not None:
            parts = statement.nested.parts()
        elif any(map(_holds_function, flat(statement.targets))):
            parts = statement.term.whole().tokens()
        found |= {part.resolved().name for part in parts if type(part) is Ref}
    return found


def _holds_function(name: Name) -> bool:
    held = name.held if type(name.held) in (tuple, list) else (name.held,)
    return any(map(callable, held))


def _give_names(
    statement: Statement,
    index: int,
    holders: dict[str, Name],
    forbidden: set[str],
    kept: Set[Name],
) -> None:
    """Choose the names of what a statement defines; `holders` are those in use.

    What is `kept` has its name until the end. In a loop a name is in use until its end,
    since it begins again; in a comprehension only for the variables of that.
    """
    inner = {id(name) for name in statement.bound}
    shared = taken_up(statement.loop, index, holders) if statement.loop else {}
    variables = set(map(id, flat(statement.loop.variables if statement.loop else ())))
    for name in sorted(defined(statement), key=lambda name: id(name) not in variables):
        if name.folded is not None or name.alias is not None:
            continue
        if id(name) in shared:
            name.text = shared[id(name)].text
            continue
        if statement.loop is not None and holders.get(name.text) is name:
            continue  # its first value has the name
        is_shown = name.is_given and not (name.is_weak or name.is_foreign)
        if name.uses == 0 and not is_shown:
            name.text = "_"
            continue
        if name.hint == "_" and statement.is_effect:  # `pl.when` runs it
            name.text = "_"
            continue
        is_inner = statement.loop is not None or id(name) in inner
        last = index - 1 if is_inner else index
        name.text = free_name(name.hint, _InUse(forbidden, holders, last, kept))
        holders[name.text] = name


@dataclass(frozen=True, slots=True)
class _InUse:
    """The names that a value may not have.

    Attributes:
      forbidden: Some that none may have.
      holders: The values that have names.
      last: The statement behind which a value that has one must not be read.
      kept: The values that have theirs to the end.
    """

    forbidden: set[str]
    holders: dict[str, Name]
    last: int
    kept: Set[Name]

    def __contains__(self, text: object) -> bool:
        holder = self.holders.get(str(text))
        if holder is not None and (holder.last_use > self.last or holder in self.kept):
            return True
        return text in self.forbidden


def _write(statement: Statement, lines: list[str], origin: str) -> str:
    """Write an assignment; return where the latest comment says it comes from."""
    if statement.origin and statement.origin != origin:
        origin = statement.origin
        lines.append(comment(origin))
    text = statement.term.render()
    target = _target(statement.targets)
    if statement.is_start and text == target:
        return origin
    remark = f"  {statement.comment}" if statement.comment else ""
    is_unused = all(name.uses == 0 for name in flat(statement.targets))
    if statement.targets is None or is_unused:
        lines.append(text + remark)
    else:
        lines.append(f"{target} = {text}{remark}")
    return origin


def _write_loop(loop: Loop, lines: list[str], origin: str, remarks: _Remarks) -> str:
    """Write a loop; return where the latest comment says it comes from."""
    first = loop.body[0] if loop.body else None
    while first is not None:
        remarks.hold([one for one in first.remarks if one.is_around])
        first = first.loop.body[0] if first.loop is not None else None
    lines += remarks.taken()
    several = loop.variables
    names = several if len(several) > 1 else several[0] if several else None
    lines.append(f"for {_target(names) or '_'} in {loop.over.render()}:")
    rows: list[Line] = []
    for inner in loop.body:
        written: list[str] = []
        remarks.hold(inner.remarks)
        if inner.loop is not None:
            origin = _write_loop(inner.loop, written, origin, remarks)
        elif not is_folded(inner.targets):
            written += remarks.taken()
            origin = _write(inner, written, origin)
        rows += [(inner.items, line) for line in written]
    lines += [INDENT + line for line in under_contexts(rows)]
    return origin


def free_name(hint: str, forbidden: Container[str]) -> str:
    """Make an identifier that is not forbidden, with a number if it has to be."""
    name = identifier(hint)
    if name not in forbidden and name not in RESERVED:
        return name
    count = 2
    while f"{name}_{count}" in forbidden:
        count += 1
    return f"{name}_{count}"


def _define(made: Function, items: Items, rows: list[FreeRow]) -> None:
    """Write a nested function; before the `with` that it would be the first under."""
    items = shared((rows[-1][0] if rows else None) or (), items)
    if rows and rows[-1][1]:
        rows.append((items, ""))
    rows += [(items, line) for line in (*made.text_lines(), "")]
