"""Programs with shard_map: those of its notebook, and ways to train."""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp

from tests.lifting.sharding.base import P, Program, auto_mesh, floats, program


@program
def matmul_basic() -> Program:
    mesh = auto_mesh()

    @functools.partial(
        jax.shard_map,
        mesh=mesh,
        in_specs=(P("x", "y"), P("y", None)),
        out_specs=P("x", None),
    )
    def matmul(a: Any, b: Any) -> Any:
        return jax.lax.psum(jnp.dot(a, b), "y")

    return Program(matmul, (floats(8, 16), floats(16, 4)))


@program
def matmul_basic_grad() -> Program:
    base = matmul_basic()
    grad = jax.grad(lambda a, b: base.function(a, b).sum(), (0, 1))
    return Program(grad, base.args)


@program
def matmul_basic_jit_vmap() -> Program:
    base = matmul_basic()
    return Program(
        jax.jit(jax.vmap(base.function)), (floats(3, 8, 16), floats(3, 16, 4))
    )


@program
def mapped_value() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def f(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jnp.sin(b * 2), mesh=mesh, in_specs=P("i"), out_specs=P("i")
        )(x)

    return Program(f, (floats(16),))


@program
def replicated_out() -> Program:
    mesh = auto_mesh()

    def loss(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jax.lax.pmean(jnp.sum(b, keepdims=True), ("x", "y")),
            mesh=mesh,
            in_specs=P("x", "y"),
            out_specs=P(None),
        )(x)

    return Program(loss, (floats(8, 4),))


@program
def no_vma() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def f(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jax.lax.psum(b, "i"),
            mesh=mesh,
            in_specs=P("i"),
            out_specs=P(),
            check_vma=False,
        )(x)

    return Program(f, (floats(16),))


@program
def no_vma_grad() -> Program:
    base = no_vma()
    return Program(jax.grad(lambda x: base.function(x).sum()), base.args)


@program
def no_vma_collectives() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        a = jax.lax.all_gather(x, "i", tiled=True)
        b = jax.lax.psum_scatter(a, "i", tiled=True)
        c = jax.lax.ppermute(b, "i", [(j, (j + 1) % 8) for j in range(8)])
        d = jax.lax.pmax(c, "i") + jax.lax.pmin(c, "i")
        e = jax.lax.all_to_all(a, "i", 0, 0, tiled=True)
        g = jax.lax.pbroadcast(x, "i", 2) if hasattr(jax.lax, "pbroadcast") else x
        h = jax.lax.psum(x, "i", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]])
        k = jax.lax.all_gather(x, "i", axis_index_groups=[[0, 1, 2, 3], [4, 5, 6, 7]])
        return d + h, e, g, k, jax.lax.axis_index("i")[None]

    f = jax.shard_map(
        body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False
    )
    return Program(f, (floats(64),))


@program
def collectives() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        a = jax.lax.all_gather(x, "i", axis=1)
        b = jax.lax.psum_scatter(a, "i", scatter_dimension=1)
        c = jax.lax.pshuffle(b, "i", [1, 0, 2, 3, 4, 5, 6, 7])
        d = jax.lax.pmax(c, "i")
        e = jax.lax.all_to_all(a, "i", 1, 0)
        i = jax.lax.axis_index("i")
        return c + i, d, e, jax.lax.pcast(d, "i", to="varying")

    f = jax.shard_map(
        body, mesh=mesh, in_specs=P("i"), out_specs=(P("i"), P(), P("i"), P("i"))
    )
    return Program(f, (floats(16),))


@program
def two_axis_collectives() -> Program:
    mesh = auto_mesh()

    def body(x: Any) -> Any:
        total = jax.lax.psum(x, ("x", "y"))
        index = jax.lax.axis_index(("x", "y"))
        gathered = jax.lax.all_gather(x, ("x", "y"), tiled=True)
        return total, x + index, gathered.sum(keepdims=True)

    f = jax.shard_map(
        body,
        mesh=mesh,
        in_specs=P(("x", "y")),
        out_specs=(P(), P(("x", "y")), P(("x", "y"))),
    )
    return Program(f, (floats(16),))


@program
def invariant_gather() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        return jax.lax.all_gather(x, "i", tiled=True, to="invarying")

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P())
    return Program(f, (floats(16),))


@program
def ring_matmul() -> Program:
    """Overlap of communication and computation by a ring of permutations."""
    mesh = auto_mesh((8,), ("i",))

    def body(lhs: Any, rhs: Any) -> Any:
        n = jax.lax.axis_size("i")
        index = jax.lax.axis_index("i")
        out = jax.lax.pcast(
            jnp.zeros((lhs.shape[0], rhs.shape[1]), lhs.dtype), "i", to="varying"
        )

        def step(t: Any, carry: Any) -> Any:
            out, block = carry
            start = (index - t) % n * block.shape[0]
            out += jax.lax.dynamic_slice_in_dim(lhs, start, block.shape[0], 1) @ block
            block = jax.lax.ppermute(block, "i", [(j, (j + 1) % n) for j in range(n)])
            return out, block

        return jax.lax.fori_loop(0, n, step, (out, rhs))[0]

    f = jax.shard_map(
        body, mesh=mesh, in_specs=(P("i", None), P("i", None)), out_specs=P("i", None)
    )
    return Program(f, (floats(16, 16), floats(16, 4)))


@program
def fsdp_training_step() -> Program:
    """Fully sharded data parallelism, with gathered weights that are rematerialised."""
    mesh = auto_mesh((8,), ("batch",))
    policy = jax.checkpoint_policies.save_only_these_names("kept")

    def predict(params: Any, inputs: Any) -> Any:
        for weight in params:
            whole = jax.lax.all_gather(weight, "batch", tiled=True)
            inputs = jax.nn.relu(inputs @ whole)
        return inputs

    def local_loss(params: Any, batch: Any) -> Any:
        inputs, targets = batch
        predicted = jax.checkpoint(predict, policy=policy)(params, inputs)
        return jax.lax.pmean(jnp.mean((predicted - targets) ** 2), "batch")

    loss = jax.shard_map(
        local_loss, mesh=mesh, in_specs=(P("batch"), P("batch")), out_specs=P()
    )

    def step(params: Any, batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, batch)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return Program(
        step, ([floats(16, 16), floats(16, 8)], (floats(16, 16), floats(16, 8)))
    )


@program
def tensor_parallel() -> Program:
    mesh = auto_mesh((2, 4), ("batch", "feats"))

    def layer(x: Any, w: Any, b: Any) -> Any:
        x = jax.lax.all_gather(x, "feats", axis=1, tiled=True)
        return (
            jnp.tanh(
                jax.lax.psum_scatter(
                    jnp.dot(x, w), "feats", scatter_dimension=1, tiled=True
                )
            )
            + b
        )

    f = jax.shard_map(
        layer,
        mesh=mesh,
        in_specs=(P("batch", "feats"), P(None, None), P("feats")),
        out_specs=P("batch", "feats"),
    )
    return Program(f, (floats(8, 8), floats(8, 8), floats(8)))


@program
def pipeline_parallel() -> Program:
    mesh = auto_mesh((4,), ("stages",))

    def spmd(params: Any, inputs: Any) -> Any:
        stage = jax.lax.axis_index("stages")
        state = jax.lax.pcast(
            jnp.zeros(inputs.shape[1:], inputs.dtype), "stages", to="varying"
        )
        outputs = []
        for i in range(3):
            state = jnp.where(stage == 0, inputs[i % inputs.shape[0]], state)
            state = jnp.tanh(state @ params[0])
            outputs.append(state)
            state = jax.lax.ppermute(
                state, "stages", [(j, (j + 1) % 4) for j in range(4)]
            )
        return jnp.stack(outputs)

    f = jax.shard_map(
        spmd, mesh=mesh, in_specs=(P("stages"), P()), out_specs=P("stages")
    )
    return Program(f, (floats(4, 8, 8), floats(2, 3, 8)))
