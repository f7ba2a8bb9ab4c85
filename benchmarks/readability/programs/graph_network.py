"""Message passing on a graph with segment sums, in plain JAX."""

import jax
import jax.numpy as jnp

N_NODES = 6


def mlp(params, x):
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    return hidden @ params["w2"] + params["b2"]


def message_passing(params, nodes, edges, senders, receivers):
    inputs = jnp.concatenate([nodes[senders], nodes[receivers], edges], axis=-1)
    messages = mlp(params["message"], inputs)
    scores = jax.nn.leaky_relu(messages @ params["score"])
    highest = jax.ops.segment_max(scores, receivers, N_NODES)
    weights = jnp.exp(scores - highest[receivers])
    total = jax.ops.segment_sum(weights, receivers, N_NODES)
    weights = weights / total[receivers]
    received = jax.ops.segment_sum(weights[:, None] * messages, receivers, N_NODES)
    update = mlp(params["update"], jnp.concatenate([nodes, received], axis=-1))
    return nodes + update, messages


def graph_network(params, nodes, edges, senders, receivers):
    for round_params in params["rounds"]:
        nodes, edges = message_passing(round_params, nodes, edges, senders, receivers)
    return jnp.mean(nodes, axis=0) @ params["readout"]


def init_mlp(key, n_in, n_out):
    key_1, key_2 = jax.random.split(key)
    return {
        "w1": 0.2 * jax.random.normal(key_1, (n_in, 16)),
        "b1": jnp.zeros(16),
        "w2": 0.2 * jax.random.normal(key_2, (16, n_out)),
        "b2": jnp.zeros(n_out),
    }


def program():
    keys = jax.random.split(jax.random.key(0), 5)
    rounds = [
        {
            "message": init_mlp(key, 24, 8),
            "update": init_mlp(key, 16, 8),
            "score": jnp.ones(8),
        }
        for key in keys[:2]
    ]
    params = {"rounds": rounds, "readout": jax.random.normal(keys[2], (8, 2))}
    nodes = jax.random.normal(keys[3], (N_NODES, 8))
    edges = jax.random.normal(keys[4], (7, 8))
    senders = jnp.array([0, 1, 2, 3, 4, 5, 0])
    receivers = jnp.array([1, 2, 3, 4, 5, 0, 3])
    return graph_network, (params, nodes, edges, senders, receivers)
