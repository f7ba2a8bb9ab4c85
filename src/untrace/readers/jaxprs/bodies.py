"""The jaxprs in an equation that take its operands, and which results they give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from untrace.readers.jaxprs.syntax import (
    Block,
    Blocks,
    Call,
    Equation,
    Name,
    Printed,
    Raw,
)

CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "xla_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "call": "call_jaxpr",
    "remat_call": "call_jaxpr",
    "named_call": "call_jaxpr",
    "closed_call": "call_jaxpr",
    "core_closed_call": "call_jaxpr",
    "eval_jaxpr": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_jvp_call_jaxpr": "fun_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "custom_lin": "",
    "custom_vmap_call": "call",
}
"""Primitives that call one jaxpr with all their operands, and the param that holds it."""


class Body(NamedTuple):
    """A jaxpr in the params of an equation.

    Attributes:
      param: The name of the param.
      position: Which of several jaxprs in that param.
      operands: Which operands of the equation it is called with, in its order.
      first_result: Which result of it is the first of the equation, None if none is.
      carried: Where its inputs begin that its results become, None if it is no loop.
      stacked: Where its inputs begin that are items of operands, None if none are.
    """

    block: Block
    param: str
    position: int
    operands: Sequence[int]
    first_result: int | None = 0
    carried: int | None = None
    stacked: int | None = None

    def results(self, positions: Sequence[int]) -> list[int]:
        """Return which of its results some results of the equation are."""
        if self.first_result is None:
            return []
        return [self.first_result + i for i in positions]


def resolved(value: Any, shared: dict[str, Block]) -> Block | None:
    """Return the jaxpr that a value of a param is, or names."""
    if isinstance(value, Block):
        return value
    if isinstance(value, Printed):
        return value.block
    if value is None or isinstance(value, bool):  # as a function may be called
        return shared.get(str(value))
    return shared.get(value.text) if isinstance(value, Name | Raw) else None


def bodies(eqn: Equation, shared: dict[str, Block]) -> list[Body]:
    """List the jaxprs in an equation whose inputs are its operands."""
    params, operands = eqn.params, range(len(eqn.operands))
    name = eqn.primitive
    if name in CALLS:
        block = resolved(params.get(CALLS[name]), shared)
        return [] if block is None else [Body(block, CALLS[name], 0, operands)]
    if name == "cond":
        return _branches(params.get("branches"), operands[1:], shared)
    if name == "scan":
        block = resolved(params.get("jaxpr"), shared)
        split = scan_split(params)
        if block is None or split is None:
            return []
        return [Body(block, "jaxpr", 0, operands, 0, split[0], sum(split))]
    if name == "while":
        return _loop(params, operands, shared)
    return []


def _branches(value: Any, operands: Sequence[int], shared: Any) -> list[Body]:
    items = value.items if isinstance(value, Blocks) else ()
    found = [resolved(item, shared) for item in items]
    return [
        Body(block, "branches", i, operands)
        for i, block in enumerate(found)
        if block is not None
    ]


def _loop(params: dict[str, Any], operands: Sequence[int], shared: Any) -> list[Body]:
    test = resolved(params.get("cond_jaxpr"), shared)
    turn = resolved(params.get("body_jaxpr"), shared)
    n_test, n_turn = params.get("cond_nconsts"), params.get("body_nconsts")
    if test is None or turn is None:
        return []
    if not isinstance(n_test, int) or not isinstance(n_turn, int):
        return []
    carry = operands[n_test + n_turn :]
    of_turn = [*operands[n_test : n_test + n_turn], *carry]
    of_test = [*operands[:n_test], *carry]
    return [
        Body(turn, "body_jaxpr", 0, of_turn, 0, n_turn),
        Body(test, "cond_jaxpr", 0, of_test, None),
    ]


def scan_split(params: dict[str, Any]) -> tuple[int, int] | None:
    """Return how many constants and carried values a `scan` has."""
    n_consts, n_carry = params.get("num_consts"), params.get("num_carry")
    if isinstance(n_consts, int) and isinstance(n_carry, int):
        return n_consts, n_carry
    sizes = tree_sizes(params.get("ft_in"))
    return (sizes[0], sizes[1]) if sizes is not None and len(sizes) == 3 else None


def tree_sizes(value: Any) -> list[int] | None:
    """Return how many leaves the parts of a flat tree have, as jax 0.11 prints it.

    `((None, None), (), (None,))` has parts of two, none and one leaves. `RightsOnly` has
    those of its leaves that are printed as `Right(...)`.
    """
    parts: Any = value
    if isinstance(value, Call):
        tree = value.kwargs.get("tree")
        parts = tree.args[0] if isinstance(tree, Call) and tree.args else None
    if not isinstance(parts, tuple):
        return None
    items: Sequence[Any] = parts  # pyright: ignore[reportUnknownVariableType]
    return [len(_leaves(part)) for part in items]


def _leaves(value: Any) -> list[Any]:
    """List the leaves of a tree as it is printed."""
    if isinstance(value, Call):
        if value.name in ("Left", "Right"):
            return [value]
        if value.name == "RightsOnly":
            chosen = [leaf for arg in value.args for leaf in _leaves(arg)]
            return [
                leaf.args[0]
                for leaf in chosen
                if isinstance(leaf, Call) and leaf.name == "Right" and leaf.args
            ]
        if "vals" in value.kwargs:
            return list(value.kwargs["vals"])
        return [leaf for arg in value.args for leaf in _leaves(arg)]
    if isinstance(value, dict):
        entries: dict[Any, Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [leaf for entry in entries.values() for leaf in _leaves(entry)]
    is_node = isinstance(value, tuple | list) and not isinstance(value, Name)
    if is_node:
        items: Sequence[Any] = value  # pyright: ignore[reportUnknownVariableType]
        return [leaf for item in items for leaf in _leaves(item)]
    return [value]
