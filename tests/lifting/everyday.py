"""Small functions as people write them, and the call that each is recognised by.

Used by `test_everyday.py`: each is recovered from its jaxpr alone.
"""

import functools

import jax
import jax.numpy as jnp

X = jnp.arange(12.0).reshape(3, 4) / 7
V = jnp.arange(4.0)
SQUARE = jnp.eye(4) + 0.1 * jnp.arange(16.0).reshape(4, 4)
SPD = SQUARE @ SQUARE.T + jnp.eye(4)
INDEX = jnp.array([2, 0, 1])
LABELS = jnp.array([1, 3, 0])
KEY = jax.random.key(0)
RAW_KEY = jax.random.PRNGKey(0)
IMAGES = jnp.ones((2, 8, 8, 3))
KERNEL = jnp.ones((3, 3, 3, 4))
HEADS = jnp.ones((2, 5, 4, 8))
I = jnp.int32(1)  # noqa: E741


def dropout(key, x):
    keep = jax.random.bernoulli(key, 0.9, x.shape)
    return jnp.where(keep, x / 0.9, 0.0)


def dropout_of_ones(key, x):
    mask = jax.random.bernoulli(key, p=0.8, shape=x.shape)
    return x * mask / 0.8


def attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / jnp.sqrt(q.shape[-1])
    weights = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def causal_attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 8**0.5
    mask = jnp.tril(jnp.ones((5, 5), dtype=bool))
    scores = jnp.where(mask, scores, -1e30)
    weights = jax.nn.softmax(scores, axis=-1)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def layer_norm(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * scale + bias


def layer_norm_by_hand(x, scale, bias):
    mean = x.mean(-1, keepdims=True)
    centered = x - mean
    variance = (centered**2).mean(-1, keepdims=True)
    return centered / jnp.sqrt(variance + 1e-5) * scale + bias


def rms_norm(x, scale):
    return x * jax.lax.rsqrt(jnp.mean(x**2, axis=-1, keepdims=True) + 1e-6) * scale


def batch_norm(x, scale, bias):
    mean = jnp.mean(x, axis=(0, 1, 2))
    variance = jnp.var(x, axis=(0, 1, 2))
    return (x - mean) / jnp.sqrt(variance + 1e-5) * scale + bias


def max_pool(x):
    return jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    )


def avg_pool(x):
    summed = jax.lax.reduce_window(
        x, 0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "VALID"
    )
    return summed / 4


def same_pool(x):
    return jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
    )


def convolve(x, w):
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


def cross_entropy(logits, labels):
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.mean(jnp.sum(jax.nn.one_hot(labels, 4) * log_probs, axis=-1))


def picked_loss(logits, labels):
    log_probs = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(log_probs, labels[:, None], axis=-1).mean()


def power_iteration(a, v):
    def body(i, v):
        v = a @ v
        return v / jnp.linalg.norm(v)

    return jax.lax.fori_loop(0, 10, body, v)


def counted(x, n):
    return jax.lax.fori_loop(0, n, lambda i, total: total + x * i, jnp.zeros_like(x))


def indexed_loop(x):
    def body(i, total):
        return total + x[i] * i

    return jax.lax.fori_loop(0, 3, body, jnp.zeros(4))


def two_carries(x):
    def body(i, carry):
        a, b = carry
        return b, a + b * x

    return jax.lax.fori_loop(1, 6, body, (x, jnp.ones_like(x)))


def offset_loop(x, n):
    return jax.lax.fori_loop(2, n, lambda i, s: jnp.sin(s) * i, x)


CASES = {
    "softmax": (jax.nn.softmax, (X,), "jax.nn.softmax(x"),
    "softmax masked": (
        lambda x: jax.nn.softmax(jnp.where(x > 0.5, x, -jnp.inf), axis=-1),
        (X,),
        "jax.nn.softmax(",
    ),
    "log_softmax": (jax.nn.log_softmax, (X,), "jax.nn.log_softmax("),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=-1), (X,), "logsumexp(x, axis"),
    "logsumexp all": (jax.nn.logsumexp, (X,), "logsumexp(a)"),
    "logsumexp scipy": (
        lambda x: jax.scipy.special.logsumexp(x, axis=0, keepdims=True),
        (X,),
        "logsumexp(x, axis=0, keepdims=True)",
    ),
    "gelu": (jax.nn.gelu, (X,), "jax.nn.gelu(x)"),
    "gelu exact": (
        lambda x: jax.nn.gelu(x, approximate=False),
        (X,),
        "jax.nn.gelu(x, approximate=False)",
    ),
    "silu": (jax.nn.silu, (X,), "jax.nn.silu(x)"),
    "swish": (jax.nn.swish, (X,), "jax.nn.silu(x)"),
    "relu": (jax.nn.relu, (X,), "jax.nn.relu(x)"),
    "relu6": (jax.nn.relu6, (X,), "jax.nn.relu6(x)"),
    "leaky_relu": (jax.nn.leaky_relu, (X,), "jax.nn.leaky_relu(x"),
    "elu": (jax.nn.elu, (X,), "jax.nn.elu(x"),
    "sigmoid": (jax.nn.sigmoid, (X,), "jax.nn.sigmoid(x)"),
    "softplus": (jax.nn.softplus, (X,), "jax.nn.softplus(x)"),
    "log_sigmoid": (jax.nn.log_sigmoid, (X,), "jax.nn.log_sigmoid(x)"),
    "glu": (jax.nn.glu, (X,), "jax.nn.glu(x)"),
    "layer norm": (
        layer_norm,
        (X, V, V),
        (
            "jnp.mean(x, axis=-1, keepdims=True)",
            "jnp.var(x, axis=-1, keepdims=True)",
            "jax.lax.rsqrt(",
        ),
    ),
    "layer norm by hand": (
        layer_norm_by_hand,
        (X, V, V),
        (
            "jnp.mean(x, axis=-1, keepdims=True)",
            "**2, axis=-1, keepdims=True",
            "jnp.sqrt(",
        ),
    ),
    "standardize": (jax.nn.standardize, (X,), "jax.nn.standardize("),
    "rms norm": (
        rms_norm,
        (X, V),
        ("jnp.mean(", "axis=-1, keepdims=True", "jax.lax.rsqrt("),
    ),
    "batch norm": (
        batch_norm,
        (IMAGES, jnp.ones(3), jnp.ones(3)),
        ("jnp.mean(x, axis=(0, 1, 2))", "jnp.var(x, axis=(0, 1, 2))"),
    ),
    "one_hot": (lambda i: jax.nn.one_hot(i, 5), (LABELS,), "jax.nn.one_hot(i, 5)"),
    "dropout": (
        dropout,
        (KEY, X),
        ("jax.random.bernoulli(key, 0.9, (3, 4))", "jnp.where(keep, x / 0.9, 0.0)"),
    ),
    "dropout raw key": (
        dropout,
        (RAW_KEY, X),
        ("jax.random.bernoulli(key, 0.9, (3, 4))", "jnp.where(keep, x / 0.9, 0.0)"),
    ),
    "dropout of ones": (
        dropout_of_ones,
        (KEY, X),
        "jax.random.bernoulli(key, 0.8, (3, 4))",
    ),
    "attention": (attention, (HEADS,) * 3, ("jnp.einsum(", "jax.nn.softmax(")),
    "causal attention": (
        causal_attention,
        (HEADS,) * 3,
        ("jnp.tril(", "jnp.where(mask,", "jax.nn.softmax("),
    ),
    "dot_product_attention": (
        jax.nn.dot_product_attention,
        (HEADS,) * 3,
        "jax.nn.dot_product_attention(query, key, value)",
    ),
    "dot_product_attention causal": (
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True),
        (HEADS,) * 3,
        "jax.nn.dot_product_attention(q, k, v, is_causal=True)",
    ),
    "dot_product_attention mask": (
        lambda q, k, v, m: jax.nn.dot_product_attention(q, k, v, mask=m),
        (*(HEADS,) * 3, jnp.ones((2, 1, 5, 5), bool)),
        "jax.nn.dot_product_attention(q, k, v, mask=m)",
    ),
    "dot_product_attention scale": (
        lambda q, k, v: jax.nn.dot_product_attention(q, k, v, scale=0.5),
        (HEADS,) * 3,
        "jax.nn.dot_product_attention(q, k, v, scale=0.5)",
    ),
    "cross entropy": (
        cross_entropy,
        (X, LABELS),
        ("jax.nn.log_softmax(", "jax.nn.one_hot(labels, 4)"),
    ),
    "picked loss": (
        picked_loss,
        (X, LABELS),
        ("jax.nn.log_softmax(", "jnp.take_along_axis("),
    ),
    # products
    "einsum": (
        lambda x, y: jnp.einsum("bqhd,bkhd->bhqk", x, y),
        (HEADS, HEADS),
        "jnp.einsum(",
    ),
    "einsum 3": (
        lambda x, y, z: jnp.einsum("ij,jk,kl->il", x, y, z),
        (X, SQUARE, SQUARE),
        "jnp.einsum(",
    ),
    "einsum trace": (lambda x: jnp.einsum("ii->", x), (SQUARE,), ("jnp.",)),
    "einsum sum": (lambda x: jnp.einsum("ij->j", x), (X,), "jnp.sum(x, axis=0)"),
    "einsum transposed": (lambda x: jnp.einsum("ij->ji", x), (X,), ("x.T",)),
    "einsum batched": (
        lambda x, y: jnp.einsum("bij,bjk->bik", x, y),
        (jnp.ones((2, 3, 4)), jnp.ones((2, 4, 5))),
        "x @ y",
    ),
    "matmul": (jnp.matmul, (X, SQUARE), "a @ b"),
    "@": (lambda x, y: x @ y, (X, SQUARE), "x @ y"),
    "matvec": (lambda x, v: x @ v, (X, V), "x @ v"),
    "vecmat": (lambda v, x: v @ x, (jnp.ones(3), X), "v @ x"),
    "batched matmul": (lambda x, y: x @ y, (jnp.ones((2, 3, 4)), SQUARE), "x @ y"),
    "batched both": (
        lambda x, y: x @ y,
        (jnp.ones((2, 3, 4)), jnp.ones((2, 4, 5))),
        "x @ y",
    ),
    "dot": (jnp.dot, (X, SQUARE), "@"),
    "vdot": (jnp.vdot, (V, V), ("@",)),
    "outer": (jnp.outer, (V, V), "jnp.outer("),
    "tensordot": (
        lambda x, y: jnp.tensordot(x, y, axes=2),
        (X, X),
        ("jnp.tensordot(x, y)",),
    ),
    "tensordot 1": (
        lambda x, y: jnp.tensordot(x, y, axes=1),
        (HEADS, jnp.ones((8, 3))),
        ("x @ y",),
    ),
    # reductions
    "mean": (lambda x: jnp.mean(x, axis=0), (X,), "jnp.mean(x, axis=0)"),
    "mean all": (jnp.mean, (X,), "jnp.mean("),
    "mean axes": (lambda x: x.mean((1, 2)), (IMAGES,), "jnp.mean(x, axis=(1, 2))"),
    "var": (lambda x: jnp.var(x, axis=-1), (X,), "jnp.var(x, axis=-1)"),
    "var ddof": (
        lambda x: jnp.var(x, axis=0, ddof=1),
        (X,),
        "jnp.var(x, axis=0, ddof=1)",
    ),
    "std": (lambda x: jnp.std(x, axis=0), (X,), "jnp.std(x, axis=0)"),
    "norm": (jnp.linalg.norm, (X,), "jnp.linalg.norm("),
    "norm axis": (
        lambda x: jnp.linalg.norm(x, axis=-1, keepdims=True),
        (X,),
        "jnp.linalg.norm(x, axis=-1, keepdims=True)",
    ),
    "norm 1": (lambda v: jnp.linalg.norm(v, ord=1), (V,), "jnp.linalg.norm(v, ord=1)"),
    "norm inf": (
        lambda v: jnp.linalg.norm(v, ord=jnp.inf),
        (V,),
        "jnp.linalg.norm(v, ord=jnp.inf)",
    ),
    "sum": (
        lambda x: jnp.sum(x, axis=1, keepdims=True),
        (X,),
        "jnp.sum(x, axis=1, keepdims=True)|jnp.sum(x, axis=-1, keepdims=True)",
    ),
    "median": (lambda x: jnp.median(x, axis=0), (X,), "jnp.median(x, axis=0)"),
    "max": (lambda x: jnp.max(x, axis=0), (X,), "jnp.max(x, axis=0)|x.max(0)"),
    "where": (lambda x: jnp.where(x > 0, x, 0.0), (X,), "jnp.where(x > 0.0, x, 0.0)"),
    "where broadcast": (
        lambda m, x: jnp.where(m[:, None], x, -1.0),
        (jnp.ones(3, bool), X),
        ("jnp.where(", "m[:, None]"),
    ),
    "clip": (lambda x: jnp.clip(x, 0.0, 1.0), (X,), "jnp.clip(x, 0.0, 1.0)"),
    "clip low": (
        lambda x: jnp.clip(x, 0.1),
        (X,),
        "jnp.clip(x, 0.1)|jnp.maximum(x, 0.1)",
    ),
    "clip high": (
        lambda x: jnp.clip(x, max=0.1),
        (X,),
        "jnp.clip(x, max=0.1)|jnp.minimum(x, 0.1)",
    ),
    "clip arrays": (lambda x, a, b: jnp.clip(x, a, b), (X, V, V), "jnp.clip(x, a, b)"),
    # indexing
    "take": (lambda x, i: jnp.take(x, i, axis=1), (X, INDEX), "jnp.take(x, i, axis="),
    "take_along_axis": (
        lambda x, i: jnp.take_along_axis(x, i, axis=0),
        (X, jnp.zeros((1, 4), jnp.int32)),
        "jnp.take_along_axis(x, i, axis=0)",
    ),
    "take_along_axis argsort": (
        lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=-1), axis=-1),
        (X,),
        ("jnp.take_along_axis(x", "jnp.argsort(x"),
    ),
    "index array": (lambda x, i: x[i], (X, INDEX), "x[i]"),
    "index embed": (lambda w, i: w[i], (X, jnp.zeros((2, 5), jnp.int32)), "w[i]"),
    "index scalar": (lambda x, i: x[i], (X, I), "x[i]"),
    "index column": (lambda x, i: x[:, i], (X, I), "x[:, i]"),
    "index pairs": (lambda x, i, j: x[i, j], (X, INDEX, INDEX), "x[i, j]"),
    "index arange": (
        lambda x, j: x[jnp.arange(3), j],
        (X, INDEX),
        "x[jnp.arange(3), j]|x[indices, j]",
    ),
    "index mask": (lambda x: x[::2, 1:], (X,), "x[::2, 1:]"),
    "index reversed": (lambda v: v[::-1], (V,), "v[::-1]|jnp.flip(v"),
    "index reversed rows": (lambda x: x[:, ::-1], (X,), "x[:, ::-1]|jnp.flip(x, axis="),
    "index last": (lambda x: x[-1], (X,), "x[-1]"),
    "index newaxis": (lambda v: v[:, None], (V,), "v[:, None]"),
    "index strided": (lambda v: v[1::2], (V,), "v[1::2]"),
    "dynamic slice": (
        lambda x, i: jax.lax.dynamic_slice(x, (i, 0), (2, 4)),
        (X, I),
        "jax.lax.dynamic_slice",
    ),
    "dynamic_slice_in_dim": (
        lambda x, i: jax.lax.dynamic_slice_in_dim(x, i, 2, axis=0),
        (X, I),
        "jax.lax.dynamic_slice_in_dim(x, i, 2, axis=0)",
    ),
    "at set": (lambda x, i, y: x.at[i].set(y), (X, INDEX, X), "x.at[i].set(y)"),
    "at set scalar": (lambda x, i: x.at[i].set(0.0), (X, I), "x.at[i].set(0"),
    "at set float": (lambda x, i: x.at[i].set(0.5), (X, I), "x.at[i].set(0.5)"),
    "at set static": (lambda x: x.at[0].set(1.0), (X,), "x.at[0].set(1"),
    "at set pair static": (lambda x: x.at[0, 1].set(1.0), (X,), "x.at[0, 1].set(1"),
    "at add static pair": (
        lambda x, y: x.at[0, 1].add(y),
        (X, V[0]),
        "x.at[0, 1].add(y)",
    ),
    "at set slice": (lambda x: x.at[1:].set(0.0), (X,), "x.at[1:].set(0"),
    "at set column": (
        lambda x, y: x.at[:, 0].set(y),
        (X, jnp.ones(3)),
        "x.at[:, 0].set(y)",
    ),
    "at set slice column": (
        lambda x, y: x.at[:, 1:3].set(y),
        (X, jnp.ones((3, 2))),
        "x.at[:, 1:3].set(y)|x.at[:, 1:-1].set(y)",
    ),
    "at set interior": (
        lambda x, y: x.at[1:-1, 1:-1].set(y),
        (SQUARE, jnp.ones((2, 2))),
        "x.at[1:-1, 1:-1].set(y)",
    ),
    "at add interior": (
        lambda x, y: x.at[1:-1].add(y),
        (V, jnp.ones(2)),
        "x.at[1:-1].add(y)",
    ),
    "at add": (lambda x, i, y: x.at[i].add(y), (X, INDEX, X), "x.at[i].add(y)"),
    "at add one": (lambda v, i: v.at[i].add(1.0), (V, INDEX), "v.at[i].add(1"),
    "at add pairs": (
        lambda x, i, j, y: x.at[i, j].add(y),
        (X, INDEX, INDEX, jnp.ones(3)),
        "x.at[i, j].add(y)",
    ),
    "at add scalars": (
        lambda x, i, j, y: x.at[i, j].add(y),
        (X, I, I, V[0]),
        "x.at[i, j].add(y)",
    ),
    "at multiply": (lambda x, i: x.at[i].multiply(2.0), (X, INDEX), "x.at[i].mul"),
    "at max": (lambda x, i, y: x.at[i].max(y), (X, INDEX, X), "x.at[i].max(y)"),
    "at min": (lambda x, i, y: x.at[i].min(y), (X, INDEX, X), "x.at[i].min(y)"),
    "at get": (
        lambda x, i: x.at[i].get(mode="fill", fill_value=0.0),
        (X, INDEX),
        'x.at[i].get(mode="fill", fill_value=0|jnp.take(x, i, axis=0, fill_value=0',
    ),
    # joins
    "split": (lambda x: jnp.split(x, 2, axis=1), (X,), "jnp.split(x, 2, axis=-1)"),
    "split at": (
        lambda x: jnp.split(x, [1, 3], axis=-1),
        (X,),
        "jnp.split(x, [1, 3], axis=-1)",
    ),
    "stack": (lambda x, y: jnp.stack([x, y]), (X, X), "jnp.stack([x, y])"),
    "stack four": (
        lambda x: jnp.stack([x, x + 1, x + 2, x + 3], axis=-1),
        (X,),
        ("jnp.stack([", "axis=-1)"),
    ),
    "stack scalars": (
        lambda v: jnp.stack([v[0], v[1] * 2]),
        (V,),
        "jnp.stack([|jnp.array([",
    ),
    "concatenate": (
        lambda x, y: jnp.concatenate([x, y], axis=-1),
        (X, X),
        "jnp.concatenate([x, y], axis=",
    ),
    "concatenate four": (
        lambda x: jnp.concatenate([x, x + 1, x + 2, x + 3], axis=-1),
        (X,),
        ("jnp.concatenate([x, ", "axis="),
    ),
    "append": (lambda v, x: jnp.append(v, x), (V, V), "jnp.concatenate([|jnp.append("),
    "vstack": (
        lambda x, y: jnp.vstack([x, y]),
        (V, V),
        "jnp.stack([x, y])|jnp.vstack(",
    ),
    "hstack": (
        lambda x, y: jnp.hstack([x, y]),
        (X, X),
        "jnp.concatenate([x, y], axis=-1)|jnp.hstack(",
    ),
    "repeat": (lambda x: jnp.repeat(x, 2, axis=0), (X,), "jnp.repeat(x, 2, axis=0)"),
    "repeat flat": (lambda v: jnp.repeat(v, 3), (V,), "jnp.repeat(v, 3"),
    "repeat heads": (
        lambda x: jnp.repeat(x, 2, axis=2),
        (HEADS,),
        "jnp.repeat(x, 2, axis=2)",
    ),
    "tile": (lambda x: jnp.tile(x, (2, 1)), (X,), "jnp.tile(x, (2, 1))"),
    "tile row": (
        lambda v: jnp.tile(v, (3, 1)),
        (V,),
        "jnp.tile(v, (3, 1))|jnp.broadcast_to(v, (3, 4))",
    ),
    "roll": (lambda v: jnp.roll(v, 1), (V,), "jnp.roll(v, 1"),
    "roll axis": (lambda x: jnp.roll(x, -1, axis=0), (X,), "jnp.roll(x, -1, axis=0)"),
    "flip": (lambda x: jnp.flip(x, axis=0), (X,), "jnp.flip(x, axis=0)"),
    "pad": (
        lambda x: jnp.pad(x, ((1, 1), (0, 2))),
        (X,),
        "jnp.pad(x, ((1, 1), (0, 2)))",
    ),
    "pad 1": (lambda x: jnp.pad(x, 1), (X,), "jnp.pad(x, 1)"),
    "pad edge": (
        lambda v: jnp.pad(v, 1, mode="edge"),
        (V,),
        'jnp.pad(v, 1, mode="edge")',
    ),
    "pad wrap": (
        lambda v: jnp.pad(v, 1, mode="wrap"),
        (V,),
        'jnp.pad(v, 1, mode="wrap")',
    ),
    "pad reflect": (
        lambda x: jnp.pad(x, 1, mode="reflect"),
        (X,),
        'jnp.pad(x, 1, mode="reflect")',
    ),
    "transpose": (
        lambda x: jnp.transpose(x, (0, 2, 1, 3)),
        (HEADS,),
        "jnp.transpose(x, (0, 2, 1, 3))|x.transpose(",
    ),
    "swapaxes": (
        lambda x: jnp.swapaxes(x, 1, 2),
        (HEADS,),
        "jnp.transpose(x, (0, 2, 1, 3))|x.transpose(|jnp.swapaxes(",
    ),
    "reshape": (lambda x: x.reshape(2, -1), (X,), ".reshape(|jnp.reshape("),
    "expand_dims": (
        lambda x: jnp.expand_dims(x, 1),
        (X,),
        "x[:, None]|jnp.expand_dims(x",
    ),
    "squeeze": (lambda x: jnp.squeeze(x, 1), (X[:, None],), "x[:, 0]|jnp.squeeze("),
    "broadcast_to": (
        lambda v: jnp.broadcast_to(v, (3, 4)),
        (V,),
        "jnp.broadcast_to(v, (3, 4))",
    ),
    "meshgrid": (
        lambda v: jnp.meshgrid(v, v, indexing="ij"),
        (V,),
        "jnp.meshgrid(v, v, indexing=|jnp.broadcast_to(",
    ),
    # makers
    "linspace": (lambda: jnp.linspace(0.0, 1.0, 5), (), "jnp.linspace(0.0, 1.0, 5)"),
    "linspace ints": (lambda: jnp.linspace(0, 10, 50), (), "jnp.linspace("),
    "linspace values": (
        lambda a, b: jnp.linspace(a, b, 7),
        (V[0], V[1]),
        "jnp.linspace(a, b, 7)",
    ),
    "linspace open": (
        lambda: jnp.linspace(0.0, 1.0, 5, endpoint=False),
        (),
        "jnp.linspace(0.0, 1.0, 5, endpoint=False)",
    ),
    "arange": (lambda: jnp.arange(5), (), "jnp.arange(5)"),
    "arange step": (lambda: jnp.arange(0, 10, 2), (), "jnp.arange(0, 10, 2)"),
    "arange float": (
        lambda: jnp.arange(0.0, 1.0, 0.25),
        (),
        "jnp.arange(0.0, 1.0, 0.25)",
    ),
    "arange float type": (
        lambda: jnp.arange(4, dtype=jnp.float32),
        (),
        "jnp.arange(4, dtype=jnp.float32)|jnp.arange(4.0",
    ),
    "tril": (jnp.tril, (SQUARE,), "jnp.tril("),
    "triu": (lambda x: jnp.triu(x, 1), (SQUARE,), "jnp.triu(x, 1)"),
    "causal mask": (lambda: jnp.tril(jnp.ones((4, 4), dtype=bool)), (), "jnp.tri"),
    "eye": (lambda: jnp.eye(3), (), "jnp.eye(3)"),
    "zeros": (lambda x: x + jnp.zeros((3, 1)), (X,), "jnp.zeros((3, 1))"),
    "ones_like": (lambda x: jnp.ones_like(x), (X,), "jnp.ones"),
    "full": (lambda: jnp.full((2, 3), 7.0), (), "jnp.full((2, 3), 7"),
    "diag": (jnp.diag, (V,), "jnp.diag("),
    "trace": (jnp.trace, (SQUARE,), "jnp.trace("),
    # order
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), (X,), "jnp.cumsum(x, axis="),
    "cumsum flat": (lambda x: jnp.cumsum(x), (X,), "jnp.cumsum(x)"),
    "cumprod": (lambda x: jnp.cumprod(x, axis=0), (X,), "jnp.cumprod(x, axis=0)"),
    "sort": (lambda x: jnp.sort(x, axis=0), (X,), "jnp.sort(x, axis=0)"),
    "sort descending": (
        lambda x: jnp.sort(x, descending=True),
        (X,),
        "jnp.sort(x, axis=-1, descending=True)|jnp.sort(x, descending=True)",
    ),
    "argsort": (jnp.argsort, (X,), "jnp.argsort("),
    "argsort negative": (lambda v: jnp.argsort(-v), (V,), "jnp.argsort(-v"),
    "top_k": (lambda x: jax.lax.top_k(x, 2), (X,), "jax.lax.top_k(x, 2)"),
    "argmax": (lambda x: jnp.argmax(x, axis=-1), (X,), "jnp.argmax(x, axis="),
    "argmax flat": (jnp.argmax, (X,), "jnp.argmax("),
    "searchsorted": (jnp.searchsorted, (V, X), "jnp.searchsorted("),
    "accuracy": (
        lambda x, y: jnp.mean(jnp.argmax(x, -1) == y),
        (X, LABELS),
        ("jnp.mean(", "jnp.argmax(x, axis="),
    ),
    # control flow
    "cond": (
        lambda i, x: jax.lax.cond(i > 0, jnp.sin, jnp.cos, x),
        (I, X),
        "jax.lax.cond(",
    ),
    "switch": (
        lambda i, x: jax.lax.switch(i, [jnp.sin, jnp.cos, jnp.tan], x),
        (I, X),
        "jax.lax.switch(",
    ),
    "fori": (
        power_iteration,
        (SQUARE, V),
        ("jax.lax.fori_loop(0, 10, ", "jnp.linalg.norm("),
    ),
    "fori traced": (counted, (X, I), "jax.lax.fori_loop(0, n, "),
    "fori index": (indexed_loop, (X,), ("jax.lax.fori_loop(0, 3, ", "x[i]")),
    "fori two": (two_carries, (X,), "jax.lax.fori_loop(1, 6, "),
    "fori offset": (offset_loop, (X, I), "jax.lax.fori_loop(2, n, "),
    "fori unrolled": (
        lambda x: jax.lax.fori_loop(0, 8, lambda i, s: jnp.sin(s), x, unroll=2),
        (X,),
        ("jax.lax.fori_loop(0, 8, ", "unroll=2"),
    ),
    "fori grad": (
        jax.grad(
            lambda x: jnp.sum(jax.lax.fori_loop(0, 3, lambda i, s: jnp.sin(s), x))
        ),
        (X,),
        "jax.lax.scan(",
    ),
    "map": (
        lambda x: jax.lax.map(lambda row: jax.nn.softmax(row * 2), x),
        (X,),
        ("jax.lax.map(", "jax.nn.softmax("),
    ),
    "map tuple": (
        lambda x, y: jax.lax.map(lambda xy: xy[0] @ xy[1], (x, y)),
        (X, X),
        "jax.lax.map(",
    ),
    "map batch": (
        lambda x: jax.lax.map(jnp.sin, x, batch_size=2),
        (SQUARE,),
        "jax.lax.map(",
    ),
    "while": (
        lambda x: jax.lax.while_loop(
            lambda s: jnp.sum(s) < 100.0, lambda s: s * 2.0, x
        ),
        (X,),
        "jax.lax.while_loop(",
    ),
    "scan": (
        lambda x: jax.lax.scan(lambda c, row: (c + row, c * 2), jnp.zeros(4), x),
        (X,),
        "jax.lax.scan(",
    ),
    # random
    "normal": (
        lambda k: jax.random.normal(k, (3,)),
        (KEY,),
        "jax.random.normal(k, (3,))",
    ),
    "normal raw": (
        lambda k: jax.random.normal(k, (3,)),
        (RAW_KEY,),
        "jax.random.normal(k, (3,))",
    ),
    "normal bf16": (
        lambda k: jax.random.normal(k, (3,), jnp.bfloat16),
        (KEY,),
        "jax.random.normal(k, (3,), dtype=jnp.bfloat16)",
    ),
    "uniform": (
        lambda k: jax.random.uniform(k, (3,), minval=-1.0, maxval=1.0),
        (KEY,),
        "jax.random.uniform(k, (3,), minval=-1.0, maxval=1.0)",
    ),
    "randint": (
        lambda k: jax.random.randint(k, (3,), 0, 5),
        (KEY,),
        "jax.random.randint(k, (3,), 0, 5)",
    ),
    "bernoulli": (
        lambda k: jax.random.bernoulli(k, 0.3, (3,)),
        (KEY,),
        "jax.random.bernoulli(k, 0.3, (3,))",
    ),
    "categorical": (jax.random.categorical, (KEY, V), "jax.random.categorical("),
    "split key": (jax.random.split, (KEY,), "jax.random.split("),
    "split key 3": (lambda k: jax.random.split(k, 3), (KEY,), "jax.random.split(k, 3)"),
    "split unpacked": (
        lambda k: functools.reduce(
            lambda a, b: a + b, [jax.random.normal(s) for s in jax.random.split(k)]
        ),
        (KEY,),
        ("jax.random.split(k", "jax.random.normal("),
    ),
    "fold_in": (jax.random.fold_in, (KEY, I), "jax.random.fold_in("),
    "permutation": (jax.random.permutation, (KEY, V), "jax.random.permutation("),
    "permutation n": (
        lambda k: jax.random.permutation(k, 6),
        (KEY,),
        "jax.random.permutation(k, 6)",
    ),
    "choice": (
        lambda k, v: jax.random.choice(k, v, (2,)),
        (KEY, V),
        "jax.random.choice(k, v, (2,))",
    ),
    "gumbel": (
        lambda k: jax.random.gumbel(k, (3,)),
        (KEY,),
        "jax.random.gumbel(k, (3,))",
    ),
    "exponential": (
        lambda k: jax.random.exponential(k, (3,)),
        (KEY,),
        "jax.random.exponential(k, (3,))",
    ),
    "gamma": (
        lambda k: jax.random.gamma(k, 2.0, (3,)),
        (KEY,),
        "jax.random.gamma(k, 2.0, (3,))",
    ),
    "truncated_normal": (
        lambda k: jax.random.truncated_normal(k, -2.0, 2.0, (3,)),
        (KEY,),
        "jax.random.truncated_normal(k, -2.0, 2.0, (3,))",
    ),
    "key": (
        lambda: jax.random.normal(jax.random.key(3), (2,)),
        (),
        ("jax.random.key(3)", "jax.random.normal("),
    ),
    # linear algebra
    "solve": (jnp.linalg.solve, (SQUARE, V), "jnp.linalg.solve("),
    "inv": (jnp.linalg.inv, (SQUARE,), "jnp.linalg.inv("),
    "det": (jnp.linalg.det, (SQUARE,), "jnp.linalg.det("),
    "slogdet": (lambda x: jnp.linalg.slogdet(x)[1], (SQUARE,), "jnp.linalg.slogdet("),
    "cholesky": (jnp.linalg.cholesky, (SPD,), "jnp.linalg.cholesky("),
    "cho_solve": (
        lambda a, b: jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(a), b),
        (SPD, V),
        ("cho_solve(",),
    ),
    "solve_triangular": (
        lambda a, b: jax.scipy.linalg.solve_triangular(a, b, lower=True),
        (SPD, V),
        "solve_triangular(a, b, lower=True)",
    ),
    "qr": (jnp.linalg.qr, (SQUARE,), "jnp.linalg.qr("),
    "svd": (
        lambda x: jnp.linalg.svd(x, full_matrices=False),
        (X,),
        "jnp.linalg.svd(x, full_matrices=False)",
    ),
    "eigh": (jnp.linalg.eigh, (SPD,), "jnp.linalg.eigh("),
    "eigvalsh": (jnp.linalg.eigvalsh, (SPD,), "jnp.linalg.eigvalsh("),
    "pinv": (jnp.linalg.pinv, (X,), "jnp.linalg.pinv("),
    "lstsq": (
        lambda a, b: jnp.linalg.lstsq(a, b)[0],
        (jnp.ones((4, 3)), V),
        "jnp.linalg.lstsq(",
    ),
    "matrix_power": (
        lambda a: jnp.linalg.matrix_power(a, 3),
        (SQUARE,),
        "jnp.linalg.matrix_power(a, 3)|@",
    ),
    "expm": (jax.scipy.linalg.expm, (SQUARE,), "jax.scipy.linalg.expm("),
    # signals
    "fft": (jnp.fft.fft, (V,), "jnp.fft.fft("),
    "ifft": (jnp.fft.ifft, (V + 0j,), "jnp.fft.ifft("),
    "rfft": (jnp.fft.rfft, (V,), "jnp.fft.rfft("),
    "irfft": (
        lambda x: jnp.fft.irfft(jnp.fft.rfft(x)),
        (V,),
        ("jnp.fft.irfft(", "jnp.fft.rfft("),
    ),
    "fft2": (jnp.fft.fft2, (SQUARE,), "jnp.fft.fft2("),
    "fftfreq": (lambda: jnp.fft.fftfreq(8), (), "jnp.fft.fftfreq(8"),
    "fftshift": (jnp.fft.fftshift, (V,), "jnp.fft.fftshift(|jnp.roll("),
    # convolutions and pooling
    "convolve": (
        lambda x, y: jnp.convolve(x, y, mode="same"),
        (V, jnp.ones(3)),
        'jnp.convolve(x, y, mode="same")',
    ),
    "conv": (
        convolve,
        (IMAGES, KERNEL),
        ("jax.lax.conv_general_dilated(", '"NHWC", "HWIO", "NHWC"', "SAME"),
    ),
    "conv nchw": (
        lambda x, w: jax.lax.conv(x, w, (1, 1), "SAME"),
        (jnp.ones((2, 3, 8, 8)), jnp.ones((4, 3, 3, 3))),
        'jax.lax.conv(x, w, (1, 1), "SAME")|jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")',
    ),
    "conv strided": (
        lambda x, w: jax.lax.conv_general_dilated(
            x, w, (2, 2), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (IMAGES, KERNEL),
        ("jax.lax.conv_general_dilated(", "VALID"),
    ),
    "max pool": (
        max_pool,
        (IMAGES,),
        (
            "jax.lax.reduce_window(",
            "-jnp.inf, jax.lax.max, (1, 2, 2, 1), (1, 2, 2, 1)",
            "VALID",
        ),
    ),
    "avg pool": (
        avg_pool,
        (IMAGES,),
        (
            "jax.lax.reduce_window(",
            "0.0, jax.lax.add, (1, 2, 2, 1), (1, 2, 2, 1)",
            "VALID",
        ),
    ),
    "same pool": (
        same_pool,
        (IMAGES,),
        ("jax.lax.reduce_window(", "-jnp.inf, jax.lax.max", "SAME"),
    ),
}
