"""Keys of dicts that can be written, and how, and the accesses to parts of values.

They come back as what they are: strings and numbers, also NumPy's, and members of enums that
can be imported. NumPy is `np` in every file, and an enum has its own name there. A dict
with any other key is described as a NamedTuple of its entries.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from untrace.syntax.importable import is_importable
from untrace.syntax.names import RESERVED, is_name
from untrace.syntax.steps import Attribute, Path, Slice, Step
from untrace.syntax.text import quote

_PYTHON = frozenset({str, int, bool, float, bytes})
_NUMPY = frozenset(
    {np.str_, np.bool_, np.float16, np.float32, np.float64}
    | {np.dtype(code).type for code in np.typecodes["AllInteger"]}
)


def is_plain_key(key: Any) -> bool:
    """Whether a key of a dict can be written."""
    kind: type[Any] = type(key)
    if kind is tuple:
        return all(map(is_plain_key, key))
    if kind in _PYTHON or kind in _NUMPY:
        return not isinstance(key, (float, np.floating)) or not math.isnan(key)
    return isinstance(key, enum.Enum) and _is_plain_member(key)


def _is_plain_member(key: enum.Enum) -> bool:
    kind = type(key)
    return (
        is_importable(kind)
        and kind.__qualname__.partition(".")[0] not in RESERVED
        and kind.__members__.get(key.name) is key
    )


def quoted(key: Any) -> str:
    """Write a key for which `is_plain_key` holds."""
    kind: type[Any] = type(key)
    if kind is tuple:
        inner = ", ".join(map(quoted, key))
        return f"({inner},)" if len(key) == 1 else f"({inner})"
    if kind is str:
        return quote(key)
    if kind in _NUMPY:
        return f"np.{kind.__name__}({quoted(key.item())})"
    if isinstance(key, enum.Enum):
        return _member(key)
    if kind is float and math.isinf(key):
        return 'float("inf")' if key > 0 else 'float("-inf")'
    if kind in _PYTHON:
        return repr(key)
    raise TypeError(f"a key of type {kind.__qualname__} cannot be written")


def _member(key: enum.Enum) -> str:
    kind, name = type(key), key.name
    if is_name(name) and getattr(kind, name, None) is key:
        return f"{kind.__qualname__}.{name}"
    return f"{kind.__qualname__}[{quote(name)}]"


def spelled(path: Path) -> str:
    """Write the access to a part of a value.

    >>> spelled((Item("w"), Item(0), Attribute("b"), Slice(1)))
    '["w"][0].b[1:]'
    """
    return "".join(map(_access, path))


def _access(step: Step) -> str:
    if isinstance(step, Attribute):
        return f".{step.word}"
    if isinstance(step, Slice):
        ends = [step.start, step.stop, *([] if step.step is None else [step.step])]
        return f"[{':'.join('' if end is None else str(end) for end in ends)}]"
    return f"[{quoted(step.key)}]"


def enums_of(key: Any) -> Iterator[type[enum.Enum]]:
    """Yield the enums that a key is a member of."""
    if type(key) is tuple:
        for part in key:  # pyright: ignore[reportUnknownVariableType]
            yield from enums_of(part)
    elif isinstance(key, enum.Enum):
        yield type(key)
