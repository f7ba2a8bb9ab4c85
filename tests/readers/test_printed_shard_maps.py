"""Printed jaxprs of `shard_map` are read on a mesh without devices."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import P, lax
from jax.sharding import AbstractMesh, AxisType

import untrace
from tests.corpus.parsed import compared
from tests.readers.printed_texts import FOLDER, texts
from untrace.verification.compare import compare

MESH = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
X = np.ones((16, 8), np.float32)
BOTH = P("x", "y")


def mapped(function, in_specs=BOTH, out_specs=BOTH, **options):
    how = {"mesh": MESH, "in_specs": in_specs, "out_specs": out_specs}
    return jax.shard_map(function, **how, **options)


def rotated(x):
    ring = [(i, (i + 1) % 4) for i in range(4)]

    def turn(carry, _):
        carry = lax.ppermute(jnp.sin(carry), "x", ring)
        return carry, carry.sum()

    return lax.scan(turn, x, length=3)[0]


def exchanged(x):
    gathered = lax.all_gather(x, "x", tiled=True)
    parts = lax.psum_scatter(gathered, "x", tiled=True)
    return lax.all_to_all(jax.nn.relu(parts), "x", 0, 1, tiled=True)


PROGRAMS = {
    "a sum": mapped(lambda x: lax.psum(jnp.sin(x), "x"), out_specs=P(None, "y")),
    "without checks": mapped(lambda x: lax.psum(x, ("x", "y")) + x, check_vma=False),
    "a ring in a loop": mapped(rotated),
    "exchanges": mapped(exchanged),
    "a place and a literal": mapped(lambda x: x * lax.axis_index("x") + 2.0),
    "an iota inside and outside": lambda x: (
        mapped(lambda a: a + jnp.arange(4.0))(x) + jnp.arange(8.0)
    ),
    "one of two axes": mapped(
        lambda x: lax.pmean(x, "x"), P("x"), P(), axis_names={"x"}
    ),
    "tangents": lambda x: jax.jvp(
        mapped(lambda a: lax.psum(a**2, "x"), out_specs=P(None, "y")), (x,), (x,)
    ),
    "nested": mapped(
        lambda x: (
            jax.shard_map(
                lambda a: lax.psum(a, "y"), in_specs=P(None, "y"), out_specs=P()
            )(x)
            * x[:, :4]
        ),
        P("x"),
        P("x"),
        axis_names={"x"},
    ),
}


@pytest.mark.parametrize("name", [*PROGRAMS])
def test_what_is_printed_of_shard_map_is_read_back(name):
    jaxpr = jax.make_jaxpr(PROGRAMS[name])(X)
    # Whether a number of `pvary` is weak, or typed by the mesh, is not printed.
    allowed = ("identical", *["same text"] * (name in ("exchanges", "tangents")))
    assert compared(name, jaxpr, str(jaxpr)).verdict in allowed


def resharded(x):
    return jax.sharding.reshard(jnp.sin(x) @ jnp.ones((8, 4)), P(None, "x")).T * 3


def test_types_that_are_sharded_over_the_mesh_that_is_entered_are_read():
    explicit = AbstractMesh((4, 2), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
    sharding = jax.NamedSharding(explicit, P(("x", "y"), None))
    with jax.sharding.use_abstract_mesh(explicit):
        given = jax.ShapeDtypeStruct((16, 8), jnp.float32, sharding=sharding)
        jaxpr = jax.make_jaxpr(resharded)(given)
        assert compare(jaxpr, untrace.parse(str(jaxpr))) is None
    with pytest.raises(untrace.ParseError, match=r"not printed.*jax\.set_mesh"):
        untrace.parse(str(jaxpr))


TEXT = """{ lambda ; a:f32[8]. let
    b:f32[8] = shard_map[
      check_vma=False
      in_specs=(P('x',),)
      jaxpr={ lambda ; c:f32[2]. let d:f32[2] = sin c in (d,) }
      mesh=AbstractMesh('x': 4, axis_types=(Auto,))
      newly_manual_axes=frozenset({'x'})
      out_specs=(P('x',),)
    ] a
  in (b,) }"""
VARYING = """{ lambda ; a:f32[16,8]. let
    b:f32[4,8] = shard_map[
      check_vma=True
      in_specs=(P('x', 'y'),)
      jaxpr={ lambda ; c:f32[4,4]{V:(x,y)}. let
          d:f32[]{V:(x,y)} = pvary[axes=('x', 'y')] 2.0:f32[]
          e:f32[4,4]{V:(x,y)} = mul c d
          f:f32[4,4]{V:y} = psum_invariant[axes=('x',)] e
        in (f,) }
      mesh=AbstractMesh('x': 4, 'y': 2, axis_types=(Auto, Auto))
      newly_manual_axes=frozenset({'x', 'y'})
      out_specs=(P(None, 'y'),)
    ] a
  in (b,) }"""
BROKEN = {
    "another size": (("'x': 4", "'x': 3"), "f32"),
    "no mesh": (("mesh=AbstractMesh('x': 4, axis_types=(Auto,))", ""), "`mesh`"),
    "another mesh": (("AbstractMesh(", "Net("), "mesh of `shard_map`"),
    "another axis": (("frozenset({'x'})", "frozenset({'z'})"), "is not understood"),
    "a set of numbers": (("frozenset({'x'})", "frozenset({1})"), "is not understood"),
    "another spec": (("in_specs=(P('x',),)", "in_specs=(P('z',),)"), "`shard_map`"),
    "no specs": (("out_specs=(P('x',),)", "out_specs=3"), "`shard_map`"),
    "a sharded type": (("a:f32[8]", "a:f32[8@x]"), "is not printed"),
    "a varying type": (("a:f32[8]", "a:f32[8]{V:x}"), "is not printed"),
}


@pytest.mark.parametrize("name", [*BROKEN])
def test_what_is_wrong_with_a_shard_map_is_said(name):
    assert len(untrace.parse(TEXT).eqns) == len(untrace.parse(VARYING).eqns) == 1
    change, message = BROKEN[name]
    with pytest.raises(untrace.ParseError, match=message) as raised:
        untrace.parse(TEXT.replace(*change))
    assert "line " in str(raised.value)


JITTED = """{ lambda ; a:f32[3]. let
    b:f32[3] = jit[
      name=f
      ctx_mesh=Mesh('S': 1, axis_types=(Auto,))
      jaxpr={ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }
    ] a
  in (b,) }"""


def test_function_in_a_mesh_of_one_device_has_that():
    src = untrace.source(JITTED)
    assert src.report.strength == "identical"
    assert 'make_mesh((1,), ("S",)' in str(src)


def test_devices_of_the_mesh_of_a_function_are_those_that_are_entered():
    with pytest.raises(untrace.ParseError, match="line 4, .*devices of the mesh") as no:
        untrace.parse(JITTED.replace("'S': 1", "'S': 4096"))
    assert "jax.set_mesh" in str(no.value)
    mesh = jax.make_mesh((1,), ("S",), axis_types=(jax.sharding.AxisType.Auto,))
    with jax.set_mesh(mesh):
        assert untrace.parse(JITTED).eqns[0].params["ctx_mesh"] is mesh


OLD = sorted(f"meshes/{path.stem}" for path in (FOLDER / "meshes").glob("*.txt"))


@pytest.mark.parametrize("release", OLD)
def test_programs_for_several_devices_of_old_releases_are_read(release):
    print_meshes = importlib.import_module("tests.readers.print_meshes")
    found = dict(texts(release))
    assert found.keys() == print_meshes.PROGRAMS.keys()
    x = print_meshes.X
    for name, text in found.items():
        read = untrace.parse(text)
        given = {(8, 4): x, (): np.float32(2)}
        args = [given[aval.shape] for aval in read.in_avals]
        mesh = print_meshes.ONE if name == "one_device" else print_meshes.MESH
        with jax.set_mesh(mesh):
            made = jax.jit(untrace.load(text))(*args)
        wanted = print_meshes.PROGRAMS[name](x)
        np.testing.assert_array_equal(np.asarray(made), np.asarray(wanted), name)


@pytest.mark.parametrize("name", ["gradient", "constraint", "shardings_of_jit"])
def test_source_of_programs_for_several_devices_is_verified(name):
    source = untrace.source(dict(texts(OLD[-1]))[name])
    assert source.report.strength == "identical"


def test_shardings_over_meshes_are_read_back():
    sharding = jax.NamedSharding(MESH, P("x", None))

    def function(x):
        x = lax.with_sharding_constraint(jnp.sin(x), sharding)
        return jax.jit(jnp.cos, in_shardings=sharding, out_shardings=sharding)(x)

    jaxpr = jax.make_jaxpr(function)(X)
    assert compare(jaxpr, untrace.parse(str(jaxpr))) is None


def test_what_a_pmap_was_is_said():
    text = """{ lambda ; a:f32[4,3]. let
        b:f32[4,3] = xla_pmap[
          axis_name=i
          axis_size=4
          call_jaxpr={ lambda ; c:f32[3]. let d:f32[3] = psum[axes=('i',)] c in (d,) }
        ] a
      in (b,) }"""
    with pytest.raises(untrace.ParseError, match=r"line 2.*`jax\.pmap`") as raised:
        untrace.parse(text)
    assert "jax.vmap(f, axis_name=" in str(raised.value)
