"""Cases of torchax, which traces torch modules, and of keras on its JAX backend."""

from __future__ import annotations

import functools
import os
from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case

NAMED_OVERLOADS = (
    "prod.dim_Dimname unbind.Dimname all.dimname all.dimname_out "
    "index_add.dimname index_copy.dimname index_copy_.dimname "
    "index_fill.Dimname_Scalar index_fill.Dimname_Tensor "
    "index_fill_.Dimname_Scalar index_fill_.Dimname_Tensor "
    "norm.names_ScalarOpt_dim_dtype norm.names_ScalarOpt_dim "
    "norm.names_out norm.names_dtype_out std.names_out std.correction_names_out "
    "std.names_dim std.correction_names std_mean.names_dim std_mean.correction_names"
)
"""What torch 2.13 dropped with its named tensors, and torchax 0.0.13 still lists."""


@functools.cache
def library_of_named_overloads() -> Any:
    """Return a library that declares the dropped overloads, so torchax imports."""
    import torch

    library = torch.library.Library("aten", "FRAGMENT")
    for name in NAMED_OVERLOADS.split():
        library.define(f"{name}(Tensor self, str dim) -> Tensor")
    return library


def seeded_torch() -> Any:
    """Return torch with its seed set, ready for torchax."""
    import torch

    library_of_named_overloads()
    torch.manual_seed(0)
    return torch


def seeded_keras() -> Any:
    """Return keras on the JAX backend with its seed set."""
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    keras.utils.set_random_seed(0)
    return keras


def stateless_loss_gradient(model: Any, loss: Any, x: jax.Array, y: jax.Array) -> Call:
    """Return the call of keras' stateless training loss and its gradient."""

    def objective(trainable, non_trainable, x, y):
        predictions, non_trainable = model.stateless_call(
            trainable, non_trainable, x, training=True
        )
        return loss(y, predictions), non_trainable

    trainable = [v.value for v in model.trainable_variables]
    non_trainable = [v.value for v in model.non_trainable_variables]
    gradient = jax.value_and_grad(objective, has_aux=True)
    return call(gradient, trainable, non_trainable, x, y)


@case(
    "torchax", "converter", "network", needs=("torch",), shows="extract_jax of an MLP"
)
def extracted_multilayer_perceptron() -> Call:
    """The function and weights that torchax extracts of a small torch module."""
    torch = seeded_torch()
    import torchax

    nn = torch.nn
    model = nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.LayerNorm(16))
    weights, function = torchax.extract_jax(model.eval())
    return call(function, weights, (jnp.ones((3, 6)),))


@case(
    "torchax",
    "converter",
    "network",
    "image",
    "gradient",
    needs=("torch",),
    shows="convolutions, pooling and group norm of torch",
)
def convolutional_network_gradient() -> Call:
    """The gradient of a torch CNN by its weights, taken by jax.grad."""
    torch = seeded_torch()
    import torchax

    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1),
        nn.GroupNorm(2, 4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(4, 8, 3, stride=2),
        nn.SiLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
    )
    weights, function = torchax.extract_jax(model.eval())

    def loss(weights, x, labels):
        logits = jax.nn.log_softmax(function(weights, (x,)))
        return -jnp.take_along_axis(logits, labels[:, None], axis=1).mean()

    x = jax.random.normal(jax.random.key(0), (2, 1, 12, 12))
    return call(jax.value_and_grad(loss), weights, x, jnp.array([1, 4]))


@case(
    "torchax",
    "converter",
    "network",
    "attention",
    "optimizer",
    needs=("torch",),
    shows="a torch decoder trained by optax",
)
def transformer_train_step() -> Call:
    """A step of Adam on a torch transformer of six layers with its own attention."""
    torch = seeded_torch()
    import optax
    import torchax

    nn, functional = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.RMSNorm(width)
            self.qkv = nn.Linear(width, 3 * width)
            self.out = nn.Linear(width, width)
            self.mlp = nn.Sequential(
                nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
            )

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
            q, k, v = (
                a.view(b, t, self.heads, c // self.heads).transpose(1, 2)
                for a in (q, k, v)
            )
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, c))
            return x + self.mlp(self.norm2(x))

    model = nn.Sequential(
        nn.Embedding(40, 32), *[Block(32, 4) for _ in range(6)], nn.Linear(32, 40)
    )
    weights, function = torchax.extract_jax(model)
    optimizer = optax.adam(1e-3)

    def step(weights, opt_state, tokens):
        def loss(weights):
            logits = function(weights, (tokens[:, :-1],))
            return optax.softmax_cross_entropy_with_integer_labels(
                logits, tokens[:, 1:]
            ).mean()

        value, grads = jax.value_and_grad(loss)(weights)
        updates, opt_state = optimizer.update(grads, opt_state)
        return value, optax.apply_updates(weights, updates), opt_state

    tokens = jax.random.randint(jax.random.key(0), (2, 9), 0, 40)
    return call(step, weights, optimizer.init(weights), tokens)


@case(
    "torchax",
    "converter",
    "network",
    "recurrent",
    needs=("torch",),
    shows="torch's encoder layer with a mask",
)
def torch_encoder_layer() -> Call:
    """torch's TransformerEncoderLayer over a batch."""
    torch = seeded_torch()
    import torchax

    layer = torch.nn.TransformerEncoderLayer(
        16, 2, 32, batch_first=True, norm_first=True
    )
    weights, function = torchax.extract_jax(layer)
    x = jax.random.normal(jax.random.key(0), (2, 5, 16))
    layer.eval()
    return call(function, weights, (x,))


@case(
    "torchax",
    "converter",
    "sorting",
    "complex",
    needs=("torch",),
    shows="torch functions seen as JAX functions",
)
def torch_functions_by_jax_view() -> Call:
    """Sorting, an FFT, a scatter and a contraction, written in torch."""
    torch = seeded_torch()
    import torchax
    from torchax import interop

    env = torchax.default_env()

    def function(x, index):
        with env:
            ordered, _ = torch.sort(x, dim=-1, descending=True)
            total = torch.zeros_like(x).scatter_add(1, index, x)
            spectrum = torch.fft.fft(ordered)
            power = spectrum.real**2 + spectrum.imag**2
            outer = torch.einsum("ni,nj->ij", ordered, power)
            return torch.cumsum(outer, dim=0), torch.topk(total, 2)[0]

    x = jax.random.normal(jax.random.key(0), (3, 6))
    index = jax.random.randint(jax.random.key(1), (3, 6), 0, 6)
    return call(interop.jax_view(function), x, index)


@case(
    "keras", "network", "image", "gradient", "state", shows="a functional CNN trained"
)
def convolutional_classifier_gradient() -> Call:
    """The stateless gradient of keras' MNIST convnet, with batch norm and dropout."""
    keras = seeded_keras()
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((12, 12, 1)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(2),
            layers.SeparableConv2D(8, 3, activation="swish"),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(5, activation="softmax"),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy()
    x = jax.random.normal(jax.random.key(0), (4, 12, 12, 1))
    return stateless_loss_gradient(model, loss, x, jnp.array([0, 3, 1, 4]))


@case("keras", "network", "recurrent", "scan", "gradient", shows="a bidirectional LSTM")
def bidirectional_lstm_gradient() -> Call:
    """The text classifier of keras' examples: embedding and two bidirectional LSTMs."""
    keras = seeded_keras()
    layers = keras.layers
    inputs = keras.Input((7,), dtype="int32")
    x = layers.Embedding(30, 8)(inputs)
    x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
    x = layers.Bidirectional(layers.GRU(6))(x)
    model = keras.Model(inputs, layers.Dense(1, activation="sigmoid")(x))
    tokens = jax.random.randint(jax.random.key(0), (3, 7), 0, 30)
    labels = jnp.array([[1.0], [0.0], [1.0]])
    return stateless_loss_gradient(
        model, keras.losses.BinaryCrossentropy(), tokens, labels
    )


@case(
    "keras", "network", "attention", "optimizer", shows="a whole stateless train step"
)
def stateless_transformer_train_step() -> Call:
    """A transformer of three blocks: loss, gradient and AdamW, all stateless."""
    keras = seeded_keras()
    layers = keras.layers
    x = inputs = keras.Input((6, 16))
    for _ in range(3):
        attended = layers.MultiHeadAttention(2, 8)(x, x)
        x = layers.LayerNormalization()(x + attended)
        hidden = layers.Dense(16)(layers.Dense(32, activation="gelu")(x))
        x = layers.LayerNormalization()(x + hidden)
    x = layers.GlobalAveragePooling1D()(x)
    model = keras.Model(inputs, layers.Dense(3)(x))
    loss = keras.losses.CategoricalCrossentropy(from_logits=True)
    optimizer = keras.optimizers.AdamW(1e-3, clipnorm=1.0)
    optimizer.build(model.trainable_variables)

    def step(trainable, non_trainable, opt_variables, x, y):
        def objective(trainable):
            logits, _ = model.stateless_call(trainable, non_trainable, x)
            return loss(y, logits)

        value, grads = jax.value_and_grad(objective)(trainable)
        trainable, opt_variables = optimizer.stateless_apply(
            opt_variables, grads, trainable
        )
        return value, trainable, opt_variables

    return call(
        step,
        [v.value for v in model.trainable_variables],
        [v.value for v in model.non_trainable_variables],
        [v.value for v in optimizer.variables],
        jax.random.normal(jax.random.key(0), (4, 6, 16)),
        jax.nn.one_hot(jnp.array([0, 2, 1, 1]), 3),
    )


@case("keras", "ops", "image", "fft", shows="keras.ops on JAX arrays")
def backend_agnostic_operations() -> Call:
    """Image resizing, a spectrogram, segment sums and top-k from keras.ops."""
    keras = seeded_keras()
    ops = keras.ops

    def features(image, signal, segments):
        small = ops.image.resize(image, (6, 6), interpolation="bicubic")
        real, imaginary = ops.stft(signal, 16, 8, 16)
        power = ops.square(real) + ops.square(imaginary)
        sums = ops.segment_sum(ops.mean(power, axis=-1), segments, num_segments=3)
        return small, ops.top_k(power, 3), ops.logsumexp(sums)

    image = jax.random.uniform(jax.random.key(0), (1, 10, 10, 3))
    signal = jax.random.normal(jax.random.key(1), (40,))
    return call(features, image, signal, jnp.array([0, 0, 1, 1, 2, 2]))
