"""Types as they are printed: `f32[3,4]`, `key<fry>[]`, `Ref{f32[8]}`, `Tok`."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any

import jax.numpy as jnp
from jax.export import SymbolicScope

from untrace.jaxapi import FLOAT0, printed, shard_maps

_ARRAY = re.compile(
    r"(?P<weak>~?)(?P<dtype>\w+)(?:<(?P<mark>[^<>]*)>)?"
    r"\[(?P<shape>[^\[\]]*)\](?:\{(?P<note>[^{}]*)\})?"
)
_SHARDED = re.compile(r"([^,@()]+)(?:@(\w+|\([\w, ]+\)))?(?:,|\Z)")
_VARYING = re.compile(r"V:(\w+|\([\w, ]+\))|(\w+(?:,\w+)*)")  # 0.7 had no `V:`
_REFERENCE = re.compile(r"(?:Ref|AbstractRef)(?:<[^<>]*>)?\{(?P<content>.*)\}")
_SYMBOLIC = re.compile(r"(?:[A-Za-z_]\w{0,30}|\d{1,9}|\^[1-9]\b|[-+*(), ]){1,100}")
_SHORT = re.compile(r"(bf|f|i|u|c)(\d\w*)")
_ELEMENTS = re.compile(r"bool|(?:u?int|b?float|complex)\d[\da-z]*(?:_[\da-z]+)?")
_LONG = {"bf": "bfloat", "f": "float", "i": "int", "u": "uint", "c": "complex"}
_WIDE = re.compile(r":~?(?:f64|i64|u64|c128)\b")


def is_wide(text: str) -> bool:
    """Whether a text has types of 64 bits.

    >>> is_wide("{ lambda ; a:f64[]. let in (a,) }")
    True
    """
    return _WIDE.search(text) is not None


def dtype_named(name: str) -> Any:
    """Return the dtype of a name, short or long; None if there is none.

    >>> dtype_named("bf16"), dtype_named("int32")
    (dtype(bfloat16), dtype('int32'))
    """
    if name in ("float0", "V"):
        return FLOAT0
    short = _SHORT.fullmatch(name)
    name = _LONG[short[1]] + short[2] if short else name
    if not _ELEMENTS.fullmatch(name):  # NumPy understands much more
        return None
    try:
        return jnp.dtype(name)
    except TypeError:
        return None


class Types:
    """The types of one text, where symbols of one name are the same dimension."""

    def __init__(self, axes: Collection[str] = ()) -> None:
        """Know no type; `axes`: those of the mesh on whose devices the types are."""
        self._axes = axes
        self._known: dict[str, Any] = {}
        self._scope: Any = None

    def read(self, text: str) -> Any:
        """Return the aval that a text says.

        Raises:
          ValueError: If there is none; the message says what is not understood.
        """
        found = self._known.get(text)
        if found is None:
            found = self._known[text] = self._read(text)
        return found

    def _read(self, text: str) -> Any:
        if text == "Tok":
            return printed.TOKEN_TYPE
        reference = _REFERENCE.fullmatch(text)
        if reference:
            return printed.reference_type(self.read(reference["content"]))
        array = _ARRAY.fullmatch(text)
        if array is None:
            raise ValueError(f"`{text}` is no type that is known")
        note = array["note"] or ""
        is_weak = note in ("weak_type=True", "weak_type")
        axes = _VARYING.fullmatch(note) if self._axes and not is_weak else None
        if axes is None and note and not is_weak:
            raise ValueError(f"the mesh that `{text}` varies over is not printed")
        if array["dtype"] == "key":
            dtype = printed.key_dtype(array["mark"] or "")
        else:
            dtype = dtype_named(array["dtype"])
        if dtype is None:
            raise ValueError(f"there is no type of elements `{array['dtype']}`")
        is_weak = is_weak or bool(array["weak"])
        memory = "" if array["dtype"] == "key" else array["mark"] or ""
        try:
            written, _, named = array["shape"].partition(";")
            if named and not self._axes:
                raise ValueError(f"the mesh of `{named}` in `{text}` is not printed")
            text, parts = self._parts(written)
            shape = self.shape(text)
            found = printed.array_type(shape, dtype, is_weak, memory, parts)
            return found if axes is None else self._varying(found, axes[1] or axes[2])
        except KeyError:
            raise ValueError(f"there is no memory `{memory}`") from None

    def _parts(self, text: str) -> tuple[str, list[Any]]:
        """Return a shape without the axes that it is sharded over, and these."""
        if "@" not in text:
            return text, []
        sizes: list[str] = []
        parts: list[Any] = []
        for found in _SHARDED.finditer(text):
            sizes.append(found[1].strip())
            axes = tuple(re.findall(r"\w+", found[2] or ""))
            if not {*axes} <= {*printed.mesh_axes()}:
                raise ValueError(
                    f"the mesh that `[{text}]` is sharded over is not printed: enter "
                    "it by `jax.set_mesh` or `jax.sharding.use_abstract_mesh`"
                )
            parts.append(axes if len(axes) > 1 else axes[0] if axes else None)
        return ",".join(sizes), parts

    def _varying(self, aval: Any, text: str) -> Any:
        axes = [axis.strip() for axis in text.strip("()").split(",")]
        if not {*axes} <= {*self._axes}:
            raise ValueError(f"the mesh has no axes `{text}`")
        return shard_maps.varying(aval, axes)

    def shape(self, text: str) -> tuple[Any, ...]:
        """Return the dimensions that a text lists.

        Raises:
          ValueError: If it lists none.
        """
        items = [item.strip() for item in text.split(",")] if text.strip() else []
        if all(item.isdecimal() and len(item) < 20 for item in items):
            return tuple(map(int, items))
        if not _SYMBOLIC.fullmatch(text):
            raise ValueError(f"`[{text}]` is no shape")
        if self._scope is None:
            self._scope = SymbolicScope()
        return printed.symbolic_dimensions(text, self._scope)
