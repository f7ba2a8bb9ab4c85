"""Which axes of an equation are equal: one line per primitive.

A rule equates the axes of operands and results. For a primitive that is not listed, axes
at the same place are taken to be one if they are equally long, which tracing may refute;
if it says more of types than that, its axes are frozen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from untrace import jaxapi
from untrace.axes.calls import CALL_LINKS
from untrace.axes.factors import (
    Dims,
    Factor,
    equate,
    equate_reshaped,
    freeze,
    frozen,
    keep,
)
from untrace.axes.indexing import INDEXING_LINKS
from untrace.axes.sites import Site
from untrace.axes.windows import WINDOW_LINKS
from untrace.ir import Block

Rule = Callable[[Site], None]


def link(site: Site) -> None:
    """Equate the axes of an equation."""
    LINKS.get(site.eqn.name, unknown)(site)


def unknown(site: Site) -> None:
    """Guess, unless the params speak of types or hold programs."""
    if any(map(_speaks_of_types, site.params.values())):
        return _frozen(site)
    for dims in (*site.operands, *site.results):
        if site.results and len(dims) == len(site.result):
            pairs = zip(dims, site.result)
            for a, b in pairs:
                if a.size == b.size:
                    equate([a], [b])
        else:
            freeze(dims)


def _speaks_of_types(param: object) -> bool:
    items: tuple[object, ...] = param if isinstance(param, tuple) else (param,)
    return any(isinstance(item, (Block, jaxapi.ShapedArray)) for item in items)


def _frozen(site: Site) -> None:
    dims = list(site.all_dims())
    freeze(dims)
    keep(dims)


def pairwise(left: Iterable[Dims], right: Iterable[Dims]) -> None:
    """Equate the axes of values, one by one."""
    for mine, theirs in zip(left, right):
        same(mine, theirs)


def same(left: Iterable[Factor], right: Iterable[Factor]) -> None:
    """Equate axes one by one."""
    for a, b in zip(left, right):
        if a.size == b.size:
            equate([a], [b])
        else:
            freeze([a, b])


def without(dims: Dims, axes: Iterable[int]) -> Dims:
    """Return the axes that are not in `axes`."""
    gone = {int(axis) % max(len(dims), 1) for axis in axes}
    return tuple(dim for axis, dim in enumerate(dims) if axis not in gone)


def _elementwise(site: Site) -> None:
    for dims in site.operands:
        if len(dims) == len(site.result):
            _broadcast(dims, site.result)
    for dims in site.results[1:]:
        same(dims, site.result)


def _broadcast(dims: Dims, result: Dims) -> None:
    """Equate the axes of an operand but for those of size 1 that are repeated."""
    equal = [a.size == b.size for a, b in zip(dims, result)]
    same(
        [dim for dim, is_equal in zip(dims, equal) if is_equal],
        [dim for dim, is_equal in zip(result, equal) if is_equal],
    )
    repeated = [dim for dim, is_equal in zip(dims, equal) if not is_equal]
    if any(equal):
        keep(repeated)  # an operand has all axes of the result, or none
    else:
        same(repeated, repeated[1:])


def _each(site: Site) -> None:
    pairwise(site.operands, site.results)


def _all_same(site: Site) -> None:
    first, *others = (*site.operands, *site.results)
    for dims in others:
        same(first, dims)


def _broadcast_in_dim(site: Site) -> None:
    for dim, axis in zip(site.first, site.params["broadcast_dimensions"]):
        if dim.size == site.result[axis].size:
            equate([dim], [site.result[axis]])


def _trailing(site: Site) -> None:
    same(site.first[::-1], site.result[::-1])


def _reshape(site: Site) -> None:
    order = site.params["dimensions"] or range(len(site.first))
    equate_reshaped(tuple(site.first[axis] for axis in order), site.result)


def _transpose(site: Site) -> None:
    same([site.first[axis] for axis in site.params["permutation"]], site.result)


def _reduction(param: str) -> Rule:
    def rule(site: Site) -> None:
        arrays = site.operands[: len(site.results)]
        for dims in arrays:
            same(site.first, dims)
        for dims in site.results:
            same(without(site.first, site.params[param]), dims)

    return rule


def _squeeze(site: Site) -> None:
    same(without(site.first, site.params["dimensions"]), site.result)


def _stack(site: Site) -> None:
    axis = site.params["axis"]
    freeze([site.result[axis]])
    keep([site.result[axis]])
    for dims in site.operands:
        same(dims, without(site.result, [axis]))


def _unstack(site: Site) -> None:
    axis = site.params["axis"]
    freeze([site.first[axis]])
    keep([site.first[axis]])
    for dims in site.results:
        same(without(site.first, [axis]), dims)


def _tile(site: Site) -> None:
    for dim, repeats, result in zip(site.first, site.params["reps"], site.result):
        equate([result], [frozen(int(repeats)), dim] if repeats > 1 else [dim])


def _dot_general(site: Site) -> None:
    (left_axes, right_axes), (left_batch, right_batch) = site.params[
        "dimension_numbers"
    ]
    left, right = site.operands
    same([left[i] for i in left_axes], [right[i] for i in right_axes])
    same([left[i] for i in left_batch], [right[i] for i in right_batch])
    free = (
        *[left[i] for i in left_batch],
        *without(left, (*left_axes, *left_batch)),
        *without(right, (*right_axes, *right_batch)),
    )
    same(free, site.result)


def _ragged_dot(site: Site) -> None:
    numbers = site.params["ragged_dot_dimension_numbers"]
    (contracted, _), batch = numbers.dot_dimension_numbers
    left, right, groups = site.operands[:3]
    is_plain = (
        not any(batch)
        and list(contracted) == [1]
        and list(numbers.lhs_ragged_dimensions) == [0]
        and list(numbers.rhs_group_dimensions) == [0]
        and len(groups) == 1
    )
    if not is_plain:
        return _frozen(site)
    same(groups, right)
    same(left[1:], right[1:])
    same(site.result, (left[0], right[2]))


def _top_k(site: Site) -> None:
    axis = site.params.get("axis", len(site.first) - 1)
    for dims in site.results:
        same(without(site.first, [axis]), without(dims, [axis]))
        equate([dims[axis]], [site.result[axis]])
    if site.result[axis].size == site.first[axis].size:
        equate([site.result[axis]], [site.first[axis]])
    else:
        site.at_most(site.result[axis], site.first[axis])


def _fft(site: Site) -> None:
    if site.first and site.first[-1].size != site.result[-1].size:
        freeze([site.first[-1], site.result[-1]])
    same(site.first, site.result)


def _square(site: Site) -> None:
    """Equate the axes of matrices, and the leading ones, in which they are stacked."""
    n_leading = len(site.first) - 2
    every = (*site.operands, *site.results)
    for dims in every:
        same(site.first[:n_leading], dims[:n_leading])
    sizes = [dim for dims in every for dim in dims[n_leading:]]
    if len({dim.size for dim in sizes}) > 1:
        freeze(sizes)
    else:
        same(sizes, sizes[1:])


def _triangular_solve(site: Site) -> None:
    matrix, other = site.operands
    same(matrix[:-1], matrix[:-2] + matrix[-1:])
    same(matrix[:-2], other[:-2])
    same([matrix[-1]], [other[-2 if site.params["left_side"] else -1]])
    same(other, site.result)


def _random_bits(site: Site) -> None:
    same(site.first, site.result)


def _rng_bit_generator(site: Site) -> None:
    freeze(site.first)
    same(site.first, site.results[0])


def _random_wrap(site: Site) -> None:
    data = site.first[len(site.result) :]
    freeze(data)
    keep(data)
    same(site.first, site.result)


def _random_unwrap(site: Site) -> None:
    data = site.result[len(site.first) :]
    freeze(data)
    keep(data)
    same(site.first, site.result)


def _bitcast(site: Site) -> None:
    is_wider = len(site.first) > len(site.result)
    others = site.first if is_wider else site.result
    extra = others[min(len(site.first), len(site.result)) :]
    freeze(extra)
    keep(extra)
    same(site.first, site.result)


def _nothing(site: Site) -> None:
    """Leave the axes alone."""


ELEMENTWISE = """
    abs acos acosh add add_any and asin asinh atan atan2 atanh bessel_i0e bessel_i1e
    cbrt ceil clamp clz complex conj convert_element_type copy copy_p cos cosh digamma
    div eq eq_to erf erf_inv erfc exp exp2 expm1 floor ge gt igamma igamma_grad_a
    igammac imag integer_pow is_finite layout_constraint le le_to lgamma log log1p log2
    logistic lt lt_to max min mul mulhi name ne neg nextafter not one_minus_square or
    polygamma polynomial population_count pow pvary random_clone random_fold_in
    random_gamma random_seed real reciprocal reduce_precision reduced_vary_cast
    reduced_vary_cast_p regularized_incomplete_beta rem round rsqrt select_n
    sharding_constraint shift_left shift_right_arithmetic shift_right_logical sign sin
    sinh sqrt square stop_gradient sub tan tanh threefry2x32 vary_unreduced_cast
    vary_unreduced_cast_p xor zeros_like zeta
"""
SAME_SHAPE = "cummax cummin cumprod cumsum cumlogsumexp rev sort"
REDUCTIONS = """
    argmax argmin reduce_and reduce_max reduce_min reduce_or reduce_prod reduce_sum
    reduce_xor
"""

LINKS: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE.split(), _elementwise),
    **dict.fromkeys(SAME_SHAPE.split(), _all_same),
    **dict.fromkeys(REDUCTIONS.split(), _reduction("axes")),
    "reduce": _reduction("dimensions"),
    "device_put": _each,
    "optimization_barrier": _each,
    "bitcast_convert_type": _bitcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "broadcast_to": _trailing,
    "reshape": _reshape,
    "transpose": _transpose,
    "squeeze": _squeeze,
    "stack": _stack,
    "unstack": _unstack,
    "tile": _tile,
    "dot_general": _dot_general,
    "ragged_dot_general": _ragged_dot,
    "top_k": _top_k,
    "fft": _fft,
    "cholesky": _square,
    "eig": _square,
    "eigh": _square,
    "householder_product": _square,
    "lu": _square,
    "lu_pivots_to_permutation": _all_same,
    "qr": _square,
    "schur": _square,
    "svd": _square,
    "triangular_solve": _triangular_solve,
    "iota": _nothing,
    "empty": _nothing,
    "empty2": _nothing,
    "iota_2x32_shape": _each,
    "rng_bit_generator": _rng_bit_generator,
    "random_bits": _random_bits,
    "random_split": _random_bits,
    "random_wrap": _random_wrap,
    "random_unwrap": _random_unwrap,
    "debug_callback": _nothing,
    "debug_print": _nothing,
    **INDEXING_LINKS,
    **WINDOW_LINKS,
    **CALL_LINKS,
}
