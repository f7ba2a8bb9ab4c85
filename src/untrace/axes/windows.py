"""Which axes are equal in convolutions and where a window moves over an array.

Where input and output are equally long, or one is a multiple of the other by the stride,
they change together; else each has its own size. The padding makes up for what differs.
"""

from __future__ import annotations

from collections.abc import Callable

from untrace.axes.factors import (
    Dims,
    Factor,
    equal,
    equate,
    freeze,
    frozen,
    keep,
)
from untrace.axes.sites import Site


def _conv_general_dilated(site: Site) -> None:
    numbers = site.params["dimension_numbers"]
    left, right = site.operands
    batch, features, *places = (left[i] for i in numbers.lhs_spec)
    out, into, *kernel = (right[i] for i in numbers.rhs_spec)
    out_batch, out_features, *moved = (site.result[i] for i in numbers.out_spec)
    keep((batch, features, out, into, out_batch, out_features))
    groups = _groups(site, "feature_group_count")
    equate([features], [*groups, into])
    _grouped(groups, out)
    groups = _groups(site, "batch_group_count")
    equate([batch], [*groups, out_batch])
    _grouped(groups, out)
    equate([out], [out_features])
    for i, (before, after, size) in enumerate(zip(places, moved, kernel)):
        _moved(
            before,
            after,
            site.params["window_strides"][i],
            site.params["lhs_dilation"][i],
        )
        if before.size == after.size == size.size == 1:
            equate([size], [before])
        elif 1 in (before.size, after.size, size.size):
            keep((before, after, size))


def _groups(site: Site, name: str) -> list[Factor]:
    count = site.params[name]
    if count == 1:
        return []
    site.sizes[name] = Factor(count)
    return [site.sizes[name]]


def _grouped(groups: list[Factor], size: Factor) -> None:
    if groups:
        equate([size], [*groups, Factor(size.size // groups[0].size)])


def _moved(before: Factor, after: Factor, stride: int, dilation: int) -> None:
    """Relate a size before and after a window has moved over it."""
    if before.size == after.size and stride == dilation == 1:
        equate([before], [after])
    elif dilation == 1 and before.size == after.size * stride:
        equate([before], [after, frozen(stride)])
    elif stride == 1 and after.size == before.size * dilation:
        equate([after], [before, frozen(dilation)])
    elif 0 in (before.size, after.size):
        freeze((before, after))


def _slide(site: Site, arrays: tuple[Dims, ...], results: tuple[Dims, ...]) -> None:
    for dims in arrays[1:]:
        equal(arrays[0], dims)
    for dims in results[1:]:
        equal(results[0], dims)
    dilations = site.params.get("base_dilation") or (1,) * len(arrays[0])
    for before, after, stride, dilation in zip(
        arrays[0], results[0], site.params["window_strides"], dilations
    ):
        _moved(before, after, stride, dilation)


def _reduce_window(site: Site) -> None:
    _slide(site, site.operands[: len(site.results)], site.results)


def _select_and_scatter_add(site: Site) -> None:
    source, array = site.operands[:2]
    _slide(site, (array, site.result), (source,))


def _select_and_gather_add(site: Site) -> None:
    _slide(site, site.operands, site.results)


WINDOW_LINKS: dict[str, Callable[[Site], None]] = {
    "conv_general_dilated": _conv_general_dilated,
    "reduce_window": _reduce_window,
    "reduce_window_max": _reduce_window,
    "reduce_window_min": _reduce_window,
    "reduce_window_sum": _reduce_window,
    "select_and_scatter_add": _select_and_scatter_add,
    "select_and_gather_add": _select_and_gather_add,
}
