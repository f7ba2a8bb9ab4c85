"""Write statements that repeat as a Python loop, or as a scan (`reroll=`).

`x = layer(params[0], x)`, `x = layer(params[1], x)`, ... becomes

    for layer_params in params:
        x = layer(layer_params, x)

Python runs the same statements, so the equations are the same. By default a loop is
written where the program had one: the statements come from the same places of its code.
"for" asks for a loop wherever stretches are alike, and "scan" for

    layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params[0:12])
    x, _ = jax.lax.scan(lambda carry, item: (layer(item, carry), None), x, layers)

which is another program of the same values: it compiles once for all layers.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from untrace.lifting.recorded.function import Draft, Loop, Names, Statement, flat
from untrace.lifting.recorded.held import item_hint, length_of
from untrace.lifting.recorded.joint import joined
from untrace.lifting.recorded.scans import scan_of
from untrace.lifting.recorded.terms import (
    ATOM,
    Global,
    Name,
    Part,
    Ref,
    Term,
    text_term,
)
from untrace.lifting.recorded.turns import (
    Run,
    Slot,
    begin_of,
    n_next_rows,
    plain_text,
    run_at,
)

MAX_PERIOD = 400
_WHOLE = re.compile(r"\d+")


def write_loops(draft: Draft, reroll: str, max_period: int = MAX_PERIOD) -> None:
    """Replace statements of a function that repeat by loops.

    Args:
      draft: The function.
      reroll: "auto", "for" or "scan".
      max_period: How many statements a turn may have.
    """
    statements = draft.statements
    sites = [_site(statement, reroll) for statement in statements]
    following = _following(sites)
    rows = {
        id(name): (statement, index)
        for statement in statements
        if statement.whole is not None and isinstance(statement.targets, tuple)
        for index, name in enumerate(statement.targets)
    }
    made: list[Statement] = []
    position = 0
    while position < len(statements):
        period = following[position] - position
        run = None
        if 0 < period <= max_period:
            run = run_at(position, period, draft, sites, rows)
        if run is None:
            made.append(statements[position])
            position += 1
            continue
        stretch = statements[position : position + run.n_turns * run.period]
        scan = scan_of(stretch) if reroll == "scan" and run.is_indexed else []
        made += scan or _loop(run, draft)
        position += len(stretch)
    draft.statements = made


def _site(statement: Statement, reroll: str) -> object:
    """Return what the same statement of another turn has in common with it."""
    if (
        statement.nested is not None
        or statement.is_effect
        or statement.loop is not None
    ):
        return None
    if statement.targets is None:
        return None
    if reroll == "auto":
        if statement.row is None or not statement.row.is_next:
            return statement.site
        # JAX takes the rows of all arrays at one place.
        return statement.site, *[(id(r.name), r.path) for r in statement.term.refs()]
    parts = ["·" if type(p) is Ref else plain_text(p) for p in statement.term.parts]
    return _WHOLE.sub("#", "".join(parts))


def _following(sites: Sequence[object]) -> list[int]:
    """Return for every statement the next one of the same site, or 0."""
    latest: dict[object, int] = {}
    found = [0] * len(sites)
    for position in reversed(range(len(sites))):
        if sites[position] is not None:
            found[position] = latest.get(sites[position], 0)
            latest[sites[position]] = position
    return found


# ---- writing it --------------------------------------------------------------------


def _loop(run: Run, draft: Draft) -> list[Statement]:
    """Write the loop, and before it what its variables begin with."""
    last = run.turns[-1]
    variables = [name for statement in last for name in flat(statement.targets)]
    for turn in run.turns:
        for statement in turn:
            for ref in statement.term.refs():
                ref.name.uses -= 1
    header = _Header(run, draft)
    starts: dict[int, Statement] = {}
    body: list[Statement] = []
    n_rows = n_next_rows(run)
    for statement in last[:n_rows]:
        header.next_row(statement)
    for index in range(n_rows, run.period):
        first, statement, slots = run.turns[0][index], last[index], run.slots[index]
        parts: list[Part] = []
        for part, slot in zip(first.term.parts, slots):
            mine = part.resolved() if type(part) is Ref else None
            if mine is None and slot.kind == "carry":
                variable = variables[slot.local]
                parts.append(Ref(variable, "", ATOM))
                start = Statement(variable, Term([part]), is_start=True)
                starts.setdefault(slot.local, start)
            elif mine is None or slot.kind in ("same", "number"):
                is_number = slot.kind == "number"
                parts += header.number(part, slot, index) if is_number else [part]
            elif slot.kind == "index":
                parts += header.item(mine, slot)
            elif slot.kind == "key":
                parts += header.key(mine, slot)
            elif slot.kind == "leaf":
                parts.append(header.leaf(mine, slot))
            elif slot.kind == "row":
                parts.append(header.row(mine, slot))
            else:
                variable = variables[slot.local]
                path = slot.path if slot.kind == "carry" else mine.path
                parts.append(Ref(variable, path, mine.level))
                if slot.kind == "carry" and slot.local not in starts:
                    begin = Term([Ref(*begin_of(mine, slot))])
                    starts[slot.local] = Statement(variable, begin, is_start=True)
        made = Statement(statement.targets, Term(parts, first.term.level))
        made.comment, made.origin = first.comment, first.origin
        body.append(made)
    for local in starts:
        variables[local].uses += 2  # of the loop itself
        variables[local].is_given, variables[local].is_foreign = True, False
    loop = Loop(*header.finished(), body)
    for term in [*(s.term for s in (*starts.values(), *body)), loop.over]:
        for ref in term.refs():
            ref.name.uses += 1
    at_once = range(run.at_once.start - n_rows, run.at_once.stop - n_rows)
    loop.body = joined(body, run.turns[0][n_rows:], at_once)
    targets = (*loop.variables, *variables)
    begins = [starts[local] for local in sorted(starts)]
    return [*begins, Statement(targets, loop=loop)]


class _Header:
    """The variables of a loop, and what it takes them from."""

    def __init__(self, run: Run, draft: Draft) -> None:
        self.run = run
        self.draft = draft
        self.items: dict[object, tuple[Name, Term]] = {}
        self.hints: dict[int, str] = {}

    def item(self, ref: Ref, slot: Slot) -> list[Part]:
        """Write what a turn takes from a container: its item, or one of its index."""
        begin = int(slot.numbers[0])
        owner, path = self.run.origin(ref)
        container, rest = path[: slot.start - 1], path[slot.start :]
        rest = rest.partition("]")[2]
        stop = begin + self.run.n_turns
        whole = self._container(ref, owner, container)
        if begin == 0 and length_of(owner, container) == stop:
            hint = item_hint(self.draft, owner, container, stop - 1)
            if hint in self.run.functions:
                hint = f"{hint}_params"
            key = id(owner), container
            return [Ref(self._variable(key, hint, Term([whole])), rest, ref.level)]
        bounds = f"{begin}, {stop}" if begin else str(stop)
        name = self._variable(bounds, "i", Term([f"range({bounds})"]))
        return [whole, "[", Ref(name), f"]{rest}"]

    def key(self, ref: Ref, slot: Slot) -> list[Part]:
        """Write what a turn takes from a dict: the item of its key."""
        owner, path = self.run.origin(ref)
        keys = slot.keys[: self.run.n_turns]
        whole = self._container(ref, owner, path[: slot.start])
        over = Term([f"({', '.join(key[1:-1] for key in keys)})"])
        name = self._variable(tuple(keys), "name", over)
        return [whole, "[", Ref(name), f"]{path[slot.start + len(keys[0]) :]}"]

    def _container(self, ref: Ref, owner: Name, path: str) -> Ref:
        """Refer to a container, which may have to become a parameter."""
        if owner is ref.name or self.draft.lift is None:
            return Ref(owner, path, ATOM)
        name = self.draft.lift((owner, path))
        name.is_tree = True
        return Ref(name, "", ATOM)

    def leaf(self, ref: Ref, slot: Slot) -> Part:
        """Write the leaf of a tree that a turn takes."""
        owner, _ = self.run.origin(ref)
        tree = self._container(ref, owner, slot.numbers[0])
        over = Term([Global("jax"), ".tree.leaves(", tree, ")"])
        return Ref(
            self._variable((id(owner), *slot.numbers), "leaf", over), "", ref.level
        )

    def row(self, ref: Ref, slot: Slot) -> Part:
        """Write the row of an array that a turn takes; the array has a name again."""
        array = slot.array
        assert array is not None and array.whole is not None
        whole = array.whole
        if isinstance(array.targets, tuple):
            last = array.targets[-1]
            self.hints[id(array)] = last.hint if isinstance(last, Name) else "row"
            array.targets, whole.uses = whole, 0
        over = Term([Ref(whole)])
        name = self._variable(id(array), self.hints[id(array)], over)
        return Ref(name, ref.path, ref.level)

    def next_row(self, statement: Statement) -> None:
        """Let the loop take the next row of an array, as the statement does."""
        assert isinstance(statement.targets, Name)
        (array,) = statement.term.refs()
        over = Term([Ref(array.name, array.path)])
        self.items[id(statement)] = statement.targets, over

    def number(self, part: Part, slot: Slot, index: int) -> list[Part]:
        """Write a number that is another one in every turn, in one of its statements."""
        assert isinstance(part, str)
        numbers = tuple(slot.numbers[: self.run.n_turns])
        known = [t[index].roles.get(n, "") for t, n in zip(self.run.turns, numbers)]
        roles = Counter(role for role in known if role)
        hint = roles.most_common(1)[0][0] if roles else "value"
        over = Term([f"({', '.join(numbers)})"])
        if all(_WHOLE.fullmatch(number) for number in numbers):
            first, *_ = values = [int(number) for number in numbers]
            if values == list(range(first, first + len(values))):
                bounds = f"{first}, {values[-1] + 1}" if first else str(len(values))
                hint, over = (
                    hint if hint != "value" else "i",
                    text_term(f"range({bounds})"),
                )
        return [Ref(self._variable(numbers, hint, over))]

    def _variable(self, key: object, hint: str, over: Term) -> Name:
        if key not in self.items:
            self.items[key] = Name(hint, True, is_foreign=False), over
        name = self.items[key][0]
        return name

    def finished(self) -> tuple[tuple[Names, ...], Term]:
        """Return the variables and what the loop is over."""
        count = self._count()
        names: list[Name] = []
        parts: list[Part] = []
        for name, term in self.items.values():
            if name is not count:
                parts += [*([", "] if names else []), *term.parts]
                names.append(name)
        if not self.items:
            return (), Term([f"range({self.run.n_turns})"])
        if len(names) > 1:
            parts = ["zip(", *parts, ")"]
        if count is None:
            return tuple(names), Term(parts)
        inner = names[0] if len(names) == 1 else tuple(names)
        return (count, inner), Term(["enumerate(", *parts, ")"])

    def _count(self) -> Name | None:
        """Return the variable that counts the turns beside others, if there is one."""
        plain = f"range({self.run.n_turns})"
        texts = [(name, term.parts) for name, term in self.items.values()]
        counts = [name for name, parts in texts if parts == [plain]]
        return counts[0] if len(counts) == 1 < len(texts) else None
