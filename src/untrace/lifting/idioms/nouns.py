"""Nouns for the results of lines, where the user's files name them not."""

from __future__ import annotations

import re

from untrace.ir import Equation
from untrace.lifting.names.naming import result_name
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
    "conv_general_dilated": "convolved",
    "reduce_window": "pooled",
    "dot_product_attention": "attended",
    "pad": "padded",
    "tile": "tiled",
    "roll": "rolled",
    "flip": "flipped",
    "argsort": "order",
    "convolve": "convolved",
}
_CALL = re.compile(r"(?:[\w.]+\.|^)([a-z]\w*)\(")


def noun(text: str, root: Equation) -> str:
    """Name the results of a line in the place of equations that end in a root."""
    if ".at[" in text:
        return "updated"
    called = _CALL.match(text) or re.match(r"v\d+\.(\w+)\(", text)
    if called is None:
        is_index = re.fullmatch(r"v\d+\[.*\]", text)
        return "part" if is_index else result_name(root)
    return identifier(NOUNS.get(called[1], called[1]), "value")
