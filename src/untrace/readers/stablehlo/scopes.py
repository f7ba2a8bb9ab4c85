"""The names of `jax.named_scope` in the name stacks that JAX writes as locations."""

from __future__ import annotations

import functools
import re

_PLAIN = re.compile(r"[A-Za-z_][\w.-]*")
# What JAX's own control flow puts into name stacks.
_OF_JAX = {
    *("while", "body", "cond", "scan", "closed_call", "eval_jaxpr", "checkpoint"),
    *("remat", "custom_jvp_call", "custom_vjp_call", "rematted_computation", "jit"),
    *(
        "shard_map",
        "core_call",
        "pjit",
        "xla_call",
        "custom_vjp_call_jaxpr",
        "body_fun",
    ),
}
_BRANCH = re.compile(r"branch_\d+_fun|cond_\d+|body_\d+")


@functools.lru_cache(maxsize=4096)
def relative_scopes(path: str, outer: str) -> tuple[str, ...]:
    """Return the user's scopes of an operation that its surroundings do not have.

    >>> relative_scopes("jit(f)/tail/inner/mul", "jit(f)/tail/scan")
    ('inner',)
    """
    inside, around = _scopes(path), _scopes(outer)
    n = 0
    while n < min(len(inside), len(around)) and inside[n] == around[n]:
        n += 1
    return inside[n:]


def _scopes(path: str) -> tuple[str, ...]:
    """Return the plain names in a path, whose last part is the primitive."""
    parts = path.split("/")[:-1]
    return tuple(
        part
        for part in parts
        if _PLAIN.fullmatch(part)
        and part not in _OF_JAX
        and not _BRANCH.fullmatch(part)
    )
