"""Functions that are the same but for names of variables, or defaults, get the same.

Two calls of one function of a library may be given arrays that have other names where they
come from; what they are called in it depends on that.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Sequence
from dataclasses import replace

from untrace.lifting.heads import Parameter, Parameters
from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.alike import Likeness, alike_but_for, grouped
from untrace.lifting.recorded.unify.names import (
    body_of,
    has_special,
    names_of_parameters,
    stem_of,
)
from untrace.lifting.recorded.unify.numbers import likeness
from untrace.syntax.parsed import Parsed, Span, parsed, replaced

_Use = ast.Name | ast.arg
_SCOPES = (
    *(ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp),
    ast.GeneratorExp,
)


def share_names(
    functions: Sequence[Function], main: Function, renamed: dict[Likeness, Function]
) -> None:
    """Let functions that differ in names and numbers alone have the names of one of them.

    That one, as it is, is added to `renamed`, by what tells another of them.
    """
    plain = [one for one in functions if not has_special(one)]
    for group in grouped(plain, _form):
        best = min(group, key=_n_vague)
        for one in group:
            if one.parameters == best.parameters and one.lines == best.lines:
                continue
            if _may_rename(one, best) and not _takes_keywords(one, [*functions, main]):
                renamed[likeness(one)] = replace(best)
                rename_variables(one, best)


def share_heads(functions: Sequence[Function]) -> None:
    """Let functions that differ in the defaults of their parameters alone have all of these.

    A call that left some out and one that gave them make two functions, of which either
    could serve for both.
    """
    for group in grouped(functions, _but_for_defaults):
        heads = dict.fromkeys([one.parameters for one in group])
        shared = _shared_head([*heads]) if len(heads) > 1 else None
        for one in group if shared else ():
            one.parameters, one.signature = shared or (), ""


def _but_for_defaults(function: Function) -> tuple[object, ...]:
    names = tuple([(one.name, one.stars) for one in function.parameters])
    return names, tuple(function.decorators), tuple(function.lines)


def _shared_head(heads: Sequence[Parameters]) -> Parameters | None:
    """Return the parameters with the defaults of all; None if Python has no such head.

    One that some take by position is no keyword.
    """
    shared: list[Parameter[str]] = []
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
    return all(
        a.strip("_") == b.strip("_") or _is_vague(a) or _is_vague(b) for a, b in pairs
    )


def _is_vague(name: str) -> bool:
    """Whether a name is a letter, or only a number tells it from others."""
    return len(name) == 1 or stem_of(name) != name


def _form(function: Function) -> tuple[object, ...]:
    """Return what functions share that differ in numbers and names of variables at most.

    What a variable holds next is told apart: `w = weights + 1` is like `w = w + 2`.
    """
    body = body_of(function)
    numbers = _numbers(body, names_of_parameters(function))
    edits = [replaced(_span(node, body), f"\0{n}") for node, n in numbers.items()]
    edits += [
        replaced(body.span(node), "\1")
        for node in body.nodes
        if isinstance(node, ast.Constant) and type(node.value) in (int, float, complex)
    ]
    stem, head, *rest = alike_but_for(function, edits)
    return stem, len(head), *rest


def _numbers(body: Parsed, parameters: Sequence[str]) -> dict[_Use, int]:
    """Number what variables hold where they are named: anew with each assignment.

    What gets a value in a loop, or is read by an inner function, has one number.
    """
    statements: dict[ast.AST, list[_Use]] = {}
    held: set[str] = set()
    for use in body.nodes:
        if isinstance(use, ast.Name | ast.arg):
            statement, is_inside = _statement(use, body)
            statements.setdefault(statement, []).append(use)
            is_plain = isinstance(statement, ast.Assign) or not _is_bound(use)
            if is_inside or not is_plain:
                held.add(_name(use))
    uses = [use for each in statements.values() for use in each]
    variables = {*parameters, *[_name(use) for use in uses if _is_bound(use)]}
    numbers = itertools.count()
    current = {name: next(numbers) for name in parameters}
    found: dict[_Use, int] = {}
    for each in statements.values():
        for use in sorted(each, key=_is_bound):  # after all that is read
            name = _name(use)
            is_new = _is_bound(use) and name not in held
            if is_new or (name in variables and name not in current):
                current[name] = next(numbers)
            if name in variables:
                found[use] = current[name]
    return found


def _statement(use: _Use, body: Parsed) -> tuple[ast.AST, bool]:
    """Return the statement around a name, and whether that is in a scope of its own."""
    is_inside, node, around = False, use, body.parent(use)
    while around is not None and not isinstance(around, ast.Module):
        node, around = around, body.parent(around)
        is_inside = is_inside or isinstance(node, _SCOPES)
    return node, is_inside


def _is_bound(use: _Use) -> bool:
    return isinstance(use, ast.arg) or not isinstance(use.ctx, ast.Load)


def _name(use: _Use) -> str:
    return use.arg if isinstance(use, ast.arg) else use.id


def _span(use: _Use, body: Parsed) -> Span:
    """Return where a name stands, without the annotation of a parameter."""
    start, _ = body.span(use)
    return start, start + len(_name(use))


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


def rename_variables(function: Function, other: Function) -> None:
    """Give the variables of a function the names that another has for them."""
    given = names_of_parameters(function), names_of_parameters(other)
    names = dict(zip(*given))
    bodies = body_of(function), body_of(other)
    uses = map(_numbers, bodies, given)
    body, _ = bodies
    edits = [replaced(_span(use, body), _name(new)) for use, new in zip(*uses)]
    function.numbers = {n: names.get(v, v) for n, v in function.numbers.items()}
    function.keywords = {names.get(n, n): v for n, v in function.keywords.items()}
    function.parameters = other.parameters
    function.lines = body.edited(edits).split("\n")
    function.comment = function.signature = ""
