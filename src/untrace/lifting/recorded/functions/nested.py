"""Tell which nested functions are one: they have the same text and see the same values."""

from __future__ import annotations

from untrace.lifting.recorded.functions.sameness import meaning
from untrace.lifting.recorded.printing import render, signature
from untrace.lifting.recorded.terms import Ref
from untrace.lifting.recorded.tree import Draft
from untrace.optional import gives, optional


@optional(gives(False))
def join(known: Draft, draft: Draft) -> bool:
    """Let a nested function stand for another one if it is the same; tell whether it is."""
    if not _is_same(known, draft):
        return False
    _keep_same_types(known, draft)
    for ref in seen(draft):
        ref.name.uses -= 1
    return True


def _keep_same_types(known: Draft, draft: Draft) -> None:
    """Leave out the types of a function that is called at several, and inside of it."""
    if known.types != draft.types:
        known.types = ""
    if signature(known) != signature(draft):
        known.annotations = {}
    for statement, other in zip(known.statements, draft.statements):
        if statement.nested is not None and other.nested is not None:
            _keep_same_types(statement.nested, other.nested)


def _is_same(known: Draft, draft: Draft) -> bool:
    """Compare two nested functions.

    What they see of the function around them has no final names yet, so it is compared
    by identity.
    """
    if known.name != draft.name or len(known.statements) != len(draft.statements):
        return False
    each = [[(id(ref.name), ref.path) for ref in seen(d)] for d in (known, draft)]
    if each[0] != each[1]:
        return False
    return meaning(render(known)) == meaning(render(draft))


def seen(draft: Draft) -> list[Ref]:
    """Return what a function refers to of those around it."""
    own = set(map(id, draft.locals()))
    refs = [part.resolved() for part in draft.parts() if type(part) is Ref]
    return [ref for ref in refs if id(ref.name) not in own]
