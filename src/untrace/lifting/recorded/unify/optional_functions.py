"""Functions that are alike but for one step, which uses what only some take, become one.

`dense(p, x, jax.nn.relu)` and `dense_2(p, x)`, whose author passes `act=None` for the
latter, are written as he wrote them: the parameter is None unless it is given. So are
`norm(x, scale, bias)` and `norm_2(x, scale)`, which adds none.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from untrace.lifting.heads import Parameter
from untrace.lifting.printing import INDENT, Function
from untrace.lifting.recorded.unify.calls import Argument, Named, rewrite_calls
from untrace.lifting.recorded.unify.keys import alike
from untrace.lifting.recorded.unify.names import (
    body_of,
    by_stem,
    close_gaps,
    names_of_parameters,
    rename,
)
from untrace.optional import gives, optional
from untrace.parsing import walk
from untrace.syntax.parsed import Parsed, Span


@optional(gives(None))
def merge_optional(functions: list[Function], main: Function) -> None:
    """Merge the functions of a module that apply others with those that apply fewer."""
    before = [function.name for function in functions]
    for group in by_stem(functions).values():
        sizes = {one: len(one.parameters) for one in group}
        for full in sorted(group, key=lambda one: -sizes[one]):
            fewer = [one for one in group if sizes[one] < sizes[full]]
            plain = [one for one in fewer if one in functions]
            if plain and full in functions:
                _merge(full, plain, functions, main)
    left = {function.name for function in functions}
    close_gaps([*functions, main], [name for name in before if name not in left])


@dataclass(frozen=True, slots=True)
class _Use:
    """The only statement that uses a parameter: its line, and what may stand there.

    Attributes:
      index: The line.
      before: What comes before the parameter is used,
      guard: and using it if it is given.
      without: What a function does that has no such parameter.
    """

    index: int
    before: Sequence[str]
    guard: Sequence[str]
    without: Sequence[str]

    @property
    def guarded(self) -> Sequence[str]:
        """The lines that use the parameter if it is given."""
        return [*self.before, *self.guard]


def _merge(
    full: Function, group: Sequence[Function], functions: list[Function], main: Function
) -> None:
    """Let a function be those of a group, too, that lack some of its parameters."""
    uses = {
        one.name: use
        for one in full.parameters
        if one.is_plain and (use := _use(full.lines, one.name)) is not None
    }
    lacking = [(one, _lacking(full, one, uses)) for one in group]
    found = [(one, names) for one, names in lacking if names]
    while found and not _may_lack(full, {n for _, names in found for n in names}):
        first = min((names for _, names in found), key=lambda n: _places(full, n))
        found = [(one, names) for one, names in found if names != first]
    users = [*functions, main]
    found = [
        (one, names)
        for one, names in found
        if _rewrite_calls(one, full, names, [u for u in users if u is not one])
    ]
    optional_ = {name for _, names in found for name in names}
    if not optional_:
        return
    full.lines = _with(full.lines, {uses[n].index: uses[n].guarded for n in optional_})
    full.parameters = tuple(
        [
            one._replace(default="None") if one.name in optional_ else one
            for one in full.parameters
        ]
    )
    full.comment = ""
    for one, _ in found:
        full.agree(one)
        functions.remove(one)
    old, full.name = full.name, min([full.name, *[o.name for o, _ in found]], key=len)
    rename([*functions, main], old, full.name)


def _lacking(
    full: Function, plain: Function, uses: Mapping[str, _Use]
) -> tuple[str, ...]:
    """Return the parameters that a function lacks which is another one without them."""
    if any(f.decorators or f.after or f.signature for f in (full, plain)):
        return ()
    shared = plain.parameters
    names = tuple([one.name for one in full.parameters if one not in shared])
    if tuple([one for one in full.parameters if one in shared]) != shared:
        return ()
    if not all(name in uses for name in names):
        return ()
    lines = _with(full.lines, {uses[name].index: uses[name].without for name in names})
    return names if lines == plain.lines else ()


def _with(lines: Sequence[str], others: Mapping[int, Sequence[str]]) -> list[str]:
    """Return lines with others in some places."""
    parts = [others.get(index, [line]) for index, line in enumerate(lines)]
    return [line for part in parts for line in part]


def _places(full: Function, names: Sequence[str]) -> list[int]:
    parameters = names_of_parameters(full)
    return [parameters.index(name) for name in names]


def _may_lack(full: Function, names: set[str]) -> bool:
    """Whether all parameters from the first of some on may have defaults."""
    first = min(_places(full, [*names]))
    return all(one.name in names or one.default for one in full.parameters[first:])


def _rewrite_calls(
    plain: Function, full: Function, names: Sequence[str], users: Sequence[Function]
) -> bool:
    """Let calls of a function be those of another one that has more parameters.

    What comes after one that is not given is passed by its name.

    Returns:
      Whether that was possible; nothing was changed if not.
    """
    shared = names_of_parameters(plain)
    n_before = min(_places(full, names))
    if len(shared) <= n_before:  # a call or not: the other one takes the same
        rename(users, plain.name, full.name)
        return True

    def change(
        _: str, arguments: Sequence[Span], text: Parsed
    ) -> tuple[str, Sequence[Argument]]:
        later = map(Named, shared[n_before:], arguments[n_before:])
        return full.name, [*arguments[:n_before], *later]

    return rewrite_calls(users, frozenset({plain.name}), change)


def _use(lines: Sequence[str], name: str) -> _Use | None:
    """Return the only statement that uses a parameter; None if it cannot be left out.

    >>> _use(["y = x + 1", "return f(y)"], "f")
    _Use(index=1, before=[], guard=['return y if f is None else f(y)'], without=['return y'])
    >>> _use(["y = x @ w + b", "return y"], "b").guarded
    ['y = x @ w', 'if b is not None:', '    y = y + b']
    >>> _use(["y = jnp.where(mask, y, 0)", "return y"], "mask")
    _Use(index=0, before=[], guard=['if mask is not None:', '    y = jnp.where(mask, y, 0)'], without=[])
    """
    body = body_of(Function("", (), [*lines]))
    used = [node for node in body.names() if node.id == name]
    if len(used) != 1:
        return None
    around = [*body.around(used[0])]
    statement = next(one for one in around if isinstance(one, ast.stmt))
    left = _left_without(used[0], around[0])
    index = statement.lineno - 1
    start = " " * (len(lines[index]) - len(lines[index].lstrip()))
    match statement:
        case ast.Return() if statement is around[1] and type(left) is ast.Name:
            without = f"{start}return {left.id}"
            given = f"{without} if {name} is None else {body.source(around[0])}"
            return _Use(index, [], [given], [without])
        case ast.Assign(targets=[ast.Name(id=target)], value=value):
            if value is around[0] and left is not None:
                rest = body.source(left)
                before = [] if rest == target else [f"{start}{target} = {rest}"]
                applied = _applied(value, left, target)
            elif any(type(n) is ast.Name and n.id == target for n in walk(value)):
                before, applied = [], body.source(value)
            else:
                return None
            if not before and [statement] == getattr(
                body.parent(statement), "body", []
            ):
                return None  # nothing would be left of a loop
            guard = [
                f"{start}if {name} is not None:",
                f"{start}{INDENT}{target} = {applied}",
            ]
            return _Use(index, before, guard, before)
        case _:
            return None


def _left_without(used: ast.Name, around: ast.AST) -> ast.expr | None:
    """What is left of an expression where a function is not applied, or a term is not there."""
    match around:
        case ast.Call(func=function, args=[argument], keywords=[]) if function is used:
            return None if isinstance(argument, ast.Starred) else argument
        case ast.BinOp(left=left, right=right):
            return left if right is used else right
        case _:
            return None


def _applied(value: ast.expr, left: ast.expr, target: str) -> str:
    """Write an expression with a variable in the place of what is left without a parameter."""
    variable = ast.Name(target)
    if isinstance(value, ast.Call):
        return ast.unparse(ast.Call(value.func, [variable], []))
    assert isinstance(value, ast.BinOp)
    is_first = value.left is left
    first, second = (variable, value.right) if is_first else (value.left, variable)
    return ast.unparse(ast.BinOp(first, value.op, second))


def give_none(group: Sequence[Function], users: Sequence[Function]) -> list[Function]:
    """Let functions that lack what others apply be given None, where they read other keys.

    All of them are alike then but for keys and numbers.

    Args:
      group: Functions of one name.
      users: All functions of the module.

    Returns:
      Those that are given None now; none if that cannot be done, and nothing is changed.
    """
    for full in sorted(group, key=lambda one: -len(one.parameters)):
        given = full.parameters if not (full.decorators or full.after) else ()
        for position, parameter in enumerate(given):
            name = parameter.name
            use = _use(full.lines, name) if parameter.is_plain else None
            if use is None:
                continue
            others = *given[:position], *given[position + 1 :]
            lines = _with(full.lines, {use.index: use.without})
            plain = [
                one
                for one in group
                if alike(one, replace(full, parameters=others, lines=lines))
            ]
            applying = [one for one in group if alike(one, full)]
            if plain and _let_pass_none(plain, position, users):
                for one in applying:
                    own = _use(one.lines, name)
                    assert own is not None
                    one.lines = _with(one.lines, {own.index: own.guarded})
                for one in plain:
                    _guard(one, use, name, position)
                return plain
    return []


def _let_pass_none(
    group: Sequence[Function], position: int, users: Sequence[Function]
) -> bool:
    """Let calls of functions pass None at a position; tell whether they can."""

    def change(
        name: str, arguments: Sequence[Span], _: Parsed
    ) -> tuple[str, Sequence[str | Span]] | None:
        if len(arguments) < position:
            return None
        return name, [*arguments[:position], "None", *arguments[position:]]

    return rewrite_calls(users, frozenset(one.name for one in group), change)


def _guard(function: Function, use: _Use, name: str, position: int) -> None:
    """Let a function have a parameter, and apply it if it is given, as another one does."""
    lines, index = function.lines, use.index
    before = lines[index : index + len(use.before)]
    rest = lines[index + len(use.without) :]
    function.lines = [*lines[:index], *before, *use.guard, *rest]
    given = function.parameters
    function.parameters = *given[:position], Parameter(name), *given[position:]
    function.comment = function.signature = ""
