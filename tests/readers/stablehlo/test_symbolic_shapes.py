"""Programs that were exported for any size come back with the same symbols."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.readers.stablehlo.load import read_and_compare

F = np.float32


def struct(shape, dtype=F):
    return jax.ShapeDtypeStruct(shape, dtype)


def layers(params, x):
    h = jax.nn.relu(x @ params["w"] + params["b"])
    h = jnp.concatenate([h, jnp.arange(x.shape[0])[:, None] * h], axis=1)
    return (
        jax.nn.softmax(h, axis=0),
        h.reshape(-1).mean(),
        jnp.zeros(2 * x.shape[0] + 1),
    )


def parts(x, y):
    wide = jnp.pad(x, ((0, y.shape[0]), (0, 0)))
    return x[: x.shape[0] // 2], jnp.cumsum(wide, 0), y if y.shape[0] > 7 else y.T


def loop(x):
    return jax.lax.fori_loop(0, x.shape[0], lambda i, a: a + x[i], jnp.zeros(3))


def b_and_c():
    constraints = ["c >= 4", "mod(b, 4) == 0"]
    return jax.export.symbolic_shape("b, c", constraints=constraints)


def programs():
    (b,) = jax.export.symbolic_shape("b")
    size, c = b_and_c()
    params = {"b": struct((4,)), "w": struct((3, 4))}
    return {
        "layers": (layers, (params, struct((b, 3)))),
        "sizes that others are made of": (
            parts,
            (struct((size, 3)), struct((2 * c, size))),
        ),
        "a loop": (loop, (struct((b, 3)),)),
    }


@pytest.mark.parametrize("name", [*programs()])
def test_exporting_again_gives_the_same_module(name):
    function, args = programs()[name]
    exported = jax.export.export(jax.jit(function))(*args)
    for module in (exported, exported.mlir_module()):
        reading, found = read_and_compare(module)
        assert found == "same StableHLO"
        types = [str(aval) for aval in reading.jaxpr.in_avals]
        assert types == [str(aval) for aval in exported.in_avals]


def test_the_source_is_for_any_size_and_has_the_names_of_the_arguments():
    function, args = programs()["layers"]
    src = untrace.source(jax.export.export(jax.jit(function))(*args))
    assert src.report.strength == "identical"
    text = str(src)
    assert "def layers(params, x):\n" in text
    assert "b = x.shape[0]" in text
    given = {"b": np.ones(4, F), "w": np.ones((3, 4), F)}, np.ones((5, 3), F)
    wanted, got = layers(*given), src.load()(*given)
    assert all(np.allclose(a, b) for a, b in zip(wanted, got, strict=True))


def test_another_size_is_seen():
    (b,) = jax.export.symbolic_shape("b")
    exported = jax.export.export(jax.jit(lambda x: jnp.zeros(2 * x.shape[0])))(
        struct((b,))
    )
    text = exported.mlir_module()
    reading, _ = read_and_compare(text)
    other = text.replace("dense<2> : tensor<i32>", "dense<3> : tensor<i32>")
    assert other != text
    again, found = read_and_compare(other)
    assert found == "same StableHLO"
    assert str(again.jaxpr.out_avals[0]) != str(reading.jaxpr.out_avals[0])


OTHERS = """
func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32>) -> tensor<?xf32> {
  %z = stablehlo.NAME %x, %y : tensor<?xf32>
  return %z : tensor<?xf32>
}
"""


def test_sizes_without_names_get_some():
    text = OTHERS.replace("stablehlo.NAME %x, %y", "stablehlo.sine %x")
    reading, _ = read_and_compare(text)
    assert [str(aval) for aval in reading.jaxpr.in_avals] == [
        "float32[d0]",
        "float32[d1]",
    ]


def test_sizes_that_nothing_says_to_be_equal_are_not():
    with pytest.raises(untrace.LoadError, match="is refused by JAX"):
        untrace.source(OTHERS.replace("NAME", "add"))


def test_a_size_that_depends_on_values_is_refused():
    text = """
    func.func @main(%x: tensor<8xf32>, %n: tensor<1xi32>) -> tensor<?xf32> {
      %z = stablehlo.dynamic_broadcast_in_dim %x, %n, dims = [0]
        : (tensor<8xf32>, tensor<1xi32>) -> tensor<?xf32>
      return %z : tensor<?xf32>
    }
    """
    with pytest.raises(
        untrace.LoadError, match="a shape that is computed when it runs"
    ):
        untrace.source(text)
