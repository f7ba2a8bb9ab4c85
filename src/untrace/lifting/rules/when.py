"""Preconditions of rules: small pure functions that look at one equation.

They name what makes the text of a rule trace to exactly that equation: operators
promote, broadcast and convert their operands unless these already agree.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.ir import Equation, Literal, Value

When = Callable[[Equation], bool]

INT32_MIN, INT32_END = -(2**31), 2**31

STANDARD_FLOATS = ("float32", "float64")
STANDARD_NUMBERS = ("int32", "int64", "uint32", "uint64", *STANDARD_FLOATS)
COMPLEX = ("complex64", "complex128")
FLOATS = ("bfloat16", "float16", *STANDARD_FLOATS)
INTEGERS = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]  # the 2- and 4-bit ones take part in no promotion


def all_of(*conditions: When) -> When:
    """Hold where every condition holds."""

    def hold(eqn: Equation) -> bool:
        for condition in conditions:  # noqa: SIM110  # `all` costs twice as much
            if not condition(eqn):
                return False
        return True

    return hold


def on_value(eqn: Equation) -> bool:
    """Hold where the first operand is a variable."""
    return type(eqn.operands[0]) is Value


def begins_unsigned(eqn: Equation) -> bool:
    """Hold where the first operand is no real number below zero, `-1.0` or `-0.0`."""
    atom = eqn.operands[0]
    if not isinstance(atom, Literal) or dtype_name(atom) not in FLOATS:
        return True
    return not np.signbit(np.float64(atom.value))


def states(*params: str) -> When:
    """Hold where the params are there and not None."""
    return lambda eqn: all(eqn.params.get(name) is not None for name in params)


def has(*params: str) -> When:
    """Hold where the params are there; JAX's own tests bind some without."""
    return lambda eqn: all(name in eqn.params for name in params)


def lacks(*params: str) -> When:
    """Hold where the params are None or not there."""
    return lambda eqn: all(eqn.params.get(name) is None for name in params)


def operands(n: int) -> When:
    """Hold where there are `n` operands."""
    return lambda eqn: len(eqn.operands) == n


def several(eqn: Equation) -> bool:
    """Hold where there is more than one operand."""
    return len(eqn.operands) > 1


def rank(n: int) -> When:
    """Hold where the first operand is a variable of `n` axes."""
    return lambda eqn: on_value(eqn) and len(shape_of(eqn)) == n


def of(*dtypes: str) -> When:
    """Hold where the first operand is a variable of one of these dtypes."""
    names = frozenset(dtypes)
    return lambda eqn: on_value(eqn) and dtype_name(eqn.operands[0]) in names


def shape_of(eqn: Equation) -> tuple[Any, ...]:
    """Return the shape of the first operand."""
    return tuple(eqn.operands[0].aval.shape)


def result_shape(eqn: Equation) -> tuple[Any, ...]:
    """Return the shape of the first result."""
    return tuple(eqn.result_avals[0].shape)


def dtype_name(atom: Any) -> str:
    """Return the name of an operand's dtype ("" where it has none)."""
    return _name_of(getattr(atom.aval, "dtype", None))


@functools.cache
def _name_of(dtype: Any) -> str:
    # numpy works the name out anew every time.
    return getattr(dtype, "name", "")


# ---- operators ---------------------------------------------------------------------


def alike(*dtypes: str) -> When:
    """Hold where operators take the operands as they are, and their dtype is listed.

    That is: same dtype and weak type, no axis to broadcast, a variable among them, and
    literals that a bare Python scalar gives back.
    """
    names = frozenset(dtypes)

    def agree(eqn: Equation) -> bool:
        atoms = eqn.operands
        if dtype_name(atoms[0]) not in names:
            return False
        first = atoms[0].aval
        is_weak = first.weak_type
        for atom in atoms[1:]:
            aval = atom.aval
            if aval.dtype != first.dtype or aval.weak_type != is_weak:
                return False
        if is_weak and first.dtype == bool:
            return False
        return _same_shapes(atoms) and _bare_literals(eqn)

    return agree


def value_first(*dtypes: str) -> When:
    """Hold where `alike` does and Python will not swap the operands."""
    return all_of(on_value, alike(*dtypes))


def _same_shapes(atoms: tuple[Any, ...]) -> bool:
    shapes = {tuple(atom.aval.shape) for atom in atoms}
    return len(shapes - {()}) <= 1


def _bare_literals(eqn: Equation) -> bool:
    literals = [atom for atom in eqn.operands if type(atom) is Literal]
    if len(literals) == len(eqn.operands):
        return False
    return not literals or all(_is_bare(literal, eqn) for literal in literals)


def _is_bare(literal: Literal, eqn: Equation) -> bool:
    """Whether a Python scalar next to a variable becomes this literal."""
    aval = literal.aval
    if not aval.weak_type and aval.sharding.mesh != jaxapi.scalar_mesh(eqn.context):
        return False
    if jnp.issubdtype(aval.dtype, jnp.integer):
        return INT32_MIN <= int(literal.value) < INT32_END
    return True


def converts(eqn: Equation) -> bool:
    """Hold for a conversion that `astype` makes of a variable in one equation.

    A scalar of a weak type may be a number of Python in the end, which has no methods:
    a literal that a derivative rule is given.
    """
    to_bool = getattr(eqn.params["new_dtype"], "name", "") == "bool"
    aval = eqn.operands[0].aval
    if not on_value(eqn) or (aval.weak_type and aval.shape == ()):
        return False
    return not (to_bool and dtype_name(eqn.operands[0]) in COMPLEX)


def default_integer() -> Any:
    """Return the dtype that `jnp` gives to integers under the current x64 setting."""
    return jax.dtypes.canonicalize_dtype(np.int64)


# ---- shapes ------------------------------------------------------------------------


def broadcasts_leading(eqn: Equation) -> bool:
    """Hold for a `broadcast_in_dim` that only adds axes in front."""
    shape, result = shape_of(eqn), result_shape(eqn)
    dims = tuple(eqn.params["broadcast_dimensions"])
    n_new = len(result) - len(shape)
    return (
        on_value(eqn)
        and dims == tuple(range(n_new, len(result)))
        and result[n_new:] == shape
    )


def expands(axis: int) -> When:
    """Hold for a `broadcast_in_dim` that only inserts an axis of size 1 at `axis`."""

    def inserts(eqn: Equation) -> bool:
        result = result_shape(eqn)
        if not on_value(eqn) or not axis < len(result) or result[axis] != 1:
            return False
        dims = tuple(i for i in range(len(result)) if i != axis)
        rest = result[:axis] + result[axis + 1 :]
        return tuple(eqn.params["broadcast_dimensions"]) == dims and rest == shape_of(
            eqn
        )

    return inserts


def fills(number: int, dtype: str) -> When:
    """Hold for a `broadcast_in_dim` of the strongly typed literal `number`."""
    bits = np.asarray(number, jnp.dtype(dtype)).tobytes()

    def is_number(eqn: Equation) -> bool:
        atom = eqn.operands[0]
        if (
            not isinstance(atom, Literal)
            or atom.aval.weak_type
            or dtype_name(atom) != dtype
        ):
            return False
        return np.asarray(atom.value).tobytes() == bits

    return is_number


def fills_literal(eqn: Equation) -> bool:
    """Hold for a `broadcast_in_dim` of a literal."""
    return isinstance(eqn.operands[0], Literal)


def keeps_size(eqn: Equation) -> bool:
    """Hold for a `reshape` of a variable that `jnp` takes too: it counts elements."""
    same_size = math.prod(shape_of(eqn)) == math.prod(result_shape(eqn))
    return on_value(eqn) and bool(same_size)


def reverses(eqn: Equation) -> bool:
    """Hold for the transposition of a matrix variable."""
    return on_value(eqn) and tuple(eqn.params["permutation"]) == (1, 0)


def is_not_identity(eqn: Equation) -> bool:
    """Hold for a permutation that moves an axis."""
    permutation = tuple(eqn.params["permutation"])
    return on_value(eqn) and permutation != tuple(range(len(permutation)))


def slices_only(axis: int) -> When:
    """Hold for a `slice` that keeps all axes but `axis` whole."""

    def keeps(eqn: Equation) -> bool:
        shape, params = shape_of(eqn), eqn.params
        if not axis < len(shape) or shape == result_shape(eqn):
            return False
        starts, limits = params["start_indices"], params["limit_indices"]
        strides = params["strides"] or (1,) * len(shape)
        if params["strides"] and strides[axis] == 1:
            return False
        whole = ((0, size, 1) for size in shape)
        return all(
            kept == whole_axis
            for i, (kept, whole_axis) in enumerate(
                zip(zip(starts, limits, strides), whole)
            )
            if i != axis
        )

    return keeps
