"""Programs for each device of a mesh come back as `jax.shard_map`, on a mesh without devices."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P, lax
from jax.sharding import AbstractMesh, AxisType

import untrace
from tests.readers.stablehlo.test_reading import equations
from untrace.readers.stablehlo.load import read_and_compare, told

MESH = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
X = np.ones((16, 8), np.float32)


BOTH = P("x", "y")


def mapped(function, out_specs=BOTH, **options):
    """Return a function of `X` that is mapped over the mesh."""
    how = {"mesh": MESH, "in_specs": BOTH, "out_specs": out_specs, **options}
    return jax.shard_map(function, **how)


def ring(axis, size):
    return lambda x: lax.ppermute(x, axis, [(i, (i + 1) % size) for i in range(size)])


EXCHANGES = {
    "a sum over one axis": (lambda x: lax.psum(x, "x"), "psum"),
    "a sum over both": (lambda x: lax.psum(x, ("x", "y")), "psum"),
    "a largest element": (lambda x: lax.pmax(x, "y"), "pmax"),
    "a mean": (lambda x: x - lax.pmean(x, "x"), "psum"),
    "a gather": (lambda x: lax.all_gather(x, "x").sum(0), "all_gather"),
    "a tiled gather": (
        lambda x: lax.all_gather(x, "y", axis=1, tiled=True),
        "all_gather",
    ),
    "a ring": (ring("x", 4), "ppermute"),
    "a ring of all": (ring(("x", "y"), 8), "ppermute"),
    "an exchange": (lambda x: lax.all_to_all(x, "x", 0, 1, tiled=True), "all_to_all"),
    "a scattered sum": (
        lambda x: lax.psum_scatter(x, "x", tiled=True),
        "reduce_scatter",
    ),
    "a place": (lambda x: x * lax.axis_index("x") + lax.axis_index("y"), "axis_index"),
}


@pytest.mark.parametrize("name", [*EXCHANGES])
def test_exchanges_between_devices_come_back(name):
    function, primitive = EXCHANGES[name]
    mesh = mapped(function, check_vma=False)
    reading, found = read_and_compare(jax.jit(mesh).lower(X).as_text())
    assert told(found).startswith(
        "Read from StableHLO: lowering it again gives the same"
    )
    names = [eqn.primitive.name for eqn in equations(reading.jaxpr)]
    assert "shard_map" in names
    assert any(one.startswith(primitive) for one in names)


def test_some_axes_may_be_left_to_the_compiler():
    mesh = jax.shard_map(
        lambda x: lax.psum(jnp.tanh(x), "x"),
        mesh=MESH,
        in_specs=P("x"),
        out_specs=P(),
        axis_names={"x"},
    )
    reading, found = read_and_compare(jax.jit(mesh).lower(X).as_text())
    assert found.startswith("same StableHLO")
    assert 'axis_names={"x"}' in str(untrace.source(reading.jaxpr))


def test_the_gradient_of_a_mapped_function_comes_back():
    mesh = mapped(lambda x: lax.psum(jnp.sin(x), "x"), P(None, "y"))
    gradient = jax.grad(lambda x: mesh(x).sum())
    src = untrace.source(jax.jit(gradient).lower(X).as_text())
    assert src.report.strength == "identical"
    assert "jax.shard_map(" in str(src)


GROUPS = """
module {
  sdy.mesh @mesh = <["x"=2, "y"=2]>
  func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %y = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"x"}]>]
        out_shardings=[<@mesh, [{"x"}]>] manual_axes={"x", "y"} (%z: tensor<2xf32>) {
      %s = "stablehlo.all_reduce"(%z) <{
        channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
        replica_groups = dense<GROUPS> : tensor<2x2xi64>, use_global_device_ids}> ({
      ^bb0(%a: tensor<f32>, %b: tensor<f32>):
        %c = stablehlo.NAME %a, %b : tensor<f32>
        stablehlo.return %c : tensor<f32>
      }) : (tensor<2xf32>) -> tensor<2xf32>
      sdy.return %s : tensor<2xf32>
    } : (tensor<4xf32>) -> tensor<4xf32>
    return %y : tensor<4xf32>
  }
}
"""


@pytest.mark.parametrize(
    ("groups", "name", "message"),
    [
        ("[[0, 2], [1, 3]]", "add", ""),
        ("[[0, 3], [1, 2]]", "add", "on no axis of a mesh"),
        ("[[0, 2], [1, 3]]", "multiply", "JAX does not have over devices"),
    ],
)
def test_what_goes_over_no_axis_or_is_no_sum_is_refused(groups, name, message):
    text = GROUPS.replace("GROUPS", groups).replace("NAME", name)
    if not message:
        assert read_and_compare(text)[1].startswith("same StableHLO")
        return
    with pytest.raises(untrace.LoadError, match=message):
        untrace.source(text)
