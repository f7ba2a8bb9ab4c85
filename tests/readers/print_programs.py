"""Print the jaxprs of small programs, with whatever JAX this is run by.

    python tests/readers/print_programs.py > tests/readers/printed/0.4.30.txt

It needs nothing but JAX. The test traces the same programs with today's JAX, so they
compute the same in all releases.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

X = np.linspace(-1.0, 2.0, 4, dtype=np.float32)
M = np.arange(12, dtype=np.float32).reshape(3, 4) / 7
SQUARE = M[:, :3] + 3 * np.eye(3, dtype=np.float32)
N = np.array([3, 1, 2], np.int32)

PROGRAMS = {}


def program(*args):
    def named(function):
        PROGRAMS[function.__name__] = function, args
        return function

    return named


@program(1.5)
def scalar(x):
    return jnp.sin(x) * 2.0


@program(X)
def elementwise(x):
    y = lax.exp(x) + lax.tanh(x) - lax.logistic(x) / 3.0
    return lax.integer_pow(y, 3), lax.rsqrt(y * y + 1.0), lax.sign(x), lax.erf(x)


@program(X, M)
def product(x, m):
    return m @ x, jnp.dot(m, m.T, precision="highest")


@program(M)
def reductions(m):
    return m.sum(), m.max(axis=1), jnp.prod(m, axis=0), jnp.argmax(m, axis=1)


@program(X)
def comparisons(x):
    return lax.select(x > 0, x, -x), lax.clamp(0.0, x, 1.0), (x > 0) & ~(x < 1)


@program(X)
def relu(x):
    return jax.nn.relu(x)


@program(X)
def softplus_and_silu(x):
    return jax.nn.softplus(x), jax.nn.silu(x)


@program(X)
def where(x):
    return jnp.where(x > 0, x, 1e-5)


@program(X)
def clip(x):
    return jnp.clip(x, 0.25, 1.0)


@program(X)
def jitted(x):
    @jax.jit
    def scaled(y, factor):
        return y * factor

    return scaled(x, 3.0) + scaled(x, 4.0)


@program(X)
def shared(x):
    @jax.jit
    def poly(y):
        return y * y + y * 2.0 + 1.0

    return poly(poly(x))


@program(X)
def cond(x):
    return lax.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, x)


@program(X, np.int32(1))
def switch(x, i):
    return lax.switch(i, [jnp.sin, jnp.cos, lambda y: y * 3], x)


@program(X)
def scan(x):
    return lax.scan(lambda c, y: (c + y, c * y), jnp.float32(0), x)


@program(X)
def scan_weak(x):
    return lax.scan(lambda c, y: (c * y + 1.0, c), 0.5, x, reverse=True)


@program(X)
def while_loop(x):
    return lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))


@program(X)
def fori(x):
    return lax.fori_loop(0, 5, lambda i, y: y + i, x)


@program(M)
def indexing(m):
    return m[1], m[:, 1:3], m[::-1, ::2], m[jnp.array([0, 2])]


@program(M)
def updates(m):
    return m.at[1].set(0.0), m.at[0, 1].add(2.0), m.at[:, 2].multiply(3.0)


@program(M, np.int32(1))
def dynamic(m, i):
    row = lax.dynamic_slice(m, (i, 0), (1, 4))
    return lax.dynamic_update_slice(m, row * 2, (0, 0)), m[i]


@program(M)
def gathered(m):
    return jnp.take(m, np.array([2, 0]), axis=1), jnp.take_along_axis(
        m, jnp.argsort(m, axis=1), axis=1
    )


@program(N)
def sorting(n):
    return jnp.sort(n), lax.top_k(n, 2), lax.sort((n, n * 2), num_keys=1)


@program(M)
def shapes(m):
    y = lax.reshape(m, (4, 3))
    y = lax.transpose(y, (1, 0)) + lax.broadcast_in_dim(m[0], (3, 4), (1,))
    return lax.concatenate([y, m], 0), lax.squeeze(y[:, None], (1,)), lax.rev(y, (0,))


@program(X)
def padded(x):
    return lax.pad(x, np.float32(0), ((1, 2, 1),)), lax.expand_dims(x, (0,))


@program(M)
def cumulative(m):
    return lax.cumsum(m, axis=1), lax.cumprod(m, axis=0), lax.cummax(m, axis=1)


@program(np.ones((1, 5, 5, 2), np.float32), np.ones((3, 3, 2, 4), np.float32))
def convolution(x, w):
    dims = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, w, (1, 2), "SAME", dimension_numbers=dims)


@program(np.ones((1, 4, 4, 1), np.float32))
def pooling(x):
    window, strides = (1, 2, 2, 1), (1, 2, 2, 1)
    return lax.reduce_window(x, -np.inf, lax.max, window, strides, "VALID")


@program(X)
def types(x):
    half = x.astype(jnp.bfloat16)
    return half * 2, x.astype(jnp.int32), lax.bitcast_convert_type(x, jnp.uint32)


@program(X)
def complex_numbers(x):
    z = lax.complex(x, -x)
    return lax.real(z * z), lax.imag(z), lax.conj(z), z * 2j


@program(N)
def integers(n):
    return n // 2, n % 2, n << 1, lax.population_count(n), lax.rem(n, np.int32(2))


@program(np.array([0, 7], np.uint32))
def random(key):
    key = jax.random.wrap_key_data(key)
    return jax.random.normal(jax.random.fold_in(key, 3), (2,))


@program(np.array([0, 7], np.uint32))
def random_bits(key):
    return jax.random.bits(key, (3,)), jax.random.uniform(key)


@program(SQUARE)
def linear_algebra(m):
    return jnp.linalg.cholesky(m @ m.T), jnp.linalg.qr(m)[1], jnp.linalg.det(m)


@program(SQUARE, np.ones(3, np.float32))
def solve(m, b):
    return jax.scipy.linalg.solve_triangular(m, b, lower=True)


@program(X)
def gradient(x):
    return jax.grad(lambda y: jnp.log(jnp.sum(jnp.exp(y * y))))(x)


@program(X)
def gradient_of_softmax(x):
    return jax.grad(lambda y: jax.nn.softmax(y)[0])(x)


@program(X)
def remat(x):
    return jax.grad(lambda y: jax.checkpoint(lambda z: jnp.sin(jnp.sin(z)))(y).sum())(x)


@program(M)
def mapped(m):
    return jax.vmap(lambda row: jnp.dot(row, row) * row)(m)


@program(X)
def with_constant(x):
    return x + np.arange(4.0, dtype=np.float32)


@program(X)
def own_vjp(x):
    @jax.custom_vjp
    def cube(y):
        return y * y * y

    cube.defvjp(lambda y: (cube(y), y), lambda r, g: (3 * r * r * g,))
    return cube(x)


@program(X)
def own_jvp(x):
    @jax.custom_jvp
    def double(y):
        return y + y

    double.defjvp(lambda p, t: (double(*p), 2 * t[0]))
    return double(x)


@program(X)
def fourier(x):
    return jnp.fft.rfft(x), jnp.abs(jnp.fft.fft(x))


@program(X)
def partly(x):
    return functools.partial(lax.reduce_precision, exponent_bits=5, mantissa_bits=3)(x)


@program(X)
def nothing(x):
    return ()


def main():
    print(f"# jax {jax.__version__}")
    for name, (function, args) in PROGRAMS.items():
        print(f"# {name}")
        try:
            print(jax.make_jaxpr(function)(*args))
        except Exception as error:
            print(f"# not traced: {type(error).__name__}")


if __name__ == "__main__":
    main()
