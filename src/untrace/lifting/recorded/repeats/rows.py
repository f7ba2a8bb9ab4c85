"""Arrays that are unpacked into their rows: `a, b = array`.

JAX takes the rows of an array that Python iterates over one by one, some of them only
when they are needed. Unpacking takes all at once, which makes the same equations, and
perhaps dead ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace.lifting.recorded.naming.paths import singular
from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.terms import Name, Ref
from untrace.lifting.recorded.tree import Draft, Row, Statement
from untrace.optional import gives, optional
from untrace.recovery.record import Call, is_starred

MAX_ROWS = 8
_JAX = os.path.dirname(jax.__file__) + os.sep


def rows_at_once(item: Call, rest: Sequence[Call]) -> tuple[int, Sequence[Any]]:
    """Return the rows of an array that is unpacked at once, and how many calls took them."""
    if not isinstance(item.target, tuple) or not is_array(item.result) or not rest:
        return 0, ()
    has_star = any(map(is_starred, item.target))
    n = np.shape(item.result)[0] if has_star else len(item.target)
    if _takes(rest[0], "unstack", item.result) and len(rest[0].result) == n:
        return 1, rest[0].result
    rows = rest[:n]
    if len(rows) == n and all(
        _takes(row, "index_in_dim", item.result) and row.args[1] == i
        for i, row in enumerate(rows)
    ):
        return n, [row.result for row in rows]
    return 0, ()


def _takes(item: Call, name: str, array: Any) -> bool:
    """Whether a call is of a function of some name on an array."""
    called = getattr(item.function, "__name__", "")
    return called == name and bool(item.args) and item.args[0] is array


def is_iteration(item: Call) -> bool:
    """Whether a call takes all rows of an array, as iterating over it does."""
    return (
        item.spelling is None  # nobody wrote this call
        and bool(item.args)
        and _takes(item, "unstack", item.args[0])
        and item.args[1:] in ((), (0,))
        and not item.kwargs
        and 1 < len(item.result) <= MAX_ROWS
    )


def all_rows(item: Call, rest: Sequence[Call]) -> int:
    """Count the calls that take the rows of an array one after another, if they take all."""
    first = row_of(item)
    if first is None or first.index or not first.is_next or first.can_move:
        return 0
    others = rest[: first.length - 1]
    if not others or len(others) < first.length - 1 or first.length > MAX_ROWS:
        return 0
    found = [
        row_of(call)
        for call in others
        if call.args[:1] and call.args[0] is item.args[0]
    ]
    indices = [row.index for row in found if row is not None and row.is_next]
    return first.length if indices == [*range(1, first.length)] else 0


def row_hint(array: str) -> str:
    """Name a row of an array: `key` for `keys`."""
    hint = singular(array)
    return hint if hint != array else "row"


def row_of(item: Call) -> Row | None:
    """Return which row of an array a call takes, as iterating over it would."""
    if not item.args or not is_array(array := item.args[0]):
        return None
    if not _takes(item, "index_in_dim", array) or not np.shape(array):
        return None
    others = {**dict(zip(("index", "axis", "keepdims"), item.args[1:])), **item.kwargs}
    index = others.pop("index", None)
    if (
        type(index) is not int
        or others.pop("axis", 0) != 0
        or others.pop("keepdims", 1)
    ):
        return None
    is_linear = jnp.issubdtype(array.dtype, jnp.inexact)
    if others:
        return None
    return Row(index, np.shape(array)[0], not is_linear, _is_taken_by_jax(item))


def _is_taken_by_jax(item: Call) -> bool:
    """Whether JAX made a call, as it does when Python iterates over an array."""
    return item.place is not None and item.place.filename.startswith(_JAX)


@optional(gives(None))
def unpack_rows(draft: Draft) -> None:
    """Unpack the arrays of which nothing but their rows is used, each of them once."""
    _unpack_results(draft)
    arrays = {id(s.targets): s for s in draft.statements if isinstance(s.targets, Name)}
    rows: dict[int, list[Statement]] = {}
    for statement in draft.statements:
        refs = list(statement.term.refs()) if statement.row is not None else []
        if len(refs) == 1 and id(refs[0].name) in arrays and not refs[0].path:
            rows.setdefault(id(refs[0].name), []).append(statement)
    for key, found in rows.items():
        whole = arrays[key]
        names = _names_of_rows(whole, found, draft.statements)
        if names is not None:
            whole.whole, whole.targets = array_name(whole), names
            taken = {id(row) for row in found}
            draft.statements = [s for s in draft.statements if id(s) not in taken]


def array_name(statement: Statement) -> Name | None:
    """Return the name of an array, if a statement gives it one."""
    return statement.targets if isinstance(statement.targets, Name) else None


def _unpack_results(draft: Draft) -> None:
    """Write `key, key_2 = split(...)` for an array that is only unpacked."""
    made: dict[int, Statement] = {}
    kept: list[Statement] = []
    for statement in draft.statements:
        part = statement.term.ref
        ref = part.resolved() if type(part) is Ref else None
        whole = made.get(id(ref.name)) if ref is not None and not ref.path else None
        if whole is not None and isinstance(statement.targets, tuple):
            name = whole.targets
            if isinstance(name, Name) and name.uses == 1 and not name.captured:
                whole.whole, whole.targets = name, statement.targets
                continue
        if isinstance(statement.targets, Name) and not statement.is_effect:
            made[id(statement.targets)] = statement
        kept.append(statement)
    draft.statements = kept


def _names_of_rows(
    whole: Statement, rows: Sequence[Statement], statements: Sequence[Statement]
) -> tuple[Name, ...] | None:
    """Return the names of all rows of an array; None if it has to have one itself.

    The cotangents of rows are added in the order in which these are taken, so those
    that have any are not taken at another place, nor are some taken in vain.
    """
    name, length = whole.targets, rows[0].row.length if rows[0].row else 0
    assert isinstance(name, Name)
    if name.captured or name.uses != len(rows) or length > MAX_ROWS:
        return None
    hint = row_hint(name.hint)
    names = [Name(hint, False) for _ in range(length)]
    indices: list[int] = []
    can_move = True
    for statement in rows:
        row, target = statement.row, statement.targets
        if row is None or not isinstance(target, Name) or row.index in indices:
            return None
        indices.append(row.index)
        names[row.index] = target
        can_move = can_move and row.can_move
    first = next(i for i, s in enumerate(statements) if s is whole) + 1
    is_next = statements[first : first + length] == list(rows)
    if not can_move and not (is_next and indices == list(range(length))):
        return None
    for target in names:
        if not target.is_given:
            target.hint = hint
    return tuple(names)
