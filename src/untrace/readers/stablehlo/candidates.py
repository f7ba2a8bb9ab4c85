"""Which functions of JAX may be behind an operation, by its name or its target.

They take the operands of the operation. Those of `random.py` take others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, product
from typing import Any

from jax import lax

from untrace.jaxapi.module_types import Block, Operation, Record, TensorType
from untrace.readers.stablehlo.elementwise import BINARY, UNARY
from untrace.readers.stablehlo.shapes import scatter_numbers

Candidate = tuple[Any, Callable[..., list[Any]]]
YES_NO = (False, True)


def _listed(result: Any) -> list[Any]:
    return list(result) if isinstance(result, list | tuple) else [result]


def _options(
    function: Callable[..., Any], **values: tuple[Any, ...]
) -> Iterator[Candidate]:
    """Yield a function with each choice of its options."""
    for chosen in product(*values.values()):
        options = dict(zip(values, chosen))

        def called(*args: Any, options: dict[str, Any] = options) -> list[Any]:
            return _listed(function(*args, **options))

        yield (getattr(function, "__self__", function), *chosen), called


def _cholesky(x: Any) -> Any:
    return lax.linalg.cholesky(x, symmetrize_input=False)


def _eigh(x: Any, lower: bool, sort_eigenvalues: bool) -> Any:
    return lax.linalg.eigh(
        x, lower=lower, symmetrize_input=False, sort_eigenvalues=sort_eigenvalues
    )


def _eig(x: Any, left: bool, right: bool) -> Any:
    return lax.linalg.eig(
        x, compute_left_eigenvectors=left, compute_right_eigenvectors=right
    )


def _qr(x: Any, full_matrices: bool) -> Any:
    return lax.linalg.qr(x, full_matrices=full_matrices)


def _schur(x: Any, compute_schur_vectors: bool) -> Any:
    return lax.linalg.schur(x, compute_schur_vectors=compute_schur_vectors)


def _svd(x: Any, full_matrices: bool, compute_uv: bool) -> Any:
    return lax.linalg.svd(x, full_matrices=full_matrices, compute_uv=compute_uv)


def _triangular_solve(a: Any, b: Any, **options: Any) -> Any:
    return lax.linalg.triangular_solve(a, b, **options)


def _tridiagonal(x: Any, lower: bool) -> Any:
    return lax.linalg.tridiagonal(x, lower=lower)


LAPACK: dict[str, Callable[[], Iterator[Candidate]]] = {
    "potrf": lambda: chain(_options(_cholesky), _options(lax.linalg.cholesky_p.bind)),
    "getrf": lambda: _options(lax.linalg.lu),
    "geqrf": lambda: _options(_qr, full_matrices=YES_NO),
    "orgqr": lambda: _options(lax.linalg.householder_product),
    "ungqr": lambda: _options(lax.linalg.householder_product),
    "syevd": lambda: _options(_eigh, lower=YES_NO, sort_eigenvalues=YES_NO),
    "heevd": lambda: _options(_eigh, lower=YES_NO, sort_eigenvalues=YES_NO),
    "gesdd": lambda: _options(_svd, full_matrices=YES_NO, compute_uv=YES_NO),
    "geev": lambda: _options(_eig, left=YES_NO, right=YES_NO),
    "gees": lambda: _options(_schur, compute_schur_vectors=YES_NO),
    "gehrd": lambda: _options(lax.linalg.hessenberg),
    "sytrd": lambda: _options(_tridiagonal, lower=YES_NO),
    "hetrd": lambda: _options(_tridiagonal, lower=YES_NO),
    "trsm": lambda: _options(
        _triangular_solve,
        left_side=YES_NO,
        lower=YES_NO,
        transpose_a=YES_NO,
        conjugate_a=YES_NO,
        unit_diagonal=YES_NO,
    ),
    "gtsv": lambda: _options(lax.linalg.tridiagonal_solve),
}


def _custom_call(operation: Operation) -> Iterator[Candidate]:
    target = str(operation.attributes.get("call_target_name", ""))
    if target.startswith("lapack_") and target.endswith("_ffi"):
        name = target.removeprefix("lapack_")[1:].removesuffix("_ffi")
        yield from LAPACK.get(name, lambda: iter(()))()
    elif target == "ApproxTopK":
        yield from _approx_top_k(operation)


def _approx_top_k(operation: Operation) -> Iterator[Candidate]:
    config = operation.attributes.get("mhlo.backend_config")
    kind = operation.operands[0].type
    if not isinstance(config, Record) or not isinstance(kind, TensorType):
        return
    given = config.plain()
    axis = int(given.get("reduction_dim", 0))
    for function, k, is_whole in product(
        (lax.approx_max_k, lax.approx_min_k), (given.get("top_k"),), YES_NO
    ):
        options = {
            "k": int(k or 0),
            "reduction_dimension": axis,
            "recall_target": float(given.get("recall_target", 0.95)),
            "reduction_input_size_override": int(
                given.get("reduction_input_size_override", -1)
            ),
            "aggregate_to_topk": is_whole,
        }

        def called(
            x: Any, *_: Any, function: Any = function, options: Any = options
        ) -> Any:
            return _listed(function(x, **options))

        yield (function.__name__, *options.values()), called


def _composite(operation: Operation) -> Iterator[Candidate]:
    """Yield the function that exporting made a composite of."""
    name = str(operation.attributes.get("name", ""))
    function = UNARY.get(name) or BINARY.get(name)
    if function is not None:
        yield name, lambda *args: [function(*args)]


def _top_k(operation: Operation, block: Block) -> Iterator[Candidate]:
    """Yield `top_k` for a sort of which only the first elements are used."""
    axis = int(operation.attributes.get("dimension", -1))
    for one in block.operations:
        if one.name == "stablehlo.slice" and one.operands[0] in operation.results:
            k = int(one.attributes["limit_indices"][axis])
            yield ("top_k", k), lambda x, *_, k=k: _listed(lax.top_k(x, k))


def _sort(operation: Operation) -> Iterator[Candidate]:
    axis = int(operation.attributes.get("dimension", -1))
    is_stable = bool(operation.attributes.get("is_stable", False))
    for n_keys in range(1, len(operation.operands) + 1):

        def called(*arrays: Any, n_keys: int = n_keys) -> list[Any]:
            return _listed(lax.sort(arrays, axis, is_stable, n_keys))

        yield ("sort", axis, is_stable, n_keys), called


def _reduce(operation: Operation) -> Iterator[Candidate]:
    dimensions = operation.attributes.get("dimensions", ())
    if len(operation.operands) != 4 or len(dimensions) != 1:
        return
    (axis,), index = dimensions, operation.results[1].type
    if isinstance(index, TensorType):
        for function in (lax.argmax, lax.argmin):

            def called(x: Any, *_: Any, function: Any = function) -> list[Any]:
                return [function(x, axis, index.dtype)]

            yield (function.__name__, axis, index.dtype), called


def _reduce_window(operation: Operation) -> Iterator[Candidate]:
    window = operation.attributes.get("window_dimensions", ())
    axes = [i for i, size in enumerate(window) if size != 1]
    if len(operation.operands) != 2 or len(axes) != 1:
        return
    (axis,) = axes
    for function, reverse in product(CUMULATIVE, YES_NO):

        def called(
            x: Any, _: Any, function: Any = function, reverse: bool = reverse
        ) -> list[Any]:
            return [function(x, axis, reverse)]

        yield (function.__name__, axis, reverse), called


CUMULATIVE = (lax.cumsum, lax.cumprod, lax.cummax, lax.cummin)


def _scatter(operation: Operation) -> Iterator[Candidate]:
    """Yield scatters whose update takes several operations, as that of complex numbers."""
    numbers = operation.attributes.get("scatter_dimension_numbers")
    n_steps = len(operation.regions[0].operations)
    if len(operation.operands) != 3 or n_steps < 2 or not isinstance(numbers, Record):
        return
    how: dict[str, Any] = {
        "dimension_numbers": scatter_numbers(numbers),
        "indices_are_sorted": bool(operation.attributes.get("indices_are_sorted")),
        "unique_indices": bool(operation.attributes.get("unique_indices")),
        "mode": lax.GatherScatterMode.FILL_OR_DROP,
    }
    for function in (lax.scatter_max, lax.scatter_min):

        def called(*arrays: Any, function: Any = function) -> list[Any]:
            return [function(*arrays, **how)]

        yield (function.__name__, *map(str, how.values())), called


_BY_NAME: dict[str, Callable[[Operation], Iterator[Candidate]]] = {
    "stablehlo.composite": _composite,
    "stablehlo.custom_call": _custom_call,
    "stablehlo.reduce": _reduce,
    "stablehlo.reduce_window": _reduce_window,
    "stablehlo.scatter": _scatter,
    "stablehlo.sort": _sort,
}


def candidates(operation: Operation, block: Block) -> Iterator[Candidate]:
    """Yield functions of the operands, each with what it is known by."""
    found = _BY_NAME.get(operation.name)
    if found is not None:
        yield from found(operation)
    if operation.name == "stablehlo.sort" and len(operation.operands) == 2:
        yield from _top_k(operation, block)
