"""A data- and tensor-parallel training step by `shard_map`, on a mesh of one device."""

import functools

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

mesh = jax.make_mesh(
    (1, 1), ("data", "model"), axis_types=(jax.sharding.AxisType.Auto,) * 2
)


@functools.partial(
    jax.shard_map,
    mesh=mesh,
    in_specs=(P("data", None), P(None, "model"), P("model", None)),
    out_specs=P("data", None),
)
def parallel_mlp(x, up, down):
    hidden = jax.nn.gelu(x @ up)
    partial = hidden @ down
    return jax.lax.psum(partial, "model")


def loss_fn(params, x, y):
    out = parallel_mlp(x, params["up"], params["down"])
    out = jax.lax.with_sharding_constraint(out, jax.NamedSharding(mesh, P("data")))
    return jnp.mean((out - y) ** 2)


def train_step(params, x, y):
    loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
    params = jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)
    return params, loss


def program():
    keys = jax.random.split(jax.random.key(0), 4)
    params = {
        "up": jax.random.normal(keys[0], (16, 32)),
        "down": jax.random.normal(keys[1], (32, 16)),
    }
    x = jax.random.normal(keys[2], (4, 16))
    y = jax.random.normal(keys[3], (4, 16))
    return train_step, (params, x, y)
