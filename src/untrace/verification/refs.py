"""Which mutable arrays two programs share.

A program that was written anew has mutable arrays of its own, which stand for those of
the original. One that both close over stands for itself: a write to it is seen by
others, so it is no other array of the same content.
"""

from __future__ import annotations

from typing import Any

from untrace import jaxapi


def shared_refs(first: Any, second: Any) -> set[int]:
    """The addresses of the mutable arrays that two jaxprs close over."""
    return _refs(first) & _refs(second)


def _refs(jaxpr: Any) -> set[int]:
    found: set[int] = set()
    stack, seen = [jaxpr], set[int]()
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        body, consts = jaxapi.split_jaxpr(item)
        found.update(id(const) for const in consts if isinstance(const, jaxapi.Ref))
        stack += jaxapi.sub_jaxprs(body)
    return found
