"""Arrays, scalars and sidecars come back bit for bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from untrace.errors import SaveError
from untrace.lifting.spelling import PlainImports, Unspellable
from untrace.lifting.spelling.arrays import spell_array, spell_scalar, storage_view
from untrace.lifting.spelling.numbers import spell_complex, spell_float
from untrace.lifting.spelling.sidecar import sidecar_loader, write_sidecar
from untrace.syntax.text import quote

DTYPE_NAMES = [
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "bfloat16",
    "int4",
    "uint4",
    "int2",
    "uint2",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3b11fnuz",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "float8_e3m4",
    "float8_e4m3",
    "float4_e2m1fn",
]
DTYPES = [np.dtype(name) for name in DTYPE_NAMES]


def evaluate(text: str, imports: PlainImports) -> Any:
    namespace: dict[str, Any] = {}
    exec(imports.text(), namespace)
    return eval(text, namespace)


def rebuild(value: Any, limit: int = 64) -> tuple[Any, str]:
    imports = PlainImports()
    text = spell_array(value, imports, inline_limit=limit)
    assert text is not None
    return evaluate(text, imports), text


def assert_same_bits(made: Any, value: Any) -> None:
    assert type(made) is type(value)
    assert made.dtype == value.dtype
    assert made.shape == value.shape
    assert made.tobytes() == value.tobytes()


def from_bits(dtype: np.dtype[Any], content: bytes, shape: tuple[int, ...]) -> Any:
    raw = np.frombuffer(content, np.uint8)
    if dtype == np.bool_:
        raw = raw % 2
    if "int2" in dtype.name or "int4" in dtype.name or "float4" in dtype.name:
        narrow = np.arange(4 if "2" in dtype.name[-2:] else 16)
        made = narrow[raw % narrow.size].astype(np.uint8)
        return _narrow(made, dtype).reshape(shape)
    return raw.view(dtype).reshape(shape)


def _narrow(codes: Any, dtype: np.dtype[Any]) -> Any:
    """Make the values of a narrow dtype that are stored canonically."""
    bits = 2 if "int2" in dtype.name else 4
    signed = dtype.name.startswith("int")
    values = codes.astype(np.int8)
    if signed:
        values = np.where(values >= 2 ** (bits - 1), values - 2**bits, values)
    if dtype.name.startswith("float4"):
        return codes.view(dtype)
    return values.astype(dtype)


@st.composite
def arrays_of_any_bits(draw: st.DrawFn) -> Any:
    dtype = draw(st.sampled_from(DTYPES))
    shape = tuple(draw(st.lists(st.integers(0, 3), max_size=3)))
    n_bytes = math.prod(shape) * dtype.itemsize
    return from_bits(dtype, draw(st.binary(min_size=n_bytes, max_size=n_bytes)), shape)


@settings(max_examples=400, deadline=None)
@given(arrays_of_any_bits())
def test_any_bits_of_any_dtype_come_back(value: Any) -> None:
    made, _ = rebuild(value)
    assert_same_bits(made, value)


@settings(max_examples=200, deadline=None)
@given(arrays_of_any_bits())
def test_any_bits_of_any_dtype_survive_the_storage_view(value: Any) -> None:
    imports = PlainImports()
    stored, template = storage_view(value, imports)
    assert stored.dtype.kind in "biuf"
    imports.module("numpy")
    namespace: dict[str, Any] = {"stored": stored}
    exec(imports.text(), namespace)
    assert_same_bits(eval(template.format(array="stored"), namespace), value)


@settings(max_examples=200, deadline=None)
@given(arrays_of_any_bits())
def test_any_bits_of_any_scalar_come_back(value: Any) -> None:
    for scalar in value.reshape(-1)[:3]:
        made, _ = rebuild(scalar)
        assert_same_bits(made, scalar)


@settings(max_examples=200, deadline=None)
@given(st.floats() | st.just(-0.0), st.floats() | st.just(-0.0))
def test_python_floats_and_complexes_are_exact(real: float, imag: float) -> None:
    assert (
        math.copysign(1, eval(spell_float(real))) == math.copysign(1, real)
        or real != real
    )
    made, value = eval(spell_complex(complex(real, imag))), complex(real, imag)
    assert repr(made) == repr(value)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_dtype_has_its_special_values_inline(dtype: np.dtype[Any]) -> None:
    numbers = [0, 1] if dtype == np.bool_ else [0, 1, 1, 0, 1, 1, 0]
    value = np.array(numbers).astype(dtype)
    if dtype.kind == "c":
        value = np.array([complex(-0.0, -0.0), complex(0.0, math.nan), 1 - 2j], dtype)
    elif dtype.kind == "f" or dtype.name.startswith(("float8_e5m2", "bfloat")):
        value = np.array([-0.0, math.nan, math.inf, -math.inf, 0.1], dtype)
    made, _ = rebuild(value)
    assert_same_bits(made, value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((2, 3), np.float32), "np.zeros((2, 3), dtype=np.float32)"),
        (np.zeros((0, 3), np.int8), "np.zeros((0, 3), dtype=np.int8)"),
        (np.ones(9, jnp.bfloat16), "np.ones(9, dtype=jnp.bfloat16)"),
        (np.full(7, 2.5, np.float16), "np.full(7, 2.5, dtype=np.float16)"),
        (np.full(2, -0.0, np.float32), "np.full(2, -0.0, dtype=np.float32)"),
        (np.full((3, 3), -np.inf), "np.full((3, 3), -np.inf, dtype=np.float64)"),
        (np.full((3,), True), "np.ones(3, dtype=np.bool_)"),
        (np.eye(3, dtype=np.float32), "np.eye(3, dtype=np.float32)"),
        (np.eye(2, 5, 1, dtype=bool), "np.eye(2, 5, k=1, dtype=np.bool_)"),
        (np.tri(3, dtype=bool), "np.tri(3, dtype=np.bool_)"),
        (np.tri(4, 3, 1, dtype=np.int8), "np.tri(4, 3, k=1, dtype=np.int8)"),
        (np.arange(70, dtype=np.int32), "np.arange(70, dtype=np.int32)"),
        (np.arange(9, 0, -2.0), "np.arange(9, -1, -2, dtype=np.float64)"),
        (
            np.tile(np.array([[0.5, 0.25]], np.float32), (7, 1)),
            "np.tile(np.array([[0.5, 0.25]], dtype=np.float32), (7, 1))",
        ),
        (
            np.tile(np.arange(5, dtype=np.int8)[:, None, None], (1, 4, 2)),
            "np.tile(np.arange(5, dtype=np.int8).reshape((5, 1, 1)), (1, 4, 2))",
        ),
        (np.arange(6).reshape(2, 3), "np.arange(6, dtype=np.int64).reshape((2, 3))"),
        (np.array([0.1, 1e20], np.float32), "np.array([0.1, 1e+20], dtype=np.float32)"),
        (np.array(2.0, np.float32), "np.array(2.0, dtype=np.float32)"),
        (np.array([1, -2], jnp.int4), "np.array([1, -2], dtype=jnp.int4)"),
        (np.array([np.nan, 1.0]), "np.array([np.nan, 1.0])"),
        (np.array([[1.5], [2.0]]), "np.array([[1.5], [2.0]])"),
        (np.array(2.0), "np.array(2.0)"),
        (np.array([1e300, -0.0]), "np.array([1e+300, -0.0])"),
        (np.array([True, False]), "np.array([True, False])"),
        (np.array([1, 2]), "np.array([1, 2], dtype=np.int64)"),
        (np.array([1 + 2j, 3j]), "np.array([(1.0 + 2.0j), 3.0j], dtype=np.complex128)"),
        (np.array([0.1], jnp.bfloat16), "np.array([0.1], dtype=jnp.bfloat16)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_arrays_read_as_one_would_write_them(value: Any, text: str) -> None:
    made, written = rebuild(value)
    assert written == text
    assert_same_bits(made, value)


def test_large_arrays_are_left_to_a_sidecar_unless_they_have_a_pattern() -> None:
    noise = np.random.default_rng(0).normal(size=100)
    assert spell_array(noise, PlainImports()) is None
    assert spell_array(noise, PlainImports(), inline_limit=100) is not None
    assert (
        spell_array(np.zeros(10**6), PlainImports())
        == "np.zeros(1000000, dtype=np.float64)"
    )


def test_almost_a_pattern_is_no_pattern() -> None:
    for value in (np.eye(20), np.tri(20), np.arange(400.0).reshape(20, 20)):
        value[7, 3] = -0.0
        changed = value.copy()
        changed[7, 3] = 0.5
        assert spell_array(changed, PlainImports()) is None
        made, _ = rebuild(value, limit=400)
        assert_same_bits(made, value)


def test_payloads_of_nans_are_kept() -> None:
    value = np.array([0x7FC00123, 0xFFC00000, 0x3F800000], np.uint32).view(np.float32)
    made, text = rebuild(value)
    assert ".view(np.float32)" in text
    assert_same_bits(made, value)


def test_float0_arrays_are_zeros() -> None:
    value = np.zeros((2, 3), jax.dtypes.float0)
    made, text = rebuild(value)
    assert text == "np.zeros((2, 3), jax.dtypes.float0)"
    assert_same_bits(made, value)


@pytest.mark.parametrize("impl", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_key_arrays_come_back(impl: str) -> None:
    keys = jax.random.split(jax.random.key(7, impl=impl), 3)
    made, _ = rebuild(keys)
    assert made.dtype == keys.dtype
    assert (jax.random.key_data(made) == jax.random.key_data(keys)).all()
    stored, template = storage_view(keys)
    again = eval(template.format(array="stored"), {"jax": jax, "stored": stored})
    assert (jax.random.key_data(again) == jax.random.key_data(keys)).all()


def test_jax_arrays_are_written_as_numpy_arrays() -> None:
    made, text = rebuild(jnp.arange(3.0))
    assert "jnp" not in text
    assert_same_bits(made, np.arange(3.0, dtype=np.float32))


def test_arrays_of_objects_are_refused() -> None:
    with pytest.raises(Unspellable, match="dtype object"):
        spell_array(np.array([object()]), PlainImports())


def trace_literal(text: str, imports: PlainImports, dtype: Any) -> Any:
    namespace: dict[str, Any] = {}
    exec(imports.text(), namespace)
    scalar = eval(text, namespace)
    function = jax.lax.bitwise_or if dtype.kind == "b" else jax.lax.add
    traced = jax.make_jaxpr(lambda x: function(x, scalar))(jnp.zeros((), dtype))
    return traced.eqns[0].invars[1]


@pytest.mark.parametrize(
    "name",
    [
        "bool",
        "int32",
        "uint8",
        "float16",
        "float32",
        "complex64",
        "bfloat16",
        "float8_e5m2",
    ],
)
def test_strong_scalars_trace_to_literals_of_their_dtype(name: str) -> None:
    dtype = np.dtype(name)
    imports = PlainImports()
    aval = jax.core.ShapedArray((), dtype)
    literal = trace_literal(
        spell_scalar(np.array(1, dtype), aval, imports), imports, dtype
    )
    assert literal.aval.dtype == dtype
    assert not literal.aval.weak_type
    assert literal.val == 1


@pytest.mark.parametrize(
    ("value", "name", "text"),
    [
        (2.0, "float32", "2.0"),
        (np.float32(0.1), "float32", "0.1"),
        (math.nan, "float32", 'float("nan")'),
        (-math.inf, "float32", 'float("-inf")'),
        (-0.0, "float32", "-0.0"),
        (np.array(3), "int32", "3"),
        (True, "bool", "True"),
        (complex(1, -0.0), "complex64", "complex(1.0, -0.0)"),
    ],
)
def test_weak_scalars_are_bare(value: Any, name: str, text: str) -> None:
    aval = jax.core.ShapedArray((), np.dtype(name), weak_type=True)
    assert spell_scalar(value, aval, PlainImports()) == text


def test_traced_literals_are_written_from_what_jax_holds() -> None:
    def function(x: Any) -> Any:
        return jax.lax.mul(x, np.float32(0.1)), jax.lax.mul(x, 0.1), x * 3

    traced = jax.make_jaxpr(function)(jnp.float32(1))
    literals = [eqn.invars[1] for eqn in traced.eqns]
    texts = [spell_scalar(found.val, found.aval, PlainImports()) for found in literals]
    assert texts == ["np.float32(0.1)", "0.1", "np.float32(3.0)"]


# Sidecars.

STORED = {
    "weights": np.arange(6, dtype=np.float32).reshape(2, 3),
    "mask": np.array([True, False, True]),
    "scalar": np.array(5, np.int64),
    "empty": np.zeros((0, 4), np.float16),
    "view": np.arange(6, dtype=np.uint8).reshape(2, 3).T,
    'odd "name"': np.ones(3, np.int8),
}


def load(folder: Path, digest: str) -> dict[str, Any]:
    imports = PlainImports()
    text = sidecar_loader("consts.safetensors", digest, imports)
    namespace: dict[str, Any] = {"__file__": str(folder / "program.py")}
    exec(f"{imports.text()}\n{text}", namespace)
    return namespace["CONSTANTS"]


def test_sidecars_are_valid_safetensors_files(tmp_path: Path) -> None:
    path = tmp_path / "consts.safetensors"
    digest = write_sidecar(path, STORED)
    assert len(digest) == 64
    for loaded in (load_file(path), load(tmp_path, digest)):
        assert set(loaded) == set(STORED)
        for name, value in STORED.items():
            np.testing.assert_array_equal(loaded[name], value, strict=True)


def test_sidecars_of_every_dtype_come_back(tmp_path: Path) -> None:
    arrays = {
        str(d): np.arange(8).astype(np.bool_).astype(d).reshape(2, 4) for d in DTYPES
    }
    views = {name: storage_view(value) for name, value in arrays.items()}
    digest = write_sidecar(
        tmp_path / "consts.safetensors", {name: view[0] for name, view in views.items()}
    )
    loaded = load(tmp_path, digest)
    for name, (_, template) in views.items():
        text = template.format(array=f"loaded[{name!r}]")
        assert_same_bits(
            eval(text, {"loaded": loaded, "np": np, "jnp": jnp}), arrays[name]
        )


def test_the_same_arrays_give_the_same_file(tmp_path: Path) -> None:
    first = write_sidecar(tmp_path / "a", STORED)
    second = write_sidecar(tmp_path / "b", dict(reversed(STORED.items())))
    assert first == second
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a", "b"]


def test_a_missing_sidecar_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"consts\.safetensors is missing"):
        load(tmp_path, "0" * 64)


def test_an_altered_sidecar_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "consts.safetensors"
    digest = write_sidecar(path, STORED)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="was altered"):
        load(tmp_path, digest)


def test_nothing_is_left_behind_when_a_sidecar_cannot_be_written(
    tmp_path: Path,
) -> None:
    with pytest.raises(SaveError, match="bfloat16"):
        write_sidecar(tmp_path / "a", {"x": np.ones(3, jnp.bfloat16)})
    with pytest.raises(SaveError, match="cannot write"):
        write_sidecar(tmp_path / "missing" / "a", STORED)
    assert list(tmp_path.iterdir()) == []


def test_the_loader_cannot_be_escaped_through_the_file_name() -> None:
    name = 'a"); import os; ("{x}'
    text = sidecar_loader(name, "0", PlainImports())
    assert f"load_arrays({quote(name)}, " in text
    compile(text, "loader", "exec")
