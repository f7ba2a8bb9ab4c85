"""Pass by keyword what the program passed so: `attend(q, k, mask=mask)`.

Functions have parameters that the program's do not have (values from outside, numbers), and
others stand first; so it is done when all calls are written. Python wants what is passed by
position first: of the arguments behind the last one that a call of the program passes by
position, the first that is a keyword there begins the keywords. What has its default, and
was only passed since others stand behind it, is not passed any more.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from untrace.lifting.printing import Function
from untrace.lifting.recorded.unify.names import text_of
from untrace.optional import gives, optional
from untrace.recovery.record import Call, is_library
from untrace.syntax.names import identifier
from untrace.syntax.parsed import Edit, Parsed, Span, parsed

METHODS = (["self"], ["cls"])


def keywords_of(item: Call) -> dict[str, bool]:
    """Return which parameters of the user's function a call passes by keyword, or does not.

    Those that take their defaults are left out.
    """
    (body,) = item.bodies
    names = list(body.parameters)
    if is_library(body.code):
        return {}
    if item.spelling is None:
        return {identifier(name): False for name in names}
    n_given = item.spelling.n_positional + (names[:1] in METHODS)
    given = dict.fromkeys(names[:n_given], False)
    given |= dict.fromkeys(item.spelling.keywords, True)
    return {identifier(name): given[name] for name in names if name in given}


@optional(gives(None))
def give_keywords(function: Function, users: Sequence[Function]) -> None:
    """Let the calls of a function pass by keyword what the program's calls passed so.

    Args:
      users: All functions of the module.
    """
    if function.decorators or function.after or True not in function.keywords.values():
        return
    if any(one.stars or one.is_keyword for one in function.parameters):
        return
    defaults = {one.name: one.default for one in function.parameters}
    for user in users:
        if function.name not in text_of(user):
            continue
        read = parsed(text_of(user))
        if function.name not in read.bound():  # a variable there
            edits = _edits(function, defaults, read)
            user.lines = read.edited(edits).split("\n") if edits else user.lines


def _edits(
    function: Function, parameters: Mapping[str, str], read: Parsed
) -> list[Edit]:
    """List what changes in the calls of a function, which has these defaults."""
    edits: list[Edit] = []
    for call in _calls(function.name, read):
        names = list(parameters)[: len(call.args)]
        start = _first_keyword(names, function.keywords)
        is_starred = any(isinstance(one, ast.Starred) for one in call.args)
        if is_starred or start == len(names):
            continue
        defaults = [parameters[name] for name in names[:start]]
        texts = [read.source(argument) for argument in call.args[:start]]
        while texts and texts[-1] == defaults[len(texts) - 1]:
            texts.pop()
        pieces: list[str | Span] = []
        for argument in call.args[: len(texts)]:
            pieces += [", ", read.span(argument)]
        for argument, name in zip(call.args[start:], names[start:]):
            is_default = read.source(argument) == parameters[name]
            if name in function.keywords or not is_default:
                pieces += [f", {name}=", read.span(argument)]
        for argument in call.keywords:
            pieces += [", ", read.span(argument)]
        pieces[0] = str(pieces[0]).removeprefix(", ")
        edits.append(Edit(read.span(call), (f"{function.name}(", *pieces, ")")))
    return edits


def _calls(name: str, read: Parsed) -> Iterator[ast.Call]:
    for node in read.names():
        call = read.parent(node)
        if node.id == name and isinstance(call, ast.Call) and call.func is node:
            yield call


def _first_keyword(names: Sequence[str], keywords: Mapping[str, bool]) -> int:
    """Return the position of the first argument that is passed by keyword."""
    start = len(names)
    for position in range(len(names) - 1, -1, -1):
        is_keyword = keywords.get(names[position])
        if is_keyword is False:
            break
        start = position if is_keyword else start
    return start
