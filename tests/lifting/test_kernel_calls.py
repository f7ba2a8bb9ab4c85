"""Kernels of Pallas come back as they were written: their names, calls and block specs."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import untrace

X = jnp.ones((8, 8))
SHAPE = jax.ShapeDtypeStruct(X.shape, X.dtype)


def recovered(function: Any, *args: Any) -> str:
    source = untrace.source(function)(*args)
    assert source.report.strength == "identical", source.report
    assert not any("equations" in note for note in source.report.notes), source.report
    return str(source)


def matmul_kernel(x_ref, y_ref, o_ref, acc_ref, *, scale):
    @pl.when(pl.program_id(0) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...]) * scale

    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jax.nn.relu(acc_ref[...])


def matmul(x, y):
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=0,
        grid=(2,),
        in_specs=[
            pl.BlockSpec((8, 4), lambda k: (0, k)),
            pl.BlockSpec((4, 8), lambda k: (k, 0)),
        ],
        out_specs=pl.BlockSpec((8, 8), lambda k: (0, 0)),
        scratch_shapes=[pltpu.VMEM((8, 8), jnp.float32)],
    )
    kernel = partial(matmul_kernel, scale=2.5)
    return pl.pallas_call(kernel, SHAPE, grid_spec=spec, interpret=True)(x, y)


def test_kernel_has_its_name_its_calls_and_what_was_bound():
    text = recovered(matmul, X, X)
    assert (
        """
def matmul_kernel(x_ref, y_ref, o_ref, acc_ref, *, scale):
    @pl.when(pl.program_id(0) == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(x_ref[...], y_ref[...]) * scale

    @pl.when(pl.program_id(0) == 0)
    def _():
        o_ref[...] = jax.nn.relu(acc_ref[...])
"""
        in text
    )
    assert "functools.partial(matmul_kernel, scale=2.5)" in text
    assert "grid_spec=pltpu.PrefetchScalarGridSpec(" in text
    assert "pl.BlockSpec((8, 4), lambda k: (0, k))" in text
    assert "scratch_shapes=[pltpu.VMEM((8, 8), jnp.float32)]" in text


def rows_kernel(x_ref, o_ref):
    def body(i, total):
        o_ref[pl.ds(2 * i, 2), :] = x_ref[pl.ds(2 * i, 2), :] + total
        return total + 1

    jax.lax.fori_loop(0, 4, body, 0)


def rows(x):
    return jax.vmap(pl.pallas_call(rows_kernel, SHAPE, interpret=True))(x[None])


def test_kernel_under_another_transformation_writes_slices_of_its_arrays():
    text = recovered(rows, X)
    assert "jax.vmap(\n        pl.pallas_call(\n            rows_kernel," in text
    assert "o_ref[pl.ds(2 * i, 2), :] = x_ref[pl.ds(2 * i, 2), :] + total" in text
