"""Say of a reduced program which equation fails, whence it comes, and what is usual there.

The lines of the original survive every edit: equations are bound as they stood. The
traps and their mends are those of `untrace.nan_origin`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.interpreters.nans.traps import Evidence, explain
from untrace.interpreters.places import Origin, origin_of
from untrace.ir import Atom, Block, Equation, Literal
from untrace.reduction.applying import program_from
from untrace.reduction.keeping.base import Blamed
from untrace.reduction.program import Program, sub_blocks


def explanation(program: Program, blamed: Blamed | None) -> list[str]:
    """Return sentences about the equation that makes the first bad value.

    Args:
      program: The reduced program.
      blamed: The primitive to blame, there or in its gradient; nothing is said without
        one.

    Returns:
      Which equation it is, counted from 0 with those of sub-programs, the line of the
      original that it comes from, and for a classic trap what happens and how it is
      usually mended. Nothing if several equations may be meant, or none.
    """
    if blamed is not None and blamed.under == "grad":
        gradient = _gradient_of(program)
        return (
            []
            if gradient is None
            else explanation(gradient, Blamed(blamed.primitive, None))
        )
    found = _blamed(program, blamed)
    if found is None:
        return []
    number, total, eqn, original = found
    origin = origin_of(original, ())
    lines = [f"Made by equation {number} of {total}, `{eqn.name}`{_place(origin)}."]
    evidence = Evidence(
        eqn.name,
        tuple(_value(program, atom) for atom in eqn.operands),
        origin.calls,
        origin.is_derivative,
        is_difference=False,
    )
    trap = explain(evidence)
    if trap is not None:
        lines += [f"Why: {trap.why}", f"Usual mend: {trap.mend}"]
    return lines


def is_of_derivative(program: Program, blamed: Blamed | None) -> bool:
    """Whether the equation to blame is one that differentiation made."""
    found = _blamed(program, blamed)
    return found is not None and origin_of(found[3], ()).is_derivative


def _blamed(
    program: Program, blamed: Blamed | None
) -> tuple[int, int, Equation, Any] | None:
    """Return the number of the equation to blame, of how many, and the equation twice."""
    if blamed is None or blamed.under is not None:
        return None
    everything = list(_numbered(program.block, program.block.jaxpr))
    found = [
        item for item in enumerate(everything) if item[1][0].name == blamed.primitive
    ]
    if len(found) != 1:
        return None
    number, (eqn, original) = found[0]
    return number, len(everything), eqn, original


def _gradient_of(program: Program) -> Program | None:
    """Return the program that is run under `jax.grad`; None if it cannot be traced."""
    function = jaxapi.as_function(program.block.jaxpr)
    floats = [
        i
        for i, value in enumerate(program.block.inputs)
        if jnp.issubdtype(value.aval.dtype, jnp.inexact)
    ]

    def total(*args: Any) -> Any:
        return sum(
            jnp.sum(jnp.real(x))
            for x in function(*args)
            if jnp.issubdtype(x.dtype, jnp.inexact)
        )

    try:
        jaxpr = jax.make_jaxpr(jax.grad(total, floats))(*program.values)
        return program_from(jaxpr, program.values, program.names, program.name)
    except Exception:  # an explanation is not worth a failure
        return None


def _numbered(block: Block, jaxpr: Any) -> Iterator[tuple[Equation, Any]]:
    """List the equations of a block, sub-programs in place, with those of JAX."""
    plain = jaxapi.split_jaxpr(jaxpr)[0]
    for eqn, original in zip(block.equations, plain.eqns):
        yield eqn, original
        for inner in sub_blocks(eqn):
            yield from _numbered(inner, inner.jaxpr)


def _place(origin: Origin) -> str:
    if not origin.file:
        return ""
    return f", from {origin}: {origin.text}" if origin.text else f", from {origin}"


def _value(program: Program, atom: Atom) -> float | None:
    """Return the number that an operand is; None if it is not one, or not known."""
    if isinstance(atom, Literal):
        held = atom.value
    else:
        held = dict(zip(program.block.inputs, program.values)).get(atom)
    if held is None or jaxapi.is_key_array(held) or np.size(held) != 1:
        return None
    array = np.asarray(held)
    if jaxapi.dtype_kind(array.dtype) != "floating":
        return None
    return float(array.astype(np.float64).reshape(-1)[0])
