"""A pair of different programs, and what must tell them apart.

`differs` registers a pair that `compare`, `equivalent` and `fingerprint` must all tell
apart, `regrouped` one that is the same data flow written in another way: `compare` and
`fingerprint` must tell it apart, `equivalent` must not.

That two programs differ is shown where that is cheap (`evidence`): JAX prints them, a
derivative or a batch of them differently, or compiles them differently, or they return
other values. Where nothing of that shows it, the line says why they differ (`because`).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

X = np.linspace(-1.0, 1.0, 4, dtype=np.float32)
Y = np.linspace(0.5, 2.0, 4, dtype=np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
S = np.eye(3, dtype=np.float32) * 3 + M[:, :3]
I = np.arange(4, dtype=np.int32)
F32 = jax.ShapeDtypeStruct((4,), np.float32)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two programs.

    Attributes:
      name: What differs; unique.
      first: One function.
      second: The other.
      args: What both are traced on.
      by_equivalent: Whether `equivalent` must tell them apart, too.
      because: Why they differ, where no evidence is cheap.
    """

    name: str
    first: Callable[..., Any]
    second: Callable[..., Any]
    args: tuple[Any, ...]
    by_equivalent: bool
    because: str

    @property
    def sides(self) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """Both functions."""
        return self.first, self.second


PAIRS: dict[str, Pair] = {}


def differs(name: str, first: Any, second: Any, *args: Any, because: str = "") -> None:
    """Register two programs of different meaning."""
    _register(Pair(name, first, second, args or (X,), True, because))


def regrouped(
    name: str, first: Any, second: Any, *args: Any, because: str = ""
) -> None:
    """Register one data flow that is written in two ways."""
    _register(Pair(name, first, second, args or (X,), False, because))


def _register(pair: Pair) -> None:
    if pair.name in PAIRS:
        raise ValueError(f"two pairs are called {pair.name}")
    PAIRS[pair.name] = pair


@dataclass(frozen=True)
class Jaxpr:
    """A function that is a jaxpr already: it was edited, or is never run."""

    make: Callable[[], Any]


def trace(side: Any, args: tuple[Any, ...]) -> Any:
    """Trace one side anew: nothing is taken from JAX's caches of the function."""
    if isinstance(side, Jaxpr):
        return side.make()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return jax.make_jaxpr(lambda *args: side(*args))(*args)


def evidence(pair: Pair) -> str:
    """Say what shows that the two programs differ; "" if nothing does."""
    if pair.because:
        return pair.because
    for what, view in _VIEWS.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = [_seen(view, side, pair.args) for side in pair.sides]
        if None not in seen and seen[0] != seen[1]:
            return what
    return ""


def _seen(view: Any, side: Any, args: tuple[Any, ...]) -> Any:
    try:
        return view(side, args)
    except Exception:  # there may be no derivative, or nothing that compiles
        return None


def _printed(side: Any, args: tuple[Any, ...]) -> str:
    text = re.sub(r" at 0x[0-9a-f]+", "", str(trace(side, args)))
    return re.sub(r"jit\[\s*name=\w+", "", text)


def _pulled_back(side: Any, args: tuple[Any, ...]) -> str:
    def along(*args: Any) -> Any:
        floats = [a for a in args if _is_float(a)]
        results, pull = jax.vjp(lambda *some: side(*_with_floats(args, some)), *floats)
        return pull(jax.tree.map(jnp.ones_like, results))

    return _printed(along, args)


def _pushed_forward(side: Any, args: tuple[Any, ...]) -> str:
    return _printed(lambda *a: jax.jvp(side, a, a), args)


def _with_floats(args: Any, floats: Any) -> list[Any]:
    left = iter(floats)
    return [next(left) if _is_float(a) else a for a in args]


def _pulled_back_values(side: Any, args: tuple[Any, ...]) -> list[Any]:
    def along(*floats: Any) -> Any:
        return side(*_with_floats(args, floats))

    results, pull = jax.vjp(along, *[a for a in args if _is_float(a)])
    return _bits(pull(jax.tree.map(jnp.ones_like, results)))


def _is_float(leaf: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(leaf), jnp.floating))


def _batched(side: Any, args: tuple[Any, ...]) -> str:
    return _printed(jax.vmap(side), tuple(jnp.stack([a, a, a]) for a in args))


def _compiled(side: Any, args: tuple[Any, ...]) -> str:
    text: str = jax.jit(side).lower(*args).as_text()
    return text


def _values(side: Any, args: tuple[Any, ...]) -> list[Any]:
    return _bits(side(*args))


def _bits(results: Any) -> list[Any]:
    leaves = [(x, np.asarray(x)) for x in jax.tree.leaves(results)]
    return [(a.dtype, a.tobytes(), str(getattr(x, "sharding", ""))) for x, a in leaves]


_VIEWS: dict[str, Callable[[Any, tuple[Any, ...]], Any]] = {
    "JAX prints them differently": _printed,
    "JAX prints a pullback differently": _pulled_back,
    "JAX prints a pushforward differently": _pushed_forward,
    "JAX prints a batch differently": _batched,
    "JAX compiles them differently": _compiled,
    "they return other values": _values,
    "their derivatives have other values": _pulled_back_values,
}
