"""Write consecutive calls that differ in one number as a loop (`reroll=`).

`x = layer(params[0], x)`, `x = layer(params[1], x)`, ... becomes, for `"for"`,

    for i in range(12):
        x = layer(params[i], x)

Python runs the same calls, so the equations are the same. For `"scan"` it becomes

    layers = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params[0:12])
    x, _ = jax.lax.scan(lambda carry, item: (layer(item, carry), None), x, layers)

which is another program of the same values: it compiles once for all layers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from untrace.lifting.recorded.function import Draft, Names, Statement, flat
from untrace.lifting.recorded.terms import ATOM, Name, Part, Ref, Term

MIN_CALLS = 3
_NUMBER = re.compile(r"(?<=\[)\d+(?=\])")


def write_loops(draft: Draft, as_scan: bool = False) -> None:
    """Replace runs of alike statements of a function by loops."""
    statements = draft.statements
    made: list[Statement] = []
    position = 0
    while position < len(statements):
        count = _run(statements[position:], draft)
        if count < MIN_CALLS:
            made.append(statements[position])
            position += 1
            continue
        run = statements[position : position + count]
        made += (_scan(run) if as_scan else []) or _loop(run)
        position += count
    draft.statements = made


def _run(statements: Sequence[Statement], draft: Draft) -> int:
    """Count the statements from the first on that a loop can make."""
    first = statements[0]
    if first.nested is not None or first.is_effect or first.targets is None:
        return 0
    count = 1
    while count < len(statements) and _follows(statements, count):
        count += 1
    inner = {id(n) for s in statements[: count - 1] for n in flat(s.targets)}
    outside = Draft("", [], [*statements[count:]], draft.result)
    used = {id(p.resolved().name) for p in outside.parts() if type(p) is Ref}
    is_private = not inner & used and not any(
        name.captured for s in statements[:count] for name in flat(s.targets)
    )
    return count if is_private and _has_carry(statements[:count]) else 0


def _has_carry(statements: Sequence[Statement]) -> bool:
    """Tell whether something runs through, and all results of a step are carried."""
    if len(statements) < MIN_CALLS:
        return False
    results = list(flat(statements[0].targets))
    used = {id(ref.name) for ref in statements[1].term.refs()}
    return all(id(name) in used for name in results)


def _follows(statements: Sequence[Statement], index: int) -> bool:
    """Tell whether a statement is the next step of the loop that begins at 0."""
    first, before, this = statements[0], statements[index - 1], statements[index]
    if this.nested is not None or this.is_effect or this.targets is None:
        return False
    if len(this.term.parts) != len(first.term.parts):
        return False
    if len(list(flat(this.targets))) != len(list(flat(first.targets))):
        return False
    return all(
        _is_step(a, b, c, index, statements[1], before)
        for a, b, c in zip(first.term.parts, before.term.parts, this.term.parts)
    )


def _is_step(
    first: Part,
    before: Part,
    this: Part,
    index: int,
    second: Statement,
    last: Statement,
) -> bool:
    if type(this) is not Ref or type(first) is not Ref or type(before) is not Ref:
        return type(this) is type(first) and this == first
    mine, start = this.resolved(), first.resolved()
    if mine.name is start.name:
        return mine.path == start.path or _at(start.path, index) == mine.path
    previous = list(flat(last.targets))
    return not mine.path and any(mine.name is name for name in previous)


def _at(path: str, offset: int) -> str | None:
    """Return a path with its last index moved on."""
    found = list(_NUMBER.finditer(path))
    if not found:
        return None
    match = found[-1]
    return f"{path[: match.start()]}{int(match[0]) + offset}{path[match.end() :]}"


def _loop(statements: Sequence[Statement]) -> list[Statement]:
    """Write the loop, and before it what its variables begin with."""
    first, second, last = statements[0], statements[1], statements[-1]
    carried = list(flat(first.targets))
    variables = list(flat(last.targets))
    counter = Name("i", True)
    start: list[Statement] = []
    parts: list[Part] = []
    begin = 0
    for part, following in zip(first.term.parts, second.term.parts):
        if type(part) is not Ref or type(following) is not Ref:
            parts.append(part)
            continue
        ref, after = part.resolved(), following.resolved()
        places = [i for i, name in enumerate(carried) if name is after.name]
        if places and not after.path:
            variable = variables[places[0]]
            parts.append(Ref(variable, "", ref.level))
            start.append(
                Statement(variable, Term([Ref(ref.name, ref.path)]), is_start=True)
            )
        elif after.path != ref.path:
            match = list(_NUMBER.finditer(ref.path))[-1]
            begin = int(match[0])
            parts += [
                Ref(ref.name, ref.path[: match.start() - 1], ATOM),
                "[",
                Ref(counter),
                ref.path[match.end() :],
            ]
        else:
            parts.append(part)
    for statement in statements[1:]:
        for ref in statement.term.refs():
            ref.name.uses -= 1
    for variable in variables:
        variable.uses += 2  # of the loop itself
        variable.is_given = True
    counter.uses = 1
    head = (counter, begin, begin + len(statements))
    targets: Names | None = last.targets
    return [*start, Statement(targets, Term(parts, first.term.level), loop=head)]


def _scan(statements: Sequence[Statement]) -> list[Statement]:
    """Write the run as a scan over stacked trees; nothing if it has another form."""
    first, second, last = statements[0], statements[1], statements[-1]
    if not isinstance(first.targets, Name) or not isinstance(last.targets, Name):
        return []
    carry, item = Name("carry", True, "carry"), Name("item", True, "item")
    parts: list[Part] = []
    start: Ref | None = None
    stacked: tuple[Name, str, int] | None = None
    for part, following in zip(first.term.parts, second.term.parts):
        if type(part) is not Ref or type(following) is not Ref:
            parts.append(part)
            continue
        ref, after = part.resolved(), following.resolved()
        if after.name is first.targets:
            parts.append(Ref(carry, "", ref.level))
            start = start or Ref(ref.name, ref.path)
        elif after.path != ref.path:
            match = list(_NUMBER.finditer(ref.path))[-1]
            place = ref.name, ref.path[: match.start() - 1], int(match[0])
            if stacked is not None and stacked != place:
                return []
            stacked = place
            parts.append(Ref(item, ref.path[match.end() + 1 :], ref.level))
        else:
            parts.append(part)
    if start is None or any(n in ("carry", "item") for n in _hints(first.term)):
        return []
    for statement in statements[1:]:
        for ref in statement.term.refs():
            ref.name.uses -= 1
    step: list[Part] = ["lambda carry, item: (", *parts, ", None)"]
    before: list[Statement] = []
    if stacked is None:
        step[0] = "lambda carry, _: ("
        over: list[Part] = [f"length={len(statements)}"]
    else:
        name, path, begin = stacked
        items = Name("stacked", True, uses=1)
        stack = "jax.tree.map(lambda *leaves: jnp.stack(leaves), *"
        bounds = f"[{begin}:{begin + len(statements)}])"
        before = [Statement(items, Term([stack, Ref(name, path), bounds]))]
        over = [Ref(items)]
    scan = Term(["jax.lax.scan(", *step, ", ", start, ", ", *over, ")"])
    return [*before, Statement((last.targets, Name("_")), scan)]


def _hints(term: Term) -> list[str]:
    return [ref.name.hint for ref in term.refs()]
