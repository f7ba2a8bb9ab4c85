"""Write recorded calls as the statements of a function, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax

from untrace.lifting.contexts import entered
from untrace.lifting.recorded.calls.rearranged import rearranges, write_rearranged
from untrace.lifting.recorded.calls.regions import write_call
from untrace.lifting.recorded.functions.library import skip_move
from untrace.lifting.recorded.naming.containers import Containers
from untrace.lifting.recorded.naming.unpacking import UnpackedInBody, name_part
from untrace.lifting.recorded.naming.values import hides_arrays
from untrace.lifting.recorded.repeats.rows import (
    all_rows,
    is_iteration,
    row_hint,
    rows_at_once,
)
from untrace.lifting.recorded.terms import Name
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.writer import Writer
from untrace.progress import tick
from untrace.recovery.record import Call, Target, regrouped


def write_body(calls: Sequence[Call], writer: Writer) -> None:
    """Write recorded calls, in order, under the settings that they were made under."""
    rest, written = list(calls), writer.draft.statements
    containers = Containers(calls, writer)
    containers.write(0)
    unpacked = UnpackedInBody(calls, writer)
    unpacked.write(0, 0)
    n_done = 0
    while rest:
        setting, first = rest[0].setting, len(written)
        _write_next(rest, writer)
        n_before, n_done = n_done, len(calls) - len(rest)
        unpacked.write(n_before, n_done)
        containers.write(n_done)
        items = entered(setting, writer.setting, writer.program.lifter)
        for statement in written[first:]:
            if statement.context is None:  # no call inside this one has said it
                statement.context = items


def _write_next(rest: list[Call], writer: Writer) -> None:
    """Write the first of the calls that are left, and those that belong to it."""
    taken = _rows_of_parameter(rest, writer)
    if taken:
        del rest[:taken]
        return
    item = rest.pop(0)
    n_calls, rows = rows_at_once(item, rest)
    if n_calls:
        del rest[:n_calls]
        if item.is_own:  # which makes the array, and not its rows
            _write_statement(item, writer)
            _unpack(item.result, rows, item.target, writer)
        else:
            with writer.program.seen_from(item):
                writer.as_made(replace(item, result=tuple(rows)))
    elif is_iteration(item):
        _unpack_nameless(item, writer)
    elif n_rows := all_rows(item, rest):
        taken = [item, *rest[: n_rows - 1]]
        del rest[: n_rows - 1]
        whole = writer.value(item.args[0])
        names = [writer.forms.targets(c.result, c.target, c, writer) for c in taken]
        writer.draft.statements.append(Statement(tuple(names), whole))
    else:
        _write_statement(item, writer)


def _rows_of_parameter(rest: Sequence[Call], writer: Writer) -> int:
    """Write `a, b = x` for a parameter; return how many calls took its rows."""
    if not writer.unpacked or not rest or not rest[0].args:
        return 0
    array = rest[0].args[0]
    target = writer.unpacked.get(id(array))
    if target is None:
        return 0
    whole = replace(rest[0], target=target, result=array)
    n_calls, rows = rows_at_once(whole, rest)
    if n_calls:
        _unpack(array, rows, target, writer)
    return n_calls


def _unpack(array: Any, rows: Sequence[Any], target: Target, writer: Writer) -> None:
    """Write `a, b = array`, with the names that the caller gave to the rows."""
    assert isinstance(target, tuple)
    taken = zip(regrouped(rows, target), target)
    names = tuple([name_part(row, name, writer) for row, name in taken])
    writer.draft.statements.append(Statement(names, writer.value(array)))


def _unpack_nameless(item: Call, writer: Writer) -> None:
    """Write `row, row_2 = array` where Python took the rows without naming them."""
    whole = writer.value(item.args[0])
    hint = row_hint(next((ref.name.hint for ref in whole.refs()), ""))
    names = tuple([Name(hint) for _ in item.result])
    for row, name in zip(item.result, names):
        writer.define(row, name)
    statement = Statement(names, whole)
    if len(whole.tokens()) == 1:  # a loop may take the rows of what it is
        statement.whole = Name("rows", folded=whole)
    writer.draft.statements.append(statement)


def _write_statement(item: Call, writer: Writer) -> None:
    """Write one recorded call, if it makes anything that has no name yet."""
    if rearranges(item):
        write_rearranged(item, writer)
        return
    program = writer.program
    is_opened = _is_object_map(item)
    is_opened |= item.is_own and program.is_dissolved(item)
    if (
        not is_opened
        and not writer.is_new(program.plan.shown(item).result)
        and not program.has_effects(item)
    ):
        return
    if skip_move(item, writer):
        return
    tick()
    with program.seen_from(item):
        write_call(item, writer)


def _is_object_map(item: Call) -> bool:
    """Whether a function was mapped that returned arrays in objects of its own."""
    is_map = item.function in (jax.tree.map, jax.tree_util.tree_map)
    return is_map and any(hides_arrays(run.result) for run in item.bodies)
