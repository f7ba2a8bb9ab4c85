"""Hints for names: what JAX kept of the user's names, else the primitive's noun."""

from __future__ import annotations

import functools

from untrace.ir import Block, Equation
from untrace.lifting.rules import NAMES
from untrace.syntax.names import identifier

_MEANINGLESS = frozenset(
    ["", "<lambda>", "<unnamed function>", "lambda", "unknown", "untraced"]
)


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
    return _noun(name)


def block_name(block: Block, default: str) -> str:
    """Return the name of the function that a block was traced from, if it had one."""
    debug = block.debug_info
    name = getattr(debug, "func_name", None) or ""
    if name in _MEANINGLESS or not name.isidentifier():
        return default
    return name


def input_hints(block: Block) -> list[str]:
    """Return a hint for each input: its argument path, else a letter-free default."""
    names = getattr(block.debug_info, "arg_names", None) or ()
    names = list(names)
    if len(names) != len(block.inputs):
        # jax keeps no names for hoisted constants, which come first.
        names = [""] * (len(block.inputs) - len(names)) + names[: len(block.inputs)]
    return [_path_hint(name or "") for name in names]


@functools.lru_cache(maxsize=4096)
def _path_hint(path: str) -> str:
    if not path or path.startswith("unknown") or path == "None":
        return "x"
    return identifier(path, "x")
