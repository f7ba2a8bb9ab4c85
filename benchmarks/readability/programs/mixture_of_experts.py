"""A mixture of experts with top-2 routing, capacity and a balancing loss."""

import jax
import jax.numpy as jnp

N_EXPERTS = 4
TOP_K = 2
CAPACITY = 6


def route(router, tokens):
    logits = tokens @ router
    probs = jax.nn.softmax(logits, axis=-1)
    gates, experts = jax.lax.top_k(probs, TOP_K)
    gates = gates / jnp.sum(gates, axis=-1, keepdims=True)
    assignment = jax.nn.one_hot(experts, N_EXPERTS)
    return probs, gates, assignment


def balance_loss(probs, assignment):
    density = jnp.mean(assignment[:, 0], axis=0)
    mean_probs = jnp.mean(probs, axis=0)
    return N_EXPERTS * jnp.sum(density * mean_probs)


def dispatch_and_combine(gates, assignment):
    flat = assignment.swapaxes(0, 1).reshape(-1, N_EXPERTS)
    position = jnp.cumsum(flat, axis=0) * flat - 1.0
    position = position.reshape(TOP_K, -1, N_EXPERTS).swapaxes(0, 1)
    slots = jax.nn.one_hot(position.astype(jnp.int32), CAPACITY) * assignment[..., None]
    dispatch = jnp.sum(slots, axis=1)
    combine = jnp.einsum("tk,tkec->tec", gates, slots)
    return dispatch, combine


def experts_forward(params, inputs):
    hidden = jnp.einsum("ecd,edf->ecf", inputs, params["up"])
    hidden = jax.nn.relu(hidden)
    return jnp.einsum("ecf,efd->ecd", hidden, params["down"])


def mixture_of_experts(params, x):
    tokens = x.reshape(-1, x.shape[-1])
    probs, gates, assignment = route(params["router"], tokens)
    dispatch, combine = dispatch_and_combine(gates, assignment)
    inputs = jnp.einsum("tec,td->ecd", dispatch, tokens)
    outputs = experts_forward(params, inputs)
    mixed = jnp.einsum("tec,ecd->td", combine, outputs)
    return mixed.reshape(x.shape), balance_loss(probs, assignment)


def program():
    keys = jax.random.split(jax.random.key(0), 4)
    params = {
        "router": jax.random.normal(keys[0], (16, N_EXPERTS)),
        "up": 0.2 * jax.random.normal(keys[1], (N_EXPERTS, 16, 32)),
        "down": 0.2 * jax.random.normal(keys[2], (N_EXPERTS, 32, 16)),
    }
    return mixture_of_experts, (params, jax.random.normal(keys[3], (2, 4, 16)))
