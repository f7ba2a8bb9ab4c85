"""Write the types of arrays for comments, if they are short."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from untrace import jaxapi
from untrace.lifting.recorded.naming.values import is_array, type_of
from untrace.optional import gives, optional

MAX_TYPES = 4


@optional(gives(""))
def signature_types(values: Sequence[Any], result: Any) -> str:
    """Write the types of parameters and result, if they are few."""
    texts = [short_types(value) for value in values]
    returned = short_types(result)
    if not texts or not all(texts) or not returned:
        return ""
    return f"{', '.join(texts)} -> {returned}"


@optional(gives(""))
def short_types(value: Any) -> str:
    """Write the type of an array, or of a short tuple of arrays."""
    if is_array(value):
        return jaxapi.short_type(type_of(value))
    if type(value) is tuple and 0 < len(value) <= MAX_TYPES:
        texts = [short_types(item) for item in value]
        return f"({', '.join(texts)})" if all(texts) else ""
    return ""
