"""Hints for names: what JAX kept of the user's names, else the primitive's noun."""

from __future__ import annotations

import collections
import functools
import re
from dataclasses import dataclass

from untrace.ir import Block, Equation
from untrace.lifting.rules import NAMES
from untrace.optional import optional
from untrace.syntax.names import identifier, is_name

UNNAMED = "x"
"""The name of an input that has none."""

_MEANINGLESS = frozenset(
    ["", "<lambda>", "<unnamed function>", "lambda", "unknown", "untraced"]
)


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a function and its arguments, in the place of JAX's own record."""

    func_name: str
    arg_names: tuple[str, ...]


# Tuples that libraries pass arguments in: what they hold has names of its own.
_PACKED = re.compile(r"^\w*(?:\[\d+\])+\.(?=[A-Za-z])|^_\.(?=[A-Za-z])")


@functools.lru_cache(maxsize=4096)
def _noun(primitive: str) -> str:
    return identifier(NAMES.get(primitive, primitive).replace("-", "_"), "value")


def result_name(eqn: Equation) -> str:
    """Return a noun for the results of an equation."""
    name = eqn.name
    if name == "idiom":
        return eqn.params["noun"]
    if name == "jit":
        return _noun(str(eqn.params["name"]).strip("_<>"))
    if name == "custom_vmap_call" and isinstance(eqn.params.get("call"), Block):
        return _noun(block_name(eqn.params["call"], name).strip("_<>"))
    return _noun(name)


@optional(lambda block, default: default)
def block_name(block: Block, default: str) -> str:
    """Return the name of the function that a block was traced from, if it had one."""
    debug = block.debug_info
    name = getattr(debug, "func_name", None) or ""
    if name in _MEANINGLESS or not is_name(name):
        return default
    return name


@optional(lambda block: [UNNAMED] * len(block.inputs))
def input_hints(block: Block) -> list[str]:
    """Return a hint for each input: its argument path, else a letter-free default."""
    names = getattr(block.debug_info, "arg_names", None) or ()
    names = list(names)
    if len(names) != len(block.inputs):
        # jax keeps no names for hoisted constants, which come first.
        names = [""] * (len(block.inputs) - len(names)) + names[: len(block.inputs)]
    ways = [_suffixes(name or "") for name in names]
    counts = collections.Counter(suffix for way in ways for suffix in way)
    return [
        _path_hint(next((s for s in way if counts[s] == 1), path or ""))
        for way, path in zip(ways, names)
    ]


@functools.lru_cache(maxsize=4096)
def _suffixes(path: str) -> tuple[str, ...]:
    """List what may name a part of a tuple that a library packed, the shortest first.

    >>> _suffixes("carry[0][3].state.ys[0]")
    ('ys[0]', 'state.ys[0]')
    """
    packed = _PACKED.match(path)
    if packed is None:
        return ()
    rest = path[packed.end() :].split(".")
    ways = [".".join(rest[i:]) for i in range(len(rest) - 1, -1, -1)]
    return tuple([way for way in ways if not way.startswith("_")])


@functools.lru_cache(maxsize=4096)
def _path_hint(path: str) -> str:
    if not path or path.startswith("unknown") or path == "None":
        return UNNAMED
    return identifier(path, UNNAMED)
