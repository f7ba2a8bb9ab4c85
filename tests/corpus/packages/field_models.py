"""Cases of whole models: equimo's, mamba2-jax's and penzai's."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def image_model(name: str, **options: Any) -> Any:
    """Return a model of equimo by the name of its class."""
    import equimo.models

    return getattr(equimo.models, name)(key=jax.random.key(0), **options)


def mamba(n_layers: int) -> Any:
    """Return the graph and the state of a small Mamba2 language model."""
    from flax import nnx
    from mamba2_jax import Mamba2Config, Mamba2ForCausalLM

    config = Mamba2Config(
        vocab_size=40,
        hidden_size=16,
        state_size=8,
        head_dim=8,
        chunk_size=4,
        num_hidden_layers=n_layers,
    )
    return nnx.split(Mamba2ForCausalLM(config, rngs=nnx.Rngs(0)))


def penzai_transformer(n_blocks: int) -> Any:
    """Return a small Llama-like transformer of penzai."""
    from penzai.models.transformer.variants import llamalike_common

    config = llamalike_common.LlamalikeTransformerConfig(
        num_kv_heads=2,
        query_head_multiplier=2,
        embedding_dim=16,
        projection_dim=8,
        mlp_hidden_dim=32,
        num_decoder_blocks=n_blocks,
        vocab_size=30,
        mlp_variant="swiglu",
        tie_embedder_and_logits=False,
    )
    return llamalike_common.build_llamalike_transformer(config, jax.random.key(0))


@case("equimo", "network", "image", "gradient", "filtered", shows="a ViT in equinox")
def vision_transformer_gradient() -> Call:
    """The gradient of a small ViT with registers over a batch of images."""
    import equinox as eqx

    model = image_model(
        "VisionTransformer",
        img_size=16,
        in_channels=3,
        dim=32,
        patch_size=4,
        num_heads=[2],
        depths=[6],
        num_classes=5,
    )

    def loss(model, images, keys):
        logits = jax.vmap(lambda x, k: model(x, key=k, inference=True))(images, keys)
        return -jax.nn.log_softmax(logits)[:, 0].mean()

    images = jax.random.normal(jax.random.key(1), (2, 3, 16, 16))
    keys = jax.random.split(jax.random.key(2), 2)
    return call(eqx.filter_value_and_grad(loss), model, images, keys)


@case("equimo", "network", "image", "filtered", shows="a ConvNeXt forward")
def convnext_forward() -> Call:
    """A ConvNeXt of two stages on an image."""
    model = image_model(
        "ConvNeXt", in_channels=3, depths=[1, 1], dims=[8, 16], num_classes=4
    )

    def forward(model, image, key):
        return model(image, key=key, inference=True)

    image = jax.random.normal(jax.random.key(1), (3, 32, 32))
    return call(forward, model, image, jax.random.key(2))


@case("mamba2-jax", "network", "language", "gradient", "nnx", shows="Mamba2 backwards")
def language_model_gradient() -> Call:
    """The loss and gradient of a Mamba2 language model of five layers."""
    from flax import nnx

    graph, state = mamba(5)

    def loss(state, tokens):
        return nnx.merge(graph, state)(tokens, labels=tokens)["loss"]

    tokens = jax.random.randint(jax.random.key(1), (2, 8), 0, 40)
    return call(jax.value_and_grad(loss), state, tokens)


@case("mamba2-jax", "network", "language", "scan", shows="four layers forward")
def logits_of_four_layers() -> Call:
    """The logits of a deeper model over one sequence."""
    from flax import nnx

    graph, state = mamba(4)

    def logits(state, tokens):
        return nnx.merge(graph, state)(tokens)["logits"]

    return call(logits, state, jnp.arange(12)[None])


@case("mamba2-jax", "kernel", "scan", "gradient", shows="the dual form in chunks")
def state_space_duality_gradient() -> Call:
    """The gradient of the chunked state space product by inputs and by steps."""
    from mamba2_jax import ssd_forward

    keys = jax.random.split(jax.random.key(0), 4)
    x = jax.random.normal(keys[0], (1, 12, 2, 4))
    dt = jax.random.normal(keys[1], (1, 12, 2))
    b, c = (jax.random.normal(k, (1, 12, 2, 8)) for k in keys[2:])

    def loss(x, dt, b, c):
        y, _ = ssd_forward(
            x, dt, -jnp.ones(2), b, c, 4, jnp.ones(2), jnp.zeros(2), 0.001, 0.1
        )
        return jnp.sum(y**2)

    return call(jax.value_and_grad(loss, argnums=(0, 1)), x, dt, b, c)


@case("penzai", "network", "language", "attention", shows="a Llama-like forward pass")
def llama_like_forward() -> Call:
    """Logits of a two-block transformer over named axes."""
    from penzai import pz

    model, params = pz.unbind_params(penzai_transformer(2), freeze=True)

    def forward(params, tokens):
        tokens = pz.nx.wrap(tokens).tag("batch", "seq")
        bound = pz.bind_variables(model, params)
        positions = pz.nx.arange("seq", tokens.named_shape["seq"])
        return bound(tokens, token_positions=positions)

    return call(forward, params, jnp.arange(10).reshape(2, 5))


@case("penzai", "network", "language", "gradient", shows="eight blocks trained")
def llama_like_gradient() -> Call:
    """The next-token gradient of a transformer of eight blocks."""
    from penzai import pz

    model, params = pz.unbind_params(penzai_transformer(8), freeze=True)

    def loss(params, tokens):
        inputs = pz.nx.wrap(tokens[:, :-1]).tag("batch", "seq")
        bound = pz.bind_variables(model, params)
        positions = pz.nx.arange("seq", tokens.shape[1] - 1)
        logits = bound(inputs, token_positions=positions)
        logits = logits.untag("batch", "seq", "vocabulary").unwrap()
        log_p = jax.nn.log_softmax(logits)
        return -jnp.take_along_axis(log_p, tokens[:, 1:, None], axis=-1).mean()

    return call(jax.value_and_grad(loss), params, jnp.arange(12).reshape(2, 6))


@case("penzai", "named-axes", "linalg", shows="arrays of named axes and nmap")
def named_axes_and_nmap() -> Call:
    """Whitening of features by functions mapped over named axes."""
    from penzai import pz

    def whiten(x):
        named = pz.nx.wrap(x).tag("batch", "row", "feature")
        rows = named.untag("row")
        centred = (rows - pz.nx.nmap(jnp.mean)(rows)).tag("row")
        matrix = centred.untag("row", "feature")
        covariance = pz.nx.nmap(lambda m: m.T @ m / m.shape[0])(matrix)
        values = pz.nx.nmap(jnp.linalg.eigvalsh)(covariance)
        return values.tag("mode"), centred

    return call(whiten, jax.random.normal(jax.random.key(0), (2, 7, 3)))
