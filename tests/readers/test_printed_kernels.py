"""Kernels of Pallas in printed jaxprs: those whose blocks are whole arrays are read."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import untrace
from untrace import jaxapi
from untrace.verification.compare import compare

X = np.arange(8, dtype=np.float32).reshape(4, 2)
SUMS = jax.ShapeDtypeStruct((4,), jnp.float32)


def row_sums(x_ref, sums_ref, squares_ref):
    @pl.when(pl.program_id(0) == 0)
    def _():
        sums_ref[...] = jnp.zeros_like(sums_ref)

    sums_ref[...] += jnp.sum(x_ref[...], axis=1)
    squares_ref[...] = x_ref[...] ** 2


def with_whole_blocks(x):
    shapes = SUMS, jax.ShapeDtypeStruct(x.shape, x.dtype)
    return pl.pallas_call(row_sums, shapes, grid=(3,), interpret=True)(x)


def without_grid(x):
    def double(x_ref, out_ref):
        out_ref[...] = 2 * x_ref[...]

    made = pl.pallas_call(double, x, interpret=True, name="double")(x)
    return jnp.sum(made)


def with_parts(x):
    def double(x_ref, out_ref):
        out_ref[...] = 2 * x_ref[...]

    part = pl.BlockSpec((2, 2), lambda i: (i, 0))
    return pl.pallas_call(double, x, grid=(2,), in_specs=[part], out_specs=part)(x)


def with_scratch(x):
    def copied(x_ref, out_ref, kept_ref):
        kept_ref[...] = x_ref[...]
        out_ref[...] = kept_ref[...]

    kept = pl.MemorySpace.ANY(x.shape, x.dtype)
    return pl.pallas_call(copied, x, scratch_shapes=[kept])(x)


KERNEL = str(jax.make_jaxpr(with_whole_blocks)(X))


@pytest.mark.parametrize("function", [with_whole_blocks, without_grid])
def test_whole_blocks_are_read(function):
    jaxpr = jax.make_jaxpr(function)(X)
    read = untrace.parse(str(jaxpr))
    assert compare(jaxpr, read) is None
    made = jaxapi.as_function(read)(X)
    for one, other in zip(made, jax.tree.leaves(function(X)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_is_read_is_a_kernel_in_the_source():
    src = untrace.source(str(jax.make_jaxpr(without_grid)(X)))
    assert src.report.strength == "identical"
    assert 'name="double"' in str(src)


@pytest.mark.parametrize(
    ("function", "words", "shown"),
    [
        (with_parts, "in block 0 of `pallas_call`, is not printed", "block_size=2"),
        (with_scratch, "operands besides its blocks", "= pallas_call["),
    ],
)
def test_what_is_left_open_is_an_error_with_a_place(function, words, shown):
    text = str(jax.make_jaxpr(function)(X))
    with pytest.raises(untrace.ParseError) as caught:
        untrace.parse(text)
    error = caught.value
    assert words in str(error) and "untrace.source(f)" in str(error)
    line = text.splitlines()[error.line - 1]
    assert shown in line and error.column > 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("block_size=2", "block_size=3"),
        ("grid=(3,)", "grid=(n,)"),
        ("compiler_params=None", "compiler_params=Params(a=1)"),
        ("input_output_aliases=()", "input_output_aliases=((0, 7),)"),
        ("Ref<default>{f32[4,2]}", "Ref<default>{f32[4,3]}"),
    ],
)
def test_changed_kernels_are_errors(before, after):
    text = str(jax.make_jaxpr(with_whole_blocks)(X))
    assert before in text
    with pytest.raises(untrace.ParseError):
        untrace.parse(text.replace(before, after))
