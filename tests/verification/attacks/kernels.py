"""Kernels of pallas: each option that a call of one can have."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from tests.verification.attacks.pairs import M, X, Y, differs


def double(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2.0


def triple(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 3.0


def add(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] + y_ref[...]


def cast(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...].astype(o_ref.dtype)


def with_scratch(x_ref: Any, o_ref: Any, s_ref: Any) -> None:
    s_ref[...] = x_ref[...].astype(s_ref.dtype)
    o_ref[...] = s_ref[...].astype(o_ref.dtype)


def by_index(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * pl.program_id(0)


def by_number(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * pl.num_programs(0)


def spec(shape: Any = (2,), index: Any = lambda i: (i,), **options: Any) -> Any:
    return pl.BlockSpec(shape, index, **options)


def call(kernel: Any = double, **options: Any) -> Any:
    given: dict[str, Any] = {
        "grid": (2,),
        "in_specs": [spec()],
        "out_specs": spec(),
        "interpret": True,
        "out_shape": jax.ShapeDtypeStruct((4,), np.float32),
    }
    given.update(options)
    return lambda *args: pl.pallas_call(kernel, **given)(*args)


def whole(kernel: Any = double, **options: Any) -> Any:
    return call(
        kernel, grid=(), in_specs=[pl.BlockSpec()], out_specs=pl.BlockSpec(), **options
    )


WIDE = {"out_shape": jax.ShapeDtypeStruct((3, 4), np.float32)}


def tile(index: Any, shape: Any = (1, 4)) -> Any:
    return call(
        grid=(3,),
        in_specs=[spec(shape, index)],
        out_specs=spec(shape, lambda i: (i, 0)),
        **WIDE,
    )


differs("kernel, body", call(), call(triple))
differs("kernel, grid", call(), call(grid=(1,)))
differs(
    "kernel, number of dimensions of the grid",
    call(),
    call(
        grid=(2, 1),
        in_specs=[spec(index=lambda i, j: (i,))],
        out_specs=spec(index=lambda i, j: (i,)),
    ),
)
differs(
    "kernel, index map of an input",
    call(),
    call(in_specs=[spec(index=lambda i: (1 - i,))]),
)
differs(
    "kernel, index map of the output",
    call(),
    call(out_specs=spec(index=lambda i: (1 - i,))),
)
differs(
    "kernel, constant of an index map",
    tile(lambda i: (i, 0)),
    tile(lambda i: (0, 0)),
    M,
)
differs(
    "kernel, squeezed block dimension",
    call(
        grid=(3,),
        in_specs=[spec((None, 4), lambda i: (i, 0))],
        out_specs=spec((None, 4), lambda i: (i, 0)),
        **WIDE,
    ),
    tile(lambda i: (i, 0)),
    M,
)
differs(
    "kernel, shape of blocks",
    call(grid=(1,)),
    call(grid=(1,), in_specs=[spec((4,))], out_specs=spec((4,))),
)
differs(
    "kernel, dtype of the result",
    *[
        call(cast, out_shape=jax.ShapeDtypeStruct((4,), t))
        for t in (np.float16, np.float32)
    ],
)
differs(
    "kernel, shape of the result",
    call(),
    call(out_shape=jax.ShapeDtypeStruct((8,), np.float32)),
)
differs("kernel, interpret", call(), call(interpret=False))
differs("kernel, program_id or num_programs", call(by_index), call(by_number))
differs(
    "kernel, cost estimate",
    call(cost_estimate=pl.CostEstimate(flops=1, transcendentals=0, bytes_accessed=1)),
    call(cost_estimate=pl.CostEstimate(flops=2, transcendentals=0, bytes_accessed=1)),
)
differs(
    "kernel, cost estimate or none",
    call(cost_estimate=pl.CostEstimate(flops=1, transcendentals=0, bytes_accessed=1)),
    call(),
)
differs(
    "kernel, name",
    call(name="a"),
    call(name="b"),
    because="the kernels have other names",
)
differs("kernel, metadata", call(metadata={"a": "1"}), call(metadata={"a": "2"}))
differs(
    "kernel, aliases",
    call(add, in_specs=[spec(), spec()], input_output_aliases={0: 0}),
    call(add, in_specs=[spec(), spec()], input_output_aliases={1: 0}),
    X,
    Y,
)
differs("kernel, aliases or none", call(input_output_aliases={0: 0}), call())
differs(
    "kernel, order of operands",
    lambda x, y: call(add, in_specs=[spec(), spec()])(x, y),
    lambda x, y: call(add, in_specs=[spec(), spec()])(y, x),
    X,
    Y,
)
differs(
    "kernel, scratch",
    *[
        whole(
            with_scratch,
            scratch_shapes=[pl.MemoryRef(jax.core.ShapedArray((4,), t), pl.ANY)],
        )
        for t in (np.float32, np.float16)
    ],
) if hasattr(pl, "MemoryRef") else None
differs("kernel, memory space", call(in_specs=[spec(memory_space=pl.ANY)]), call())
differs("kernel, compute on the block or the whole", whole(), call())
differs("kernel, debug", call(debug=True), call(debug=False), because="it prints")
differs(
    "kernel, mode of a block",
    call(in_specs=[pl.BlockSpec((pl.Element(2),), lambda i: (i,))]),
    call(),
) if hasattr(pl, "Element") else None
differs("kernel or its body", whole(), lambda x: x * 2.0)
differs(
    "kernel, when",
    *[
        whole(lambda x, o, n=n: pl.when(x[0] > n)(lambda: o.__setitem__(..., x[...])))
        for n in (0.0, 1.0)
    ],
)
differs(
    "kernel, loop in its body",
    *[
        whole(
            lambda x, o, n=n: o.__setitem__(
                ..., jax.lax.fori_loop(0, n, lambda i, c: c + x[...], jnp.zeros(4))
            )
        )
        for n in (2, 3)
    ],
)
differs(
    "kernel, place of a load",
    *[
        whole(lambda x, o, n=n: o.__setitem__(..., x[pl.ds(n, 1)] * jnp.ones(4)))
        for n in (0, 1)
    ],
)
differs(
    "kernel, alignment of a load",
    *[
        whole(
            lambda x, o, n=n: o.__setitem__(
                ..., x[pl.ds(pl.multiple_of(jnp.int32(2), n), 1)] * jnp.ones(4)
            )
        )
        for n in (1, 2)
    ],
)
