"""Inverses of linear maps and of factorizations of matrices.

A linear map that no rule here knows, or several equations that are linear together, are
solved as a system of linear equations (`inverting/affine.py`).
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from untrace.interpreters.evaluate import evaluate
from untrace.interpreters.inverse_rules.table import lost, solves
from untrace.interpreters.inverting.combinations import EVALUATED
from untrace.interpreters.inverting.step import WAITS, NotInvertible, Step


def log_abs_det(matrix: Any) -> Any:
    """Sum log |det| over a batch of matrices; twice if they are complex."""
    scale = 2 if jnp.iscomplexobj(matrix) else 1
    terms = jnp.sum(jnp.linalg.slogdet(solvable(matrix))[1])
    return terms if scale == 1 else scale * terms


def solvable(matrix: Any) -> Any:
    """Give a matrix the 32 bits that solvers need at least."""
    dtype = jnp.result_type(matrix, jnp.float32)
    return matrix if matrix.dtype == dtype else matrix.astype(dtype)


# ---- products ----------------------------------------------------------------------


@solves("dot_general", "the other operand is a matrix of full rank, not a wide one")
def _dot_general(step: Step) -> None:
    """Solve a product with a matrix for the vectors, whatever the axes are called."""
    y, i = step.needed_result(), step.only_unknown()
    if (EVALUATED, id(step.node)) in step.network.memory:
        raise NotInvertible("its result was computed of other elements")
    if not jnp.issubdtype(step.operands[i].aval.dtype, jnp.inexact):
        raise NotInvertible("matrices of whole numbers have no inverse in them")
    contract, batch = step.params["dimension_numbers"]
    known = step.operand(1 - i)
    assert known is not None
    x_shape, a_shape = step.operands[i].shape, step.operands[1 - i].shape
    x_contract, a_contract = list(contract[i]), list(contract[1 - i])
    x_batch, a_batch = list(batch[i]), list(batch[1 - i])
    x_free = [a for a in range(len(x_shape)) if a not in x_contract + x_batch]
    a_free = [a for a in range(len(a_shape)) if a not in a_contract + a_batch]
    sizes = [x_shape[a] for a in x_batch]
    n_unknown = math.prod(x_shape[a] for a in x_contract)
    n_known = math.prod(a_shape[a] for a in a_free)
    if n_known < n_unknown:
        raise NotInvertible(
            f"information lost: {n_unknown} numbers become {n_known} in the product"
        )
    is_square = n_known == n_unknown
    n_batch = len(sizes)
    # The result has the batch, then what is free of the left operand, then of the right.
    result_free = [len(x_free), len(a_free)] if i == 0 else [len(a_free), len(x_free)]
    first = list(range(n_batch, n_batch + result_free[0]))
    second = list(range(n_batch + result_free[0], n_batch + sum(result_free)))
    of_x, of_a = (first, second) if i == 0 else (second, first)
    order = [*range(n_batch), *of_a, *of_x]
    n_columns = math.prod(x_shape[a] for a in x_free)
    back = [*x_batch, *x_contract, *x_free]
    place = [back.index(axis) for axis in range(len(back))]
    made_shape = [x_shape[a] for a in back]

    def matrix(a: Any) -> Any:
        turned = jnp.transpose(a, (*a_batch, *a_free, *a_contract))
        return jnp.reshape(turned, (*sizes, n_known, n_unknown))

    def solved(y: Any, a: Any) -> Any:
        columns = jnp.transpose(y, order).reshape(*sizes, n_known, n_columns)
        columns, a = solvable(columns), solvable(matrix(a))
        if is_square:
            x = jnp.linalg.solve(a, columns)
        else:
            x = jnp.linalg.pinv(a) @ columns
        return jnp.transpose(x.reshape(made_shape), place)

    def log_det(x: Any, y: Any, a: Any) -> Any:
        exact = a.astype(jnp.result_type(a, x))  # products may be of mixed precision
        return -n_columns * log_abs_det(matrix(exact))

    step.solve(i, solved, y, known, log_det=log_det if is_square else None)


@solves("conv_general_dilated", "the kernel has one element in space, and full rank")
def _convolution(step: Step) -> None:
    """Solve a 1x1 convolution for its input; others are systems of linear equations."""
    y, params = step.needed_result(), step.params
    kernel = step.operand(1)
    if step.operands[0].is_known or kernel is None:
        raise NotInvertible("the kernel is not known")
    numbers = params["dimension_numbers"]
    k_shape, x_shape = step.operands[1].shape, step.operands[0].shape
    n_out, n_in = (k_shape[a] for a in numbers.rhs_spec[:2])
    plain = (
        all(k_shape[a] == 1 for a in numbers.rhs_spec[2:])
        and all(s == 1 for s in params["window_strides"])
        and all(d == 1 for d in params["lhs_dilation"])
        and all(p == (0, 0) for p in params["padding"])
        and params["feature_group_count"] == params["batch_group_count"] == 1
    )
    if not plain or n_in != n_out:
        raise NotInvertible("the convolution mixes positions, or changes the channels")
    n_positions = math.prod(x_shape) // n_in

    def matrix(kernel: Any) -> Any:
        return jnp.transpose(kernel, numbers.rhs_spec).reshape(n_out, n_in)

    def solved(y: Any, kernel: Any) -> Any:
        channels_last = jnp.moveaxis(y, numbers.out_spec[1], -1)
        inverse = jnp.linalg.inv(solvable(matrix(kernel)))
        x = jnp.moveaxis(channels_last @ inverse.T, -1, numbers.out_spec[1])
        spec = jnp.transpose(x, numbers.out_spec)  # batch, channels, space
        back = [numbers.lhs_spec.index(axis) for axis in range(len(x_shape))]
        return jnp.transpose(spec, back)

    step.solve(
        0,
        solved,
        y,
        kernel,
        log_det=lambda x, y, kernel: -n_positions * log_abs_det(matrix(kernel)),
    )


# ---- solvers -----------------------------------------------------------------------


@solves("triangular_solve", "the matrix is known")
def _triangular_solve(step: Step) -> None:
    y, a, params = step.needed_result(), step.operand(0), step.params
    if a is None or step.operands[1].is_known:
        raise NotInvertible("solving for the matrix of a system")
    unit = params["unit_diagonal"]
    n_columns = step.operands[1].shape[-1 if params["left_side"] else -2]

    def triangle(a: Any) -> Any:
        a = jnp.tril(a) if params["lower"] else jnp.triu(a)
        if unit:
            n = a.shape[-1]
            a = jnp.where(jnp.eye(n, dtype=bool), jnp.ones((), a.dtype), a)
        a = jnp.conj(a) if params["conjugate_a"] else a
        return jnp.swapaxes(a, -1, -2) if params["transpose_a"] else a

    def multiplied(y: Any, a: Any) -> Any:
        return triangle(a) @ y if params["left_side"] else y @ triangle(a)

    def log_det(x: Any, y: Any, a: Any) -> Any:
        diagonal = jnp.diagonal(a, axis1=-2, axis2=-1)
        scale = 2 if jnp.iscomplexobj(a) else 1
        return scale * n_columns * jnp.sum(jnp.log(jnp.abs(diagonal)))

    step.solve(1, multiplied, y, a, log_det=0.0 if unit else log_det)


@solves("custom_linear_solve", "the matrix is known")
def _linear_solve(step: Step) -> None:
    """Apply the map that was solved."""
    sizes = step.params["const_lengths"]
    n_consts, n_map = sum(sizes), sizes.matvec
    consts = step.needed_operands(range(n_map))
    matvec = step.params["jaxprs"].matvec
    ys = [step.needed_result(i) for i in range(len(step.results))]
    avals = [cell.aval for cell in step.results]

    def applied(*values: Any) -> list[Any]:
        return evaluate(matvec, [*values[len(ys) :], *values[: len(ys)]])

    def log_det(x: Any, *values: Any) -> Any:
        given = values[len(ys) :]
        zero = jnp.zeros(avals[0].shape, avals[0].dtype)
        matrix = jax.jacfwd(
            lambda v: evaluate(matvec, [*given, v])[0],
            holomorphic=jnp.iscomplexobj(zero),
        )(zero)
        return log_abs_det(matrix.reshape(zero.size, zero.size))

    for k in range(len(ys)):
        _solve_kth(step, n_consts + k, applied, k, [*ys, *consts], log_det)


def _solve_kth(
    step: Step, i: int, applied: Any, k: int, needs: list[Any], log_det: Any
) -> None:
    if not step.operands[i].is_known:
        is_only = len(step.results) == 1
        step.solve(
            i,
            lambda *values: applied(*values)[k],
            *needs,
            log_det=log_det if is_only else None,
        )


@solves("tridiagonal_solve", "the matrix is known")
def _tridiagonal_solve(step: Step) -> None:
    """Multiply with the matrix, whose first and last off-diagonal elements are unused."""
    below, diagonal, above = step.needed_operands(range(3))

    def product(y: Any, below: Any, diagonal: Any, above: Any) -> Any:
        here = diagonal[..., :, None] * y
        lower = below[..., 1:, None] * y[..., :-1, :]
        upper = above[..., :-1, None] * y[..., 1:, :]
        return here.at[..., 1:, :].add(lower).at[..., :-1, :].add(upper)

    step.solve(3, product, step.needed_result(), below, diagonal, above)


# ---- transforms --------------------------------------------------------------------


@solves("fft", "fft, ifft, and rfft of real numbers")
def _fft(step: Step) -> None:
    y, lengths = step.needed_result(), tuple(step.params["fft_lengths"])
    kind = str(getattr(step.params["fft_type"], "name", step.params["fft_type"]))
    axes = tuple(range(-len(lengths), 0))
    n = math.prod(lengths)
    count = step.operands[0].size
    if kind.endswith("IRFFT") or kind in ("3",):
        raise NotInvertible("information lost: imaginary parts that have no partner")
    if kind.endswith("IFFT") or kind in ("1",):
        log_det, inverse = count * math.log(n), jnp.fft.fftn
    elif kind.endswith("RFFT") or kind in ("2",):
        step.solve(0, lambda y: jnp.fft.irfftn(y, lengths, axes), y)
        return
    else:
        log_det, inverse = -count * math.log(n), jnp.fft.ifftn
    # n-dimensional transforms scale each of `count` complex numbers by sqrt(n).
    step.solve(0, lambda y: inverse(y, axes=axes), y, log_det=float(log_det))


# ---- factorizations ----------------------------------------------------------------

NOT_UNIQUE = {"qr", "eigh", "svd", "lu", "schur", "eig"}
"""Their factors can be scaled or exchanged: others make the same matrix."""


@solves("cholesky", "the matrix is taken to be symmetric")
def _cholesky(step: Step) -> None:
    """Multiply the factor out: its lower triangle, above which anything may stand."""
    result = step.results[0]
    if not (np.tril(~result.known()) == 0).all():
        raise NotInvertible(WAITS)

    def product(y: Any) -> Any:
        lower = jnp.tril(y)
        return lower @ jnp.conj(jnp.swapaxes(lower, -1, -2))

    step.solve(0, product, result.loose())


@solves("qr", "both factors are known")
def _qr(step: Step) -> None:
    if step.params.get("pivoting"):
        raise NotInvertible("the columns were exchanged")
    step.solve(0, jnp.matmul, step.needed_result(0), step.needed_result(1))


@solves("eigh", "values and vectors are known; the matrix is taken to be symmetric")
def solve_eigh(step: Step) -> None:
    """Multiply values and vectors out."""

    def product(v: Any, w: Any) -> Any:
        return (v * w[..., None, :]) @ jnp.conj(jnp.swapaxes(v, -1, -2))

    shapes = [len(cell.shape) for cell in step.results]
    v, w = (0, 1) if shapes[0] > shapes[1] else (1, 0)
    step.solve(0, product, step.needed_result(v), step.needed_result(w))


@solves("svd", "all factors are known")
def _svd(step: Step) -> None:
    if len(step.results) != 3:
        raise NotInvertible("information lost: only the singular values are left")

    def product(s: Any, u: Any, vh: Any) -> Any:
        n = s.shape[-1]
        return (u[..., :, :n] * s[..., None, :]) @ vh[..., :n, :]

    step.solve(0, product, *[step.needed_result(i) for i in range(3)])


@solves("lu", "both factors and the permutation are known")
def _lu(step: Step) -> None:
    shape = step.operands[0].shape

    def product(lu: Any, permutation: Any) -> Any:
        n = min(shape[-2:])
        lower = jnp.tril(lu[..., :, :n], -1) + jnp.eye(shape[-2], n, dtype=lu.dtype)
        rows = lower @ jnp.triu(lu[..., :n, :])
        back = jnp.argsort(permutation, axis=-1)
        return jnp.take_along_axis(rows, back[..., :, None], axis=-2)

    step.solve(0, product, step.needed_result(0), step.needed_result(2))


@solves("schur", "both factors are known")
def _schur(step: Step) -> None:
    if len(step.results) != 2:
        raise NotInvertible(WAITS)

    def product(t: Any, v: Any) -> Any:
        return v @ t @ jnp.conj(jnp.swapaxes(v, -1, -2))

    step.solve(0, product, step.needed_result(0), step.needed_result(1))


@solves("eig", "values and right vectors are known, the matrix has a basis of them")
def _eig(step: Step) -> None:
    if not step.params.get("compute_right_eigenvectors"):
        raise NotInvertible("information lost: only the eigenvalues are left")
    last = len(step.results) - 1
    is_real = not jnp.issubdtype(step.operands[0].aval.dtype, jnp.complexfloating)

    def product(w: Any, v: Any) -> Any:
        made = (v * w[..., None, :]) @ jnp.linalg.inv(v)
        return made.real if is_real else made

    step.solve(0, product, step.needed_result(0), step.needed_result(last))


lost("symmetric_product cholesky_update", "no formula for its inverse")
lost("ormqr ragged_dot_general", "no formula for its inverse")
lost("householder_product", "not injective: its factors can be scaled")
lost(
    "lu_pivots_to_permutation geqrf geqp3 hessenberg tridiagonal",
    "no formula for its inverse",
)
