"""Cases of spiking networks: layers of spyx under scan with surrogate gradients."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def spikes(n_steps: int, n_batch: int, n_inputs: int) -> jax.Array:
    """Return trains of spikes, time first."""
    shape = (n_steps, n_batch, n_inputs)
    return jax.random.bernoulli(jax.random.key(0), 0.3, shape).astype(jnp.float32)


def unrolled_loss(model: Any, n_batch: int) -> tuple[Any, Any]:
    """Return a loss over spike trains through a spyx model, and its parameters."""
    from flax import nnx

    graph, params = nnx.split(model)

    def loss(params, trains, labels):
        network = nnx.merge(graph, params)

        def step(state, x):
            traces, state = network(x, state)
            return state, traces

        _, traces = jax.lax.scan(step, network.initial_state(n_batch), trains)
        log_p = jax.nn.log_softmax(traces.mean(0))
        return -jnp.take_along_axis(log_p, labels[:, None], axis=1).mean()

    return loss, params


@case("spyx", "spiking", "network", "scan", "gradient", shows="LIF layers trained")
def leaky_integrate_and_fire_gradient() -> Call:
    """The gradient through leaky neurons with a surrogate for their spikes."""
    import spyx.axn
    import spyx.nn as snn
    from flax import nnx

    rngs = nnx.Rngs(0)
    model = snn.Sequential(
        nnx.Linear(12, 16, use_bias=False, rngs=rngs),
        snn.LIF((16,), activation=spyx.axn.superspike(), rngs=rngs),
        nnx.Linear(16, 4, use_bias=False, rngs=rngs),
        snn.LI((4,), rngs=rngs),
    )
    loss, params = unrolled_loss(model, 3)
    labels = jnp.array([0, 3, 1])
    return call(jax.value_and_grad(loss), params, spikes(10, 3, 12), labels)


@case("spyx", "spiking", "network", "scan", "recurrent", shows="adaptive thresholds")
def recurrent_and_adaptive_neurons_gradient() -> Call:
    """Recurrent leaky neurons and adaptive ones, with a triangular surrogate."""
    import spyx.axn
    import spyx.nn as snn
    from flax import nnx

    rngs = nnx.Rngs(1)
    model = snn.Sequential(
        nnx.Linear(8, 10, rngs=rngs),
        snn.RLIF((10,), activation=spyx.axn.triangular(), rngs=rngs),
        nnx.Linear(10, 10, rngs=rngs),
        snn.ALIF((10,), rngs=rngs),
        nnx.Linear(10, 3, rngs=rngs),
        snn.LI((3,), rngs=rngs),
    )
    loss, params = unrolled_loss(model, 2)
    return call(jax.grad(loss), params, spikes(8, 2, 8), jnp.array([2, 0]))


@case("spyx", "spiking", "loss", "metrics", shows="losses over traces of membranes")
def losses_and_regularisers_of_traces() -> Call:
    """Integral cross-entropy, accuracy and the rate of spikes of a batch."""
    import spyx.fn

    cross_entropy = spyx.fn.integral_crossentropy()
    accuracy = spyx.fn.integral_accuracy()

    def measures(traces, labels):
        return cross_entropy(traces, labels), accuracy(traces, labels)

    traces = jax.random.normal(jax.random.key(0), (4, 7, 5))
    return call(measures, traces, jnp.array([0, 4, 2, 2]))
