"""A GRU classifier over sequences, by hand."""

import jax
import jax.numpy as jnp


def gru_cell(params, hidden, x):
    input_gates = params["weight_ih"] @ x + params["bias"]
    hidden_gates = params["weight_hh"] @ hidden
    reset_x, update_x, new_x = jnp.split(input_gates, 3)
    reset_h, update_h, new_h = jnp.split(hidden_gates, 3)
    reset = jax.nn.sigmoid(reset_x + reset_h)
    update = jax.nn.sigmoid(update_x + update_h)
    new = jnp.tanh(new_x + reset * (new_h + params["bias_n"]))
    return new + update * (hidden - new)


def layer_norm(params, x):
    normed = (x - jnp.mean(x)) * jax.lax.rsqrt(jnp.var(x) + 1e-5)
    return params["weight"] * normed + params["bias"]


def classify(model, sequence):
    def step(hidden, x):
        return gru_cell(model["cell"], hidden, x), None

    hidden, _ = jax.lax.scan(step, jnp.zeros(16), sequence)
    head = model["head"]
    logit = head["weight"] @ layer_norm(model["norm"], hidden) + head["bias"]
    return jax.nn.sigmoid(logit[0])


def predict(model, sequences):
    return jax.vmap(classify, in_axes=(None, 0))(model, sequences)


def program(model, sequences):
    cell, norm, head = model.cell, model.norm, model.head
    params = {
        "cell": {
            "weight_ih": cell.weight_ih,
            "weight_hh": cell.weight_hh,
            "bias": cell.bias,
            "bias_n": cell.bias_n,
        },
        "norm": {"weight": norm.weight, "bias": norm.bias},
        "head": {"weight": head.weight, "bias": head.bias},
    }
    return predict, (params, sequences)
