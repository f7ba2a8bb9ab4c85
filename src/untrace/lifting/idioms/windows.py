"""Idioms of convolution and pooling, with strides and padding as people write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax

from untrace.ir import Equation
from untrace.lifting.idioms.regions import Region
from untrace.lifting.idioms.table import Domain, idiom

SPATIAL = ("", "W", "HW", "DHW")


def _convolution(region: Region) -> Iterator[str]:
    """List strides, padding and axes of a convolution."""
    eqn = next((e for e in region.flat() if e.name == "conv_general_dilated"), None)
    if eqn is None:
        return
    params = eqn.params
    numbers = params["dimension_numbers"]
    specs = (numbers.lhs_spec, numbers.rhs_spec, numbers.out_spec)
    options = _options(eqn, ("lhs_dilation", "rhs_dilation"))
    options += [
        f"{key}={int(params[key])}"
        for key in ("feature_group_count", "batch_group_count")
        if params[key] != 1
    ]
    letters = [_letters(spec, names) for spec, names in zip(specs, ("NC", "OI", "NC"))]
    if any(tuple(spec) != (*range(len(spec)),) for spec in specs):
        names = ", ".join(f'"{text}"' for text in letters)
        options.insert(0, f"dimension_numbers=({names})")
    shape = _spatial(eqn.operands[0], numbers.lhs_spec)
    window = _spatial(eqn.operands[1], numbers.rhs_spec)
    strides = _numbers(params["window_strides"])
    for padding in _paddings(shape, window, strides, params["padding"]):
        yield ", ".join([str(strides), padding, *options])


def _letters(spec: Any, names: str) -> str:
    """Write the order of axes, as in "NHWC"."""
    spatial = SPATIAL[len(spec) - 2] if len(spec) - 2 < len(SPATIAL) else ""
    text = dict(zip(map(int, spec), names + spatial))
    return "".join(text[i] for i in sorted(text))


def _spatial(atom: Any, spec: Any) -> tuple[int, ...]:
    return tuple(int(atom.aval.shape[int(axis)]) for axis in spec[2:])


def _numbers(sizes: Any) -> tuple[int, ...]:
    return tuple(map(int, sizes))


def _window(region: Region) -> Iterator[str]:
    """List the window, strides and padding of a pooling."""
    eqn = next((e for e in region.flat() if e.name.startswith("reduce_window_")), None)
    if eqn is None:
        return
    window = _numbers(eqn.params["window_dimensions"])
    strides = _numbers(eqn.params["window_strides"])
    shape = _numbers(eqn.operands[0].aval.shape)
    options = _options(eqn, ("base_dilation", "window_dilation"))
    for padding in _paddings(shape, window, strides, eqn.params["padding"]):
        yield ", ".join([str(window), str(strides), padding, *options])


def _options(eqn: Equation, keys: tuple[str, ...]) -> list[str]:
    """Write the params that are not all one."""
    found = [(key, _numbers(eqn.params[key])) for key in keys]
    return [f"{key}={sizes}" for key, sizes in found if set(sizes) - {1}]


def _paddings(
    shape: tuple[int, ...], window: tuple[int, ...], strides: tuple[int, ...], pads: Any
) -> Iterator[str]:
    """List the ways to write padding: by its name, or as pairs."""
    pairs = tuple(_numbers(pair) for pair in pads)
    for name in ("VALID", "SAME"):
        made = jax.lax.padtype_to_pads(shape, window, strides, name)
        if tuple(map(_numbers, made)) == pairs:
            yield f'"{name}"'
    yield str(pairs)


CONVOLUTION = Domain(_convolution, '(1, 1), "SAME"')
WINDOW = Domain(_window, '(2, 2), (1, 1), "VALID"')

idiom(
    "jax.lax.conv_general_dilated({x}, {w}, {window})",
    "f32[2,3,8,8] f32[4,3,3,3]",
    window=CONVOLUTION,
)
for start, name in (("-jnp.inf", "max"), ("jnp.inf", "min"), ("0.0", "add")):
    idiom(
        f"jax.lax.reduce_window({{x}}, {start}, jax.lax.{name}, {{window}})",
        window=WINDOW,
    )
