"""Functions that are the same but for names of variables, or defaults, get the same.

Two calls of one function of a library may be given arrays that have other names where they
come from; what they are called in it depends on that.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from untrace.lifting.heads import Parameter, Parameters
from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.names import (
    body_of,
    has_special,
    names_of_parameters,
    stem_of,
)
from untrace.syntax.parsed import Edit, Parsed, parsed, replaced


def share_names(functions: Sequence[Function], main: Function) -> None:
    """Let functions that differ in names of variables alone have those of one of them."""
    stems = [stem_of(function.name) for function in functions]
    groups: dict[object, list[Function]] = {}
    for function, stem in zip(functions, stems):
        if stems.count(stem) > 1 and not (function.after or has_special(function)):
            groups.setdefault((stem, *_form(function)), []).append(function)
    for group in groups.values():
        best = min(group, key=_n_vague)
        for one in group:
            if one.parameters == best.parameters and one.lines == best.lines:
                continue
            if _may_rename(one, best) and not _takes_keywords(one, [*functions, main]):
                _rename(one, best)


def share_heads(functions: Sequence[Function]) -> None:
    """Let functions that differ in the defaults of their parameters alone have all of these.

    A call that left some out and one that gave them make two functions, of which either
    could serve for both.
    """
    groups: dict[object, list[Function]] = {}
    for function in functions:
        if not function.after:
            names = tuple([(one.name, one.stars) for one in function.parameters])
            form = stem_of(function.name), names, *function.decorators, None
            groups.setdefault((*form, *function.lines), []).append(function)
    for group in groups.values():
        heads = dict.fromkeys([one.parameters for one in group])
        shared = _shared_head([*heads]) if len(heads) > 1 else None
        for one in group if shared else ():
            one.parameters, one.signature = shared or (), ""


def _shared_head(heads: Sequence[Parameters]) -> Parameters | None:
    """Return the parameters with the defaults of all; None if Python has no such head.

    One that some take by position is no keyword.
    """
    shared: list[Parameter] = []
    for column in zip(*heads):
        defaults = dict.fromkeys(filter(None, [one.default for one in column]))
        if len(defaults) > 1:
            return None
        is_keyword = all(one.is_keyword for one in column)
        default = next(iter(defaults), "")
        shared.append(column[0]._replace(default=default, is_keyword=is_keyword))
    before = [one for one in shared if not (one.is_keyword or one.stars)]
    given = [bool(one.default) for one in before]
    return tuple(shared) if given == sorted(given) else None


def _may_rename(function: Function, other: Function) -> bool:
    """Whether no two parameters that stand for each other are both told by their names."""
    pairs = zip(names_of_parameters(function), names_of_parameters(other))
    return all(a == b or _is_vague(a) or _is_vague(b) for a, b in pairs)


def _is_vague(name: str) -> bool:
    """Whether a name is a letter, or only a number tells it from others."""
    return len(name) == 1 or stem_of(name) != name


def _form(function: Function) -> tuple[object, ...]:
    """Return the text of a function with numbers for the names of its variables."""
    body = body_of(function)
    names = dict.fromkeys([*names_of_parameters(function), *_variables(body)])
    numbers = {name: f"\0{n}" for n, name in enumerate(names)}
    text = body.edited(_renamings(body, numbers))
    return len(function.parameters), text, *function.decorators


def _variables(body: Parsed) -> Iterator[str]:
    """Yield the names that get a value, but for those of inner functions, which tell."""
    for node in body.nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def _renamings(body: Parsed, names: dict[str, str]) -> Iterator[Edit]:
    for node in body.nodes:
        if isinstance(node, ast.Name) and node.id in names:
            yield replaced(body.span(node), names[node.id])
        elif isinstance(node, ast.arg) and node.arg in names:
            start, _ = body.span(node)
            yield replaced((start, start + len(node.arg)), names[node.arg])


def _n_vague(function: Function) -> int:
    """Count the parameters whose names say little."""
    return sum(map(_is_vague, names_of_parameters(function)))


def _takes_keywords(function: Function, users: Sequence[Function]) -> bool:
    """Whether some call gives a function its arguments by their names."""
    texts = [text for user in users for text in user.texts() if function.name in text]
    for read in map(parsed, texts):
        calls = [node for node in read.nodes if isinstance(node, ast.Call)]
        for call in calls:
            is_this = isinstance(call.func, ast.Name) and call.func.id == function.name
            if is_this and call.keywords:
                return True
    return False


def _rename(function: Function, other: Function) -> None:
    """Give the variables of a function the names that another has for them."""
    names = dict(zip(names_of_parameters(function), names_of_parameters(other)))
    function.numbers = {n: names.get(v, v) for n, v in function.numbers.items()}
    function.parameters, function.lines = other.parameters, [*other.lines]
    function.comment = function.signature = ""
