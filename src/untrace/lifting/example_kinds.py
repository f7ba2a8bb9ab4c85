"""Arrays of a kind that a program may need, and how others of the kind are drawn.

Covariances and their triangular factors, orthogonal matrices, directions, probabilities
that sum to 1, one-hot rows, permutations, and labels of which none is missing: drawn number
by number they would be of no such kind, and what is finite would be NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from untrace.lifting.lifter import Lifter
from untrace.lifting.spelling.dtypes import spell_numpy_dtype

Array = np.ndarray[Any, np.dtype[Any]]

N_ORDERED = 5
"""Fewest elements that hardly are in order, or all different, by chance."""

MAX_ROWS = 512
"""Rows of a matrix beyond which it is not looked for positive definiteness."""

N_SAMPLES = 4
"""Samples for each row of a covariance."""

FAR = 3.0
"""Scales between a third and three are as good as 1."""

MISSING = 1e-3
"""Probability of a missing label that is as good as none."""


@dataclass(frozen=True, slots=True)
class Request:
    """What an array is drawn for.

    Attributes:
      shape: Its shape; sizes in it may have names.
      lifter: Spells shapes and dtypes.
    """

    shape: tuple[Any, ...]
    dtype: Any
    lifter: Lifter

    def text(self, extra: Sequence[int] = ()) -> str:
        """Write the shape, as NumPy takes it."""
        return self.shape_text((*self.shape, *extra))

    def shape_text(self, shape: Sequence[Any]) -> str:
        """Write a shape, as NumPy takes it."""
        return self.lifter.spell(shape[0] if len(shape) == 1 else tuple(shape))

    def dtype_text(self) -> str:
        """Write the dtype."""
        return spell_numpy_dtype(np.dtype(self.dtype), self.lifter.imports)

    @property
    def is_hidden(self) -> bool:
        """Whether what was passed must not show."""
        return self.lifter.options.anonymous

    def typed(self, drawn: str) -> str:
        """Write that what is drawn has the dtype."""
        return f"{drawn}.astype({self.dtype_text()})"


def floats_of_kind(values: Array, request: Request) -> str | None:
    """Write floats or complex numbers of a kind.

    Args:
      values: Arrays of that kind, stacked.
      request: What is drawn, like each of them.

    Returns:
      An expression; None if they are of no kind.
    """
    if not np.all(np.isfinite(values)):
        return None
    exact = values.astype(np.complex128 if values.dtype.kind == "c" else np.float64)
    tolerance = 10 * float(jnp.finfo(values.dtype).eps)
    drawn = next(
        (
            made
            for kind in _FLOATS
            if (made := kind(exact, tolerance, request)) is not None
        ),
        None,
    )
    return None if drawn is None else request.typed(drawn)


def integers_of_kind(values: Array, request: Request) -> str | None:
    """Write integers of a kind, as `floats_of_kind` does for floats."""
    shape, n_items = request.shape, values[0].size
    if n_items < N_ORDERED or not shape:
        return None
    low, high = int(values.min()), int(values.max())
    count = high - low + 1
    if low == 0 and count == shape[-1] >= N_ORDERED and _is_permuted(values):
        if len(shape) == 1:
            return request.typed(f"rng.permutation({request.text()})")
        drawn = f"rng.uniform(size={request.text()})"
        return request.typed(f"np.argsort({drawn}, axis=-1)")
    is_likely = count < 2 or count * (1 - 1 / count) ** n_items <= MISSING
    is_named = any(type(size) is not int for size in shape)
    if is_likely or is_named or any(len(np.unique(one)) != count for one in values):
        return None
    first = one_digit(low) if request.is_hidden else low
    begin = f"{first} + " if low else ""
    drawn = f"rng.permutation({begin}np.arange({n_items}) % {count})"
    if len(shape) > 1:
        drawn = f"np.reshape({drawn}, {request.text()})"
    return request.typed(drawn)


def number(value: float) -> str:
    """Write a number as short as it is."""
    return repr(value).removesuffix(".0")


def one_digit(value: int) -> int:
    """Round a whole number to its first digit, towards 0: an index stays in its array."""
    size = 10 ** (len(str(abs(value))) - 1)
    return value // size * size if value > 0 else -(-value // size * size)


def _is_permuted(values: Array) -> bool:
    return bool(np.all(np.sort(values, axis=-1) == np.arange(values.shape[-1])))


# ---- kinds of floats ----------------------------------------------------------------

Kind = Callable[[Array, float, Request], str | None]


def _covariance(value: Array, tolerance: float, request: Request) -> str | None:
    """A covariance, of some times as many samples as make it well-conditioned."""
    if not _is_square(request) or np.abs(value - _adjoint(value)).max() > (
        tolerance * np.abs(value).max()  # as symmetric as rounding leaves it
    ):
        return None
    try:
        np.linalg.cholesky(value)
    except np.linalg.LinAlgError:
        return None
    return _covariances(value, request)


def _factor(value: Array, tolerance: float, request: Request) -> str | None:
    """The triangular factor of a covariance."""
    del tolerance
    diagonal = np.diagonal(value, axis1=-2, axis2=-1) if _is_square(request) else -1
    if not np.all(np.isreal(diagonal) & (np.real(diagonal) > 0)):
        return None
    is_lower = not np.any(np.triu(value, 1))
    if is_lower == (not np.any(np.tril(value, -1))):
        return None  # or diagonal
    root = value if is_lower else _adjoint(value)
    drawn = f"np.linalg.cholesky({_covariances(root @ _adjoint(root), request)})"
    if is_lower:
        return drawn
    drawn = f"np.conj({drawn})" if value.dtype.kind == "c" else drawn
    is_matrix = len(request.shape) == 2
    return f"{drawn}.T" if is_matrix else f"np.swapaxes({drawn}, -1, -2)"


def _orthogonal(value: Array, tolerance: float, request: Request) -> str | None:
    if not _is_square(request) or value.dtype.kind == "c":
        return None
    product = value @ _adjoint(value)
    if np.abs(product - np.eye(value.shape[-1])).max() > 10 * tolerance:
        return None
    return f"np.linalg.qr(rng.normal(size={request.text()}))[0]"


def _one_hot(value: Array, tolerance: float, request: Request) -> str | None:
    del tolerance
    if len(request.shape) < 2 or value.shape[-1] < 2 or value.dtype.kind == "c":
        return None
    is_one = value == 1
    if not np.all((value == 0) | is_one) or not np.all(is_one.sum(-1) == 1):
        return None
    count = request.lifter.spell(request.shape[-1])
    rows = request.shape_text(request.shape[:-1])
    return f"np.eye({count})[rng.integers(0, {count}, size={rows})]"


def _probabilities(value: Array, tolerance: float, request: Request) -> str | None:
    """Numbers that sum to 1 along the last axis, or the first one of a matrix."""
    if value.dtype.kind == "c" or not request.shape or value.min() < 0:
        return None
    if _is_one(value.sum(-1), tolerance) and value.shape[-1] > 1:
        return _dirichlet(request, request.shape[:-1], request.shape[-1])
    is_matrix = len(request.shape) == 2 and request.shape[0] > 1
    if is_matrix and _is_one(value.sum(1), tolerance):
        return f"{_dirichlet(request, request.shape[1:], request.shape[0])}.T"
    return None


def _directions(value: Array, tolerance: float, request: Request) -> str | None:
    """Rows of the norm 1."""
    if value.dtype.kind == "c" or not request.shape or value.shape[-1] < 2:
        return None
    if not _is_one(np.linalg.norm(value, axis=-1), tolerance):
        return None
    rows = _dirichlet(request, request.shape[:-1], request.shape[-1])
    if value.min() >= 0:
        return f"np.sqrt({rows})"
    return f"(rng.choice([-1, 1], size={request.text()}) * np.sqrt({rows}))"


_FLOATS: tuple[Kind, ...] = (
    _one_hot,
    _covariance,
    _factor,
    _orthogonal,
    _probabilities,
    _directions,
)
"""A matrix of the first ones may be one of the others, too, and is no other."""


def _is_square(request: Request) -> bool:
    """Whether a square matrix is asked for, or some."""
    if len(request.shape) not in (2, 3):
        return False
    return 2 <= request.shape[-1] <= MAX_ROWS and request.shape[-1] == request.shape[-2]


def _is_one(value: Array, tolerance: float) -> bool:
    return bool(np.all(np.abs(value - 1) <= tolerance))


def _adjoint(value: Array) -> Array:
    return value.swapaxes(-1, -2).conj()


def _dirichlet(request: Request, rows: Sequence[Any], count: Any) -> str:
    size = f", size={request.shape_text(rows)}" if rows else ""
    return f"rng.dirichlet(np.ones({request.lifter.spell(count)}){size})"


def _covariances(value: Array, request: Request) -> str:
    """Write a covariance like a matrix, or some like several ones."""
    diagonal = np.real(np.diagonal(value, axis1=-2, axis2=-1))
    scale = float(np.sqrt(diagonal.mean()))
    is_unit = 1 / FAR < scale < FAR
    factor = "" if is_unit else f"scale={number(float(f'{scale:.0e}'))}, "
    rows = request.lifter.spell(request.shape[-1])
    n = request.shape[-1]
    times = rows if rows.isidentifier() else f"({rows})"
    samples = str(N_SAMPLES * n) if type(n) is int else f"{N_SAMPLES} * {times}"
    if value.dtype.kind == "c":  # real and imaginary parts
        drawn = f"rng.normal({factor}size=({rows}, {samples}, 2)).view(complex)[..., 0]"
    else:
        drawn = f"rng.normal({factor}size=({rows}, {samples}))"
    drawn = f"np.cov({drawn})"
    if len(request.shape) == 3:
        times = request.lifter.spell(request.shape[0])
        drawn = f"np.stack([{drawn} for _ in range({times})])"
    return drawn
