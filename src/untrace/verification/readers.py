"""Which operands of an equation are inputs of its sub-programs.

An input that no live equation of a sub-program reads is no part of the data flow, and
neither is the operand that it stands for: a loop may be given a constant of which only
dead code makes use.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from untrace import jaxapi


class Reader(NamedTuple):
    """Sub-programs of an equation that take some of its operands as they are.

    Attributes:
      param: The param that holds them.
      jaxprs: The sub-programs; each takes all of these operands, as its first inputs.
      first: The position of the first operand.
      n_operands: How many there are.
      counted: The param that says how many there are, if there is one.
      more: What else that param counts, if anything.
      placed: The param that says of each operand how it is spread over devices, if there
        is one: what is given twice is not the same inside.
      are_needed: Whether it counts that an operand is given, read or not: a function with
        derivative rules has no derivative by what it closes over.
    """

    param: str
    jaxprs: tuple[Any, ...]
    first: int
    n_operands: int
    counted: str = ""
    more: tuple[int, ...] = ()
    placed: str = ""
    are_needed: bool = False


def readers(eqn: Any) -> Iterator[Reader]:
    """Yield the readers of an equation without effects, if it has any."""
    params, name = eqn.params, jaxapi.primitive_name(eqn.primitive)
    if eqn.effects:  # some name the input that they are about by its number
        return
    if name == "while":
        n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
        yield Reader("cond_jaxpr", (params["cond_jaxpr"],), 0, n_cond, "cond_nconsts")
        body = (params["body_jaxpr"],)
        yield Reader("body_jaxpr", body, n_cond, n_body, "body_nconsts")
    elif name == "scan":
        n_consts, n_carry = jaxapi.scan_sizes(params)
        counted, more = "num_consts", (n_carry,)
        if counted not in params:
            counted = "ft_in"
            more = (jaxapi.flat_tree_sizes(params[counted]) or (0, n_carry))[1:]
        yield Reader("jaxpr", (params["jaxpr"],), 0, n_consts, counted, more)
    elif name == "cond":
        yield Reader("branches", tuple(params["branches"]), 1, len(eqn.invars) - 1)
    elif name in ("checkpoint", "remat2"):
        yield Reader("jaxpr", (params["jaxpr"],), 0, len(eqn.invars))
    elif name == "shard_map":
        n, specs = len(eqn.invars), params["in_specs"]
        if type(specs) is tuple and len(specs) == n:  # else it is not as JAX makes it
            yield Reader("jaxpr", (params["jaxpr"],), 0, n, placed="in_specs")
    elif name in ("custom_jvp_call", "custom_vjp_call"):
        function, n = (params["call_jaxpr"],), params["num_consts"]
        if type(n) is int:  # else it is not as JAX makes it
            yield Reader("call_jaxpr", function, 0, n, "num_consts", are_needed=True)
