"""NaNs planted in models: what makes one, where it is put, and what has to be found."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from untrace.interpreters.nans.nan_origin import NanOrigin

stop = jax.lax.stop_gradient
Plant = Callable[[Any, Any], Any]
"""Takes a value and whether to make a NaN of it."""

X = jnp.array([0.3, -0.7, 0.5], jnp.float32)
W = jnp.array([[0.5, -0.2, 0.1], [0.3, 0.4, -0.6], [-0.1, 0.2, 0.7]], jnp.float32)


def hit(is_hit: Any, yes: Any, no: Any) -> Any:
    # XLA must not know it: it folds constants, and then exp(NaN) may be a number.
    return jnp.where(jax.lax.optimization_barrier(jnp.asarray(is_hit)), yes, no)


def zero(x: Any) -> Any:
    """Zero, whose derivative is one."""
    return x - stop(x)


# One line each: it is what has to be found.
FORWARD: dict[str, Plant] = {
    "log": lambda x, h: x + jnp.log(hit(h, -1.0, 1.0)),
    "sqrt": lambda x, h: x * jnp.sqrt(hit(h, -1.0, 1.0)),
    "div": lambda x, h: x * (hit(h, 0.0, 1.0) / hit(h, 0.0, 2.0)),
    "sub": lambda x, h: x + (hit(h, jnp.inf, 1.0) - hit(h, jnp.inf, 2.0)),
    "mul": lambda x, h: x + hit(h, jnp.inf, 1.0) * hit(h, 0.0, 1.0),
    "pow": lambda x, h: x + hit(h, -1.0, 1.0) ** hit(h, 0.5, 1.0),
    "acos": lambda x, h: x + jnp.arccos(hit(h, 2.0, 0.5)),
}
BACKWARD: dict[str, Plant] = {
    "sqrt": lambda x, h: x + jnp.sqrt(hit(h, zero(x) ** 2, 1.0)),
    "where": lambda x, h: x + hit(h, 0.0, jnp.sqrt(hit(h, zero(x), 1.0))),
    "arctan2": lambda x, h: x + jnp.arctan2(hit(h, zero(x), 1.0), hit(h, zero(x), 1.0)),
    "norm": lambda x, h: x + jnp.linalg.norm(hit(h, zero(x), 1.0) * W[0]),
}


def line_of(plant: Plant) -> int:
    return plant.__code__.co_firstlineno


# ---- models: where a plant is put ------------------------------------------------------


def mlp(plant: Plant, site: int, x: Any) -> Any:
    for layer in range(3):
        x = plant(jnp.tanh(W @ x), site == layer)
    return x.sum()


def jitted(plant: Plant, site: int, x: Any) -> Any:
    @jax.jit
    def block(x: Any, layer: Any) -> Any:
        return plant(jax.nn.gelu(W @ x), layer == site)

    return block(block(x, 0), 1).sum()


def checkpointed(plant: Plant, site: int, x: Any) -> Any:
    for layer in range(2):
        x = jax.checkpoint(lambda x, i=layer: plant(jnp.sin(W @ x), i == site))(x)
    return x.sum()


def rnn(plant: Plant, site: int, x: Any, reverse: bool = False) -> Any:
    def step(h: Any, row: Any) -> Any:
        i, v = row
        h = plant(jnp.tanh(W @ h + v), i == site)
        return h, h.mean()

    rows = (jnp.arange(5), jnp.stack([x * k for k in range(5)]))
    return jax.lax.scan(step, x, rows, reverse=reverse)[0].sum()


def reversed_rnn(plant: Plant, site: int, x: Any) -> Any:
    return rnn(plant, site, x, reverse=True)


def outputs_of_scan(plant: Plant, site: int, x: Any) -> Any:
    def step(h: Any, i: Any) -> Any:
        return jnp.sin(h) + 0.1, plant(h * 2.0, i == site)

    return jax.lax.scan(step, x, jnp.arange(4))[1].sum()


def nested(plant: Plant, site: int, x: Any) -> Any:
    def outer(h: Any, i: Any) -> Any:
        def inner(h: Any, j: Any) -> Any:
            return plant(jnp.sin(h), i * 3 + j == site), None

        return jax.lax.scan(inner, h, jnp.arange(3))[0], None

    return jax.lax.scan(outer, x, jnp.arange(2))[0].sum()


def branches(plant: Plant, site: int, x: Any) -> Any:
    ones = [lambda x, i=i: plant(W @ x * (i + 1.0), True) for i in range(2)]
    return jax.lax.switch(jnp.int32(site), ones, x).sum()


def cond_in_scan(plant: Plant, site: int, x: Any) -> Any:
    def step(h: Any, i: Any) -> Any:
        return jax.lax.cond(i == site, lambda h: plant(h, True), jnp.sin, h), None

    return jax.lax.scan(step, x, jnp.arange(4))[0].sum()


def checkpointed_scan(plant: Plant, site: int, x: Any) -> Any:
    @jax.checkpoint
    def step(h: Any, i: Any) -> Any:
        return plant(jnp.tanh(W @ h), i == site), None

    return jax.lax.scan(step, x, jnp.arange(4))[0].sum()


def while_loop(plant: Plant, site: int, x: Any) -> Any:
    def turn(state: Any) -> Any:
        i, h = state
        return i + 1, plant(jnp.tanh(h), i == site)

    return jax.lax.while_loop(lambda state: state[0] < 5, turn, (0, x))[1].sum()


def attention(plant: Plant, site: int, x: Any) -> Any:
    q = jnp.stack([x, x + 1, x - 1])
    scores = plant(q @ q.T, site == 0)
    weights = plant(jax.nn.softmax(scores), site == 1)
    return plant(weights @ q, site == 2).sum()


MODELS: dict[Callable[..., Any], tuple[range, str]] = {
    mlp: (range(3), ""),
    jitted: (range(2), ""),
    checkpointed: (range(2), ""),
    rnn: (range(0, 5, 2), "scan[{}]"),
    reversed_rnn: (range(0, 5, 2), "scan[{}]"),
    outputs_of_scan: (range(1, 4), "scan[{}]"),
    nested: (range(1, 6, 2), "nested"),
    branches: (range(2), ""),
    cond_in_scan: (range(1, 4), "scan[{}]"),
    checkpointed_scan: (range(0, 4, 2), "scan[{}]"),
    while_loop: (range(0, 5, 2), "while[{}]"),
    attention: (range(3), ""),
}
"""For each model the sites, and the turn that has to be found."""


@dataclass(frozen=True)
class Case:
    """A NaN in a model."""

    model: Callable[..., Any]
    site: int
    kind: str
    plant: Plant
    is_backward: bool
    is_batched: bool

    @property
    def name(self) -> str:
        way = "backward" if self.is_backward else "forward"
        batched = "-vmap" if self.is_batched else ""
        return f"{self.model.__name__}-{self.site}-{way}-{self.kind}{batched}"

    def function(self, plant: Plant | None = None) -> Callable[[Any], Any]:
        """Return the model, or its gradient, with a plant."""
        used = plant or self.plant

        def f(x: Any) -> Any:
            return self.model(used, self.site, x)

        function = jax.grad(f) if self.is_backward else f
        return jax.vmap(function) if self.is_batched else function

    @property
    def x(self) -> Any:
        return jnp.stack([X, X * 2]) if self.is_batched else X

    def wrong(self, found: NanOrigin | None) -> str:
        """Say what is wrong with what was found; nothing if it is the plant."""
        if found is None or found.origin is None:
            return f"found {found!r}"
        if found.origin.line != line_of(self.plant):
            return f"line {found.origin.line} {found.origin.text}"
        if not self.is_backward and found.primitive != self.kind:
            return f"primitive {found.primitive}"
        if self.is_backward and not found.origin.is_derivative:
            return "not known to be of a derivative"
        turn = MODELS[self.model][1]
        wanted = [turn.format(self.site)] if turn else []
        if turn == "nested":
            wanted = [f"scan[{self.site // 3}]", f"scan[{self.site % 3}]"]
        turns = [p for p in found.origin.path if p.startswith(("scan", "while"))]
        return "" if turns == wanted else f"turns {turns}, not {wanted}"


def cases() -> Iterator[Case]:
    """List all plants in all models."""
    for model, (sites, _) in MODELS.items():
        for number, (site, kind) in enumerate(itertools.product(sites, FORWARD)):
            yield Case(model, site, kind, FORWARD[kind], False, number % 4 == 3)
        for number, (site, kind) in enumerate(itertools.product(sites, BACKWARD)):
            if model is not while_loop:  # it has no backward pass
                is_batched = number % 4 == 3
                yield Case(model, site, kind, BACKWARD[kind], True, is_batched)
