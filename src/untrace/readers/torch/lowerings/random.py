"""Random numbers: of an explicit key.

A module that draws has a key of its own, made of that of the module that calls it and the
number of the call. So modules that do the same are calls of one function.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import lowered_function, lowering, sizes


class Keys(threading.local):
    """The key of the module that runs, and how often it was asked for another one.

    Attributes:
      drawn: The modules that have drawn something in this run, by the `id` of what they
        are copies of.
      log: The keys that were drawn with, in order.
    """

    key: Any = None
    n_calls: int = 0

    def start(self, key: Any) -> None:
        """Begin a run; without a key it only shows who draws."""
        self.key, self.n_calls = key, 0
        self.drawn: set[int] = set()
        self.log: list[Any] = []

    def next(self) -> Any:
        """The key of a draw."""
        self.log.append(self._folded())
        return self.log[-1]

    def _folded(self) -> Any:
        self.n_calls += 1
        key = jax.random.key(0) if self.key is None else self.key
        return jax.random.fold_in(key, self.n_calls - 1)

    @contextmanager
    def inside(self, module: int, draws: bool) -> Generator[None, None, None]:
        """Run a module with a key of its own, if it draws."""
        n_before = len(self.log)
        before = self.key, self.n_calls
        if draws:
            self._use(self._folded())
            before = before[0], before[1] + 1
        try:
            yield
        finally:
            if len(self.log) > n_before:
                self.drawn.add(module)
            if draws:
                self.key, self.n_calls = before

    def _use(self, key: Any) -> None:
        self.key, self.n_calls = key, 0


KEYS = Keys()


@lowering("dropout", "dropout1d", "alpha_dropout", "native_dropout")
def dropout_(
    input: Any, p: float = 0.5, training: bool = True, inplace: Any = 0
) -> Any:
    return dropout(input, p) if training and p else input


@lowered_function("_dropout")
def dropout(input: Any, p: float) -> Any:
    keep = jax.random.bernoulli(KEYS.next(), 1 - p, input.shape)
    return jnp.where(keep, input / (1 - p), 0)


@lowering("dropout2d", "dropout3d", "feature_dropout")
def dropout2d(
    input: Any, p: float = 0.5, training: bool = True, inplace: Any = 0
) -> Any:
    return _feature_dropout(input, p) if training and p else input


@lowered_function("_feature_dropout")
def _feature_dropout(input: Any, p: float) -> Any:
    shape = (*input.shape[:2], *[1] * (input.ndim - 2))
    keep = jax.random.bernoulli(KEYS.next(), 1 - p, shape)
    return jnp.where(keep, input / (1 - p), 0)


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
def multinomial(input: Any, num_samples: int, replacement: bool = False) -> Any:
    raise NotImplementedError("samples of a distribution")
