"""Networks, optimisers, samplers, signals and special functions."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.corpus.registry import add, f32, i32, positive, program

# ---- jax.nn ------------------------------------------------------------------------

for _name in [
    "relu",
    "relu6",
    "sigmoid",
    "softplus",
    "sparse_plus",
    "soft_sign",
    "silu",
    "log_sigmoid",
    "leaky_relu",
    "hard_sigmoid",
    "hard_silu",
    "hard_tanh",
    "elu",
    "celu",
    "selu",
    "gelu",
    "squareplus",
    "mish",
    "identity",
    "softmax",
    "log_softmax",
    "standardize",
    "logsumexp",
    "glu",
]:
    if hasattr(jax.nn, _name):
        add(f"nn_{_name}", getattr(jax.nn, _name), f32(2, 4))
add("nn_gelu_exact", lambda x: jax.nn.gelu(x, approximate=False), f32(3))
add("nn_softmax_where", lambda x: jax.nn.softmax(x, where=x > 0, axis=0), f32(3))
add("nn_one_hot", lambda i: jax.nn.one_hot(i, 4), i32(3))
add(
    "nn_attention",
    lambda q, k, v: jax.nn.dot_product_attention(q, k, v),
    f32(1, 3, 2, 4),
    f32(1, 3, 2, 4),
    f32(1, 3, 2, 4),
)
add(
    "nn_attention_causal",
    lambda q: jax.nn.dot_product_attention(q, q, q, is_causal=True),
    f32(1, 3, 2, 4),
)
for _name in (
    "glorot_uniform",
    "he_normal",
    "lecun_normal",
    "orthogonal",
    "variance_scaling",
):
    _args = (1.0, "fan_in", "normal") if _name == "variance_scaling" else ()
    add(
        f"init_{_name}",
        functools.partial(
            getattr(jax.nn.initializers, _name)(*_args), shape=(3, 4), dtype=jnp.float32
        ),
        jax.random.key(0),
        variants=False,
    )

# ---- networks ----------------------------------------------------------------------

MLP = [(f32(4, 8), f32(8)), (f32(8, 3), f32(3))]


def mlp(params, x):
    for w, b in params[:-1]:
        x = jax.nn.relu(x @ w + b)
    w, b = params[-1]
    return x @ w + b


def cross_entropy(params, x, labels):
    logits = mlp(params, x)
    return -jnp.mean(
        jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(labels, 3), axis=-1)
    )


add("mlp", mlp, MLP, f32(5, 4))
add("mlp_loss", cross_entropy, MLP, f32(5, 4), i32(5, high=3))
add(
    "mlp_batched_by_vmap",
    lambda p, x: jax.vmap(functools.partial(mlp, p))(x),
    MLP,
    f32(5, 4),
)


def conv(x, w, stride=1, padding="SAME"):
    return lax.conv_general_dilated(
        x, w, (stride, stride), padding, dimension_numbers=("NHWC", "HWIO", "NHWC")
    )


CONVNET = {"c1": f32(3, 3, 1, 4), "c2": f32(3, 3, 4, 4), "out": f32(16, 3)}


def convnet(p, x):
    x = jax.nn.relu(conv(x, p["c1"], 2))
    x = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
    x = jax.nn.gelu(conv(x, p["c2"]))
    return x.reshape(x.shape[0], -1) @ p["out"]


add("convnet", convnet, CONVNET, f32(2, 8, 8, 1))
add(
    "conv_average_pool",
    lambda x: (
        lax.reduce_window(x, 0.0, lax.add, (1, 2, 2, 1), (1, 2, 2, 1), "SAME") / 4
    ),
    f32(1, 4, 4, 2),
)
add(
    "conv_depthwise",
    lambda x, w: lax.conv_general_dilated(
        x,
        w,
        (1, 1),
        "SAME",
        feature_group_count=2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    ),
    f32(1, 4, 4, 2),
    f32(3, 3, 1, 2),
)
add(
    "conv_dilated",
    lambda x, w: lax.conv_general_dilated(x, w, (1,), [(2, 2)], rhs_dilation=(2,)),
    f32(1, 2, 8),
    f32(3, 2, 3),
)
add(
    "conv_transpose",
    lambda x, w: lax.conv_transpose(
        x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    ),
    f32(1, 3, 3, 2),
    f32(3, 3, 2, 2),
)
add("conv_1d_numpy", lambda x, w: jnp.convolve(x, w, mode="same"), f32(9), f32(3))
add(
    "conv_correlate",
    lambda x, w: jax.scipy.signal.correlate2d(x, w, mode="valid"),
    f32(5, 5),
    f32(2, 2),
)
add(
    "residual_block",
    lambda p, x: jax.nn.relu(x + conv(jax.nn.relu(conv(x, p)), p)),
    f32(3, 3, 2, 2),
    f32(1, 4, 4, 2),
)


def batch_norm(x, scale, bias, mean, var, train):
    if train:
        batch_mean, batch_var = jnp.mean(x, 0), jnp.var(x, 0)
        mean, var = 0.9 * mean + 0.1 * batch_mean, 0.9 * var + 0.1 * batch_var
        used = batch_mean, batch_var
    else:
        used = mean, var
    y = (x - used[0]) * lax.rsqrt(used[1] + 1e-5) * scale + bias
    return y, lax.stop_gradient((mean, var))


add(
    "batch_norm_train",
    functools.partial(batch_norm, train=True),
    f32(6, 3),
    f32(3),
    f32(3),
    f32(3),
    positive(3),
)
add(
    "batch_norm_test",
    functools.partial(batch_norm, train=False),
    f32(6, 3),
    f32(3),
    f32(3),
    f32(3),
    positive(3),
)


@program(jax.random.key(0), f32(4, 5))
def dropout(key, x, rate=0.5):
    keep = jax.random.bernoulli(key, 1 - rate, x.shape)
    return jnp.where(keep, x / (1 - rate), 0.0)


def gru_cell(p, h, x):
    z = jax.nn.sigmoid(x @ p["wz"] + h @ p["uz"])
    r = jax.nn.sigmoid(x @ p["wr"] + h @ p["ur"])
    n = jnp.tanh(x @ p["wn"] + (r * h) @ p["un"])
    return (1 - z) * n + z * h


GRU = {k: f32(3, 3) for k in ("wz", "uz", "wr", "ur", "wn", "un")}
add(
    "rnn_gru",
    lambda p, x: lax.scan(lambda h, v: (gru_cell(p, h, v),) * 2, jnp.zeros(3), x),
    GRU,
    f32(4, 3),
)


@program(f32(3, 12), f32(3, 12), f32(12), f32(5, 2, 3))
def rnn_lstm(w, u, b, xs):
    def step(state, x):
        h, c = state
        i, f, g, o = jnp.split(x @ w + h @ u + b, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((2, 3))
    return lax.scan(step, (zero, zero), xs)


def layer_norm(x, scale, bias):
    mean = jnp.mean(x, axis=-1, keepdims=True)
    variance = jnp.var(x, axis=-1, keepdims=True)
    return scale * (x - mean) * lax.rsqrt(variance + 1e-6) + bias


def attention(p, x, mask=None):
    q, k, v = (jnp.einsum("bsd,dhk->bshk", x, p[name]) for name in ("q", "k", "v"))
    logits = jnp.einsum("bqhk,bshk->bhqs", q, k) / np.sqrt(q.shape[-1])
    if mask is not None:
        logits = jnp.where(mask, logits, -1e9)
    return jnp.einsum("bhqs,bshk,hkd->bqd", jax.nn.softmax(logits), v, p["o"])


def block(p, x):
    mask = jnp.tril(jnp.ones((x.shape[1], x.shape[1]), bool))
    x = x + attention(p, layer_norm(x, p["s1"], p["b1"]), mask)
    h = jax.nn.gelu(layer_norm(x, p["s2"], p["b2"]) @ p["w1"])
    return x + h @ p["w2"]


TRANSFORMER = {
    **{k: f32(4, 2, 2) for k in ("q", "k", "v")},
    "o": f32(2, 2, 4),
    "w1": f32(4, 8),
    "w2": f32(8, 4),
    "s1": f32(4),
    "b1": f32(4),
    "s2": f32(4),
    "b2": f32(4),
}
add("attention", attention, {k: TRANSFORMER[k] for k in "qkvo"}, f32(2, 3, 4))
add("layer_norm", layer_norm, f32(2, 4), f32(4), f32(4))
add("transformer_block", block, TRANSFORMER, f32(2, 3, 4))
add(
    "transformer_scan",
    lambda p, x: lax.scan(lambda c, q: (block(q, c), None), x, p)[0],
    jax.tree.map(lambda v: np.stack([v] * 3), TRANSFORMER),
    f32(2, 3, 4),
)
add(
    "transformer_remat",
    lambda p, x: jax.checkpoint(
        block, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable
    )(p, x),
    TRANSFORMER,
    f32(2, 3, 4),
)
add("embedding", lambda table, i: table[i] * jnp.sqrt(4.0), f32(7, 4), i32(2, 3))
add(
    "rotary",
    lambda x: jnp.concatenate(
        [
            x[..., :2] * jnp.cos(jnp.arange(3.0))[:, None]
            - x[..., 2:] * jnp.sin(jnp.arange(3.0))[:, None],
            x[..., 2:],
        ],
        -1,
    ),
    f32(2, 3, 4),
)
add(
    "mixture_of_experts",
    lambda g, w, x: jnp.einsum(
        "be,bed->bd", jax.nn.softmax(x @ g), jnp.einsum("bi,eid->bed", x, w)
    ),
    f32(4, 3),
    f32(3, 4, 2),
    f32(5, 4),
)
add(
    "greedy_decode",
    lambda w, x: lax.while_loop(
        lambda s: (s[0] < 5) & (s[1][s[0]] != 3),
        lambda s: (
            s[0] + 1,
            s[1].at[s[0] + 1].set(jnp.argmax(w[s[1][s[0]]]).astype(jnp.int32)),
        ),
        (0, x),
    ),
    f32(4, 4),
    np.zeros(6, np.int32),
)
add("beam_top", lambda s: lax.top_k(jax.nn.log_softmax(s).reshape(-1), 3), f32(2, 4))

# ---- training ----------------------------------------------------------------------


@program(MLP, f32(5, 4), i32(5, high=3), variants=False)
def train_sgd(params, x, y):
    loss, grads = jax.value_and_grad(cross_entropy)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), loss


@program(
    MLP,
    (jax.tree.map(np.zeros_like, MLP), jax.tree.map(np.zeros_like, MLP), 0),
    f32(5, 4),
    i32(5, high=3),
    variants=False,
)
def train_adam(params, state, x, y):
    m, v, step = state
    loss, grads = jax.value_and_grad(cross_entropy)(params, x, y)
    m = jax.tree.map(lambda a, g: 0.9 * a + 0.1 * g, m, grads)
    v = jax.tree.map(lambda a, g: 0.999 * a + 0.001 * g * g, v, grads)
    step = step + 1
    rate = 1e-3 * jnp.sqrt(1 - 0.999**step) / (1 - 0.9**step)
    params = jax.tree.map(
        lambda p, a, b: p - rate * a / (jnp.sqrt(b) + 1e-8), params, m, v
    )
    return params, (m, v, step), loss


@program(MLP, f32(2, 5, 4), i32(2, 5, high=3), variants=False)
def train_accumulate(params, xs, ys):
    def step(total, batch):
        return jax.tree.map(
            jnp.add, total, jax.grad(cross_entropy)(params, *batch)
        ), None

    total, _ = lax.scan(step, jax.tree.map(jnp.zeros_like, params), (xs, ys))
    norm = jnp.sqrt(sum(jnp.sum(g**2) for g in jax.tree.leaves(total)))
    return jax.tree.map(lambda g: g * jnp.minimum(1.0, 1.0 / norm), total)


add(
    "train_epoch",
    lambda p, x, y: lax.scan(lambda q, b: train_sgd(q, *b), p, (x, y)),
    MLP,
    f32(3, 5, 4),
    i32(3, 5, high=3),
    variants=False,
)
add(
    "train_jitted",
    jax.jit(train_sgd, donate_argnums=0),
    MLP,
    f32(5, 4),
    i32(5, high=3),
    variants=False,
)
add(
    "train_hypergradient",
    jax.grad(
        lambda lr, p, x, y: cross_entropy(
            jax.tree.map(lambda a, g: a - lr * g, p, jax.grad(cross_entropy)(p, x, y)),
            x,
            y,
        )
    ),
    0.1,
    MLP,
    f32(5, 4),
    i32(5, high=3),
    variants=False,
)
add(
    "maml",
    lambda p, x, y: jax.grad(
        lambda q: jnp.mean(
            jax.vmap(
                lambda a, b: cross_entropy(
                    jax.tree.map(
                        lambda u, g: u - 0.1 * g, q, jax.grad(cross_entropy)(q, a, b)
                    ),
                    a,
                    b,
                )
            )(x, y)
        )
    )(p),
    MLP,
    f32(2, 5, 4),
    i32(2, 5, high=3),
    variants=False,
)
add(
    "gan_losses",
    lambda d, g, z: (
        jnp.mean(jax.nn.softplus(-(jnp.tanh(z @ g) @ d))),
        jnp.mean(jax.nn.softplus(jnp.tanh(z @ g) @ d)),
    ),
    f32(4, 1),
    f32(3, 4),
    f32(5, 3),
)
add(
    "vae_elbo",
    lambda k, w, x: jnp.mean((x - (x @ w + jax.random.normal(k, (5, 2))) @ w.T) ** 2),
    jax.random.key(0),
    f32(4, 2),
    f32(5, 4),
)
add("optimizer_counter", lambda s, x: ({"n": s["n"] + 1}, x * s["n"]), {"n": 0}, f32(3))

# ---- samplers and statistics -------------------------------------------------------


@program(jax.random.key(0), f32(2), variants=False)
def sample_metropolis(key, x):
    def log_density(z):
        return -0.5 * z @ z

    def step(state, k):
        k1, k2 = jax.random.split(k)
        proposal = state + 0.5 * jax.random.normal(k1, state.shape)
        accept = jnp.log(jax.random.uniform(k2)) < log_density(proposal) - log_density(
            state
        )
        state = jnp.where(accept, proposal, state)
        return state, state

    return lax.scan(step, x, jax.random.split(key, 4))


@program(jax.random.key(0), f32(2), variants=False)
def sample_hmc(key, q):
    potential = lambda z: 0.5 * jnp.sum(z**2) + jnp.sum(jnp.cos(z))
    k1, k2 = jax.random.split(key)
    p = jax.random.normal(k1, q.shape)

    def leapfrog(_, s):
        q, p = s
        p = p - 0.05 * jax.grad(potential)(q)
        q = q + 0.1 * p
        return q, p - 0.05 * jax.grad(potential)(q)

    q1, p1 = lax.fori_loop(0, 5, leapfrog, (q, p))
    change = potential(q) - potential(q1) + 0.5 * (p @ p - p1 @ p1)
    return lax.cond(jnp.log(jax.random.uniform(k2)) < change, lambda: q1, lambda: q)


@program(jax.random.key(0), f32(3), variants=False)
def sample_rejection(key, x):
    def body(state):
        k, _, _ = state
        k, sub = jax.random.split(k)
        v = jax.random.normal(sub)
        return k, v, jnp.abs(v) < 1.0

    return lax.while_loop(lambda s: ~s[2], body, (key, 0.0, False))[1] + x


def kalman(m, p, y):
    s = p + 1.0
    k = p / s
    return m + k * (y - m), (1 - k) * p + 0.1


add(
    "kalman_filter",
    lambda y: lax.scan(
        lambda s, v: (lambda o: (o, o[0]))(kalman(*s, v)), (0.0, 1.0), y
    ),
    f32(6),
)
add(
    "hmm_forward",
    lambda a, b, o: lax.scan(
        lambda c, i: (jax.nn.logsumexp(c[:, None] + a, 0) + b[:, i], None), b[:, 0], o
    ),
    f32(3, 3),
    f32(3, 4),
    i32(5),
)
add(
    "gaussian_process",
    lambda x, y, l: (lambda k: y @ jnp.linalg.solve(k, y) + jnp.linalg.slogdet(k)[1])(
        jnp.exp(-((x[:, None] - x) ** 2) / l) + 0.1 * jnp.eye(4)
    ),
    f32(4),
    f32(4),
    1.5,
)
add(
    "kmeans_step",
    lambda x, c: (
        lambda a: (
            jax.ops.segment_sum(x, a, 2)
            / jnp.maximum(jnp.bincount(a, length=2), 1)[:, None]
        )
    )(jnp.argmin(jnp.sum((x[:, None] - c) ** 2, -1), 1)),
    f32(6, 2),
    f32(2, 2),
)
add(
    "pagerank",
    lambda m: lax.fori_loop(0, 5, lambda i, v: 0.85 * m @ v + 0.05, jnp.ones(3) / 3),
    positive(3, 3),
)
add(
    "mandelbrot",
    lambda c: lax.fori_loop(0, 5, lambda i, z: z * z + c, jnp.zeros_like(c)),
    (f32(3) + 1j * f32(3)).astype(np.complex64),
    variants=False,
)
add(
    "game_of_life",
    lambda x: jax.scipy.signal.convolve2d(x, jnp.ones((3, 3)), mode="same") == 3,
    f32(4, 4),
)
add(
    "fibonacci",
    lambda n: lax.fori_loop(0, n, lambda i, s: (s[1], s[0] + s[1]), (0, 1)),
    10,
    variants=False,
)
add(
    "sieve",
    lambda: lax.fori_loop(
        2,
        5,
        lambda i, p: jnp.where(
            (jnp.arange(20) % i == 0) & (jnp.arange(20) > i), False, p
        ),
        jnp.ones(20, bool),
    ),
    variants=False,
)
add(
    "bubble_sort",
    lambda x: lax.fori_loop(
        0,
        4,
        lambda i, a: lax.fori_loop(
            0,
            3,
            lambda j, b: lax.cond(
                b[j] > b[j + 1],
                lambda c: c.at[j].set(c[j + 1]).at[j + 1].set(c[j]),
                lambda c: c,
                b,
            ),
            a,
        ),
        x,
    ),
    f32(4),
)

# ---- einsum, contractions ----------------------------------------------------------

for _position, (_spec, _shapes) in enumerate(
    [
        ("i,i->", [(3,), (3,)]),
        ("ij,j->i", [(2, 3), (3,)]),
        ("ij,jk->ik", [(2, 3), (3, 4)]),
        ("bij,bjk->bik", [(2, 2, 3), (2, 3, 4)]),
        ("ij->ji", [(2, 3)]),
        ("ii->", [(3, 3)]),
        ("ii->i", [(3, 3)]),
        ("ij,kl->ijkl", [(2, 3), (3, 2)]),
        ("...ij,...j->...i", [(2, 2, 3), (2, 3)]),
        ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 2)]),
        ("abc,cd->abd", [(2, 3, 4), (4, 2)]),
        ("ij,ij->", [(2, 3), (2, 3)]),
        ("ijk->k", [(2, 3, 4)]),
        ("ij,ik->jk", [(2, 3), (2, 4)]),
    ]
):
    add(
        f"einsum_{_position}",
        functools.partial(jnp.einsum, _spec),
        *[f32(*s) for s in _shapes],
    )
add(
    "einsum_precision",
    lambda a, b: jnp.einsum("ij,jk", a, b, precision="highest"),
    f32(2, 3),
    f32(3, 2),
)
add(
    "matmul_variants",
    lambda a, b: (
        a @ b,
        jnp.dot(a, b),
        jnp.tensordot(a, b, 1),
        jnp.inner(a, a),
        jnp.outer(a[0], b[0]),
        jnp.vdot(a, a),
    ),
    f32(2, 3),
    f32(3, 2),
)
add(
    "dot_preferred",
    lambda a, b: lax.dot_general(
        a, b, (((1,), (0,)), ((), ())), preferred_element_type=jnp.float32
    ),
    f32(2, 3).astype(np.float16),
    f32(3, 2).astype(np.float16),
    variants=False,
)
add(
    "ragged_dot",
    lambda a, b, n: lax.ragged_dot(a, b, n),
    f32(4, 3),
    f32(2, 3, 2),
    np.array([1, 3], np.int32),
    variants=False,
)

# ---- transforms, images, special functions -----------------------------------------

for _name in (
    "fft",
    "ifft",
    "rfft",
    "irfft",
    "fft2",
    "fftn",
    "rfft2",
    "fftshift",
    "hfft",
):
    add(f"fft_{_name}", lambda x, f=getattr(jnp.fft, _name): f(x), f32(4, 4))
add("fft_convolve", lambda x, y: jax.scipy.signal.fftconvolve(x, y), f32(5), f32(3))
add("fft_stft", lambda x: jax.scipy.signal.stft(x, nperseg=4)[2], f32(16))
add("fft_dct", lambda x: jax.scipy.fft.dct(x), f32(8))
for _method in ("nearest", "linear", "cubic", "lanczos3"):
    add(
        f"image_{_method}",
        lambda x, m=_method: jax.image.resize(x, (6, 3), m),
        f32(4, 4),
    )
add(
    "image_translate",
    lambda x: jax.image.scale_and_translate(
        x, (4, 4), (0, 1), jnp.ones(2), jnp.array([0.5, 1.0]), "linear"
    ),
    f32(4, 4),
)
add(
    "image_map_coordinates",
    lambda x, c: jax.scipy.ndimage.map_coordinates(x, [c, c], order=1),
    f32(4, 4),
    positive(3),
)
for _name in [
    "gammaln",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "logit",
    "expit",
    "entr",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "log_ndtr",
    "ndtr",
    "ndtri",
    "xlogx",
    "gamma",
    "exp1",
    "expi",
    "factorial",
    "spence",
    "bernoulli",
]:
    if hasattr(jax.scipy.special, _name):
        _arg = 3 if _name == "bernoulli" else positive(3) / 3
        if _name != "bernoulli":
            add(f"special_{_name}", getattr(jax.scipy.special, _name), _arg)
for _name in (
    "betaln",
    "xlogy",
    "xlog1py",
    "gammainc",
    "gammaincc",
    "zeta",
    "polygamma",
    "kl_div",
    "rel_entr",
    "beta",
):
    add(
        f"special_{_name}",
        getattr(jax.scipy.special, _name),
        positive(3) + 1 if _name != "polygamma" else np.ones(3, np.float32),
        positive(3) + 1,
    )
add(
    "special_betainc",
    jax.scipy.special.betainc,
    positive(3),
    positive(3),
    positive(3) / 5,
)

add(
    "special_logsumexp",
    lambda x: jax.scipy.special.logsumexp(x, axis=0, b=2.0, return_sign=True),
    f32(3, 2),
)
for _name in ("norm", "cauchy", "laplace", "logistic", "uniform", "expon"):
    _module = getattr(jax.scipy.stats, _name)
    add(f"stats_{_name}", lambda x, m=_module: (m.logpdf(x), m.pdf(x)), positive(3) / 3)
add("stats_beta", lambda x: jax.scipy.stats.beta.logpdf(x, 2.0, 3.0), positive(3) / 5)
add("stats_gamma", lambda x: jax.scipy.stats.gamma.logpdf(x, 2.0), positive(3))
add(
    "stats_multivariate_normal",
    lambda x: jax.scipy.stats.multivariate_normal.logpdf(x, jnp.zeros(2), jnp.eye(2)),
    f32(3, 2),
)
add("stats_kde", lambda x: jax.scipy.stats.gaussian_kde(x).evaluate(x), f32(5))
add("stats_mode", lambda x: jax.scipy.stats.mode(x).mode, i32(5))
for _name, _function in {
    "statistics": lambda x: (
        jnp.mean(x),
        jnp.var(x, ddof=1),
        jnp.std(x, axis=0),
        jnp.cov(x),
        jnp.corrcoef(x),
        jnp.average(x, weights=jnp.arange(4.0), axis=1),
    ),
    "reductions": lambda x: (
        jnp.sum(x),
        jnp.prod(x, 0),
        jnp.max(x),
        jnp.min(x, 1),
        jnp.any(x > 0),
        jnp.all(x > 0, 0),
        jnp.ptp(x),
        jnp.count_nonzero(x),
    ),
    "nan_reductions": lambda x: (jnp.nansum(x), jnp.nanmean(x, 0), jnp.nanmax(x)),
    "trigonometry": lambda x: (
        jnp.sin(x),
        jnp.arctan2(x, 2.0),
        jnp.sinh(x),
        jnp.arcsinh(x),
        jnp.sinc(x),
        jnp.hypot(x, x),
        jnp.deg2rad(x),
    ),
    "exponentials": lambda x: (
        jnp.exp2(x),
        jnp.expm1(x),
        jnp.log1p(x * x),
        jnp.logaddexp(x, 1.0),
        jnp.cbrt(x),
        jnp.square(x),
        jnp.reciprocal(x),
    ),
    "rounding": lambda x: (
        jnp.floor(x),
        jnp.ceil(x),
        jnp.round(x, 2),
        jnp.trunc(x),
        jnp.sign(x),
        jnp.clip(x, -1, 1),
        jnp.nan_to_num(x),
        jnp.fmod(x, 2.0),
    ),
    "polynomials": lambda x: (
        jnp.polyval(x[0], x),
        jnp.polyfit(x[0], x[1], 1),
        jnp.roots(x[0], strip_zeros=False),
    ),
    "calculus": lambda x: (
        jnp.diff(x),
        jnp.gradient(x[0]),
        jnp.trapezoid(x[0]),
        jnp.ediff1d(x[0]),
    ),
    "sets": lambda x: (
        jnp.isin(jnp.round(x), jnp.arange(2.0)),
        jnp.union1d(jnp.round(x[0]), jnp.arange(2.0), size=6),
    ),
    "windows": lambda x: x * jnp.hanning(4) * jnp.kaiser(4, 2.0),
    "linspace": lambda x: (
        jnp.linspace(x[0, 0], x[0, 1], 5),
        jnp.logspace(0.0, 1.0, 3),
        jnp.geomspace(1.0, 8.0, 4),
    ),
    "reduce_custom": lambda x: lax.reduce(
        x, np.float32(1.0), lambda a, b: a * b + 1.0, (1,)
    ),
    "reduce_mul_max": lambda x: (
        lax.reduce(x, np.float32(1.0), lax.mul, (0,)),
        lax.reduce(x, -jnp.inf, lax.max, (0, 1)),
    ),
    "reduce_two": lambda x: lax.reduce(
        (x, x * 2),
        (np.float32(0.0), np.float32(1.0)),
        lambda a, b: (a[0] + b[0], a[1] * b[1]),
        (1,),
    ),
    "reduce_window_custom": lambda x: lax.reduce_window(
        x, np.float32(0.0), lambda a, b: jnp.maximum(a, b) + 0.0, (2, 2), (1, 1), "SAME"
    ),
    "reduce_window_min": lambda x: lax.reduce_window(
        x, jnp.inf, lax.min, (2, 2), (2, 2), "VALID", window_dilation=(1, 2)
    ),
    "sort_two_keys": lambda x: lax.sort(
        (jnp.round(x), x), dimension=0, num_keys=2, is_stable=False
    ),
    "scatter_apply": lambda x: lax.scatter_apply(
        x,
        jnp.array([[1]]),
        jnp.sin,
        lax.ScatterDimensionNumbers((0,), (0,), (0,)),
        update_shape=(1, 4),
    ),
    "argmax_dtype": lambda x: lax.argmax(x, 1, jnp.uint8),
    "approx_max_k": lambda x: lax.approx_max_k(x, 2),
    "optimization_barrier": lambda x: lax.optimization_barrier((x, x * 2)),
}.items():
    add(f"numpy_{_name}", _function, f32(4, 4))

# ---- sparse matrices, symbolic shapes ----------------------------------------------


@program(f32(3, 4), f32(4, 2), variants=False)
def sparse_matmul(dense, x):
    from jax.experimental import sparse

    return sparse.BCOO.fromdense(dense, nse=5) @ x


@program(f32(3, 4), variants=False)
def sparse_todense(dense):
    from jax.experimental import sparse

    return sparse.BCOO.fromdense(dense, nse=6).T.todense()


@program(f32(3, 4), f32(4), variants=False)
def sparse_grad(dense, x):
    from jax.experimental import sparse

    m = sparse.BCOO.fromdense(dense, nse=5)
    return jax.grad(lambda v: jnp.sum((m @ v) ** 2))(x)


@program(f32(3, 4), f32(4), variants=False)
def sparse_sparsify(dense, x):
    from jax.experimental import sparse

    return sparse.sparsify(lambda m, v: (m * 2.0) @ v)(
        sparse.BCOO.fromdense(dense, nse=5), x
    )


def _symbolic(text: str) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(jax.export.symbolic_shape(text), jnp.float32)


from jax import export  # noqa: E402, F401  # makes `jax.export` available

add(
    "symbolic_elementwise",
    lambda x: jnp.sin(x) * 2.0,
    _symbolic("b, 4"),
    variants=False,
)
add(
    "symbolic_reshape",
    lambda x: x.reshape(-1, 2).sum(0),
    _symbolic("b, 4"),
    variants=False,
)
add("symbolic_matmul", lambda x, w: x @ w, _symbolic("b, 4"), f32(4, 3), variants=False)
add("symbolic_mean", lambda x: jnp.mean(x, axis=0), _symbolic("b, 4"), variants=False)
add(
    "symbolic_two",
    lambda x: jnp.concatenate([x, x * 2], axis=0),
    _symbolic("a, b"),
    variants=False,
)
add(
    "symbolic_dimension_value",
    lambda x: x.sum() / x.shape[0],
    _symbolic("n"),
    variants=False,
)
