"""Where parts lie in their arrays when sizes have changed: limits, windows, padding.

A part stays where it was if it fits, else it is taken from the end. Padding makes up
for what is missing, and is negative where there is too much.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from untrace.axes.factors import Dims
from untrace.axes.indexing import gather_hidden
from untrace.axes.sites import Site
from untrace.reduction.axes.solving import Sizes


def slice_params(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    """Return the limits of a slice."""
    given = site.params["strides"]
    starts, limits, strides = list[int](), list[int](), list[int]()
    for i, (part, whole) in enumerate(zip(site.result, site.first)):
        start, limit, stride = _part(
            site.params["start_indices"][i],
            given[i] if given else 1,
            sizes.size(part),
            sizes.size(whole),
        )
        is_as_before = part.size == sizes.size(part) and whole.size == sizes.size(whole)
        starts.append(start)
        limits.append(site.params["limit_indices"][i] if is_as_before else limit)
        strides.append(stride)
    return {
        "start_indices": tuple(starts),
        "limit_indices": tuple(limits),
        "strides": tuple(strides) if given else None,
    }


def _part(start: int, stride: int, n: int, whole: int) -> tuple[int, int, int]:
    """Return start, limit and stride of `n` elements among `whole`."""
    if n > 1:
        stride = max(1, min(stride, (whole - 1) // (n - 1)))
    reach = (n - 1) * stride + 1
    start = max(0, min(start, whole - reach))
    return start, min(whole, start + n * stride), stride


def pad_params(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    """Return the padding that leads to the new shape."""
    made = list[tuple[int, int, int]]()
    for part, whole, (low, high, interior) in zip(
        site.first, site.result, site.params["padding_config"]
    ):
        n = sizes.size(part)
        reach = n + max(n - 1, 0) * interior
        made.append((*_sides(low, high, sizes.size(whole) - reach), interior))
    return {"padding_config": tuple(made)}


def _sides(low: int, high: int, total: int) -> tuple[int, int]:
    """Divide padding between two sides, the first as it was if possible."""
    if low + high != total:
        low = min(low, total) if total >= 0 else max(min(low, 0), total)
        low = max(low, 0) if total >= 0 else low
    return low, total - low


def gather_params(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    """Return the sizes of the slices that a gather takes."""
    numbers = site.params["dimension_numbers"]
    hidden = gather_hidden(numbers)
    windows = iter(sorted(numbers.offset_dims))
    return {
        "slice_sizes": tuple(
            size if axis in hidden else sizes.size(site.result[next(windows)])
            for axis, size in enumerate(site.params["slice_sizes"])
        )
    }


def conv_params(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    """Return the padding and the numbers of groups of a convolution."""
    params, numbers = site.params, site.params["dimension_numbers"]
    left, right = site.operands
    padding = _paddings(
        tuple(left[i] for i in numbers.lhs_spec[2:]),
        tuple(site.result[i] for i in numbers.out_spec[2:]),
        sizes,
        params["padding"],
        windows=[sizes.size(right[i]) for i in numbers.rhs_spec[2:]],
        strides=params["window_strides"],
        dilations=params["lhs_dilation"],
        window_dilations=params["rhs_dilation"],
    )
    counts = {name: sizes.size(factor) for name, factor in site.sizes.items()}
    return {"padding": padding, **counts}


def window_params(site: Site, sizes: Sizes) -> Mapping[str, Any]:
    """Return the padding where a window moves over an array."""
    params = site.params
    before, after = site.first, site.result
    if site.eqn.name == "select_and_scatter_add":
        before, after = site.operands[1], site.first
    nothing = (1,) * len(before)
    padding = _paddings(
        before,
        after,
        sizes,
        params["padding"],
        windows=params["window_dimensions"],
        strides=params["window_strides"],
        dilations=params.get("base_dilation", nothing),
        window_dilations=params.get("window_dilation", nothing),
    )
    return {"padding": padding}


def _paddings(
    before: Dims,
    after: Dims,
    sizes: Sizes,
    padding: Any,
    *,
    windows: Any,
    strides: Any,
    dilations: Any,
    window_dilations: Any,
) -> tuple[tuple[int, int], ...]:
    """Return the padding that makes a moving window give the new shape."""
    made = list[tuple[int, int]]()
    for i, (low, high) in enumerate(padding):
        reach = _dilated(sizes.size(before[i]), dilations[i])
        window = _dilated(windows[i], window_dilations[i])
        least = (sizes.size(after[i]) - 1) * strides[i] + window - reach
        fits = least <= low + high < least + strides[i]
        made.append((low, high) if fits else _sides(low, high, least))
    return tuple(made)


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1
