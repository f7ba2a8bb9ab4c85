"""Take apart the tuples and dicts that are made only for their parts.

Compilers call that scalar replacement of aggregates. Libraries collect arguments in a dict
and results in a tuple, from which the next function takes one; where that function is
written in place, a name for every part says the same.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence

from untrace.lifting.recorded.terms import Name, Part, Ref, Term, first_step
from untrace.lifting.recorded.tree import Draft
from untrace.parsing import parse
from untrace.syntax.names import identifier, is_name
from untrace.syntax.precedence import ATOM, level_of

_QUOTES = ('"', "'")


def take_apart(name: Name, term: Term, draft: Draft) -> list[tuple[Name, Term]]:
    """Let names stand for the parts of a tuple or dict of which nothing uses the whole.

    Args:
      name: What stands for it in a function.
      term: The expression that makes it.
      draft: The function.

    Returns:
      A name for every part and the expression that makes it, in order; none if it is
      used as a whole, or no tuple, list or dict.
    """
    entries = dict(_entries(term))
    if not entries:
        return []
    refs = [part.resolved() for part in draft.parts() if type(part) is Ref]
    uses = Counter(first_step(ref.path) for ref in refs if ref.name is name)
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
    brackets = term.parts[0], term.parts[-1]
    members = _split(term.parts[1:-1]) if brackets == ("(", ")") else []
    return [_term(member) for member in members] if len(members) > 1 else []


def _entries(term: Term) -> Iterator[tuple[str, Term]]:
    """Yield the parts of a tuple, list or dict with the paths that lead to them."""
    match term.parts[0], term.parts[-1]:
        case ("(", ")") | ("[", "]"):
            members = _split(term.parts[1:-1])
            if len(members) > 1:
                for index, member in enumerate(members):
                    yield f"[{index}]", _term(member)
        case ("{", "}"):
            members = _split(term.parts[1:-1])
            keys = [_key(member[0]) for member in members]
            if all(keys):
                for key, member in zip(keys, members):
                    yield f"[{key}]", _term(member[1:])
        case _:
            return


def _hint(path: str) -> str:
    """Return what a part is called after: its key, if it has one."""
    return identifier(path[2:-2], "part") if path[1] in _QUOTES else ""


def _key(part: Part) -> str:
    """Return the key that an entry of a dict begins with, in quotes, if it is a word."""
    if type(part) is not str or not (part[0] == '"' and part.endswith('": ')):
        return ""
    return part[:-2] if is_name(part[1:-3]) else ""


def _split(parts: Sequence[Part]) -> list[list[Part]]:
    """Return what stands between the commas of a display; nothing if that is unclear."""
    members: list[list[Part]] = [[]]
    depth = 0
    for part in parts:
        if depth == 0 and part == ", ":
            members.append([])
            continue
        members[-1].append(part)
        if type(part) is not str or _key(part):
            continue
        if any(quote in part for quote in _QUOTES) or part.startswith("*"):
            return []
        depth += sum(map(part.count, "([{")) - sum(map(part.count, ")]}"))
        if depth < 0:
            return []
    return members if all(members) and depth == 0 else []


def _term(parts: list[Part]) -> Term:
    """Make an expression of parts, which bind as its text does."""
    if len(parts) == 1 and type(parts[0]) is not str:
        return Term(parts)
    node = parse(Term(parts).render(), "eval").body
    return Term(parts, ATOM if isinstance(node, ast.Tuple) else level_of(node))
