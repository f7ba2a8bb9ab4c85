"""Cases of dm-haiku: transformed functions, with and without state."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


@case("dm-haiku", "network", "gradient", "optimizer", shows="LeNet trained as in MNIST")
def mlp_update_with_polyak_average() -> Call:
    """The update of haiku's MNIST example: gradient, Adam, averaged parameters."""
    import haiku as hk
    import optax

    network = hk.without_apply_rng(
        hk.transform(
            lambda x: hk.Sequential(
                [hk.Flatten(), hk.Linear(30), jax.nn.relu, hk.Linear(10)]
            )(x)
        )
    )
    optimizer = optax.adam(1e-3)

    def loss(params, images, labels):
        logits = jax.nn.log_softmax(network.apply(params, images))
        squares = sum(jnp.sum(p**2) for p in jax.tree.leaves(params))
        onehot = jax.nn.one_hot(labels, 10)
        return -jnp.sum(onehot * logits) / images.shape[0] + 1e-4 * squares

    def update(params, average, opt_state, images, labels):
        grads = jax.grad(loss)(params, images, labels)
        updates, opt_state = optimizer.update(grads, opt_state)
        params = optax.apply_updates(params, updates)
        return params, optax.incremental_update(params, average, 0.001), opt_state

    images = jax.random.uniform(jax.random.key(0), (4, 8, 8, 1))
    params = network.init(jax.random.key(1), images)
    labels = jnp.array([0, 9, 4, 4])
    return call(update, params, params, optimizer.init(params), images, labels)


@case("dm-haiku", "network", "state", "image", "gradient", shows="a ResNet-18 backward")
def resnet18_gradient_with_state() -> Call:
    """The loss gradient of haiku's ResNet-18 on small images, with its state."""
    import haiku as hk

    def forward(images, is_training):
        return hk.nets.ResNet18(5)(images, is_training)

    network = hk.without_apply_rng(hk.transform_with_state(forward))
    images = jax.random.normal(jax.random.key(0), (2, 32, 32, 3))
    params, state = network.init(jax.random.key(1), images, True)

    def loss(params, state, images):
        logits, state = network.apply(params, state, images, True)
        return -jax.nn.log_softmax(logits)[:, 0].mean(), state

    return call(jax.value_and_grad(loss, has_aux=True), params, state, images)


@case("dm-haiku", "network", "attention", "prng", shows="an encoder layer with dropout")
def transformer_layer_with_dropout() -> Call:
    """A block of haiku's transformer example, its key split by hk.next_rng_key."""
    import haiku as hk

    def layer(x, mask):
        init = hk.initializers.VarianceScaling(0.5)
        attention = hk.MultiHeadAttention(
            num_heads=2, key_size=8, model_size=16, w_init=init
        )
        normed = hk.LayerNorm(axis=-1, create_scale=True, create_offset=True)(x)
        y = attention(normed, normed, normed, mask=mask)
        x = x + hk.dropout(hk.next_rng_key(), 0.2, y)
        y = hk.Linear(16, w_init=init)(jax.nn.gelu(hk.Linear(64, w_init=init)(x)))
        return x + hk.dropout(hk.next_rng_key(), 0.2, y)

    network = hk.transform(layer)
    x = jax.random.normal(jax.random.key(0), (2, 5, 16))
    mask = jnp.tril(jnp.ones((1, 1, 5, 5)))
    params = network.init(jax.random.key(1), x, mask)
    return call(network.apply, params, jax.random.key(2), x, mask)


@case("dm-haiku", "network", "recurrent", "scan", "gradient", shows="a deep LSTM")
def deep_lstm_dynamic_unroll_gradient() -> Call:
    """A character model: DeepRNN of two LSTMs under dynamic_unroll."""
    import haiku as hk

    def model(tokens):
        core = hk.DeepRNN([hk.Embed(20, 12), hk.LSTM(16), jnp.tanh, hk.LSTM(16)])
        state = core.initial_state(tokens.shape[1])
        outputs, _ = hk.dynamic_unroll(core, tokens, state)
        return hk.Linear(20)(outputs)

    network = hk.without_apply_rng(hk.transform(model))
    tokens = jax.random.randint(jax.random.key(0), (9, 3), 0, 20)
    params = network.init(jax.random.key(1), tokens[:-1])

    def loss(params, tokens):
        logits = network.apply(params, tokens[:-1])
        onehot = jax.nn.one_hot(tokens[1:], 20)
        return -jnp.mean(jnp.sum(onehot * jax.nn.log_softmax(logits), axis=-1))

    return call(jax.grad(loss), params, tokens)


@case("dm-haiku", "network", "state", "quantization", shows="a VQ-VAE with EMA codes")
def vector_quantizer_ema_step() -> Call:
    """A quantised autoencoder's gradient and the moved codebook."""
    import haiku as hk

    def model(x):
        quantizer = hk.nets.VectorQuantizerEMA(
            embedding_dim=6, num_embeddings=10, commitment_cost=0.25, decay=0.99
        )
        encoded = hk.Conv1D(6, 3, stride=2)(x)
        quantized = quantizer(encoded, is_training=True)
        decoded = hk.Conv1DTranspose(3, 3, stride=2)(quantized["quantize"])
        return jnp.mean((decoded - x) ** 2) + quantized["loss"]

    network = hk.without_apply_rng(hk.transform_with_state(model))
    x = jax.random.normal(jax.random.key(0), (2, 12, 3))
    params, state = network.init(jax.random.key(1), x)
    step = jax.value_and_grad(network.apply, has_aux=True)
    return call(step, params, state, x)


@case("dm-haiku", "network", "scan", "remat", shows="hk.layer_stack over a block")
def layer_stack_of_linear_blocks() -> Call:
    """Five layers as one scan, with parameters stacked by layer_stack."""
    import haiku as hk

    def block(x):
        return x + hk.Linear(10)(jax.nn.relu(hk.LayerNorm(-1, True, True)(x)))

    def model(x):
        return hk.experimental.layer_stack(5)(hk.remat(block))(x)

    network = hk.without_apply_rng(hk.transform(model))
    x = jax.random.normal(jax.random.key(0), (3, 10))
    params = network.init(jax.random.key(1), x)
    return call(jax.grad(lambda p, x: network.apply(p, x).sum()), params, x)
