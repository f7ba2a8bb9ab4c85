"""Unpack the parameters that the user's function unpacks: `w, b = params["dense"]`."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Any

from untrace.lifting.recorded.naming.values import is_array
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Names, Statement
from untrace.lifting.recorded.writer import Writer
from untrace.recovery.record import Target
from untrace.recovery.unpacking import Unpacked, unpacked
from untrace.syntax.names import identifier


def unpack_parameters(
    values: Mapping[str, Any], code: types.CodeType, writer: Writer
) -> None:
    """Unpack the parameters that a function unpacks, and parts of them, with its names."""
    for one in unpacked(code):
        value = one.of(values.get(one.parameter))
        if is_array(value):
            writer.unpacked[id(value)] = one.target
        elif type(value) in (tuple, list) and len(value) == len(one.target):
            _unpack(value, values[one.parameter], one, writer)


def _unpack(value: Any, parameter: Any, one: Unpacked, writer: Writer) -> None:
    """Write `a, b = parameter[...]`; its parts are known by these names then."""
    *_, last = one.path or (None,)
    around = one._replace(path=one.path[:-1]).of(parameter)
    key = writer.values.key(around if isinstance(last, slice) else value)
    found = writer.values.find(key) if key is not None else None
    if found is None or id(found[0]) not in writer.owned:
        return
    name, path = found
    held = name.held if path or isinstance(last, slice) else value
    if held is None:
        return
    name.uses += 1
    whole = Term([Ref(name, path + _slice_text(last))])
    writer.values.forget(name)
    names = tuple([name_part(v, t, writer) for v, t in zip(value, one.target)])
    writer.values.define(held, name)
    writer.draft.statements.append(Statement(names, whole))


def _slice_text(key: Any) -> str:
    if not isinstance(key, slice):
        return ""
    ends = ["" if end is None else str(end) for end in (key.start, key.stop)]
    step = "" if key.step is None else f":{key.step}"
    return f"[{':'.join(ends)}{step}]"


def name_part(value: Any, target: Target, writer: Writer) -> Names:
    """Name a part of a parameter that is unpacked."""
    if (
        isinstance(target, tuple)
        and type(value) in (tuple, list)
        and len(target) == len(value)
    ):
        return tuple([name_part(v, t, writer) for v, t in zip(value, target)])
    hint = target if isinstance(target, str) else "value"
    name = Name(identifier(hint), hint != "_")
    writer.define(value, name)
    return name
