"""Programs whose files have what functions of arrays have not.

Sidecars, containers, classes of states, keyword-only arguments, defaults, static
arguments, settings, and rules with static arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.verification.programs import TABLE, M, X, clipped, power

WEIGHTS = np.random.RandomState(0).randn(20, 30).astype(np.float32)
HALVES = jnp.asarray(WEIGHTS[:10], jnp.bfloat16)


class State(NamedTuple):
    """A state of an optimizer."""

    count: Any
    mean: Any
    scale: Any


@jax.tree_util.register_dataclass
@dataclass
class Params:
    """Parameters of a layer."""

    w: Any
    b: Any


def layer(x: Any) -> Any:
    return jnp.tanh(x @ WEIGHTS), x[:10] * HALVES.sum()


def mask(x: Any) -> Any:
    kept = np.random.RandomState(1).rand(40, 50) > 0.5
    return {"kept": jnp.where(kept, x, 0.0), "all": x * WEIGHTS[:, :1].sum()}


def step(state: State, batch: Any, rate: Any = 0.5) -> Any:
    mean = jax.tree.map(lambda m: m - rate * batch.sum(), state.mean)
    new = State(state.count + 1, mean, [state.scale[0] * 2.0, None])
    return new, {"loss": batch.sum(), "max": batch.max()}


def keywords(x: Any, *, scale: Any, shift: Any) -> Any:
    return {"out": (x * scale, [x - shift, scale]), "in": {"x": x}}


def containers(tree: Any) -> Any:
    left, right = tree["left"], tree["right"]
    return [(left[0] + right, left[1]), {"b": right, "a": left[0]}], (), {"n": None}


def dense(params: Any, x: Any) -> Any:
    hidden = jax.nn.relu(x @ params[0].w + params[0].b)
    return Params(hidden @ params[1].w, params[1].b)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def scaled(x: Any, factors: Any) -> Any:
    return x * 1.0


def _scaled_fwd(x: Any, factors: Any) -> Any:
    return scaled(x, factors), None


def _scaled_bwd(factors: Any, residuals: Any, cotangent: Any) -> Any:
    return (cotangent * float(min(factors)),)


scaled.defvjp(_scaled_fwd, _scaled_bwd)


def static_rules(x: Any) -> Any:
    y = scaled(scaled(x, (2, 3)), (5,))
    return power(y, 2) * power(x, 3)


def defaults(x: Any, y: Any = 2.0, *, z: Any = 3) -> Any:
    return x - y, (x / z, y)


def averages(x: Any) -> Any:
    def one(carry: Any, row: Any) -> Any:
        total, count = carry["total"], carry["count"]
        carry = {"total": total + row.sum(), "count": count + 1}
        return carry, (row * total, {"row": row})

    return lax.scan(one, {"total": 0.0, "count": 0}, x)


def ensemble(params: Any, x: Any) -> Any:
    def one(p: Any, x: Any) -> Any:
        return {"y": jnp.tanh(x @ p["w"]), "norm": (p["w"] ** 2).sum()}

    return jax.vmap(one, in_axes=({"w": 0}, None))(params, x)


def losses(params: Any, x: Any) -> Any:
    def loss(params: Any) -> Any:
        y = jnp.dot(x, params["w"]) + params["b"]
        return jnp.mean(y**2), {"y": y, "max": y.max()}

    (value, aux), grads = jax.value_and_grad(loss, has_aux=True)(params)
    return {"loss": value, **aux}, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def clipped_twice(x: Any, y: Any) -> Any:
    return {"first": clipped(x, y), "second": clipped(y, x)}


STATE = State(np.int32(0), {"w": X, "b": X[:1]}, [np.float32(1.0), None])
SAVED: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layer": (layer, (np.ones(20, np.float32),)),
    "mask": (mask, (np.ones((40, 50), np.float32),)),
    "step": (step, (STATE, X)),
    "keywords": (functools.partial(keywords, scale=X, shift=TABLE), (X,)),
    "containers": (containers, ({"left": (X, 2.0), "right": TABLE},)),
    "dense": (dense, ([Params(M.T, M[0, :3]), Params(M, X)], X)),
    "static_rules": (static_rules, (X,)),
    "defaults": (defaults, (X,)),
    "averages": (averages, (M,)),
    "ensemble": (ensemble, ({"w": np.stack([M.T, M.T + 1])}, X)),
    "losses": (losses, ({"w": M.T, "b": M[:, 0]}, M)),
    "clipped_twice": (clipped_twice, (X, TABLE)),
}
