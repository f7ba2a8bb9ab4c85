"""Take apart the tuples and dicts that are made only for their parts.

Compilers call that scalar replacement of aggregates. Libraries collect arguments in a dict
and results in a tuple, from which the next function takes one; where that function is
written in place, a name for every part says the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from untrace.lifting.recorded.building import without_lead
from untrace.lifting.recorded.naming.paths import is_word_key
from untrace.lifting.recorded.terms import (
    DICT,
    KEY,
    TUPLE_OF,
    Group,
    Name,
    Ref,
    Term,
)
from untrace.lifting.recorded.tree import Draft
from untrace.syntax.names import identifier, is_name
from untrace.syntax.steps import Item, Path


def take_apart(name: Name, term: Term, draft: Draft) -> list[tuple[Name, Term]]:
    """Let names stand for the parts of a tuple or dict of which nothing uses the whole.

    Args:
      name: What stands for it in a function.
      term: The expression that makes it.

    Returns:
      A name for every part and the expression that makes it, in order; none if it is
      used as a whole, or no tuple, list or dict.
    """
    entries = dict(_entries(term))
    if not entries:
        return []
    refs = [part.resolved() for part in draft.parts() if type(part) is Ref]
    uses = Counter(ref.path[:1] for ref in refs if ref.name is name)
    if not uses or not uses.keys() <= entries.keys():
        return []
    name.members = {
        path: Name(
            _hint(path) or name.hint,
            is_given=bool(_hint(path)),
            uses=uses[path],
            captured=name.captured and uses[path] > 0,
            is_foreign=True,
            is_weak=True,
        )
        for path in entries
    }
    return [*zip(name.members.values(), entries.values())]


def members_of(term: Term) -> list[Term]:
    """Return the expressions of a tuple; none for what is no tuple, or may be none."""
    group = term.group
    is_tuple = group is not None and group.kind == TUPLE_OF and len(group.items) > 1
    return list(group.items) if group and is_tuple and _is_plain(group) else []


def _entries(term: Term) -> Iterator[tuple[Path, Term]]:
    """Yield the parts of a tuple, list or dict with the paths that lead to them."""
    group = term.group
    if group is None or not group.is_display:
        return
    if group.kind == DICT:
        leads = [item.lead for item in group.items]
        keys = [lead.word for lead in leads if lead and lead.kind == KEY]
        if len(keys) == len(leads) and all(type(k) is str and is_name(k) for k in keys):
            for key, item in zip(keys, group.items):
                yield (Item(key),), without_lead(item)
    elif len(group.items) > 1 and _is_plain(group):
        for index, item in enumerate(group.items):
            yield (Item(index),), item


def _is_plain(group: Group) -> bool:
    """Whether each item of a tuple or list is one."""
    return all(item.lead is None for item in group.items)


def _hint(path: Path) -> str:
    """Return what a part is called after: its key, if it has one."""
    return identifier(path[0].word, "part") if is_word_key(path[0]) else ""
