"""Cases of flax: layers and train steps of linen and of nnx."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


@case("flax", "network", "gradient", "optimizer", shows="a TrainState stepped by Adam")
def linen_train_state_step() -> Call:
    """A step of the classifier that flax's first example trains."""
    import optax
    from flax import linen as nn
    from flax.training import train_state

    class Classifier(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = nn.relu(nn.Conv(8, (3, 3))(x))
            x = nn.avg_pool(x, (2, 2), strides=(2, 2))
            x = x.reshape((x.shape[0], -1))
            return nn.Dense(10)(nn.relu(nn.Dense(32)(x)))

    def step(state, images, labels):
        def loss(params):
            logits = state.apply_fn({"params": params}, images)
            losses = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
            return losses.mean(), logits

        (value, logits), grads = jax.value_and_grad(loss, has_aux=True)(state.params)
        accuracy = (logits.argmax(-1) == labels).mean()
        return state.apply_gradients(grads=grads), value, accuracy

    images = jax.random.normal(jax.random.key(0), (4, 12, 12, 1))
    model = Classifier()
    params = model.init(jax.random.key(1), images)["params"]
    state = train_state.TrainState.create(
        apply_fn=model.apply, params=params, tx=optax.adam(1e-3)
    )
    return call(step, state, images, jnp.array([3, 1, 4, 1]))


@case("flax", "network", "state", "gradient", shows="batch statistics are mutable")
def linen_batch_norm_updates() -> Call:
    """A gradient through BatchNorm that also returns the new running averages."""
    from flax import linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x, train: bool):
            y = nn.Conv(8, (3, 3), use_bias=False)(x)
            y = nn.relu(nn.BatchNorm(use_running_average=not train)(y))
            y = nn.Conv(8, (3, 3), use_bias=False)(y)
            y = nn.BatchNorm(use_running_average=not train)(y)
            return nn.relu(x + y)

    model = Block()
    x = jax.random.normal(jax.random.key(0), (2, 8, 8, 8))
    variables = model.init(jax.random.key(1), x, train=False)

    def loss(params, batch_stats, x):
        both = {"params": params, "batch_stats": batch_stats}
        y, new = model.apply(both, x, train=True, mutable=["batch_stats"])
        return jnp.mean(y**2), new["batch_stats"]

    step = jax.value_and_grad(loss, has_aux=True)
    return call(step, variables["params"], variables["batch_stats"], x)


@case("flax", "network", "prng", shows="dropout draws from a key that apply is given")
def linen_encoder_block_with_dropout() -> Call:
    """A pre-norm encoder block with masked self-attention and dropout."""
    from flax import linen as nn

    class EncoderBlock(nn.Module):
        @nn.compact
        def __call__(self, x, mask, deterministic):
            y = nn.LayerNorm()(x)
            y = nn.MultiHeadDotProductAttention(num_heads=4, dropout_rate=0.1)(
                y, mask=mask, deterministic=deterministic
            )
            x = x + nn.Dropout(0.1, deterministic=deterministic)(y)
            y = nn.gelu(nn.Dense(64)(nn.LayerNorm()(x)))
            return x + nn.Dense(32)(y)

    model = EncoderBlock()
    x = jax.random.normal(jax.random.key(0), (2, 6, 32))
    mask = nn.make_causal_mask(jnp.ones((2, 6)))
    params = model.init(jax.random.key(1), x, mask, True)

    def apply(params, x, mask, key):
        return model.apply(params, x, mask, False, rngs={"dropout": key})

    return call(apply, params, x, mask, jax.random.key(2))


@case(
    "flax", "network", "scan", "gradient", shows="a module lifted over time by nn.scan"
)
def linen_scanned_lstm_gradient() -> Call:
    """The gradient of a next-step loss through an LSTM cell under nn.scan."""
    from flax import linen as nn

    class Forecaster(nn.Module):
        @nn.compact
        def __call__(self, xs):
            scanned = nn.scan(
                nn.OptimizedLSTMCell,
                variable_broadcast="params",
                split_rngs={"params": False},
                in_axes=1,
                out_axes=1,
            )
            cell = scanned(16)
            carry = cell.initialize_carry(jax.random.key(0), xs[:, 0].shape)
            _, hidden = cell(carry, xs)
            return nn.Dense(xs.shape[-1])(hidden)

    model = Forecaster()
    xs = jax.random.normal(jax.random.key(1), (3, 9, 5))
    params = model.init(jax.random.key(2), xs)

    def loss(params, xs):
        return jnp.mean((model.apply(params, xs[:, :-1]) - xs[:, 1:]) ** 2)

    return call(jax.value_and_grad(loss), params, xs)


@case("flax", "network", "scan", "remat", "gradient", shows="layers scanned and remat")
def linen_scan_over_remat_layers() -> Call:
    """A deep residual stack: nn.scan over layers whose forward is rematerialised."""
    from flax import linen as nn

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x, _):
            return x + nn.Dense(24)(nn.silu(nn.Dense(48)(nn.RMSNorm()(x)))), None

    class Stack(nn.Module):
        @nn.compact
        def __call__(self, x):
            layers = nn.scan(
                nn.remat(Layer, prevent_cse=False),
                variable_axes={"params": 0},
                split_rngs={"params": True},
                length=6,
            )
            x, _ = layers()(x, None)
            return nn.Dense(1)(x)

    model = Stack()
    x = jax.random.normal(jax.random.key(0), (4, 24))
    params = model.init(jax.random.key(1), x)
    return call(jax.grad(lambda p, x: model.apply(p, x).sum()), params, x)


@case("flax", "network", "prng", "gradient", "generative", shows="a VAE of two modules")
def linen_vae_elbo_gradient() -> Call:
    """The ELBO gradient of the small VAE that flax shows as an example."""
    from flax import linen as nn

    class Vae(nn.Module):
        def setup(self):
            self.encoder = nn.Dense(32)
            self.moments = nn.Dense(2 * 8)
            self.decoder = nn.Sequential([nn.Dense(32), nn.relu, nn.Dense(49)])

        def __call__(self, x, key):
            hidden = nn.relu(self.encoder(x))
            mean, logvar = jnp.split(self.moments(hidden), 2, axis=-1)
            noise = jax.random.normal(key, mean.shape)
            return self.decoder(mean + jnp.exp(0.5 * logvar) * noise), mean, logvar

    model = Vae()
    x = jax.random.bernoulli(jax.random.key(0), 0.3, (5, 49)).astype(jnp.float32)
    params = model.init(jax.random.key(1), x, jax.random.key(2))

    def loss(params, x, key):
        logits, mean, logvar = model.apply(params, x, key)
        log_p = nn.log_sigmoid(logits)
        entropy = -jnp.sum(x * log_p + (1 - x) * (log_p - logits), axis=-1)
        kl = -0.5 * jnp.sum(1 + logvar - mean**2 - jnp.exp(logvar), axis=-1)
        return jnp.mean(entropy + kl)

    return call(jax.value_and_grad(loss), params, x, jax.random.key(3))


@case("flax", "network", "language", "cache", shows="one token decoded into a cache")
def linen_autoregressive_decode_step() -> Call:
    """Attention in decode mode: the cache is read, written and returned."""
    from flax import linen as nn

    class Decoder(nn.Module):
        @nn.compact
        def __call__(self, tokens):
            x = nn.Embed(50, 16)(tokens)
            for _ in range(2):
                attention = nn.SelfAttention(num_heads=2, decode=True)
                x = x + attention(nn.LayerNorm()(x))
                x = x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))
            return nn.Dense(50)(x)

    model = Decoder()
    variables = model.init(jax.random.key(0), jnp.zeros((2, 12), jnp.int32))

    def decode(params, cache, tokens):
        both = {"params": params, "cache": cache}
        logits, new = model.apply(both, tokens, mutable=["cache"])
        return logits[:, -1].argmax(-1), new["cache"]

    tokens = jnp.array([[7], [3]])
    return call(decode, variables["params"], variables["cache"], tokens)


@case(
    "flax", "network", "nnx", "optimizer", shows="nnx graph split, merged and updated"
)
def nnx_functional_train_step() -> Call:
    """A train step over the state of an nnx model and its optimizer."""
    import optax
    from flax import nnx

    class Mlp(nnx.Module):
        def __init__(self, rngs: nnx.Rngs):
            self.linear1 = nnx.Linear(6, 32, rngs=rngs)
            self.norm = nnx.BatchNorm(32, rngs=rngs)
            self.dropout = nnx.Dropout(0.2, rngs=rngs)
            self.linear2 = nnx.Linear(32, 3, rngs=rngs)

        def __call__(self, x):
            x = nnx.gelu(self.norm(self.linear1(x)))
            return self.linear2(self.dropout(x))

    model = Mlp(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adamw(1e-3), wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    def step(state, x, y):
        model, optimizer = nnx.merge(graph, state)
        loss, grads = nnx.value_and_grad(lambda m: jnp.mean((m(x) - y) ** 2))(model)
        optimizer.update(model, grads)
        return loss, nnx.state((model, optimizer))

    x = jax.random.normal(jax.random.key(1), (8, 6))
    return call(step, state, x, jnp.ones((8, 3)))


@case("flax", "network", "nnx", "language", "gradient", shows="a causal nnx decoder")
def nnx_causal_language_model_gradient() -> Call:
    """The next-token loss gradient of a two-layer nnx transformer."""
    import optax
    from flax import nnx

    class Block(nnx.Module):
        def __init__(self, width: int, rngs: nnx.Rngs):
            self.norm1 = nnx.LayerNorm(width, rngs=rngs)
            self.attention = nnx.MultiHeadAttention(
                4, width, decode=False, deterministic=True, rngs=rngs
            )
            self.norm2 = nnx.RMSNorm(width, rngs=rngs)
            self.up = nnx.Linear(width, 4 * width, rngs=rngs)
            self.down = nnx.Linear(4 * width, width, rngs=rngs)

        def __call__(self, x, mask):
            x = x + self.attention(self.norm1(x), mask=mask)
            return x + self.down(nnx.gelu(self.up(self.norm2(x))))

    class Model(nnx.Module):
        def __init__(self, rngs: nnx.Rngs):
            self.embed = nnx.Embed(64, 32, rngs=rngs)
            self.blocks = nnx.List([Block(32, rngs) for _ in range(2)])

        def __call__(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x, nnx.make_causal_mask(tokens))
            return self.embed.attend(x)

    graph, params = nnx.split(Model(nnx.Rngs(0)))

    def loss(params, tokens):
        logits = nnx.merge(graph, params)(tokens[:, :-1])
        targets = tokens[:, 1:]
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, targets)
        return losses.mean()

    tokens = jax.random.randint(jax.random.key(1), (2, 9), 0, 64)
    return call(jax.value_and_grad(loss), params, tokens)


@case("flax", "network", "nnx", "batched", shows="an ensemble made and run by nnx.vmap")
def nnx_vmapped_ensemble() -> Call:
    """Five models in one, each with a key of its own, run on the same input."""
    from flax import nnx

    @nnx.split_rngs(splits=5)
    @nnx.vmap(in_axes=(0,), out_axes=0)
    def create(rngs):
        return nnx.Linear(4, 3, rngs=rngs)

    graph, state = nnx.split(create(nnx.Rngs(0)))

    def predict(state, x):
        models = nnx.merge(graph, state)
        ys = nnx.vmap(lambda m, x: m(x), in_axes=(0, None))(models, x)
        return ys.mean(0), ys.std(0)

    return call(predict, state, jax.random.normal(jax.random.key(1), (7, 4)))


@case(
    "flax", "network", "nnx", "scan", "recurrent", shows="nnx.RNN of a GRU with lengths"
)
def nnx_bidirectional_gru() -> Call:
    """A bidirectional GRU over padded sequences."""
    from flax import nnx

    rngs = nnx.Rngs(0)
    forward = nnx.RNN(nnx.GRUCell(5, 8, rngs=rngs))
    backward = nnx.RNN(nnx.GRUCell(5, 8, rngs=rngs))
    graph, state = nnx.split(nnx.Bidirectional(forward, backward, rngs=rngs))

    def encode(state, xs, lengths):
        return nnx.merge(graph, state)(xs, seq_lengths=lengths)

    xs = jax.random.normal(jax.random.key(1), (3, 7, 5))
    return call(encode, state, xs, jnp.array([7, 4, 2]))


@case(
    "flax", "network", "language", "optimizer", "prng", shows="a GPT's whole train step"
)
def linen_gpt_train_step() -> Call:
    """A step of AdamW on six decoder blocks with dropout and tied embeddings."""
    import optax
    from flax import linen as nn
    from flax.training import train_state

    class Gpt(nn.Module):
        @nn.compact
        def __call__(self, tokens, deterministic):
            embed = nn.Embed(40, 32)
            x = embed(tokens) + nn.Embed(16, 32)(jnp.arange(tokens.shape[1]))
            for _ in range(6):
                attention = nn.SelfAttention(4, deterministic=deterministic)
                y = attention(nn.LayerNorm()(x), nn.make_causal_mask(tokens))
                x = x + nn.Dropout(0.1, deterministic=deterministic)(y)
                x = x + nn.Dense(32)(nn.gelu(nn.Dense(128)(nn.LayerNorm()(x))))
            return embed.attend(nn.LayerNorm()(x))

    model = Gpt()
    tokens = jax.random.randint(jax.random.key(0), (2, 9), 0, 40)
    params = jax.jit(model.init, static_argnums=2)(jax.random.key(1), tokens, True)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    state = train_state.TrainState.create(
        apply_fn=model.apply, params=params, tx=optimizer
    )

    def step(state, tokens, key):
        def loss(params):
            logits = state.apply_fn(
                params, tokens[:, :-1], False, rngs={"dropout": key}
            )
            return optax.softmax_cross_entropy_with_integer_labels(
                logits, tokens[:, 1:]
            ).mean()

        value, grads = jax.value_and_grad(loss)(state.params)
        return state.apply_gradients(grads=grads), value

    return call(step, state, tokens, jax.random.key(2))
