"""What the programs about sharding share.

Every program is a maker: called under eight devices, it returns a function, its
arguments and, where the program needs one, a context manager in which it is captured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import AxisType, NamedSharding

P = jax.P


class Program(NamedTuple):
    """A function, its arguments and the context it is captured in."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    context: Any = contextlib.nullcontext()


PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(maker: Callable[[], Program]) -> Callable[[], Program]:
    """Register a maker under its name."""
    PROGRAMS[maker.__name__] = maker
    return maker


def auto_mesh(
    shape: tuple[int, ...] = (4, 2), names: tuple[str, ...] = ("x", "y")
) -> Any:
    """Make a mesh whose axes the compiler shards."""
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(shape))


def explicit_mesh(
    shape: tuple[int, ...] = (4, 2), names: tuple[str, ...] = ("x", "y")
) -> Any:
    """Make a mesh whose axes are part of types."""
    return jax.make_mesh(shape, names, axis_types=(AxisType.Explicit,) * len(shape))


def floats(*shape: int) -> Any:
    """Make an array of small floats."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8


def put(array: Any, mesh: Any, *spec: Any) -> Any:
    """Shard an array."""
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))
