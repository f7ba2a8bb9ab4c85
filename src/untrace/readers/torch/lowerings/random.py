"""Random numbers: of an explicit key.

A module that draws has a key of its own, made of that of the module that calls it and the
number of the call. So modules that do the same are calls of one function.
"""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import (
    filling,
    kept,
    lowering,
    sizes,
)


class Keys(threading.local):
    """The key of the module that runs, and how often it was asked for another one.

    Attributes:
      drawn: How many keys the modules have asked for in this run, at most, by the `id` of
        what they are copies of. Those that ask for one draw with their own.
      log: The keys that were drawn with, in order.
      given: The keys to draw with, in order, in place of those.
    """

    key: Any = None
    module: int | None = None
    n_calls: int = 0
    given: Iterator[Any] | None = None

    def start(self, key: Any, drawing: Mapping[int, int] | None = None) -> None:
        """Begin a run; without what draws, it only shows that (`drawn`)."""
        self.key, self.module, self.n_calls = key, None, 0
        self.drawing = drawing
        self.drawn: dict[int, int] = {}
        self.log: list[Any] = []

    def next(self) -> Any:
        """The key of a draw."""
        if self.given is not None:
            return next(self.given)
        self.log.append(self._another())
        return self.log[-1]

    @contextmanager
    def of(self, given: Iterator[Any]) -> Generator[None, None, None]:
        """Draw with keys that are given."""
        before, self.given = self.given, given
        try:
            yield
        finally:
            self.given = before

    def _another(self) -> Any:
        self.n_calls += 1
        key = jax.random.key(0) if self.key is None else self.key
        if self.n_calls == 1 and self._n_asked(self.module) == 1:
            return key
        return jax.random.fold_in(key, self.n_calls - 1)

    def _use(self, key: Any) -> None:
        self.key = key  # where it is made, it would be a variable of that name

    def _n_asked(self, module: int | None) -> int:
        known = self.drawing or {}
        return 0 if module is None else known.get(module, 0)

    @contextmanager
    def inside(self, module: int) -> Generator[None, None, None]:
        """Run a module with a key of its own, if it draws."""
        is_looking = self.drawing is None
        if not is_looking and not self._n_asked(module):
            yield
            return
        is_outermost = self.module is None  # the key that is given is its own
        before = self.key, self.module
        if not (is_looking or is_outermost):
            self._use(self._another())
        n_before = self.n_calls
        self.module, self.n_calls = module, 0
        try:
            yield
        finally:
            n_calls, self.n_calls = self.n_calls, n_before
            self.key, self.module = before
            if n_calls:
                self.drawn[module] = max(n_calls, self.drawn.get(module, 0))
                self.n_calls += is_looking


KEYS = Keys()


@lowering("dropout")
def dropout_(
    input: Any, p: float = 0.5, training: bool = True, inplace: Any = 0
) -> Any:
    return dropout(input, KEYS.next(), p) if training and p else input


@kept
def dropout(x: Any, key: Any, p: float) -> Any:
    keep = jax.random.bernoulli(key, 1 - p, x.shape)
    return jnp.where(keep, x / (1 - p), 0)


def mask_shape(shape: tuple[int, ...], n: int) -> tuple[int, ...]:
    """The shape of what drops whole channels of `n` axes, as torch takes an input.

    Without a batch the channels are the first axis; three axes are always a batch of
    signals.
    """
    is_single = len(shape) == n + 1 and len(shape) != 3
    n_kept = 1 if is_single else 2
    return (*shape[:n_kept], *[1] * (len(shape) - n_kept))


def _dropouts(n: int) -> None:
    def features(
        input: Any, p: float = 0.5, training: bool = True, inplace: Any = 0
    ) -> Any:
        if not training or not p:
            return input
        return feature_dropout(input, KEYS.next(), p, mask_shape(input.shape, n))

    lowering(f"dropout{n}d")(features)


for _n in (1, 2, 3):
    _dropouts(_n)


@kept
def feature_dropout(x: Any, key: Any, p: float, shape: Any) -> Any:
    keep = jax.random.bernoulli(key, 1 - p, shape)
    return jnp.where(keep, x / (1 - p), 0)


SELU_LIMIT = 1.7580993408473766
"""What `selu` tends to, with the sign changed."""


@lowering("alpha_dropout")
def alpha_dropout_(
    input: Any, p: float = 0.5, training: bool = False, inplace: Any = 0
) -> Any:
    return alpha_dropout(input, KEYS.next(), p) if training and p else input


@kept
def alpha_dropout(x: Any, key: Any, p: float) -> Any:
    keep = jax.random.bernoulli(key, 1 - p, x.shape)
    scale = ((1 - p) * (1 + p * SELU_LIMIT**2)) ** -0.5
    return scale * (jnp.where(keep, x, -SELU_LIMIT) + p * SELU_LIMIT)


@lowering()
def randn(*size: Any, dtype: Any = None) -> Any:
    return jax.random.normal(KEYS.next(), sizes(size), dtype or jnp.float32)


@lowering()
def rand(*size: Any, dtype: Any = None) -> Any:
    return jax.random.uniform(KEYS.next(), sizes(size), dtype or jnp.float32)


@lowering()
def randn_like(input: Any, dtype: Any = None) -> Any:
    return jax.random.normal(KEYS.next(), input.shape, dtype or input.dtype)


@lowering()
def rand_like(input: Any, dtype: Any = None) -> Any:
    return jax.random.uniform(KEYS.next(), input.shape, dtype or input.dtype)


@lowering("bernoulli")
def bernoulli(input: Any, p: Any = None) -> Any:
    p = input if p is None else p
    return jax.random.bernoulli(KEYS.next(), p, input.shape).astype(input.dtype)


@lowering()
def randint(low: int, high: Any = None, size: Any = None, dtype: Any = None) -> Any:
    if size is None:
        low, high, size = 0, low, high
    return jax.random.randint(KEYS.next(), sizes(size), low, high, dtype or jnp.int32)


@lowering()
def randint_like(input: Any, low: int, high: Any = None, dtype: Any = None) -> Any:
    low, high = (0, low) if high is None else (low, high)
    drawn = jax.random.randint(KEYS.next(), input.shape, low, high)
    return drawn.astype(dtype or input.dtype)


@lowering()
def randperm(n: int, dtype: Any = None) -> Any:
    return jax.random.permutation(KEYS.next(), n)


@lowering()
def normal(mean: Any, std: Any = 1.0, size: Any = None, dtype: Any = None) -> Any:
    size = jnp.broadcast_shapes(jnp.shape(mean), jnp.shape(std), tuple(size or ()))
    return mean + std * jax.random.normal(KEYS.next(), size, dtype or jnp.float32)


@filling("normal_")
def fill_normal(input: Any, mean: Any = 0.0, std: Any = 1.0) -> Any:
    drawn = jax.random.normal(KEYS.next(), input.shape, input.dtype)
    drawn = drawn if std == 1 else std * drawn
    return drawn if mean == 0 else mean + drawn


@filling("uniform_")
def fill_uniform(input: Any, low: float = 0.0, high: float = 1.0) -> Any:
    is_unit = (low, high) == (0, 1)
    bounds: dict[str, Any] = {} if is_unit else {"minval": low, "maxval": high}
    return jax.random.uniform(KEYS.next(), input.shape, input.dtype, **bounds)


@filling("exponential_")
def fill_exponential(input: Any, lambd: float = 1.0) -> Any:
    drawn = jax.random.exponential(KEYS.next(), input.shape, input.dtype)
    return drawn if lambd == 1 else drawn / lambd


@filling("bernoulli_")
def fill_bernoulli(input: Any, p: Any = 0.5) -> Any:
    return jax.random.bernoulli(KEYS.next(), p, input.shape).astype(input.dtype)


DRAWS = frozenset(
    {
        *("randn", "rand", "randn_like", "rand_like", "bernoulli", "randint"),
        *("randint_like", "randperm", "normal", "normal_", "uniform_", "exponential_"),
        "bernoulli_",
    }
)
"""The functions whose values do not depend on those of tensors but for parameters."""
