"""A process in which functions of JAX were replaced does not prove its own texts."""

import functools
import importlib.util
import sys
import types
import warnings
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace import jaxapi
from untrace.isolated import verify_isolated
from untrace.lifting.spelling import homes

INSIDE = sys.modules["jax._src.nn.functions"]
CORE = sys.modules["jax._src.core"]
SUM = staticmethod(lambda x, y: x + y)
MAXIMUM = CORE.aval_method(lambda x: jnp.max(x))
MODULES = (jax, jnp, jnp.linalg, jax.lax, jax.nn, jax.random, jax.scipy.special, np)
RELU = jax.nn.relu


@functools.wraps(RELU)
def looks_the_same(x):
    return RELU(x) * 3.0


def tripled(x):
    return x * 3.0


def relu(x):
    return jax.nn.relu(x) + 1.0


def swapped(x):
    return jnp.sin(x) + jnp.cos(x)


REPLACED = {
    "plain": (jax.nn, "relu", tripled, relu),
    "wraps": (jax.nn, "relu", looks_the_same, relu),
    "jitted": (jax.nn, "relu", jax.jit(tripled), relu),
    "partial": (jax.nn, "relu", functools.partial(tripled), relu),
    "mock": (jax.nn, "relu", mock.Mock(side_effect=tripled), relu),
    "other of JAX": (jax.nn, "relu", jax.nn.silu, relu),
    "inside": (INSIDE.jnp, "maximum", lambda x, y: x * 3.0, jax.nn.relu6),
    "inside lax": (INSIDE.lax, "logistic", lambda x: x * 3.0, jax.nn.sigmoid),
    "inside nn": (INSIDE, "relu6", jax.jit(tripled), jax.nn.hard_sigmoid),
    "lax of JAX": (jax.lax, "sin", jax.lax.cos, lambda x: jax.lax.sin(x)),
    "sine of JAX": (jnp, "sin", jnp.cos, swapped),
    "operator": (CORE.ShapedArray, "_mul", SUM, lambda x: x * x),
    "method": (CORE.ShapedArray, "sum", MAXIMUM, lambda x: x.sum()),
}


@pytest.fixture(autouse=True)
def forgetting():
    """Let JAX forget what it traced before and while something was replaced."""
    jax.clear_caches()
    yield
    jax.clear_caches()


@pytest.mark.parametrize("level", ["api", "lax"])
@pytest.mark.parametrize("case", REPLACED)
def test_texts_that_mean_something_else_elsewhere_are_not_proved(
    case, level, tmp_path, monkeypatch
):
    owner, name, value, function = REPLACED[case]
    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", untrace.UnverifiedWarning)
        patch.setattr(owner, name, value)
        src = untrace.source(function, level=level)(jnp.ones((3, 5)))
    if "of JAX" not in case:  # these may not occur in the text
        assert f"{name}`" in " ".join(src.report.notes)
        assert "Not JAX's own in the process that wrote this" in str(src)
    unverified = [w for w in told if w.category is untrace.UnverifiedWarning]
    if src.report.is_verified:
        assert verify_isolated(src.save(tmp_path / "saved.py")).is_verified
    else:
        assert src.report.strength == "local" and unverified


def test_calls_of_what_was_replaced_are_written_from_equations(monkeypatch):
    monkeypatch.setattr(INSIDE.jnp, "maximum", lambda x, y: x * 3.0)
    src = untrace.source(lambda x: jax.nn.relu6(x))(jnp.ones(3))
    assert src.report.is_verified and "jax.nn.relu6" not in src.module.body
    assert "(test_replaced.py)" in str(src) and "* 3.0" in src.module.body
    assert "Verified in a fresh process, too." in str(src)
    src = untrace.source(lambda x: jax.nn.relu6(x), anonymous=True)(jnp.ones(3))
    assert "Not JAX's own" in str(src) and "test_replaced" not in str(src)


ADDED = {
    "tree": (jax, "tree_map", jax.tree.map, lambda x: jax.tree_map(jnp.sin, x)),
    "function": (jnp, "a_sine", jnp.sin, lambda x: jnp.a_sine(x)),
    "class": (jax, "a_dtype", jnp.float32, lambda x: x.astype(jax.a_dtype)),
    # In JAX's table of what it had.
    "removed": (
        *(jax, "device_put_sharded", jnp.sin),
        lambda x: jax.device_put_sharded(x),
    ),
}


@pytest.mark.parametrize("level", ["api", "lax"])
@pytest.mark.parametrize("case", ADDED)
def test_names_that_were_added_to_jax_are_not_written(
    case, level, tmp_path, monkeypatch
):
    """Older names that somebody gives JAX again are nowhere else."""
    owner, name, value, function = ADDED[case]
    monkeypatch.setattr(owner, name, value, raising=False)
    homes._public_names.cache_clear()
    src = untrace.source(function, level=level)(jnp.ones(3, jnp.int32))
    assert src.report.is_verified and name not in src.module.body
    assert verify_isolated(src.save(tmp_path / "saved.py")).is_verified
    assert jaxapi.exchanged_names([f"{owner.__name__}.{name}"])


def test_nothing_is_replaced_in_a_clean_process():
    names = [f"{m.__name__}.{name}" for m in MODULES for name in dir(m)]
    assert jaxapi.replaced_functions() == {} and jaxapi.exchanged_names(names) == []
    assert "Not JAX's own" not in str(untrace.source(relu)(jnp.ones(3)))


def test_what_a_module_imports_from_elsewhere_is_its_own(tmp_path, monkeypatch):
    """JAX's own files import a function of flatbuffers, say."""
    (tmp_path / "elsewhere.py").write_text("def helper(): pass")
    (tmp_path / "own.py").write_text("from elsewhere import helper")
    monkeypatch.syspath_prepend(str(tmp_path))
    spec = importlib.util.spec_from_file_location("jax._own", tmp_path / "own.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setitem(sys.modules, "jax._own", module)
    assert jaxapi.replaced_functions() == {}
    module.helper = looks_the_same
    assert list(jaxapi.replaced_functions()) == ["jax._own.helper"]


class Proxy:
    """Equals what it stands for, as proxies of `wrapt` do."""

    def __init__(self, wrapped):
        self.__wrapped__ = wrapped

    def __call__(self, *args):
        return self.__wrapped__(*args) * 3.0

    def __eq__(self, other):
        return other is self.__wrapped__

    __hash__ = None


@pytest.mark.parametrize("owner, name", [(jnp, "sin"), (jnp.ndarray, "sum")])
def test_what_takes_a_place_later_is_seen(owner, name, monkeypatch):
    """However alike: what was found clean is compared by identity."""
    assert jaxapi.replaced_functions() == {}
    monkeypatch.setattr(owner, name, Proxy(getattr(owner, name)))
    assert any(found.endswith(f".{name}") for found in jaxapi.replaced_functions())
    monkeypatch.undo()
    assert jaxapi.replaced_functions() == {}


class Tripled:
    def __new__(cls, x):
        return x * 3.0


class Struct(jax.ShapeDtypeStruct):
    """Does nothing of its own."""


def typed_in(function):
    """Return a function as if it had been typed in, which has no file."""
    code = function.__code__.replace(co_filename="<stdin>")
    return types.FunctionType(code, {"__name__": "__main__"})


REPLACEMENTS = {
    "class": (jnp, "sin", Tripled),
    "subclass": (jax, "ShapeDtypeStruct", Struct),
    "typed in": (jnp, "sin", typed_in(tripled)),
    "typed-in class": (jnp, "sin", type("f", (), {"__call__": typed_in(tripled)})),
    "partial": (jnp, "sin", functools.partial(tripled)),
}


@pytest.mark.parametrize("case", REPLACEMENTS)
def test_whatever_takes_the_place_of_a_function_is_seen(case, monkeypatch):
    owner, name, value = REPLACEMENTS[case]
    monkeypatch.setattr(owner, name, value)
    assert f"{owner.__name__}.{name}" in jaxapi.replaced_functions()


def test_what_is_added_and_gone_again_is_seen(monkeypatch):
    monkeypatch.setattr(jax.nn, "own", looks_the_same, raising=False)
    assert list(jaxapi.replaced_functions()) == ["jax.nn.own"]
    monkeypatch.undo()
    assert jaxapi.replaced_functions() == {}


def test_objects_that_jax_takes_from_elsewhere_are_its_own():
    """`FLAGS = flags.FLAGS` of absl can be called, and `Path` is one of two classes."""
    for name in ("tpu_custom_call", "path", "lib.mlir.dialects"):
        importlib.import_module(f"jax._src.{name}")
    importlib.import_module("jax.experimental.array_serialization.serialization")
    assert jaxapi.replaced_functions() == {}
