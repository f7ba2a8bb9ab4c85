"""Arrays that a program closes over, and weakly typed ones, keep their types."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting import installed
from untrace.jaxapi.helpers import HELPERS
from untrace.lifting.rules.names import NAMES
from untrace.saved import verify_file

ARRAYS = {
    "scalar": jnp.float32(2),
    "bool": jnp.array(True),
    "half": jnp.bfloat16(1.5),
    "payload": jnp.asarray(np.array(0x7FC00001, np.uint32).view(np.float32)),
    "weak scalar": jnp.array(2.0),
    "weak int": jnp.array(7),
    "weak nan": jnp.array(jnp.nan),
    "weak complex": jnp.array(1 - 2j),
    "weak full": jnp.full((2, 3), 2.0),
    "weak array": jnp.arange(6) * 1.5,
    "weak and large": jnp.sin(jnp.arange(100)) * 1.5,
    "of NumPy": np.array(2.0, np.float32),
    "of NumPy, with axes": np.arange(3, dtype=np.float32),
}


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit], ids=["plain", "jit"])
def test_closed_over_arrays_keep_their_types(array: Any, wrap: Any) -> None:
    src = untrace.source(wrap(lambda x: (x + array, array)), level="lax")(np.float32(1))
    assert src.report.strength == "identical", src


@pytest.mark.parametrize("array", ARRAYS.values(), ids=ARRAYS.keys())
def test_example_inputs_keep_their_types(array: Any, tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return x * np.float32(2)

    path = untrace.source(function, level="lax")(array).save(tmp_path / "out.py")
    assert verify_file(path).is_verified


def test_types_are_enough_for_weak_inputs(tmp_path: Path) -> None:
    weak = jax.ShapeDtypeStruct((3,), jnp.float32, weak_type=True)
    path = untrace.source(lambda x: x * np.float32(2), level="lax")(weak).save(
        tmp_path / "out.py"
    )
    assert verify_file(path).is_verified


def test_helpers_take_no_name_that_a_value_would_get() -> None:
    assert not set(HELPERS) & set(NAMES.values())


MOVES = jnp.array([[0, 1], [1, 0], [0, -1], [-1, 0]])


def test_constants_of_jax_are_made_by_jax_and_have_their_names():
    def f(x):
        windows = 2 * np.arange(3)[:, None] + np.arange(4)
        return x[..., windows] * MOVES[jnp.argmax(x)].sum()

    src = untrace.source(f)(jnp.arange(4.0))
    assert src.report.strength == "identical"
    text = str(src)
    assert (
        "MOVES = jnp.array([[0, 1], [1, 0], [0, -1], [-1, 0]], dtype=jnp.int32)" in text
    )
    assert "x[..., WINDOWS]" in text


RATE, COUNT = jnp.sqrt(jnp.float32(0.3)), jnp.int32(7)


def test_scalars_of_jax_are_made_by_their_type():
    src = untrace.source(lambda x: x * RATE + COUNT)(jnp.arange(4.0))
    assert src.report.strength == "identical"
    assert "RATE = jnp.float32(0.5477226)\nCOUNT = jnp.int32(7)\n" in str(src)


class _Index:
    """An object of another library that NumPy makes an array of, as pandas' indices."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.arange(2, dtype=dtype or np.int64)

    def __len__(self) -> int:
        return 2

    dtype, shape, ndim = np.dtype(np.int64), (2,), 1


def test_objects_that_numpy_converts_are_constants():
    index = _Index()

    def f(x: Any) -> Any:
        indices = jnp.asarray(index)
        return jnp.zeros((2, 4)).at[:, indices].set(x)

    src = untrace.source(f)(np.ones(2, np.float32))
    assert src.report.strength == "identical"
    assert "at[:, indices].set(x)" in str(src)


class Dimension:
    """A size, as other frameworks have it."""

    def __init__(self, size):
        self.size = size

    def __index__(self):
        return self.size


class Shape(Sequence):
    """A shape, as other frameworks have it."""

    def __init__(self, *sizes):
        self.sizes = sizes

    def __len__(self):
        return len(self.sizes)

    def __getitem__(self, index):
        return Dimension(self.sizes[index])


def shaped_by_objects(x):
    scale = jnp.ones(Shape())
    return jnp.zeros(Shape(2, 3)) + x.sum(axis=Dimension(0)) * scale


def test_objects_that_jax_takes_for_integers_are_integers():
    src = untrace.source(shaped_by_objects)(np.ones((2, 3), np.float32))
    assert src.report.strength == "identical"
    assert "from its equations" not in str(src), str(src)
    assert "jnp.zeros((2, 3)) + x.sum(axis=0) * scale" in str(src)
    assert "scale = jnp.ones(())" in str(src)


def test_arrays_that_libraries_pass_on_have_the_users_name():
    layers = installed.library(
        """
def fit(x, weights):
    mean = x.T @ weights / weights.sum()
    return mean * 2 + jnp.sin(mean)

def fits(x, weights):
    return jax.vmap(fit, in_axes=(None, 0))(x, weights)
"""
    )
    bins = jnp.linspace(0.0, 1.0, 24).reshape(12, 2) ** 2

    def decode(weights):
        return layers.fits(bins, jnp.exp(weights)) + 1.0

    src = untrace.source(decode)(jnp.ones((3, 12)))
    assert src.report.is_verified
    assert "\nBINS = " in str(src) and "(BINS, jnp.exp(weights))" in str(src)


BUILT = installed.library(
    """
def built(data):
    features, labels = (jnp.array(part) for part in data)

    def score(theta):
        z = jnp.sin(features @ theta) * 2 + labels
        return jnp.exp(z) - jnp.cos(z)

    return score
"""
)
X_data = np.linspace(0.0, 1.0, 24, dtype=np.float32).reshape(12, 2) ** 2
y_data = np.linspace(0.0, 1.0, 12, dtype=np.float32) ** 2
SCORE = BUILT.built((X_data, y_data))


class Untouchable:
    def __getattribute__(self, name):
        raise RuntimeError(name)


UNTOUCHABLE = Untouchable()  # which nobody has to look at


def test_arrays_that_a_library_keeps_have_the_names_of_the_module():
    src = untrace.source(lambda theta: SCORE(theta) + 1.0)(jnp.ones(2))
    assert src.report.is_verified
    assert "X_DATA @ theta" in str(src) and "+ Y_DATA" in str(src)
    src = untrace.source(lambda theta: SCORE(theta) + 1.0, anonymous=True)(jnp.ones(2))
    assert "DATA" not in str(src)


class Chain:
    """A robot's joints, of which functions take parts."""

    def __init__(self):
        self.axes = np.arange(36.0).reshape(12, 3) ** 2 % 7
        self.tables = {"masses": np.arange(20.0) ** 2}
        self.offsets = [np.arange(20.0) ** 2, np.arange(20.0) ** 3]

    def torques(self, x):
        turned = jax.vmap(lambda axis: jnp.sin(axis) * x)(self.axes[2:])
        return turned.sum(axis=1) * self.tables["masses"][3:13]

    def positions(self, x):
        return jnp.concatenate([x[1:], self.offsets[1][1:]]) * 2


def rotated(x, matrix):
    y = matrix @ x
    return jnp.sin(y) + y, y


def turned_twice(x):
    first, second = rotated(x, np.arange(9.0).reshape(3, 3) ** 2 + 1)
    third, fourth = rotated(first, np.arange(9.0).reshape(3, 3) ** 2 + 3)
    return second + third + fourth


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (Chain().torques, ["AXES", "MASSES"]),
        (Chain().positions, ["OFFSETS"]),
        (turned_twice, ["MATRIX", "MATRIX_2"]),
    ],
)
def test_arrays_that_no_variable_holds_are_called_after_what_they_are_of(
    function, names
):
    src = untrace.source(function)(np.ones(3, np.float32))
    assert src.report.is_verified
    for name in names:
        assert f"\n{name} = np." in str(src), str(src)


LEFT = np.array([0, 2])


def test_small_arrays_of_the_module_keep_their_names():
    def f(x):
        return x.at[:, LEFT].set(x[:, LEFT] * 2) + jnp.sum(x[:, np.array([1])])

    src = untrace.source(f)(np.ones((2, 3), np.float32))
    text = str(src)
    assert src.report.strength == "identical", text
    assert "x.at[:, LEFT].set(x[:, LEFT] * 2)" in text, text
    assert "LEFT = np.array([0, 2]" in text and "x[:, np.array([1]" in text
    hidden = untrace.source(f, anonymous=True)(np.ones((2, 3), np.float32))
    assert "LEFT" not in str(hidden)


class Problem:
    def __init__(self) -> None:
        self.t0 = jnp.array([1.0, 2.0, 3.0])
        self._w12 = jnp.array([2.0, 2.0, 3.0])

    def loss(self, x):
        return jnp.sum(jnp.sin(x * self.t0) + self._w12)


def test_constant_arrays_of_one_letter_and_a_number_keep_their_names():
    problem = Problem()
    text = str(untrace.source(lambda x: problem.loss(x))(jnp.ones(3)))
    assert "jnp.sin(x * T0) + W12" in text, text


class Model:
    """What it gives is in no variable of the program."""

    def __init__(self):
        self._parts = [np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)]
        self._parts.append(np.linspace(3, 7, 4, dtype=np.float32) ** 2)

    def arguments(self):
        first, second = map(jnp.asarray, self._parts)
        return {"h": first, "w2d": second}


MODEL_ARGUMENTS = Model().arguments


@jax.jit
def solved(p, *, h, w2d):
    return p * h + w2d


def of_keywords():
    given = MODEL_ARGUMENTS()
    return lambda p: solved(p, **given)


def rate(forcings):
    return jnp.sin(forcings["latitude"]) + forcings["temperature"]


def of_keys():
    statics = {"latitude": MODEL_ARGUMENTS()["w2d"]}
    return lambda temperature: rate({**statics, "temperature": temperature})


@pytest.mark.parametrize(
    ("function", "args", "lines"),
    [
        (of_keywords(), (np.float32(2.0),), ["H = jnp", "W2D = jnp", "h=H, w2d=W2D"]),
        (of_keys(), (np.ones(4, np.float32),), ["LATITUDE = jnp", ": LATITUDE, "]),
    ],
)
def test_arrays_are_called_after_keywords_and_keys(function, args, lines):
    src = untrace.source(function)(*args)
    assert src.report.strength == "identical", str(src.report)
    for line in lines:
        assert line in src.text, src.text
    assert "CONST_" not in src.text
