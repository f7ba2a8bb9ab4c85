"""Values that are computed when somebody asks for them, each once.

Planning an inversion decides what *can* be known; a `Lazy` says how it would be computed.
What no result needs is never evaluated, so an inverse has no dead code. Evaluation keeps
its own stack, for programs may be deeper than Python's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np


class Lazy:
    """A value and how it is computed of others.

    Args:
      make: Computes it from the values of `needs`.
      needs: What it is computed from.
      is_static: Whether the value depends on constants of the program alone; by default
        if those that it needs do.
    """

    __slots__ = (
        "_concrete",
        "_elements",
        "_is_done",
        "_make",
        "_needs",
        "_value",
        "is_static",
    )

    def __init__(
        self,
        make: Callable[..., Any],
        needs: Sequence[Lazy] = (),
        is_static: bool | None = None,
    ) -> None:
        self._make = make
        self._needs = tuple(needs)
        self._is_done = False
        self._value: Any = None
        self._concrete: Any = None
        self._elements: Callable[[], Any] | None = None
        self.is_static = (
            all(each.is_static for each in self._needs)
            if is_static is None
            else is_static
        )

    @classmethod
    def of(cls, value: Any, is_static: bool = False) -> Lazy:
        """Return a value that is there already."""
        made = cls(lambda: value, (), is_static and not is_tracer(value))
        made._value, made._is_done = value, True
        return made

    @classmethod
    def like(cls, value: Any, other: Lazy) -> Lazy:
        """Return a value that stands for another `Lazy` inside of a traced body."""
        made = cls.of(value)
        if other.is_static:
            made.is_static, made._elements = True, other.concrete
        return made

    @property
    def value(self) -> Any:
        """The value."""
        stack: list[Lazy] = [self]
        while stack:
            top = stack[-1]
            missing = [each for each in top._needs if not each._is_done]
            if top._is_done or not missing:
                top._finish()
                stack.pop()
            else:
                stack += reversed(missing)
        return self._value

    def _finish(self) -> None:
        if not self._is_done:
            self._value = self._make(*[each._value for each in self._needs])
            self._is_done = True

    def concrete(self) -> np.ndarray[Any, Any] | None:
        """The elements of a static value, known while the program is planned, or None."""
        if not self.is_static:
            return None
        stack = [self]
        with jax.ensure_compile_time_eval():
            while stack:
                top = stack[-1]
                missing = [each for each in top._needs if each._concrete is None]
                if top._concrete is not None:
                    stack.pop()
                elif missing:
                    stack += missing
                else:
                    values = [each._concrete for each in top._needs]
                    made = top._elements() if top._elements else top._make(*values)
                    if made is None or is_tracer(made):
                        self.is_static = False
                        return None
                    top._concrete = made
                    stack.pop()
            return np.asarray(self._concrete)


def is_tracer(value: Any) -> bool:
    """Return whether a value is not known yet."""
    return isinstance(value, jax.core.Tracer)


def as_number(value: Any) -> Any:
    """Return a constant as the number of Python that a person would write, if it is one.

    Floats have the fewest digits that make them what they are: 0.1, not 0.10000000149.
    """
    if isinstance(value, (bool, int)) and type(value) not in (bool, int):
        return int(value)  # JAX's own class of integers with a dtype
    if not isinstance(value, (np.ndarray, np.generic)) or value.shape:
        return value
    if np.issubdtype(value.dtype, np.floating):
        return float(str(value.dtype.type(value)))
    if value.dtype.kind in "iu":
        return int(value)
    return value


def is_plain_scalar(one: Any, other: Any) -> bool:
    """Return whether one of two values is a constant of the type of the other, a tracer.

    If it is taken as a number, then operators make the same equation of them.
    """
    if is_tracer(other):
        one, other = other, one
    if not is_tracer(one) or is_tracer(other) or jnp.shape(other):
        return False
    dtype = getattr(other, "dtype", None)
    is_real = dtype is not None and jnp.issubdtype(dtype, jnp.floating)
    return is_real and one.aval.dtype == dtype and not one.aval.weak_type
