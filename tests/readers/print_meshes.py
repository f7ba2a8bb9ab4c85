"""Print the jaxprs of small programs for several devices, with whatever JAX this is run by.

    python tests/readers/print_meshes.py > tests/readers/printed/meshes/0.4.30.txt

It needs nothing but JAX. The test runs the same programs with today's JAX.
"""

from __future__ import annotations

import inspect
import os

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

X = np.linspace(-1.0, 2.0, 32, dtype=np.float32).reshape(8, 4)
MESH = Mesh(np.array(jax.devices()[:4]).reshape(2, 2), ("x", "y"))
ONE = Mesh(np.array(jax.devices()[:1]), ("x",))
CHECK = "check_vma"
if CHECK not in inspect.signature(shard_map).parameters:
    CHECK = "check_rep"
BOTH = P("x", "y")


def mapped(function, in_specs=BOTH, out_specs=BOTH, mesh=MESH, checks=True):
    how = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs, CHECK: checks}
    return shard_map(function, **how)


def ring(a):
    pairs = [(0, 1), (1, 0)]
    return lax.fori_loop(0, 3, lambda i, c: lax.ppermute(c * 2, "x", pairs), a)


def squares(a):
    return lax.psum(jnp.sum(a**2), ("x", "y"))


def in_mesh(x):
    with MESH:
        return lax.with_sharding_constraint(jnp.sin(x), P("x", None))


def jitted_in_mesh(x):
    with MESH:
        return jax.jit(lambda x: lax.with_sharding_constraint(x * 2, P("x", None)))(x)


PROGRAMS = {
    "psum": mapped(lambda a: lax.psum(jnp.sin(a), "x"), out_specs=P(None, "y")),
    "mix": lambda x: mapped(lambda a, b: a * b + lax.axis_index("x"), (BOTH, P()))(
        x, jnp.float32(2)
    ),
    "without_checks": mapped(
        lambda a: lax.psum(a, ("x", "y")), out_specs=P(), checks=False
    ),
    "all_gather": mapped(
        lambda a: lax.all_gather(a, "x", tiled=True),
        out_specs=P(None, "y"),
        checks=False,
    ),
    "ring": mapped(ring),
    "gradient": jax.grad(lambda x: mapped(squares, out_specs=P())(x)),
    "one_device": mapped(lambda a: lax.psum(jnp.sin(a), "x"), P("x"), P(), mesh=ONE),
    "constraint": lambda x: lax.with_sharding_constraint(
        jnp.sin(x), NamedSharding(MESH, P("x", None))
    ),
    "constraint_in_mesh": in_mesh,
    "jitted_in_mesh": jitted_in_mesh,
    "shardings_of_jit": jax.jit(
        lambda x: x * 2,
        in_shardings=NamedSharding(MESH, P("x")),
        out_shardings=NamedSharding(MESH, P("y")),
    ),
}


if __name__ == "__main__":
    for name, function in PROGRAMS.items():
        print(f"# {name}")
        print(jax.make_jaxpr(function)(X))
