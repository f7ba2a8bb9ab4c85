"""Random numbers: of an explicit key, from which every call folds in its number."""

from __future__ import annotations

import threading
from typing import Any

import jax
import jax.numpy as jnp

from untrace.readers.torch.lowerings.table import lowered_function, lowering, sizes


class Keys(threading.local):
    """The key of the run, and how many calls have asked for one."""

    key: Any = None
    n_calls: int = 0

    def start(self, key: Any) -> None:
        """Begin a run; without a key it only counts."""
        self.key, self.n_calls = key, 0

    def next(self) -> Any:
        """A key of its own for each call."""
        self.n_calls += 1
        key = jax.random.key(0) if self.key is None else self.key
        return jax.random.fold_in(key, self.n_calls - 1)


KEYS = Keys()


@lowering("dropout", "dropout1d", "alpha_dropout", "native_dropout")
def dropout_(input: Any, p: float = 0.5, training: bool = True, inplace: Any = 0) -> Any:
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
