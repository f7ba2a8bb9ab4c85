"""Kinds of operands: which orders of the inputs of a region are worth a try.

An idiom whose examples mix kinds (an array and an index, a mask and two arrays) takes
them in their places alone; elsewhere any order may be what was written.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from untrace.lifting.idioms.table import Idiom

KINDS = {"b": "bool", "i": "int", "u": "int"}


def kind_of(aval: Any) -> str:
    """Return the kind of a value: "key", "bool", "int" or "float"."""
    dtype = getattr(aval, "dtype", None)
    if dtype is None:
        return "float"
    if jnp.issubdtype(dtype, jax.dtypes.prng_key):
        return "key"
    return KINDS.get(dtype.kind, "float")


@functools.cache
def operand_kinds(idiom: Idiom) -> tuple[tuple[str, ...], ...]:
    """List the kinds of operands in the examples of an idiom; none if they are alike."""
    found = [tuple(map(_kind, ex.partition(";")[0].split())) for ex in idiom.examples]
    is_mixed = any(len(set(kinds)) > 1 for kinds in found)
    return tuple(dict.fromkeys(found)) if is_mixed else ()


def _kind(item: str) -> str:
    name = item.partition("[")[0].rstrip("*")
    if name in ("key", "bool"):
        return name
    return "int" if name[:1] in "iu" else "float"


def is_kind(found: str, wanted: str) -> bool:
    """Whether a value can stand where an example has one of a kind.

    Numbers of all kinds, and truth values, can be what floating point numbers are.
    """
    return found == wanted or (wanted == "float" and found != "key")
