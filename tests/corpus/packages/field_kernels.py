"""Cases of attention and other kernels: tokamax, ejkernel and three small packages."""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.numpy as jnp

from tests.corpus.packages.cases import Call, call, case


def normals(*shapes: tuple[int, ...]) -> list[jax.Array]:
    """Return an array of normal numbers for each shape."""
    keys = jax.random.split(jax.random.key(0), len(shapes))
    return [jax.random.normal(k, s) for k, s in zip(keys, shapes, strict=True)]


def ejkernel_modules() -> Any:
    """Return ejkernel's kernels, told not to time candidates while it is traced."""
    os.environ["EJKERNEL_AUTOTUNE_POLICY"] = "heuristics"
    import ejkernel.modules

    return ejkernel.modules


@case("tokamax", "kernel", "attention", "gradient", shows="chunked attention backward")
def chunked_attention_gradient() -> Call:
    """The gradient of causal attention with grouped keys, in chunks."""
    import tokamax

    def loss(q, k, v):
        out = tokamax.dot_product_attention(
            q, k, v, is_causal=True, implementation="xla_chunked"
        )
        return jnp.sum(out**2)

    qkv = normals((2, 16, 4, 8), (2, 16, 2, 8), (2, 16, 2, 8))
    return call(jax.value_and_grad(loss, argnums=(0, 1, 2)), *qkv)


@case("tokamax", "kernel", "attention", "mask", shows="local attention with soft caps")
def local_window_attention_with_soft_cap() -> Call:
    """Attention with a bias, a local window and capped logits."""
    import tokamax

    def attend(q, k, v, bias):
        return tokamax.dot_product_attention(
            q,
            k,
            v,
            bias=bias,
            local_window_size=(3, 1),
            logits_soft_cap=20.0,
            implementation="xla",
        )

    shape = (2, 12, 2, 8)
    return call(attend, *normals(shape, shape, shape, (1, 2, 12, 12)))


@case("tokamax", "kernel", "ragged", "gradient", shows="a ragged product of experts")
def ragged_expert_products_gradient() -> Call:
    """The gradient of a mixture layer: two ragged products around a SwiGLU."""
    import tokamax

    def layer(x, up, down, sizes):
        hidden = jax.nn.silu(tokamax.ragged_dot(x, up, sizes, implementation="xla"))
        return tokamax.ragged_dot(hidden, down, sizes, implementation="xla").sum()

    arrays = normals((12, 8), (3, 8, 16), (3, 16, 8))
    sizes = jnp.array([5, 3, 4], jnp.int32)
    return call(jax.value_and_grad(layer, argnums=(0, 1, 2)), *arrays, sizes)


@case("tokamax", "kernel", "norm", "gradient", shows="norm, gate and fused loss")
def normalised_gated_unit_and_loss_gradient() -> Call:
    """RMSNorm, a gated unit and the linear cross-entropy loss, with gradients."""
    import tokamax

    def loss(x, scale, gate, head, labels):
        x = tokamax.layer_norm(
            x, scale, None, subtract_mean=False, implementation="xla"
        )
        x = tokamax.gated_linear_unit(
            x, gate, activation=jax.nn.silu, implementation="xla"
        )
        return tokamax.linear_softmax_cross_entropy_loss(
            x, labels, head, reduction="mean", implementation="xla"
        )

    x, scale, gate, head = normals((6, 8), (8,), (8, 2, 8), (8, 20))
    gradient = jax.value_and_grad(loss, argnums=(0, 1, 2, 3))
    return call(gradient, x, scale, gate, head, jnp.arange(6, dtype=jnp.int32))


@case("tokamax", "kernel", "protein", "mask", shows="AlphaFold's triangle update")
def triangle_multiplication_of_pairs() -> Call:
    """The triangle multiplication of a pair representation."""
    import tokamax

    c, h, n = 8, 6, 7
    x, w1, g1, w2, g2 = normals((n, n, c), (c, 2, h), (c, 2, h), (h, c), (c, c))
    norms = jnp.ones(c), jnp.zeros(c), jnp.ones(h), jnp.zeros(h)

    def update(x, mask, *weights):
        return tokamax.triangle_multiplication(
            x, mask, *weights, triangle_type="incoming"
        )

    return call(update, x, jnp.ones((n, n), bool), w1, g1, w2, g2, *norms)


@case("ejkernel", "kernel", "attention", "gradient", shows="flash attention on XLA")
def flash_attention_gradient() -> Call:
    """The gradient of ejkernel's flash attention, causal, without a GPU."""
    modules = ejkernel_modules()

    blocks = {"q_blocksize": 16, "kv_blocksize": 16}
    cfg = modules.FlashAttentionConfig(
        fwd_params=blocks, bwd_params=blocks, platform="xla"
    )

    def loss(q, k, v):
        return jnp.sum(modules.flash_attention(q, k, v, causal=True, cfg=cfg) ** 2)

    shape = (1, 32, 2, 16)
    return call(
        jax.value_and_grad(loss, argnums=(0, 1, 2)), *normals(shape, shape, shape)
    )


@case("ejkernel", "kernel", "scan", "recurrent", shows="the gated delta rule in chunks")
def gated_delta_rule_forward() -> Call:
    """A linear recurrence of matrices with decay and a triangular inverse."""
    modules = ejkernel_modules()

    cfg = modules.GatedDeltaRuleConfig(platform="xla", chunk_size=8)

    q, k, v, beta, decay = normals(
        (1, 32, 2, 8), (1, 32, 2, 8), (1, 32, 2, 8), (1, 32, 2), (1, 32, 2)
    )

    def forward(q, k, v, beta, decay):
        return modules.gated_delta_rule(
            q, k, v, jax.nn.sigmoid(beta), -jax.nn.softplus(decay), cfg=cfg
        )

    return call(forward, q, k, v, beta, decay)


@case("ejkernel", "kernel", "scan", "recurrent", "gradient", shows="RWKV-6 backward")
def rwkv6_gradient() -> Call:
    """The gradient of the recurrence of RWKV-6 by receptance and keys."""
    modules = ejkernel_modules()

    def loss(r, k, v, w, u):
        return jnp.sum(modules.rwkv6(r, k, v, -jnp.exp(w), u, platform="xla") ** 2)

    shape = (1, 10, 2, 8)
    arrays = normals(shape, shape, shape, shape, (2, 8))
    return call(jax.value_and_grad(loss, argnums=(0, 1)), *arrays)


@case("ejkernel", "kernel", "scan", "state", shows="the selective scan of Mamba 2")
def state_space_v2_forward() -> Call:
    """A selective state space with two heads and one group, with its last state."""
    modules = ejkernel_modules()

    def forward(x, a, b, c, d, dt):
        return modules.state_space_v2(
            x, -jnp.exp(a), b, c, d, jax.nn.softplus(dt), platform="xla"
        )

    arrays = normals(
        (1, 12, 2, 4), (2,), (1, 12, 1, 8), (1, 12, 1, 8), (2,), (1, 12, 2)
    )
    return call(forward, *arrays)


@case(
    "flash-attention-jax", "kernel", "attention", "gradient", shows="a custom gradient"
)
def flash_attention_custom_gradient() -> Call:
    """The gradient of flash attention with a key mask, by its own backward pass."""
    from flash_attention_jax import flash_attention

    def loss(q, k, v, mask):
        return jnp.sum(flash_attention(q, k, v, mask))

    shape = (1, 2, 32, 8)
    mask = jnp.arange(32)[None] < 29
    gradient = jax.value_and_grad(loss, argnums=(0, 1, 2))
    return call(gradient, *normals(shape, shape, shape), mask)


@case("flash-attention-jax", "kernel", "attention", shows="the causal variant")
def causal_flash_attention_gradient() -> Call:
    """Causal flash attention and its gradient by the queries."""
    from flash_attention_jax import causal_flash_attention

    def loss(q, k, v):
        return jnp.sum(causal_flash_attention(q, k, v) ** 2)

    shape = (1, 2, 24, 8)
    return call(jax.grad(loss), *normals(shape, shape, shape))


@case(
    "flash-attention-jax", "kernel", "attention", "batched", shows="chunks of queries"
)
def rabe_attention_of_a_batch() -> Call:
    """Attention of one head whose chunks of queries are scanned, under vmap."""
    from flash_attention_jax import rabe_attention

    shape = (2, 24, 8)
    return call(jax.vmap(rabe_attention), *normals(shape, shape, shape))


@case(
    "memory-efficient-attention",
    "kernel",
    "attention",
    "map",
    needs=("torch",),
    shows="chunks by map",
)
def attention_in_chunks() -> Call:
    """Attention that maps over chunks of queries and of keys, and its gradient."""
    from memory_efficient_attention import efficient_dot_product_attention_jax

    def loss(q, k, v, bias, mask):
        out = efficient_dot_product_attention_jax(
            q, k, v, mask, bias, query_chunk_size=8, key_chunk_size=8
        )
        return jnp.sum(out**2)

    shape = (2, 16, 2, 8)
    mask = jnp.tril(jnp.ones((2, 2, 16, 16), bool))
    arrays = normals(shape, shape, shape, (2, 2, 16, 16))
    return call(jax.value_and_grad(loss), *arrays, mask)


@case("local-attention-flax", "kernel", "attention", "network", shows="windows of keys")
def local_attention_module() -> Call:
    """Causal attention of each window to itself and to the window before."""
    from local_attention_flax import LocalAttention

    layer = LocalAttention(dim=16, window_size=8, heads=2, dim_head=8)
    (x,) = normals((32, 16))
    return call(layer.apply, layer.init(jax.random.key(1), x), x)
