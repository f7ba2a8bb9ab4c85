"""Caches of functions that keep tensors of a run: these have no value in another one."""

from __future__ import annotations

import functools
import gc
from collections.abc import Sequence
from typing import Any

MAX_DEPTH = 3  # of containers around a tensor: a result may be a tuple of lists
_CONTAINERS = (tuple, list, dict)
_CACHED = type(functools.cache(len))


def clear_caches(tensors: Sequence[Any]) -> None:
    """Clear the caches of `functools.lru_cache` that hold any of some tensors.

    Code of torch caches tables of positions so. The tensors of a run must not be given to
    the next one, nor to the user's own calls.
    """
    held: list[Any] = list(tensors)
    for _ in range(MAX_DEPTH):
        if not held:
            return
        own, around = {id(one) for one in held}, gc.get_referrers(*held)
        for holder in around:
            if type(holder) is _CACHED:
                holder.cache_clear()
        held = [h for h in around if type(h) in _CONTAINERS and id(h) not in own]
