"""Write calls that differ in one number as `jax.lax.scan` over stacked parameters.

    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *params[0:12])
    x, _ = jax.lax.scan(lambda carry, item: (layer(item, carry), None), x, stacked)

is another program of the same values than `x = layer(params[0], x)` and so on.
"""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.recorded.naming.paths import differing_step, index_of
from untrace.lifting.recorded.terms import Name, Part, Ref, Term
from untrace.lifting.recorded.tree import Statement


def scan_of(statements: Sequence[Statement]) -> list[Statement]:
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
        elif (after.name, after.path) == (ref.name, ref.path):
            parts.append(part)
        else:
            found = differing_step(ref.path, after.path)
            index = index_of(found[1]) if found and after.name is ref.name else None
            if found is None or index is None:
                return []
            place = ref.name, found[0], index
            if stacked is not None and stacked != place:
                return []
            stacked = place
            parts.append(Ref(item, found[3], ref.level))
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
