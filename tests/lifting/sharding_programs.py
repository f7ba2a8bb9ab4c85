"""Programs about sharding, devices and ambient context, for the tests of `sharded.py`.

Every program is a maker: called under eight devices, it returns a function, its
arguments and, where the program needs one, a context manager in which it is captured.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import AxisType, NamedSharding

P = jax.P


class Program(NamedTuple):
    """A function, its arguments and the context it is captured in."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    context: Any = contextlib.nullcontext()


PROGRAMS: dict[str, Callable[[], Program]] = {}


def program(maker: Callable[[], Program]) -> Callable[[], Program]:
    """Register a maker under its name."""
    PROGRAMS[maker.__name__] = maker
    return maker


def auto_mesh(shape: tuple[int, ...] = (4, 2), names: tuple[str, ...] = ("x", "y")) -> Any:
    """Make a mesh whose axes the compiler shards."""
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(shape))


def explicit_mesh(shape: tuple[int, ...] = (4, 2), names: tuple[str, ...] = ("x", "y")) -> Any:
    """Make a mesh whose axes are part of types."""
    return jax.make_mesh(shape, names, axis_types=(AxisType.Explicit,) * len(shape))


def floats(*shape: int) -> Any:
    """Make an array of small floats."""
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape) / 8


def put(array: Any, mesh: Any, *spec: Any) -> Any:
    """Shard an array."""
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))


# ---- shard_map: the notebook -------------------------------------------------------


@program
def matmul_basic() -> Program:
    mesh = auto_mesh()

    @functools.partial(
        jax.shard_map, mesh=mesh, in_specs=(P("x", "y"), P("y", None)), out_specs=P("x", None)
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
    return Program(jax.jit(jax.vmap(base.function)), (floats(3, 8, 16), floats(3, 16, 4)))


@program
def mapped_value() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def f(x: Any) -> Any:
        return jax.shard_map(lambda b: jnp.sin(b * 2), mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)

    return Program(f, (floats(16),))


@program
def replicated_out() -> Program:
    mesh = auto_mesh()

    def loss(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jax.lax.pmean(jnp.sum(b, keepdims=True), ("x", "y")),
            mesh=mesh, in_specs=P("x", "y"), out_specs=P(None),
        )(x)

    return Program(loss, (floats(8, 4),))


@program
def no_vma() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def f(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jax.lax.psum(b, "i"), mesh=mesh, in_specs=P("i"), out_specs=P(), check_vma=False
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

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
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

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=(P("i"), P(), P("i"), P("i")))
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
        body, mesh=mesh, in_specs=P(("x", "y")), out_specs=(P(), P(("x", "y")), P(("x", "y")))
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
        out = jax.lax.pcast(jnp.zeros((lhs.shape[0], rhs.shape[1]), lhs.dtype), "i", to="varying")

        def step(t: Any, carry: Any) -> Any:
            out, block = carry
            start = (index - t) % n * block.shape[0]
            out += jax.lax.dynamic_slice_in_dim(lhs, start, block.shape[0], 1) @ block
            block = jax.lax.ppermute(block, "i", [(j, (j + 1) % n) for j in range(n)])
            return out, block

        return jax.lax.fori_loop(0, n, step, (out, rhs))[0]

    f = jax.shard_map(body, mesh=mesh, in_specs=(P("i", None), P("i", None)), out_specs=P("i", None))
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

    loss = jax.shard_map(local_loss, mesh=mesh, in_specs=(P("batch"), P("batch")), out_specs=P())

    def step(params: Any, batch: Any) -> Any:
        value, grads = jax.value_and_grad(loss)(params, batch)
        return value, jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    return Program(step, ([floats(16, 16), floats(16, 8)], (floats(16, 16), floats(16, 8))))


@program
def tensor_parallel() -> Program:
    mesh = auto_mesh((2, 4), ("batch", "feats"))

    def layer(x: Any, w: Any, b: Any) -> Any:
        x = jax.lax.all_gather(x, "feats", axis=1, tiled=True)
        return jnp.tanh(jax.lax.psum_scatter(jnp.dot(x, w), "feats", scatter_dimension=1, tiled=True)) + b

    f = jax.shard_map(
        layer, mesh=mesh,
        in_specs=(P("batch", "feats"), P(None, None), P("feats")), out_specs=P("batch", "feats"),
    )
    return Program(f, (floats(8, 8), floats(8, 8), floats(8)))


@program
def pipeline_parallel() -> Program:
    mesh = auto_mesh((4,), ("stages",))

    def spmd(params: Any, inputs: Any) -> Any:
        stage = jax.lax.axis_index("stages")
        state = jax.lax.pcast(jnp.zeros(inputs.shape[1:], inputs.dtype), "stages", to="varying")
        outputs = []
        for i in range(3):
            state = jnp.where(stage == 0, inputs[i % inputs.shape[0]], state)
            state = jnp.tanh(state @ params[0])
            outputs.append(state)
            state = jax.lax.ppermute(state, "stages", [(j, (j + 1) % 4) for j in range(4)])
        return jnp.stack(outputs)

    f = jax.shard_map(spmd, mesh=mesh, in_specs=(P("stages"), P()), out_specs=P("stages"))
    return Program(f, (floats(4, 8, 8), floats(2, 3, 8)))


@program
def closed_over_values() -> Program:
    mesh = auto_mesh((8,), ("i",))
    table = jnp.arange(4.0)

    def f(x: Any, scale: Any) -> Any:
        return jax.shard_map(
            lambda b: b * scale + table.sum(), mesh=mesh, in_specs=P("i"), out_specs=P("i")
        )(x)

    return Program(f, (floats(16), np.float32(3.0)))


@program
def pytree_specs() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(tree: Any, scale: Any) -> Any:
        return {"sum": jax.lax.psum(tree["a"], "i"), "b": tree["b"] * scale}

    f = jax.shard_map(
        body, mesh=mesh, in_specs=({"a": P("i"), "b": P(None, "i")}, P()),
        out_specs={"sum": P(), "b": P(None, "i")},
    )
    return Program(f, ({"a": floats(16), "b": floats(2, 8)}, np.float32(2)))


@program
def partial_manual() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        y = jax.shard_map(
            lambda b: jax.lax.psum(jnp.sin(b), "x"),
            mesh=mesh, in_specs=P("x"), out_specs=P(), axis_names={"x"},
        )(x)
        return y * 2

    return Program(jax.jit(f), (floats(8, 4),))


@program
def partial_manual_constraint() -> Program:
    mesh = auto_mesh()

    def body(b: Any) -> Any:
        inner = jax.sharding.get_abstract_mesh()
        b = jax.lax.with_sharding_constraint(b, NamedSharding(inner, P(None, "y")))
        return jnp.cos(b)

    def f(x: Any) -> Any:
        return jax.shard_map(body, mesh=mesh, in_specs=P("x"), out_specs=P("x"), axis_names={"x"})(x)

    return Program(jax.jit(f), (floats(8, 4),))


@program
def nested() -> Program:
    mesh = auto_mesh()

    def inner(b: Any) -> Any:
        return jnp.sin(b) + jax.lax.axis_index("y")

    def outer(b: Any) -> Any:
        b = jax.lax.psum(b, "x")
        return jax.shard_map(inner, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"})(b)

    def f(x: Any) -> Any:
        return jax.shard_map(outer, mesh=mesh, in_specs=P("x"), out_specs=P(), axis_names={"x"})(x)

    return Program(jax.jit(f), (floats(8, 4),))


@program
def nested_grad() -> Program:
    base = nested()
    return Program(jax.grad(lambda x: base.function(x).sum()), base.args)


@program
def abstract_mesh_argument() -> Program:
    mesh = jax.sharding.AbstractMesh((4,), ("i",), axis_types=(AxisType.Auto,))

    def f(x: Any) -> Any:
        return jax.shard_map(jnp.sin, mesh=mesh, in_specs=P("i"), out_specs=P("i"))(x)

    return Program(f, (jax.ShapeDtypeStruct((8,), jnp.float32),))


@program
def spmd_vmap() -> Program:
    mesh = auto_mesh()
    f = jax.shard_map(lambda b: jax.lax.psum(b, "x"), mesh=mesh, in_specs=P("x"), out_specs=P())
    return Program(jax.jit(jax.vmap(f, spmd_axis_name="y")), (floats(2, 8),))


@program
def vmap_collectives() -> Program:
    def body(x: Any) -> Any:
        return jax.lax.psum(x, "b") + jax.lax.axis_index("b") * jax.lax.pmax(x, "b")

    return Program(jax.vmap(body, axis_name="b"), (floats(4, 3),))


@program
def scan_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        def step(carry: Any, y: Any) -> Any:
            total = carry + jax.lax.psum(y, "i")
            return total, y * 2

        total, ys = jax.lax.scan(step, jnp.float32(0), x)
        return total, ys

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=(P(), P("i")))
    return Program(f, (floats(16),))


@program
def cond_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(x: Any) -> Any:
        return jax.lax.cond(jax.lax.axis_index("i") < 4, jnp.sin, lambda v: v * 3, x)

    f = jax.shard_map(body, mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return Program(f, (floats(16),))


@program
def custom_rule_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    @jax.custom_vjp
    def reduce(x: Any) -> Any:
        return jax.lax.psum(x, "i")

    def forward(x: Any) -> Any:
        return reduce(x), None

    def backward(_: None, g: Any) -> Any:
        return (jax.lax.pcast(g, "i", to="varying"),)

    reduce.defvjp(forward, backward)
    f = jax.shard_map(lambda b: reduce(jnp.sin(b)), mesh=mesh, in_specs=P("i"), out_specs=P())
    return Program(f, (floats(16),))


@program
def relu_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))
    f = jax.shard_map(lambda b: jax.nn.relu(b) + jax.nn.softmax(b), mesh=mesh, in_specs=P("i"), out_specs=P("i"))
    return Program(f, (floats(16),))


@program
def random_inside() -> Program:
    mesh = auto_mesh((8,), ("i",))

    def body(key: Any) -> Any:
        key = jax.random.fold_in(key, jax.lax.axis_index("i"))
        return jax.random.normal(key, (4,))

    f = jax.shard_map(body, mesh=mesh, in_specs=P(), out_specs=P("i"))
    return Program(f, (jax.random.key(0),))


@program
def smap() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        return jax.smap(lambda b: jnp.sin(b), in_axes=0, out_axes=0, axis_name="x")(x)

    return Program(jax.jit(f), (floats(8, 4),), jax.set_mesh(mesh))


# ---- pmap --------------------------------------------------------------------------


@program
def pmapped() -> Program:
    def step(x: Any, w: Any) -> Any:
        return jax.lax.psum(x * w, "i") + jax.lax.axis_index("i")

    return Program(jax.pmap(step, axis_name="i", in_axes=(0, None)), (floats(8, 3), np.float32(2)))


@program
def pmapped_grad() -> Program:
    def step(w: Any, x: Any) -> Any:
        grads = jax.grad(lambda w: jnp.mean((x @ w) ** 2))(w)
        return w - 0.1 * jax.lax.pmean(grads, "i")

    return Program(jax.pmap(step, axis_name="i"), (floats(8, 3), floats(8, 2, 3)))


# ---- distributed arrays and automatic parallelisation --------------------------------


@program
def sharding_constraint() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        y = jax.lax.with_sharding_constraint(x, NamedSharding(mesh, P("x", "y")))
        z = jax.lax.with_sharding_constraint(y @ y.T, NamedSharding(mesh, P(None, "x")))
        return jax.lax.with_sharding_constraint(z, NamedSharding(mesh, P(P.UNCONSTRAINED, "y")))

    return Program(jax.jit(f), (floats(8, 8),))


@program
def sharding_constraint_grad() -> Program:
    base = sharding_constraint()
    return Program(jax.jit(jax.grad(lambda x: base.function(x).sum())), base.args)


@program
def constraint_by_spec() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.sin(x), P("x", None)) * 2

    return Program(jax.jit(f), (floats(8, 8),), jax.set_mesh(mesh))


@program
def jit_shardings() -> Program:
    mesh = auto_mesh()
    rows, both = NamedSharding(mesh, P("x")), NamedSharding(mesh, P("x", "y"))
    predict = jax.jit(lambda x, w: jnp.tanh(x @ w), in_shardings=(rows, None), out_shardings=both)
    return Program(lambda x, w: predict(x, w) + 1, (floats(8, 4), floats(4, 2)))


@program
def jit_out_shardings() -> Program:
    mesh = auto_mesh()
    both = NamedSharding(mesh, P("x", "y"))
    make = jax.jit(lambda x: (x + 1, x * 2), out_shardings=(both, None))
    return Program(lambda x: make(x), (floats(8, 4),))


@program
def sharded_mlp_step() -> Program:
    mesh = auto_mesh((4, 2), ("batch", "model"))
    shard = lambda *spec: NamedSharding(mesh, P(*spec))  # noqa: E731

    def loss(params: Any, x: Any) -> Any:
        for w, b in params:
            x = jnp.tanh(x @ w + b)
            x = jax.lax.with_sharding_constraint(x, shard("batch", "model"))
        return jnp.mean(x**2)

    params = [(floats(8, 8), floats(8)), (floats(8, 4), floats(4))]
    return Program(jax.jit(jax.value_and_grad(loss)), (params, put(floats(16, 8), mesh, "batch")))


@program
def donated() -> Program:
    step = jax.jit(lambda s, g: s - g, donate_argnums=0)
    return Program(lambda s, g: step(s * 2, g), (floats(4), floats(4)))


# ---- explicit sharding -----------------------------------------------------------------


@program
def explicit_add() -> Program:
    mesh = explicit_mesh()

    def f(x: Any, y: Any) -> Any:
        return x + y * 2.0

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")), jax.device_put(floats(8, 4), P("x", "y")))
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_matmul() -> Program:
    mesh = explicit_mesh()

    def f(x: Any, w: Any) -> Any:
        return jnp.sin(jnp.dot(x, w, out_sharding=P("x")))

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")), jax.device_put(floats(4, 4), P("y")))
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_matmul_grad() -> Program:
    base = explicit_matmul()
    return Program(jax.jit(jax.grad(lambda x, w: base.function(x, w).sum())), base.args, base.context)


@program
def explicit_reshard() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        y = jax.sharding.reshard(x, P("x", None))
        return y.reshape(8, 2, 2) + jnp.zeros((8, 2, 2), out_sharding=P("x"))

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_creation() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        a = jnp.arange(8, out_sharding=P("x"))
        b = jax.random.uniform(jax.random.key(0), (8, 4), out_sharding=P("x", "y"))
        return x + a[:, None] + b + jnp.full((8, 4), 2.0, out_sharding=P("x", "y"))

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_auto_axes() -> Program:
    mesh = explicit_mesh()

    @functools.partial(jax.sharding.auto_axes, out_sharding=P("x", "y"))
    def inner(a: Any, b: Any) -> Any:
        return jnp.sin(a) @ b.T @ b

    def f(a: Any, b: Any) -> Any:
        return inner(a, b) * 2

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")), jax.device_put(floats(4, 4), P("y")))
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_axes_inside_auto() -> Program:
    mesh = auto_mesh()

    @functools.partial(jax.sharding.explicit_axes, in_sharding=P("x", "y"))
    def inner(a: Any) -> Any:
        return jnp.sin(a) * 2

    return Program(jax.jit(lambda a: inner(a) + 1), (floats(8, 4),), jax.set_mesh(mesh))


@program
def explicit_eager_mesh() -> Program:
    """Explicit types without a mesh in the context."""
    mesh = explicit_mesh()
    return Program(lambda x: jnp.sin(x) * 2 + x.T.T, (put(floats(8, 4), mesh, "x", "y"),))


@program
def explicit_scan_layers() -> Program:
    mesh = explicit_mesh()

    def f(x: Any, weights: Any) -> Any:
        def layer(carry: Any, w: Any) -> Any:
            return jnp.tanh(jnp.dot(carry, w, out_sharding=P("x", None))), carry.sum()

        return jax.lax.scan(layer, x, weights)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", None)), jax.device_put(floats(3, 4, 4), P()))
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_vmap() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        return jax.vmap(lambda row: jnp.cumsum(jnp.sin(row)))(x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", None)),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_shard_map() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jax.lax.psum(jnp.sin(b), "x"), in_specs=P("x", "y"), out_specs=P(None, "y")
        )(x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_partial_manual() -> Program:
    mesh = explicit_mesh()

    def f(x: Any) -> Any:
        return jax.shard_map(
            lambda b: jax.lax.psum(jnp.sin(b), "x"), in_specs=P("x"), out_specs=P(), axis_names={"x"}
        )(x)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 4), P("x", "y")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def explicit_unreduced() -> Program:
    mesh = explicit_mesh((2, 2))

    def f(x: Any, y: Any) -> Any:
        z = jnp.einsum("ab,bc->ac", x, y, out_sharding=P(None, None, unreduced={"x"}))
        return jax.sharding.reshard(z, P(None, None))

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(4, 4), P(None, "x")), jax.device_put(floats(4, 4), P("x", None)))
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def unreduced_manual() -> Program:
    mesh = explicit_mesh((4,), ("x",))

    def body(x: Any) -> Any:
        return jax.lax.pcast(x, "x", to="unreduced")

    def f(x: Any) -> Any:
        y = jax.shard_map(body, in_specs=P("x"), out_specs=P(None, unreduced={"x"}))(x)
        return jax.sharding.reshard(y, P(None))

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(4), P("x")),)
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def reduced_cast() -> Program:
    mesh = explicit_mesh((4,), ("x",))

    def body(x: Any, y: Any) -> Any:
        x = jax.lax.pcast(x, "x", to="reduced")
        x = jax.lax.pcast(x, "x", to="varying")
        return x * y

    def f(x: Any, y: Any) -> Any:
        return jax.shard_map(body, in_specs=(P(), P("x")), out_specs=P("x"))(x, y)

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(2), P()), jax.device_put(floats(8), P("x")))
    return Program(jax.jit(f), args, jax.set_mesh(mesh))


@program
def mixed_axis_types() -> Program:
    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit, AxisType.Auto))

    def f(x: Any) -> Any:
        return jnp.sin(x) @ x.T

    with jax.set_mesh(mesh):
        args = (jax.device_put(floats(8, 8), P("x", None)),)
    f_ = lambda x: jnp.sin(x) * x  # noqa: E731
    return Program(jax.jit(f_), args, jax.set_mesh(mesh))


@program
def abstract_mesh_context() -> Program:
    mesh = jax.sharding.AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    aval = jax.ShapeDtypeStruct((8, 4), jnp.float32, sharding=NamedSharding(mesh, P("x", "y")))
    return Program(lambda x: jnp.sin(x) + 1.0, (aval,), jax.sharding.use_abstract_mesh(mesh))


# ---- devices, memories, host offloading ----------------------------------------------


@program
def device_put_device() -> Program:
    device = jax.devices()[3]
    return Program(lambda x: jax.device_put(x, device) * 2, (floats(4),))


@program
def device_put_shardings() -> Program:
    mesh = auto_mesh()

    def f(x: Any, y: Any) -> Any:
        a = jax.device_put(x, NamedSharding(mesh, P("x")))
        b, c = jax.device_put((x, y), (NamedSharding(mesh, P("x", "y")), NamedSharding(mesh, P())))
        return a + b, c, jax.device_put(x)

    return Program(f, (floats(8, 4), floats(3)))


@program
def device_put_aliasing() -> Program:
    mesh = auto_mesh()
    sharding = NamedSharding(mesh, P("x"))

    def f(x: Any) -> Any:
        a = jax.device_put(x, sharding, may_alias=False)
        b = jax.device_put(x, sharding, may_alias=True)
        return a + b + jax.device_put(x, sharding, donate=True)

    return Program(f, (floats(8, 4),))


@program
def device_put_memory_kind() -> Program:
    mesh = auto_mesh()
    host = NamedSharding(mesh, P("x"), memory_kind="pinned_host")
    device = NamedSharding(mesh, P("x"), memory_kind="device")

    def f(x: Any) -> Any:
        return jax.device_put(jax.device_put(x, host), device) * 2

    return Program(jax.jit(f), (floats(8, 4),))


@program
def memory_spaces() -> Program:
    def f(x: Any) -> Any:
        y = jax.device_put(x, jax.memory.Space.Host)
        return jax.device_put(y, jax.memory.Space.Device) + 1

    return Program(jax.jit(f), (floats(4),))


@program
def host_compute() -> Program:
    from jax.experimental.compute_on import compute_on

    def f(x: Any) -> Any:
        with compute_on("device_host"):
            y = jnp.sin(x) * 2
        return jnp.cos(y)

    return Program(jax.jit(f), (floats(4),))


@program
def host_compute_function() -> Program:
    from jax.experimental.compute_on import compute_on2

    @compute_on2(compute_type="device_host", out_memory_spaces=jax.memory.Space.Device)
    def on_host(x: Any) -> Any:
        return jnp.sin(x) * 2

    return Program(jax.jit(lambda x: on_host(x) + 1), (floats(4),))


@program
def offloaded_residuals() -> Program:
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[], names_which_can_be_offloaded=["y"],
        offload_src="device", offload_dst="pinned_host",
    )

    def f(x: Any) -> Any:
        def g(v: Any) -> Any:
            return jnp.sin(checkpoint_name(jnp.sin(v), "y"))

        return jax.checkpoint(g, policy=policy)(x).sum()

    return Program(jax.jit(jax.grad(f)), (floats(4),))


@program
def metadata() -> Program:
    from jax.experimental.xla_metadata import set_xla_metadata

    def f(x: Any) -> Any:
        with set_xla_metadata(stage="first", level=2):
            y = jnp.sin(x) + 1
            with set_xla_metadata(inner=True):
                y = y * 3
        return set_xla_metadata(y * 2, tagged="yes")

    return Program(f, (floats(4),))


@program
def threefry_not_partitionable() -> Program:
    return Program(
        lambda key: jax.random.uniform(key, (4,)), (jax.random.key(0),),
        jax.threefry_partitionable(False),
    )


@program
def threefry_mixed() -> Program:
    def f(key: Any) -> Any:
        with jax.threefry_partitionable(False):
            a = jax.random.bits(key, (4,))
        return a + jax.random.bits(key, (4,))

    return Program(f, (jax.random.key(0),))


@program
def layout_constraint() -> Program:
    from jax.experimental.layout import Layout, with_layout_constraint

    return Program(
        jax.jit(lambda x: with_layout_constraint(x, Layout(major_to_minor=(1, 0))) * 2), (floats(4, 2),)
    )


@program
def format_constraint() -> Program:
    from jax.experimental.layout import Format, Layout

    mesh = auto_mesh()
    wanted = Format(Layout(major_to_minor=(1, 0)), NamedSharding(mesh, P("x")))
    return Program(jax.jit(lambda x: jax.device_put(x, wanted) * 2), (floats(8, 2),))


@program
def shard_alike() -> Program:
    from jax.experimental.shard_alike import shard_alike as alike

    def f(x: Any) -> Any:
        a, b = alike(x, x * 2)
        return a + b

    return Program(jax.jit(f), (floats(4),))


@program
def default_matmul_precision() -> Program:
    return Program(lambda x: x @ x, (floats(4, 4),), jax.default_matmul_precision("float32"))


@program
def strict_promotion() -> Program:
    return Program(lambda x: x * 2 + 1, (floats(4),), jax.numpy_dtype_promotion("strict"))


@program
def mesh_with_devices() -> Program:
    mesh = jax.sharding.Mesh(np.array(jax.devices())[::-1].reshape(2, 4), ("a", "b"))

    def f(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.sin(x), NamedSharding(mesh, P("b", "a")))

    return Program(jax.jit(f), (floats(8, 4),))


@program
def legacy_mesh_context() -> Program:
    mesh = auto_mesh()

    def f(x: Any) -> Any:
        return jax.lax.with_sharding_constraint(jnp.sin(x), P("x"))

    return Program(jax.jit(f), (floats(8, 4),), mesh)
