"""Pallas kernels and foreign calls come back as the calls that made them."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas import triton as plgpu

import untrace

call = functools.partial(pl.pallas_call, interpret=True)


def shape(*dims: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(dims, dtype)


def add(x: Any, y: Any) -> Any:
    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    return call(kernel, out_shape=shape(*x.shape))(x, y)


def count() -> Any:
    def kernel(o_ref: Any) -> None:
        i = pl.program_id(0)
        o_ref[i] = i

    return call(kernel, out_shape=shape(8, dtype=jnp.int32), grid=(8,))()


def matmul(x: Any, y: Any) -> Any:
    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        @pl.when(pl.program_id(2) == 0)
        def _() -> None:
            o_ref[...] = jnp.zeros_like(o_ref)

        o_ref[...] += x_ref[...] @ y_ref[...]

    return call(
        kernel,
        out_shape=shape(x.shape[0], y.shape[1]),
        grid=(2, 2, 2),
        in_specs=[
            pl.BlockSpec((4, 4), lambda i, j, k: (i, k)),
            pl.BlockSpec((4, 4), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((4, 4), lambda i, j, k: (i, j)),
    )(x, y)


def softmax(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        shifted = jnp.exp(x_ref[...] - jnp.max(x_ref[...]))
        o_ref[...] = shifted / jnp.sum(shifted)

    spec = pl.BlockSpec((None, x.shape[1]), lambda i: (i, 0))
    return call(
        kernel,
        out_shape=shape(*x.shape),
        grid=x.shape[:1],
        in_specs=[spec],
        out_specs=spec,
    )(x)


def loops_and_scratch(x: Any) -> Any:
    def kernel(x_ref: Any, a_ref: Any, b_ref: Any, s_ref: Any) -> None:
        s_ref[...] = x_ref[...] * 2
        a_ref[...] = s_ref[...]

        def body(i: Any, total: Any) -> Any:
            b_ref[pl.ds(i, 2)] = jnp.ones(2)
            return total + a_ref[i]

        b_ref[3] = jax.lax.fori_loop(0, 3, body, 0.0)
        i = jax.lax.while_loop(lambda i: i < 3, lambda i: i + 1, 0)
        b_ref[i] += 1.0

    return call(
        kernel,
        out_shape=[shape(8), shape(8)],
        scratch_shapes=[pltpu.VMEM((8,), jnp.float32)],
    )(x)


def masked(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        index = pl.program_id(0) * 4 + jnp.arange(4)
        mask = index < x_ref.shape[0]
        block = pl.ds(pl.program_id(0) * 4, 4)
        value = plgpu.load(x_ref.at[block], mask=mask, other=0.0)
        plgpu.store(
            o_ref.at[block], value + plgpu.load(x_ref.at[index], mask=mask), mask=mask
        )

    return call(kernel, out_shape=shape(8), grid=(2,))(x)


def scoped(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        def body(sums: Any) -> None:
            sums[...] = x_ref[...] + x_ref[0]
            o_ref[...] = sums[...]

        pl.run_scoped(body, pltpu.VMEM((8,), jnp.float32))

    return call(kernel, out_shape=shape(8))(x)


def aliased(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[0] = x_ref[0] + 1.0

    estimate = pl.CostEstimate(flops=10, transcendentals=0, bytes_accessed=5)
    return call(
        kernel,
        out_shape=shape(8),
        input_output_aliases={0: 0},
        cost_estimate=estimate,
        name="first",
    )(x)


def prefetched(index: Any, x: Any) -> Any:
    def kernel(index_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + 1.0

    return call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(2,),
            in_specs=[pl.BlockSpec((4, 8), lambda i, index: (index[i], 0))],
            out_specs=pl.BlockSpec((4, 8), lambda i, index: (i, 0)),
        ),
        out_shape=shape(8, 8),
    )(index, x)


def dynamic_grid(x: Any, n: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + pl.num_programs(0)

    return call(kernel, out_shape=shape(8, dtype=jnp.int32), grid=(n,))(x)


def element_blocks(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[0:2]

    return call(
        kernel,
        out_shape=shape(4),
        grid=(2,),
        in_specs=[pl.BlockSpec((pl.Element(3, (0, 1)),), lambda i: (1 - i,))],
        out_specs=pl.BlockSpec((2,), lambda i: (i,)),
    )(x)


def trees(x: Any) -> Any:
    def kernel(inputs: Any, out: Any) -> None:
        out["a"][...] = inputs[0][...] + inputs[1]["k"][...]

    return call(kernel, out_shape={"a": shape(8)})((x, {"k": x}))


def copies(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any, semaphore: Any) -> None:
        copy = pltpu.make_async_copy(x_ref, o_ref, semaphore)
        copy.start()
        copy.wait()

    return pl.pallas_call(
        kernel,
        out_shape=shape(8, 128),
        in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=pl.BlockSpec(memory_space=pl.ANY),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
        interpret=pltpu.InterpretParams(),
    )(x)


def batched_twice(x: Any) -> Any:
    inner = jax.vmap(matmul, in_axes=(0, None))
    return jax.vmap(inner, in_axes=(1, 0), out_axes=2)(x, jnp.ones((2, 8, 8)))


MESH = pltpu.create_tensorcore_mesh("core", num_cores=1)


def mapped_over_cores(x: Any) -> Any:
    @pl.run_state
    def doubled(refs: Any) -> None:
        x_ref, o_ref = refs

        @pl.core_map(MESH)
        def _() -> None:
            o_ref[...] = x_ref[...] * 2

    return doubled((x, jnp.zeros_like(x)))[1]


def kernel_over_cores(x: Any) -> Any:
    return pl.kernel(pltpu.sync_copy, shape(8, 128), mesh=MESH)(x)


ROW, SQUARE = jnp.ones(8), jnp.ones((8, 8))
PROGRAMS: dict[Any, tuple[Any, ...]] = {
    add: (ROW, ROW),
    count: (),
    matmul: (SQUARE, SQUARE),
    softmax: (SQUARE,),
    jax.jit(lambda x: softmax(softmax(x))): (SQUARE,),
    jax.vmap(softmax): (jnp.ones((3, 8, 8)),),
    batched_twice: (jnp.ones((3, 2, 8, 8)),),
    jax.vmap(aliased): (SQUARE,),
    loops_and_scratch: (ROW,),
    masked: (ROW,),
    scoped: (ROW,),
    aliased: (ROW,),
    prefetched: (jnp.array([1, 0]), SQUARE),
    dynamic_grid: (jnp.ones(8, jnp.int32), 3),
    element_blocks: (ROW,),
    trees: (ROW,),
    copies: (jnp.ones((8, 128)),),
}


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=lambda f: getattr(f, "__name__", "program")
)
def test_kernel_is_identical_and_computes_the_same(program: Any) -> None:
    args = PROGRAMS[program]
    src = untrace.source(program, level="lax")(*args)
    assert src.report.strength == "identical", str(src)
    wanted, got = jax.jit(program)(*args), jax.jit(src.load())(*args)
    jax.tree.map(np.testing.assert_array_equal, wanted, got)


@pytest.mark.parametrize("program", [mapped_over_cores, kernel_over_cores])
def test_kernel_for_a_mesh_of_cores_is_identical(program: Any) -> None:
    src = untrace.source(program, level="lax")(
        jnp.ones((8, 128))
    )  # only a TPU could run it
    assert src.report.strength == "identical", str(src)


def test_kernel_reads_as_programmers_write_it() -> None:
    text = str(untrace.source(matmul, level="lax")(SQUARE, SQUARE))
    for line in (
        "pl.BlockSpec((4, 4), lambda i, j, k: (i, k))",
        "grid=(2, 2, 2)",
        "interpret=True",
        "pl.program_id(2)",
    ):
        assert line in text
    assert "jax._src" not in text


def test_defaults_of_a_call_are_left_out() -> None:
    text = str(untrace.source(add, level="lax")(ROW, ROW))
    assert not any(word in text for word in ("BlockSpec", "grid", "name=", "debug"))


def foreign(x: Any, y: Any) -> Any:
    plain = jax.ffi.ffi_call("scale", shape(3, 2), vmap_method="broadcast_all")
    a = plain(x, eps=np.float32(1e-5), n=3)
    several = jax.ffi.ffi_call(
        "pair",
        (shape(3, 2), shape(2, dtype=jnp.int32)),
        has_side_effect=True,
        input_layouts=[(0, 1), (1, 0)],
        input_output_aliases={0: 0},
    )
    return several(a, y, mode="fast", table=np.arange(3))


def test_foreign_call_is_written_with_its_public_function() -> None:
    src = untrace.source(foreign, level="lax")(jnp.ones((3, 2)), jnp.ones((3, 2)))
    assert src.report.strength == "identical", str(src)
    assert 'jax.ffi.ffi_call(\n        "scale"' in str(src).replace("'", '"')
    assert "jax._src" not in str(src)
