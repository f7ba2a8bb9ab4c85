"""Every param value comes back equal from the expression that spells it."""

from __future__ import annotations

import collections
import colorsys
import dataclasses
import enum
import functools
import importlib
import math
import operator
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.experimental.layout
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import checkify, io_callback, sparse
from jax.experimental import pallas as pl
from jax.sharding import AbstractMesh, AxisType, Mesh, NamedSharding

import untrace
from untrace import jaxapi
from untrace.lifting.spelling import (
    PlainImports,
    Speller,
    Unspellable,
    homes,
    spell,
    spell_aval_struct,
    spell_dtype,
    spell_primitive,
)
from untrace.lifting.spelling.base import JAX_NAMESPACES

P = jax.P
POLICIES = jax.checkpoint_policies


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


class Point(NamedTuple):
    x: int
    y: Any = None


@dataclasses.dataclass(frozen=True)
class Config:
    name: str
    scale: float = 1.0
    parts: tuple[int, ...] = ()


class Dims(tuple):
    """A tuple class with a constructor of its own."""

    def __new__(cls, *dims: str) -> Dims:
        return tuple.__new__(cls, dims)


class Counter:
    def __init__(self, start: int) -> None:
        self.start = start


class Opaque:
    def __init__(self, start: int) -> None:
        self._hidden = start


def scale(x: Any) -> Any:
    return np.sin(x)


SINGLETON = Opaque(3)
LAMBDA = lambda x: x
PRIMITIVE = jaxapi.Primitive("untrace_test")


def evaluate(text: str, imports: PlainImports) -> Any:
    namespace: dict[str, Any] = {}
    exec(imports.text(), namespace)
    return eval(text, namespace)


def respell(value: Any) -> Any:
    imports = PlainImports()
    return evaluate(spell(value, imports), imports)


def is_same(made: Any, value: Any) -> bool:
    """Compare exactly, except that JAX's NumPy integers in tuples become plain ones."""
    if isinstance(value, np.integer) and type(made) is int:
        return made == value
    if isinstance(value, (*jaxapi.FLAT_TREES, *jaxapi.FLAT_PYTREES)):
        return jaxapi.flat_tree_sizes(made) == jaxapi.flat_tree_sizes(value)
    if type(made) is not type(value):
        return False
    if type(value) in (tuple, list):
        return len(made) == len(value) and all(map(is_same, made, value))
    if isinstance(value, float):
        return made == value or (made != made and value != value)
    if isinstance(value, functools.partial):
        return made.__reduce__() == value.__reduce__()
    if isinstance(value, (lax.Tolerance, Counter)):
        return vars(made) == vars(value)
    if getattr(value, "__module__", "") == "jax._src.ad_checkpoint":
        return _has_same_closure(made, value)
    return bool(np.all(made == value))


def _has_same_closure(made: Any, value: Any) -> bool:
    if made == value:
        return True
    cells = zip(made.__closure__ or (), value.__closure__ or (), strict=True)
    held = [(a.cell_contents, b.cell_contents) for a, b in cells]
    same_code = made.__code__ is value.__code__
    return same_code and all(a == b or _has_same_closure(a, b) for a, b in held)


ONE_MESH = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Auto,))
ABSTRACT = AbstractMesh(
    (2, 3), ("a", "b"), axis_types=(AxisType.Auto, AxisType.Explicit)
)

VALUES: list[Any] = [
    *(None, True, False, 0, -7, 2**70, ..., 'it\'s "odd"\n\ud800', b"\0"),
    *(1.5, -0.0, math.nan, math.inf, -math.inf, complex(-0.0, 2), complex(0.0, -0.0)),
    *(-1j, complex(-0.0, -0.0), complex(-0.0, -math.inf)),
    *((), (1,), (1, True, 1.0), ((1, 2), (), None), (np.int64(3), 4), [1, [2]], []),
    *({"a": 1, 2: (3,)}, frozenset(), frozenset({"b", "a"}), {1, 2}, set()),
    *(slice(None), slice(1, None, 2), range(3)),
    *(np.float32(0.1), np.bool_(True), np.int64(3), np.arange(3), np.array(1.5)),
    *(
        np.dtype(n)
        for n in ["bool", "int32", "float32", "complex64", "bfloat16", "int4"]
    ),
    *(jax.dtypes.float0, np.float32, jnp.float32, jnp.bfloat16, jnp.dtype("int4").type),
    *(Color.RED, Level.LOW, lax.Precision.HIGHEST, lax.GatherScatterMode.CLIP),
    *(lax.RoundingMethod.TO_NEAREST_EVEN, lax.FftType.IRFFT, AxisType.Explicit),
    *(lax.RandomAlgorithm.RNG_THREE_FRY, lax.AccuracyMode.HIGHEST),
    *(lax.DotAlgorithmPreset.BF16_BF16_F32, jax.memory.Space.Host),
    lax.DotAlgorithm(np.dtype("float32"), np.dtype("float32"), np.dtype("float32")),
    lax.Tolerance(rtol=1e-3, ulps=2),
    lax.GatherDimensionNumbers((1,), (0,), (0,)),
    lax.ScatterDimensionNumbers((0,), (1,), (1,), (), ()),
    lax.ConvDimensionNumbers((0, 1), (0, 1), (1, 0)),
    lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,)),
    *(
        Point(1),
        Point((2, None), y="z"),
        Config("a", 2.0, (1,)),
        Config("b"),
        Dims("i"),
    ),
    *(P(), P("x", None, ("y", "z")), P("x", unreduced={"y"}), P(reduced={"y"})),
    *(ONE_MESH, Mesh(np.empty((), dtype=object), ()), ABSTRACT, AbstractMesh((), ())),
    NamedSharding(ONE_MESH, P("x")),
    NamedSharding(ABSTRACT, P(None, "b")),
    jax.sharding.SingleDeviceSharding(jax.devices()[0]),
    jax.experimental.layout.Layout((1, 0)),
    jax.devices()[0],
    *(jax.random.key(0, impl=impl).dtype for impl in ("threefry2x32", "rbg")),
    jax.random.key(0).dtype._impl,
    jax.core.ShapedArray((), np.dtype("float32")),
    jax.core.ShapedArray((2, 3), np.dtype("int4"), weak_type=True),
    jax.core.ShapedArray(
        (2, 3), np.dtype("int8"), sharding=NamedSharding(ABSTRACT, P())
    ),
    jax.core.ShapedArray((2,), jax.random.key(0).dtype),
    jax.ref.AbstractRef(jax.core.ShapedArray((2,), np.dtype("int8"))),
    jax.ShapeDtypeStruct((2,), jnp.float32),
    *(jax.tree.structure(t) for t in (0, None, (), (1, [2, {"k": None}]), Point(1, 2))),
    jax.tree.structure(collections.OrderedDict(b=1, a=2)),
    jax.tree.structure(collections.defaultdict(int, {"b": 1})),
    *(
        len,
        int,
        math.sin,
        operator.add,
        str.join,
        np.add,
        np.sin,
        scale,
        LAMBDA,
        SINGLETON,
    ),
    *(jnp.sin, jnp.add, jax.nn.relu, jax.nn.softmax, lax.add, jax.random.normal, Point),
    functools.partial(scale, 1, k=Point(2)),
    functools.partial(jnp.sum, axis=0),
    Counter(3),
    POLICIES.everything_saveable,
    POLICIES.dots_saveable,
    POLICIES.dots_with_no_batch_dims_saveable,
    POLICIES.save_only_these_names("b", "a"),
    POLICIES.save_any_names_but_these("b"),
    POLICIES.save_anything_except_these_names("b"),
    POLICIES.offload_dot_with_no_batch_dims("device", "pinned_host"),
    POLICIES.save_and_offload_only_these_names(
        names_which_can_be_saved=["a"],
        names_which_can_be_offloaded=["b"],
        offload_src="device",
        offload_dst="pinned_host",
    ),
    POLICIES.save_from_both_policies(
        POLICIES.dots_saveable, POLICIES.save_only_these_names("a")
    ),
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: type(v).__name__)
def test_value_comes_back_equal(value: Any) -> None:
    assert is_same(respell(value), value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (lax.Precision.HIGHEST, "jax.lax.Precision.HIGHEST"),
        (lax.GatherScatterMode.CLIP, "jax.lax.GatherScatterMode.CLIP"),
        (jax.memory.Space.Host, "jax.memory.Space.Host"),
        (np.dtype("float32"), 'jnp.dtype("float32")'),
        (jnp.float32, "jnp.float32"),
        (np.float32, "np.float32"),
        (jax.dtypes.float0, "jax.dtypes.float0"),
        (jax.nn.relu, "jax.nn.relu"),
        (np.add, "np.add"),
        (P("x", None), 'jax.P("x", None)'),
        (POLICIES.dots_saveable, "jax.checkpoint_policies.dots_saveable"),
        (
            POLICIES.save_only_these_names("a"),
            'jax.checkpoint_policies.save_only_these_names("a")',
        ),
        (jax.tree.structure((1, None)), "jax.tree.structure((0, None))"),
    ],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_public_spelling_is_preferred(value: Any, text: str) -> None:
    assert spell(value, PlainImports()) == text


simple_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda parts: (
        st.lists(parts, max_size=3)
        | st.lists(parts, max_size=3).map(tuple)
        | st.dictionaries(st.text(), parts, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=300, deadline=None)
@given(simple_values)
def test_simple_values_come_back_exactly(value: Any) -> None:
    assert repr(respell(value)) == repr(value)


def test_equal_values_of_different_types_do_not_share_a_text() -> None:
    speller = Speller(PlainImports())
    for value in (
        1,
        True,
        1.0,
        0,
        False,
        0.0,
        -0.0,
        (1,),
        (True,),
        (1.0,),
        (np.bool_(1),),
    ):
        made = evaluate(speller.spell(value), speller.imports)
        assert repr(made) == repr(value)


def make_local() -> Callable[[Any], Any]:
    def local(x: Any) -> Any:
        return x

    return local


@pytest.mark.parametrize(
    "value",
    [
        make_local(),
        lambda x: x,
        Opaque(1),
        object(),
        np.array([object()]),
        (1, [make_local()]),
        jax.make_jaxpr(jnp.sin)(1.0),
        functools.partial(make_local()),
        jaxapi.Primitive("nowhere"),
        iter([1]),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_cannot_be_rebuilt_is_refused(value: Any) -> None:
    with pytest.raises(Unspellable, match=r"cannot write a `.*` as Python: "):
        spell(value, PlainImports())


def test_objects_of_the_main_module_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local = make_local()
    local.__module__, local.__qualname__ = "__main__", "local"
    monkeypatch.setattr(sys.modules["__main__"], "local", local, raising=False)
    with pytest.raises(Unspellable):
        spell(local, PlainImports())


def test_names_that_are_no_identifiers_are_never_written() -> None:
    kind = type("x; import os", (), {})
    kind.__qualname__ = "x; import os"
    setattr(sys.modules[__name__], "x; import os", kind)
    with pytest.raises(Unspellable):
        spell(kind, PlainImports())
    delattr(sys.modules[__name__], "x; import os")


def test_primitives_are_imported_from_public_modules_first() -> None:
    imports = PlainImports()
    assert evaluate(spell_primitive(lax.sin_p, imports), imports) is lax.sin_p
    assert "from jax.extend.core.primitives import sin_p" in imports.text()


def test_users_primitives_are_found_in_their_module() -> None:
    assert respell(PRIMITIVE) is PRIMITIVE


def test_every_primitive_that_jax_exports_is_found() -> None:
    module = importlib.import_module("jax.extend.core.primitives")
    for name, primitive in vars(module).items():
        if name.endswith("_p"):
            assert respell(primitive) is primitive


def test_dtypes_for_calls_are_scalar_types() -> None:
    imports = PlainImports()
    names = ("float32", "bfloat16", "int4", "float8_e4m3fn")
    assert [spell_dtype(np.dtype(n), imports) for n in names] == [
        f"jnp.{n}" for n in names
    ]
    assert spell_dtype(np.dtype(bool), imports) == "jnp.bool_"
    assert spell_dtype(jax.dtypes.float0, imports) == "jax.dtypes.float0"
    key_type = jax.random.key(0).dtype
    assert evaluate(spell_dtype(key_type, imports), imports) == key_type


@pytest.mark.parametrize(
    "struct",
    [
        jax.ShapeDtypeStruct((), jnp.float32, weak_type=True),
        jax.ShapeDtypeStruct((2, 3), jnp.bfloat16),
        jax.ShapeDtypeStruct((2,), jax.random.key(0).dtype),
    ],
    ids=str,
)
def test_structs_of_avals_trace_to_the_same_aval(struct: Any) -> None:
    aval = jax.make_jaxpr(lambda x: x)(struct).in_avals[0]
    imports = PlainImports()
    made = evaluate(spell_aval_struct(aval, imports), imports)
    assert jax.make_jaxpr(lambda x: x)(made).in_avals[0] == aval


def test_symbolic_dimensions_are_written_over_identifiers() -> None:
    a, b = jax.export.symbolic_shape("a, b")
    namespace = {"n": a, "m": b, "jax": jax}
    powers = (a**2, 2 * a * b**2 - 1, a**3 // 2 + b**2)
    others = (a, 2 * a + b, (a * b) // 3, a % 4 - 1, jax.core.max_dim(a, b))
    for value in (*powers, *others):
        text = spell(value, PlainImports(), dims={"a": "n", "b": "m"})
        assert eval(text, dict(namespace)) == value


def test_symbolic_dimensions_without_identifiers_are_refused() -> None:
    (a,) = jax.export.symbolic_shape("a")
    with pytest.raises(Unspellable, match="have no identifiers"):
        spell((a, 1), PlainImports())


def test_attributes_of_jax_exist_after_a_plain_import() -> None:
    names = ", ".join(sorted(JAX_NAMESPACES))
    subprocess.run([sys.executable, "-c", f"import jax; {names}"], check=True)


def has_stable_repr(value: Any) -> bool:
    """Tell whether `repr` is the same in each process: no addresses, no sets."""
    parts = (" at 0x", "frozenset({", __name__, "Opaque", "Counter")
    is_set = isinstance(value, (set, frozenset))
    return not is_set and not any(part in repr(value) for part in parts)


def test_text_evaluates_in_a_fresh_process_without_untrace() -> None:
    own = (Point, Config, Dims, Color, Level, functools.partial)
    values = [v for v in VALUES if has_stable_repr(v) and not isinstance(v, own)]
    values = [
        v for v in values if "Point" not in repr(v) and "np.int64(3)," not in repr(v)
    ]
    imports = PlainImports()
    lines = [f"print(ascii({spell(value, imports)}))" for value in values]
    check = "import sys\nassert not any(m.startswith('untrace') for m in sys.modules)"
    script = "\n".join([imports.text(), *lines, check])
    run = subprocess.run(
        [sys.executable, "-"], input=script, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == [ascii(value) for value in values]


# Params of traced programs.

X = np.ones((8, 4), np.float32)


def subprograms(value: Any) -> Iterator[Any]:
    if jaxapi.is_jaxpr(value):
        yield jaxapi.split_jaxpr(value)[0]
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from subprograms(part)


def static_params(jaxpr: Any) -> Iterator[tuple[str, Any]]:
    """List the params of all equations but sub-programs; primitives and avals too."""
    for invar in jaxpr.invars:
        yield "aval", invar.aval
    for eqn in jaxpr.eqns:
        yield "primitive", eqn.primitive
        for key, value in eqn.params.items():
            blocks = list(subprograms(value))
            if not blocks:
                yield f"{eqn.primitive.name}.{key}", value
            for block in blocks:
                yield from static_params(block)


OPAQUE = {
    "pallas_call.grid_mapping",
    "custom_jvp_call.jvp_jaxpr_fun",
    "custom_vjp_call.fwd_jaxpr_thunk",
    "custom_vjp_call.bwd",
    "custom_vjp_call.out_trees",
    "debug_callback.callback",
    "reduce.computation",
}
"""Params that hold thunks, closures or grids: printed by rules of their own."""


def assert_params_come_back(jaxpr: Any, speller: Speller) -> None:
    for name, value in static_params(jaxapi.split_jaxpr(jaxpr)[0]):
        if name not in OPAQUE:
            made = evaluate(speller.spell(value), speller.imports)
            assert is_same(made, value), f"{name}: {value}"


def trace_shard_map() -> Any:
    def body(x: Any) -> Any:
        return lax.psum(x, "x"), lax.all_gather(x, "x"), lax.axis_index("x")[None]

    specs = P(None, None), P(None, "x"), P("x")
    mapped = jax.shard_map(
        body, mesh=ONE_MESH, in_specs=P("x"), out_specs=specs, check_vma=False
    )
    return jax.make_jaxpr(mapped)(X)


def trace_callbacks() -> Any:
    struct = jax.ShapeDtypeStruct(X.shape, X.dtype)

    def function(x: Any) -> Any:
        jax.debug.print("x={x}", x=x)
        jax.debug.callback(scale, x, ordered=True)
        y = jax.pure_callback(scale, struct, x, vmap_method="sequential")
        return io_callback(scale, struct, y, ordered=True)

    return jax.make_jaxpr(function)(X)


def trace_refs() -> Any:
    def function(x: Any, i: Any) -> Any:
        ref = jax.new_ref(x)
        ref[...] = x * 2
        ref[0, :] += 1.0
        ref[i, 1:3] = x[0, 1:3]
        return jax.freeze(ref)

    return jax.make_jaxpr(function)(X, 1)


def trace_pallas() -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[pl.ds(pl.program_id(0), 4), :] * 2

    block = pl.BlockSpec((4, 4), lambda i: (i, 0))
    cost = pl.CostEstimate(flops=1, transcendentals=0, bytes_accessed=10)
    call = pl.pallas_call(
        kernel,
        out_shape=jax.ShapeDtypeStruct((8, 4), jnp.float32),
        grid=(2,),
        out_specs=block,
        cost_estimate=cost,
        interpret=True,
    )
    return jax.make_jaxpr(call)(X)


def trace_ffi() -> Any:
    call = jax.ffi.ffi_call("foo", jax.ShapeDtypeStruct((8, 4), jnp.float32))
    attributes = {
        "eps": np.float32(1.5),
        "n": np.int64(3),
        "s": "hi",
        "a": np.arange(3),
    }
    return jax.make_jaxpr(lambda x: call(x, **attributes))(X)


def trace_random() -> Any:
    def function(key: Any) -> Any:
        first, second = jax.random.split(key)
        seeded = jax.random.key(3, impl="unsafe_rbg")
        bits = (
            jax.random.bits(jax.random.fold_in(second, 3)),
            jax.random.key_data(seeded),
        )
        return jax.random.normal(first, (3,)), bits, jax.random.gamma(first, 2.0)

    return jax.make_jaxpr(function)(jax.random.key(0, impl="rbg"))


def trace_remat(policy: Any) -> Any:
    def function(x: Any) -> Any:
        return jnp.sin(checkpoint_name(jnp.sin(x), "a") @ x.T).sum()

    return jax.make_jaxpr(jax.grad(jax.checkpoint(function, policy=policy)))(X)


def trace_control_flow() -> Any:
    def function(x: Any) -> Any:
        y, (z, _) = lax.scan(lambda c, v: (c + v, (c, {"k": v})), x[0], x, unroll=2)
        w = lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, c[1] * 2), (0, x))
        branches = [
            jnp.sin,
            jnp.cos,
            lambda v: lax.cond(v.sum() > 0, jnp.tan, jnp.exp, v),
        ]
        u = lax.switch(w[0], branches, x)
        return y, z, u, lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)

    return jax.make_jaxpr(jax.grad(lambda x: sum(y.sum() for y in function(x))))(X)


def trace_custom_rules() -> Any:
    @jax.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (square(x), x), lambda r, ct: (2 * r * ct,))
    return jax.make_jaxpr(lambda x: square(x) + jax.nn.relu(x))(X)


def trace_operators() -> Any:
    def function(x: Any) -> Any:
        square = x[:4]
        dots = (
            lax.dot(x, x.T, precision=lax.DotAlgorithmPreset.BF16_BF16_F32),
            lax.dot(x, x.T, precision=("highest", "default")),
            lax.ragged_dot(x, jnp.ones((2, 4, 3)), jnp.array([4, 4])),
        )
        solves = (
            lax.linalg.svd(x),
            lax.linalg.lu(square),
            jnp.linalg.solve(square, square),
        )
        windows = lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "SAME")
        conv = lax.conv_general_dilated(x[None, None], x[None, None], (1, 1), "SAME")
        casts = (
            x.astype(jnp.float8_e4m3fn),
            x.astype(jnp.int4),
            lax.reduce_precision(x, 5, 2),
        )
        sorts = lax.sort((x, x), num_keys=2), lax.approx_max_k(x, 2), lax.top_k(x, 2)
        indexed = (
            x.at[0].add(1.0),
            x.at[jnp.array([1])].set(2.0, mode="clip"),
            x[jnp.array([1])],
        )
        rest = jnp.fft.rfft(x), lax.exp(x, accuracy=lax.AccuracyMode.HIGHEST)
        return dots, solves, windows, conv, casts, sorts, indexed, rest

    return jax.make_jaxpr(function)(X)


def trace_shardings() -> Any:
    def function(x: Any) -> Any:
        x = lax.with_sharding_constraint(x, NamedSharding(ONE_MESH, P("x", None)))
        x = jax.device_put(x, jax.devices()[0])
        x = jax.device_put(x, jax.sharding.SingleDeviceSharding(jax.devices()[0]))
        return jax.jit(jnp.sin, out_shardings=NamedSharding(ONE_MESH, P("x")))(x)

    return jax.make_jaxpr(function)(X)


def trace_explicit_mesh() -> Any:
    mesh = jax.make_mesh((1,), ("x",), axis_types=(AxisType.Explicit,))
    with jax.set_mesh(mesh):
        x = jax.device_put(X, P("x", None))
        return jax.make_jaxpr(lambda x: jax.sharding.reshard(jnp.sin(x), P(None, "x")))(
            x
        )


def trace_sparse() -> Any:
    matrix = sparse.BCOO.fromdense(jnp.eye(4))
    return jax.make_jaxpr(lambda m, v: m @ v)(matrix, jnp.ones(4))


def trace_checkify() -> Any:
    return jax.make_jaxpr(checkify.checkify(lambda x: jnp.log(x) / x))(X)


def trace_vmapped_collective() -> Any:
    mapped = jax.vmap(lambda x: lax.psum(x, "i") * lax.axis_index("i"), axis_name="i")
    return jax.make_jaxpr(mapped)(X)


PROGRAMS: list[Callable[[], Any]] = [
    *(
        trace_shard_map,
        trace_callbacks,
        trace_refs,
        trace_pallas,
        trace_ffi,
        trace_random,
    ),
    *(trace_control_flow, trace_custom_rules, trace_operators, trace_shardings),
    *(trace_explicit_mesh, trace_sparse, trace_checkify, trace_vmapped_collective),
    functools.partial(trace_remat, POLICIES.save_only_these_names("a")),
    functools.partial(trace_remat, POLICIES.save_any_names_but_these("a", "b")),
    functools.partial(trace_remat, POLICIES.dots_with_no_batch_dims_saveable),
]


@pytest.mark.parametrize(
    "program", PROGRAMS, ids=lambda f: getattr(f, "__name__", "remat")
)
def test_params_of_programs_come_back(program: Callable[[], Any]) -> None:
    assert_params_come_back(program(), Speller(PlainImports()))


def harness_sample(n: int) -> Iterator[Any]:
    harnesses = importlib.import_module("jax._src.internal_test_util.test_harnesses")
    everything = sorted(harnesses.all_harnesses, key=lambda h: h.fullname)
    yield from everything[:: max(1, len(everything) // n)]


def check_harness(n: int) -> None:
    speller = Speller(PlainImports())
    for harness in harness_sample(n):
        try:
            args = harness.dyn_args_maker(np.random.RandomState(0))
            jaxpr = jax.make_jaxpr(harness.dyn_fun)(*args)
        except TypeError:  # the harness states dtypes that the operator refuses
            continue
        assert_params_come_back(jaxpr, speller)


def test_params_of_a_sample_of_the_harness_come_back() -> None:
    check_harness(150)


@pytest.mark.corpus
def test_params_of_the_whole_harness_come_back() -> None:
    check_harness(10**6)


def test_meshes_keep_an_unusual_order_of_devices() -> None:
    script = """
import jax, numpy as np
from jax.sharding import AxisType, Mesh
from untrace.lifting.spelling import PlainImports, spell
devices = jax.devices()
orders = [[3, 1, 0, 2], [0, 1, 2, 3], [2, 3]]
for order in orders:
    mesh = Mesh(np.array([devices[i] for i in order]).reshape(2, -1), ("a", "b"))
    imports = PlainImports()
    text = spell(mesh, imports)
    namespace = {}
    exec(imports.text(), namespace)
    assert eval(text, namespace) == mesh, text
    print(text)
"""
    flags = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "JAX_PLATFORMS": "cpu",
    }
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=flags,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines()[1].startswith('jax.make_mesh((2, 2), ("a", "b"), ')


def test_looking_for_objects_reads_no_names_where_they_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    homes.find_home(object())  # the public names are read once
    read: list[str] = []
    is_name = homes.is_dotted_name
    monkeypatch.setattr(
        homes, "is_dotted_name", lambda name: read.append(name) or is_name(name)
    )
    made = [object() for _ in range(20)]  # as tracing makes them
    assert [homes.find_home(value) for value in made] == [None] * 20
    assert not read
    monkeypatch.setattr(colorsys, "made_later", made[0], raising=False)
    assert homes.find_home(object()) is None
    assert homes._find_by_scan(made[0]) == ("colorsys", "made_later")


class Holder:
    """What a library keeps its primitive in."""

    def __init__(self, primitive: Any) -> None:
        self.primitive = primitive

    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("nothing but `__dict__` is read")


HOLDER = Holder(jaxapi.Primitive("held"))


def test_primitives_are_found_in_objects_of_modules() -> None:
    primitive = object.__getattribute__(HOLDER, "__dict__")["primitive"]
    assert homes.find_primitive_home(primitive) == (__name__, "HOLDER.primitive")
    assert homes.find_primitive_home(jaxapi.Primitive("lost")) is None


def test_dtypes_have_their_own_names() -> None:
    def f(x: Any) -> Any:
        return x.astype(jnp.complex64) * jnp.ones((2,), jnp.complex64)

    text = str(untrace.source(f)(np.ones(2, np.float32)))
    assert "x.astype(jnp.complex64)" in text and "csingle" not in text, text
