"""Compute the equations of a program in another floating-point type.

The program stays the same, equation by equation, so that all its values can be compared:
numbers with a fraction are computed in the type that is asked for, integers, keys and
random bits stay as they are. Tracing the function anew in another type would draw other
random numbers, and may take another way through its code.

What is written in the program stays what it is: 0.1 in float32 is 0.1 rounded to float32.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace import jaxapi
from untrace.interpreters.called import Call
from untrace.interpreters.evaluate import Step, evaluate
from untrace.interpreters.sub_programs import is_entered, is_traced, split

NAMES = ("float16", "bfloat16", "float32", "float64")
_BITS = frozenset({"bitcast_convert_type", "nextafter"})
"""What is about the bits of a type: it is done in the program's own."""


class Precision:
    """Computes equations in a floating-point type; complex numbers are of two such.

    Args:
      name: One of `NAMES`.

    Attributes:
      kept: The primitives that could not be computed in that type.
      own: The floating-point types that the program has.
    """

    def __init__(self, name: str) -> None:
        self._dtype = jnp.dtype(name)
        is_wide = name == "float64"
        self._complex = np.dtype("complex128" if is_wide else "complex64")
        self.kept: dict[str, None] = {}
        self.own: set[str] = set()

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """Return the context in which arrays may have the type."""
        if self._dtype.itemsize == 8:
            return jax.enable_x64(True)
        return contextlib.nullcontext()

    def inputs(self, call: Call) -> list[Any]:
        """Return the inputs of a program in the type."""
        avals = jaxapi.split_jaxpr(call.jaxpr)[0].in_avals
        own = [_dtype_of(aval) for aval in avals]
        self._note(own)
        with self.context():
            return _cast(call.inputs, [self._of(dtype) for dtype in own])

    def __call__(self, step: Step, *operands: Any) -> Any:
        """Compute an equation that has no sub-programs of its own."""
        own = [_dtype_of(atom.aval) for atom in step.equation.invars]
        wanted = [self._of(dtype) for dtype in own]
        results = [_dtype_of(var.aval) for var in step.equation.outvars]
        self._note([*own, *results])
        made = None
        if step.name == "reduce_precision":
            made = _cast(operands, wanted)
        elif step.name not in _BITS and not _is_of_own_type(step):
            made = self._bound(step, _cast(operands, wanted))
        if made is None:
            made = _many(step, step.bind(*_cast(operands, own)))
        made = _cast(made, [self._of(dtype) for dtype in results])
        return made if step.primitive.multiple_results else made[0]

    @property
    def is_other(self) -> bool:
        """Whether the program has any other floating-point type than this one."""
        return bool(self.own - {self._dtype.name, self._complex.name})

    def _note(self, dtypes: Sequence[Any]) -> None:
        self.own.update(
            jnp.dtype(dtype).name
            for dtype in dtypes
            if dtype is not None and jnp.issubdtype(dtype, jnp.inexact)
        )

    def _bound(self, step: Step, operands: Sequence[Any]) -> Sequence[Any] | None:
        """Bind the primitive of a step to operands of the type; None if it has none such."""
        params = {key: self._param(value) for key, value in step.params.items()}
        primitive = step.primitive
        try:
            bound = primitive.get_bind_params(params)
            made = _many(step, primitive.bind(*operands, **bound))
            if not is_traced(made):
                jax.block_until_ready(made)
        except (TypeError, ValueError, NotImplementedError):
            if is_traced(operands):
                raise
            self.kept.setdefault(step.name)
            return None
        return made

    def _of(self, dtype: Any) -> Any:
        """Return the type in the place of another."""
        if dtype is None or not jnp.issubdtype(dtype, jnp.inexact):
            return dtype
        is_complex = jnp.issubdtype(dtype, jnp.complexfloating)
        return self._complex if is_complex else self._dtype

    def _param(self, param: Any) -> Any:
        is_type = isinstance(param, type) and issubclass(param, np.generic)
        if is_type or isinstance(param, np.dtype):
            return self._of(jnp.dtype(param))
        if jaxapi.is_jaxpr(param):
            return self._program(param)
        return param

    def _program(self, jaxpr: Any) -> Any:
        """Trace what a primitive computes with, such as the sum of a `reduce`."""
        body, _ = split(jaxpr)
        shapes = [
            jax.ShapeDtypeStruct(aval.shape, self._of(aval.dtype))
            for aval in body.in_avals
        ]

        def handler(step: Step, *operands: Any) -> Any:
            if is_entered(step.equation):
                return step(*operands)
            return self(step, *operands)

        made: Any = jax.make_jaxpr(lambda *xs: evaluate(jaxpr, xs, handler))(*shapes)
        is_open = body is jaxpr and split(made)[0] is not made
        return split(made)[0] if is_open else made


def _many(step: Step, made: Any) -> Sequence[Any]:
    return made if step.primitive.multiple_results else [made]


def _is_of_own_type(step: Step) -> bool:
    """Whether numbers are drawn, for which other types take other bits, or an array is
    written over, whose type is what it is."""
    avals = [atom.aval for atom in step.equation.invars]
    is_drawn = any(map(jaxapi.is_key, avals)) or step.name == "rng_uniform"
    return is_drawn or any(map(jaxapi.is_ref_aval, avals))


def _dtype_of(aval: Any) -> Any:
    return None if jaxapi.is_ref_aval(aval) else getattr(aval, "dtype", None)


def _cast(values: Sequence[Any], dtypes: Sequence[Any]) -> list[Any]:
    return [_as_type(value, dtype) for value, dtype in zip(values, dtypes)]


def _as_type(value: Any, dtype: Any) -> Any:
    is_number = isinstance(dtype, np.dtype) and dtype != jaxapi.FLOAT0
    if not is_number or getattr(value, "dtype", None) == dtype:
        return value
    return jnp.asarray(value, dtype)
