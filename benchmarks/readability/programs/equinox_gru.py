"""An equinox GRU scanned over a sequence: the probability of each sequence."""

import equinox as eqx
import jax
import jax.numpy as jnp


class Classifier(eqx.Module):
    """A GRU cell, a norm and a linear head."""

    cell: eqx.nn.GRUCell
    norm: eqx.nn.LayerNorm
    head: eqx.nn.Linear

    def __init__(self, n_in, hidden, key):
        cell_key, head_key = jax.random.split(key)
        self.cell = eqx.nn.GRUCell(n_in, hidden, key=cell_key)
        self.norm = eqx.nn.LayerNorm(hidden)
        self.head = eqx.nn.Linear(hidden, 1, key=head_key)

    def __call__(self, sequence):
        def step(hidden, x):
            hidden = self.cell(x, hidden)
            return hidden, None

        hidden = jnp.zeros(self.cell.hidden_size)
        hidden, _ = jax.lax.scan(step, hidden, sequence)
        logit = self.head(self.norm(hidden))
        return jax.nn.sigmoid(logit[0])


def predict(model, sequences):
    return jax.vmap(model)(sequences)


def program():
    model = Classifier(4, 16, jax.random.key(0))
    sequences = jax.random.normal(jax.random.key(1), (3, 6, 4))
    return predict, (model, sequences)
