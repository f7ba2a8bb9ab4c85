"""Cases of arrays that are more than arrays: qwix, aqtp and quax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def linen_mlp() -> Any:
    """Return a network of two dense layers."""
    from flax import linen as nn

    return nn.Sequential([nn.Dense(32), nn.relu, nn.Dense(8)])


@case(
    "qwix", "quantization", "network", "int8", shows="products of int8 after training"
)
def post_training_quantized_model() -> Call:
    """A network whose dense layers run in int8 by qwix's provider."""
    import qwix

    rules = [qwix.QuantizationRule(weight_qtype=jnp.int8, act_qtype=jnp.int8)]
    model = qwix.quantize_model(linen_mlp(), qwix.PtqProvider(rules))
    x = jax.random.normal(jax.random.key(0), (4, 16))
    return call(model.apply, model.init(jax.random.key(1), x), x)


@case("qwix", "quantization", "network", "gradient", shows="training through rounding")
def quantized_training_gradient() -> Call:
    """The gradient of a loss through quantised products, backward ones too."""
    import qwix

    rules = [
        qwix.QtRule(
            module_path=".*",
            weight_qtype=jnp.int8,
            act_qtype=jnp.int8,
            bwd_qtype=jnp.int8,
        )
    ]
    model = qwix.quantize_model(linen_mlp(), qwix.QtProvider(rules))
    x = jax.random.normal(jax.random.key(0), (4, 16))
    params = model.init(jax.random.key(1), x)

    def loss(params, x):
        return jnp.mean(model.apply(params, x) ** 2)

    return call(jax.value_and_grad(loss), params, x)


@case("qwix", "quantization", "int4", shows="arrays quantised by tiles and multiplied")
def tiled_quantized_product() -> Call:
    """A matrix in four bits by tiles, dequantised, and a product of two of them."""
    import qwix

    def product(x, w):
        qw = qwix.quantize(w, jnp.int4, channelwise_axes=[1], tiled_axes={0: 8})
        qx = qwix.quantize(x, jnp.int8, channelwise_axes=[0], tiled_axes={1: 8})
        return qwix.dequantize(qw), qwix.einsum("ij,jk->ik", qx, qw)

    keys = jax.random.split(jax.random.key(0))
    arrays = jax.random.normal(keys[0], (4, 16)), jax.random.normal(keys[1], (16, 6))
    return call(product, *arrays)


@case("aqtp", "quantization", "gradient", "int8", shows="AQT's dot_general in training")
def quantized_dot_general_gradient() -> Call:
    """The gradient of a product whose three products are all quantised."""
    from aqt.jax.v2 import config

    dot_general = config.fully_quantized(fwd_bits=8, bwd_bits=8)

    def loss(x, w, key):
        with_key = config.set_context(dot_general, key, train_step=None)
        y = with_key(x, w, (((1,), (0,)), ((), ())))
        return jnp.sum(y**2)

    keys = jax.random.split(jax.random.key(0), 3)
    x, w = jax.random.normal(keys[0], (4, 16)), jax.random.normal(keys[1], (16, 6))
    return call(jax.value_and_grad(loss, argnums=(0, 1)), x, w, keys[2])


@case("aqtp", "quantization", "network", shows="quantised products in a linen layer")
def dense_layer_with_injected_dot_general() -> Call:
    """A Dense layer into which AQT's dot_general is injected, and its gradient."""
    from aqt.jax.v2 import config
    from aqt.jax.v2.flax import aqt_flax
    from flax import linen as nn

    cfg = config.config_v4(fwd_bits=8, dlhs_bits=None, drhs_bits=None)
    model = nn.Dense(6, dot_general=aqt_flax.AqtDotGeneral(cfg))
    x = jax.random.normal(jax.random.key(0), (4, 16))
    variables = model.init(jax.random.key(1), x)

    def loss(params, x, key):
        return jnp.sum(model.apply({"params": params}, x, rngs={"params": key}) ** 2)

    return call(jax.grad(loss), variables["params"], x, jax.random.key(2))


@case(
    "aqtp", "quantization", "int4", "batched", shows="four bits and a batch of products"
)
def batched_product_in_four_bits() -> Call:
    """A batched product with both sides in four bits, as attention would have it."""
    from aqt.jax.v2 import config

    dot_general = config.config_v3(fwd_bits=4, dlhs_bits=None, drhs_bits=None)

    def scores(q, k):
        return jax.nn.softmax(dot_general(q, k, (((2,), (2,)), ((0,), (0,)))))

    keys = jax.random.split(jax.random.key(0))
    return call(scores, *(jax.random.normal(key, (2, 5, 8)) for key in keys))


@case(
    "quax", "lora", "network", "gradient", "filtered", shows="LoRA by multiple dispatch"
)
def low_rank_adaptation_gradient() -> Call:
    """The gradient of a loraified equinox network under quaxify."""
    import equinox as eqx
    import quax
    from quax.examples import lora

    mlp = eqx.nn.MLP(4, 3, 16, 2, key=jax.random.key(0))
    model = lora.loraify(mlp, rank=2, key=jax.random.key(1))

    def loss(model, x):
        outputs = jax.vmap(quax.quaxify(model))(x)
        return jnp.mean(outputs**2)

    x = jax.random.normal(jax.random.key(2), (6, 4))
    return call(eqx.filter_value_and_grad(loss), model, x)


@case("quax", "units", "dispatch", shows="units carried through a computation")
def units_through_kinetic_energy() -> Call:
    """An energy from unitful arrays, whose units are checked while tracing."""
    import quax
    from quax.examples import unitful

    def energy(m, v):
        mass = unitful.Unitful(m, {unitful.kilograms: 1})
        speed = unitful.Unitful(v, {unitful.meters: 1, unitful.seconds: -1})
        total = quax.quaxify(lambda a, b: a * b * b + a * (b * b))(mass, speed)
        return total.array

    return call(energy, jnp.arange(1.0, 5.0), jnp.linspace(0.1, 2.0, 4))


@case("quax", "linalg", "structured", shows="a tridiagonal matrix as a value")
def tridiagonal_matrix_vector_products() -> Call:
    """Powers of a tridiagonal matrix applied to a vector, never made dense."""
    import quax
    from quax.examples.structured_matrices import TridiagonalMatrix

    def apply(diagonal, lower, upper, x):
        matrix = TridiagonalMatrix(lower, diagonal, upper)
        product = quax.quaxify(lambda a, x: a @ x)
        for _ in range(3):
            x = jnp.tanh(product(matrix, x))
        return x

    arrays = jnp.full(8, 2.0), jnp.full(7, -1.0), jnp.full(7, 0.5), jnp.ones(8)
    return call(jax.jacfwd(apply, argnums=3), *arrays)
