"""What variables held before: the arrays whose sizes the caller's source took there."""

from __future__ import annotations

import ast
import types
from typing import Any

from untrace.recovery.expressions import is_local, static_value
from untrace.recovery.instructions import listing_of
from untrace.recovery.numbers import array_of
from untrace.recovery.record import Body, Call, Target
from untrace.recovery.targets import stored
from untrace.recovery.variables import Position, Variables, position_of, variable_of


def array_at(
    holder: ast.expr,
    frame: types.FrameType,
    body: Body,
    before: Variables | None,
) -> Any:
    """Return the array that a variable, or a part of what it holds, is or was.

    Args:
      holder: The expression in the source, which is read there.
      frame: That of the function, which is at a call.
      before: Its variables, if the expression stands before the call and not in it.
    """
    name = variable_of(holder)
    if not is_local(name, frame):
        return None
    is_once = before is None or len(before.stores.get(name, [])) == 1
    if is_once or _is_kept(name, holder, frame):
        return array_of(static_value(holder, frame))
    assert before is not None
    if not isinstance(holder, ast.Name):  # it may have had other parts
        return None
    return array_of(_held(name, position_of(holder), body, before))


def _is_kept(name: str, holder: ast.expr, frame: types.FrameType) -> bool:
    """Whether a variable has the value still that it had where the source reads it."""
    end = holder.end_lineno, holder.end_col_offset
    if end[0] is None or end[1] is None:
        return False
    listing = listing_of(frame.f_code)
    reads = listing.inside((position_of(holder), (end[0], end[1])))
    now = listing.index_at(frame.f_lasti)
    if not reads or reads[0] > now:
        return False
    between = listing.instructions[reads[0] + 1 : now]
    return not any(name in stored(one) for one in between)


def _held(name: str, position: Position, body: Body, variables: Variables) -> Any:
    """Return what a variable held at some position, if it is plain who gave it that."""
    places = [place for place in variables.stores.get(name, []) if place < position]
    if len(places) == 1 and name in body.parameters:
        return body.parameters[name]
    last = max(places, default=(0, 0))
    if not places or last in variables.turning:
        return None
    is_again = last in variables.looping  # the last turn gave it what it holds
    for call in reversed(body.calls) if is_again else body.calls:
        line = call.place.line if call.place else 0
        if last[0] <= line <= position[0] and _names(call.target, name):
            return _given(call, name)
    return None


def _names(target: Target, name: str) -> bool:
    return target == name or (type(target) is tuple and name in target)


def _given(call: Call, name: str) -> Any:
    """Return what a call gave a variable, among others if it was unpacked."""
    if type(call.target) is not tuple:
        return call.result
    result = call.result
    is_row = type(result) in (tuple, list) and len(result) == len(call.target)
    return result[call.target.index(name)] if is_row else None
