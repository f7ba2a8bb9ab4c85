"""Nouns for the results of lines, where the user's files name them not."""

from __future__ import annotations

import re

from untrace.ir import Block, Equation, Value
from untrace.lifting.idioms.printing import CALL
from untrace.lifting.naming import result_name
from untrace.lifting.source_names import inner_blocks
from untrace.syntax.names import identifier

NOUNS = {
    "where": "selected",
    "einsum": "product",
    "take": "taken",
    "take_along_axis": "picked",
    "asarray": "cast",
    "broadcast_to": "broadcast",
    "arange": "indices",
    "split": "part",
    "concatenate": "joined",
    "stack": "stacked",
    "sum": "total",
    "add_jaxvals": "cotangent",
    "max": "maximum",
    "min": "minimum",
    "clip": "clipped",
    "sigmoid": "gate",
    "reshape": "reshaped",
    "normal": "noise",
    "dynamic_slice_in_dim": "window",
    "astype": "cast",
    "dynamic_index_in_dim": "item",
    "abs": "magnitude",
}
_CALL = re.compile(r"(?:[\w.]+\.|^)([a-z]\w*)\(")


def nouns(block: Block) -> dict[Value, str]:
    """Name the results of the lines of a program and its sub-programs."""
    found: dict[Value, str] = {}
    seen: set[int] = set()
    stack = [block]
    while stack:
        block = stack.pop()
        if id(block) in seen:
            continue
        seen.add(id(block))
        for eqn in block.equations:
            if eqn.name == CALL:
                noun = _noun(eqn)
                found.update((v, noun) for v in eqn.results if v is not None)
        stack += inner_blocks(block)
    return found


def _noun(eqn: Equation) -> str:
    text: str = eqn.params["line"].text
    if ".at[" in text:
        return "updated"
    called = _CALL.match(text) or re.match(r"v\d+\.(\w+)\(", text)
    if called is None:
        is_index = re.fullmatch(r"v\d+\[.*\]", text)
        return "part" if is_index else result_name(eqn.params["equations"][-1])
    return identifier(NOUNS.get(called[1], called[1]), "value")
