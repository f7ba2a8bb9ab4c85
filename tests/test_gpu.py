"""What needs a GPU: the tools on its values, and programs that JAX has for GPUs alone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

import untrace
from tests.corpus import interpreted
from tests.interpreters import planted

N_GPUS = 0
with contextlib.suppress(RuntimeError):
    N_GPUS = len(jax.devices("gpu"))

pytestmark = pytest.mark.skipif(not N_GPUS, reason="needs a GPU")

X = jax.random.normal(jax.random.key(0), (64, 64))
W = jax.random.normal(jax.random.key(1), (64, 64)) / 8


def layer(x, w):
    hidden = jnp.tanh(x + 1.0)
    product = hidden @ w
    return jnp.sum(product**2)


def precise(x, w):
    return jnp.sum(jnp.matmul(jnp.tanh(x), w, precision="highest") ** 2)


# ---- two devices ---------------------------------------------------------------------


def test_short_products_of_matrices_are_where_cpu_and_gpu_part() -> None:
    with jax.default_matmul_precision("tensorfloat32"):
        found = untrace.divergence(layer, devices=("cpu", "gpu"))(X, W)
    assert found.first is not None
    assert found.first.equation.primitive.name == "dot_general"
    assert "cpu:0 against" in str(found) and "product" in str(found)


@pytest.mark.parametrize("devices", [("cpu", "gpu"), ("gpu:0", "cpu:0")])
def test_cpu_and_gpu_agree_up_to_rounding(devices: tuple[str, str]) -> None:
    found = untrace.divergence(precise, devices=devices)(X, W)
    assert found.first is None, str(found)
    assert len(found.rows) >= 4


def test_loops_are_compared_on_two_devices() -> None:
    def recurrent(w, rows):
        def step(state, row):
            state = jnp.tanh(jnp.dot(w, state, precision="highest") + row)
            return state, jnp.sum(state)

        return jax.lax.scan(step, rows[0], rows)[1]

    found = untrace.divergence(recurrent, devices=("cpu", "gpu"))(W[:4, :4], X[:5, :4])
    assert found.first is None, str(found)
    assert {row.turn for row in found.rows} >= {"scan[0]", "scan[4]"}


@pytest.mark.parametrize("home", ["cpu", "gpu"])
def test_mutable_arrays_are_copied_to_the_other_device(home: str) -> None:
    def f(ref, x):
        ref[...] += jnp.sin(x)
        return ref[...] * 2.0

    ref = jax.new_ref(jax.device_put(jnp.ones(6), jax.devices(home)[0]))
    found = untrace.divergence(f, devices=("cpu", "gpu"))(ref, jnp.arange(6.0))
    assert found.first is None, str(found)
    assert jnp.array_equal(ref[...], jnp.ones(6))


def test_jitted_and_op_by_op_agree_on_a_gpu() -> None:
    found = untrace.divergence(precise)(X, W)
    assert found.first is None, str(found)


# ---- interpreters --------------------------------------------------------------------


@pytest.mark.parametrize("case", list(planted.cases())[::9], ids=lambda case: case.name)
def test_planted_nans_are_found(case: planted.Case) -> None:
    assert not case.wrong(untrace.nan_origin(case.function())(case.x))


@pytest.mark.parametrize("corpus, step", [("harness", 40), ("programs", 60)])
def test_interpreting_gives_the_bits_of_jax(corpus: str, step: int) -> None:
    bad = [
        outcome
        for outcome in interpreted.outcomes(corpus, step)
        if outcome.verdict not in interpreted.GOOD + interpreted.NOT_OURS
    ]
    assert not bad, "\n".join(map(str, bad))


def test_values_of_a_gpu_are_watched() -> None:
    rows = untrace.watch(layer)(X, W).rows
    assert len(rows) >= 4


# ---- programs for GPUs ---------------------------------------------------------------


def cudnn_attention(q, k, v):
    return jax.nn.dot_product_attention(q, k, v, is_causal=True, implementation="cudnn")


def triton_kernel(x, y):
    from jax.experimental import pallas as pl

    def add(x_ref, y_ref, out_ref):
        out_ref[...] = jnp.exp(x_ref[...]) + y_ref[...]

    block = pl.BlockSpec((16, 64), lambda i: (i, 0))
    return pl.pallas_call(
        add,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(4,),
        in_specs=[block, block],
        out_specs=block,
    )(x, y)


def on_both(x, w):
    on_cpu = jax.device_put(x, jax.devices("cpu")[0])
    return jnp.sin(on_cpu), jax.device_put(w, jax.devices("gpu")[0]) * 2


def factored(x, w):
    u, s, vt = jnp.linalg.svd(x @ w)
    q, r = jnp.linalg.qr(x)
    return u, s, vt, q, r, jnp.linalg.eigh(x @ x.T), jnp.linalg.solve(x, w)


def by_platform(x, w):
    return jax.lax.platform_dependent(x, w, cpu=jnp.add, cuda=jnp.multiply)


HALF = jax.random.normal(jax.random.key(2), (2, 64, 4, 64), jnp.bfloat16)

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "layer": (layer, (X, W)),
    "gradient": (jax.grad(layer), (X, W)),
    "attention of cudnn": (cudnn_attention, (HALF, HALF, HALF)),
    "gradient of attention of cudnn": (
        jax.grad(lambda q, k, v: cudnn_attention(q, k, v).astype(jnp.float32).sum()),
        (HALF, HALF, HALF),
    ),
    "kernel of triton": (triton_kernel, (X, W)),
    "factors": (factored, (X, W)),
    "by platform": (by_platform, (X, W)),
    "two devices": (jax.jit(on_both), (X, W)),
    "random bits": (
        lambda x, _: jax.random.bits(jax.random.key(0, impl="rbg"), x.shape),
        (X, W),
    ),
}


@pytest.mark.parametrize("level", ["lax", "api"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_come_back_with_their_values(name: str, level: Any) -> None:
    function, args = PROGRAMS[name]
    try:
        wanted = jax.jit(function)(*args)
    except Exception as error:  # an old cudnn, or a device that has no such kernel
        pytest.skip(f"{type(error).__name__}: {error}"[:200])
    src = untrace.source(function, level=level)(*args)
    assert src.report.strength in ("identical", "equivalent"), str(src)
    found = jax.jit(src.load())(*args)
    assert not interpreted.difference(
        jax.tree.leaves(wanted), jax.tree.leaves(found)
    ), str(src)
