"""Level "api": what is mapped over shards, and what is written from its equations there."""

import functools
import operator

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import untrace

MESH = jax.make_mesh((1,), ("d",), axis_types=(AxisType.Auto,))
KEY = jax.random.key(0)
X = np.arange(3, dtype=np.int32)


def noise(x):
    key = jax.random.split(KEY, 2)[:1]
    draw = lambda i: jax.vmap(lambda k: jax.random.normal(jax.random.fold_in(k, i)))(
        key
    )
    return jax.vmap(draw)(x)


def test_a_region_maps_over_shards_again():
    def program(x):
        mapped = functools.partial(operator.call, noise)  # is written in C
        return jax.shard_map(mapped, mesh=MESH, in_specs=P("d"), out_specs=P("d"))(x)

    src = untrace.source(program)(X)
    assert src.report.is_verified
    assert "`shard_map` (test_shard_maps.py:" in src.report.notes[0]


def test_what_only_dead_code_closes_over_is_left_out():
    def program(params, x):
        def local(x):
            varying = jax.tree.map(
                lambda p: jax.lax.pcast(p, "d", to="varying"), params
            )
            shapes = jax.tree.map(jnp.shape, varying)
            return jax.lax.psum(x * shapes["w"][0], "d")

        return jax.shard_map(local, mesh=MESH, in_specs=P("d"), out_specs=P())(x)

    src = untrace.source(program)({"w": jnp.ones(4)}, jnp.ones(3))
    assert src.report.strength == "equivalent", str(src.report)
    assert 'return jax.lax.psum(x * 4, "d")' in str(src)
