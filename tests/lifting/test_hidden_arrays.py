"""Level "api": arrays that were made where no recorded call shows it, and are used."""

import dataclasses
import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import core

import untrace
from untrace.objects import attributes_of, fields_of

X = np.linspace(0.1, 1.0, 5, dtype=np.float32)


def written_from_calls(function, *args):
    src = untrace.source(function)(*args)
    assert src.report.is_verified, str(src.report)
    assert "from its equations" not in str(src), str(src)
    return str(src)


class Features:
    """Keeps the parts of its array when they are first asked for."""

    def __init__(self, array):
        self.array = array
        self._parts = None

    @property
    def parts(self):
        if self._parts is None:
            front = jnp.reshape(self.array[:2], (2, 1))
            back = jnp.sin(self.array[2:]) * 2.0
            self._parts = [front, back]
        return self._parts


def test_parts_that_an_object_keeps_are_computed_before_the_mapped_function():
    def rotate(array, angles):
        features = Features(array)

        def turned(angle):
            front, back = features.parts
            return front * angle, back + angle

        first = jax.vmap(turned)(angles)
        front, back = features.parts
        return first, front.sum() + back.sum()

    text = written_from_calls(rotate, X, X)
    before, _, after = text.partition("def turned(angle)")
    assert "= jnp.reshape(array[:2], (2, 1))" in before
    assert "= jnp.sin(array[2:]) * 2.0" in before
    assert "jnp.sin" not in after
    assert "jax.vmap(turned)(angles)" in after


def test_and_before_the_function_that_is_differentiated():
    def fit(array, scale):
        features = Features(array)

        def loss(scale):
            front, back = features.parts
            return jnp.sum(front * scale) + jnp.sum(back) * scale

        slope = jax.grad(loss)(scale)
        return slope * features.parts[1]

    text = written_from_calls(fit, X, np.float32(2.0))
    assert text.count("jnp.sin(array[2:])") == 1


def test_and_in_a_function_that_is_called():
    @functools.partial(jax.jit, static_argnums=0)
    def scaled(n, array):
        features = Features(array)
        first = jax.vmap(lambda row: row * features.parts[0])(array)
        return first * n + features.parts[0].sum()

    text = written_from_calls(lambda x: scaled(2, x) + scaled(3, x), X)
    assert "jax.vmap(" in text


class Boxed(core.Tracer):
    """A tracer of a library's own, as quax has them."""

    __slots__ = ("value",)

    def __init__(self, trace, value):
        super().__init__(trace, jax.typeof(value))
        self.value = value


class Boxing(core.Trace):
    def __init__(self, around):
        super().__init__()
        self.around = around

    def process_primitive(self, primitive, tracers, params, /):
        values = [t.value if isinstance(t, Boxed) else t for t in tracers]
        with core.set_current_trace(self.around):
            made = primitive.bind(*values, **params)
        if primitive.multiple_results:
            return [Boxed(self, value) for value in made]
        return Boxed(self, made)


def product(x):
    with core.take_current_trace() as around:
        trace = Boxing(around)
        with core.set_current_trace(trace):
            made = jnp.sin(Boxed(trace, x)) * 2.0
    return made.value


def test_a_call_that_makes_arrays_unseen_is_a_region_of_its_own():
    def step(x):
        return jnp.tanh(product(x))

    src = untrace.source(lambda x: jax.jacfwd(step)(x))(X)
    assert src.report.strength == "identical", str(src.report)
    text = str(src)
    assert "made = jnp.sin(x) * 2.0" in text
    assert "return jnp.tanh(product(x))" in text
    assert "return jax.jacfwd(step)(x)" in text


class View:
    """Answers for every attribute, as rows of tables and records do."""

    __slots__ = ("_fields",)

    def __init__(self, fields):
        self._fields = fields

    def __getattr__(self, name):
        return self._fields[name]  # a `KeyError` where there is none


def ratio(row):
    return row.value / row.weight


def mapped(fields, function):
    return jax.vmap(lambda row: function(View(row)))(fields)


def test_objects_that_answer_for_every_attribute_are_only_looked_at():
    def ratios(weight, value):
        return mapped({"weight": weight, "value": value}, ratio)

    text = written_from_calls(ratios, X, X)
    assert 'return row["value"] / row["weight"]' in text
    assert "return ratio(View" not in text
    direct = written_from_calls(
        lambda w, v: ratio(View({"weight": w, "value": v})), X, X
    )
    assert "return v / w" in direct, direct


def test_slots_are_looked_at_too():
    view = View({"weight": 1})
    assert fields_of(view) == {"_fields": {"weight": 1}}
    assert attributes_of(view) == {}
    assert fields_of(object.__new__(View)) == {}
    assert fields_of(Features(1)) == {"array": 1, "_parts": None}
    assert fields_of(3) == {}


@dataclasses.dataclass(frozen=True)
class Tridiagonal:
    lower: Any
    diag: Any
    upper: Any

    def apply(self, v: Any) -> Any:
        r = self.diag * v
        r = r.at[1:].add(self.lower * v[:-1])
        return r.at[:-1].add(self.upper * v[1:])

    def scale(self, a: Any) -> Any:
        return Tridiagonal(a * self.lower, a * self.diag, a * self.upper)

    def shifted(self, a: Any) -> Any:
        return Tridiagonal(self.lower, self.diag + a, self.upper)


def test_what_objects_hold_is_in_their_order() -> None:
    def first(x: Any) -> Tridiagonal:
        return Tridiagonal(jnp.sin(x[1:]), -1 / x, jnp.cos(x[1:]))

    def step(v: Any, operators: Any) -> Any:
        a, b = operators
        y = v + a.apply(v) + b.apply(v)
        return y - a.apply(y) + b.apply(y)

    def run(v: Any, x: Any, s: Any) -> Any:
        a = first(x).scale(s)
        b = first(x + 1).scale(s + 1).shifted(-s)
        return step(step(v, [a, b]), [a, b])

    src = untrace.source(run)(*np.ones((2, 5), np.float32), np.float32(2))
    assert src.report.strength == "identical", str(src.report)
    assert "def apply(v, lower, diag, upper):" in src.text, src.text
    assert "lower, diag, upper = scale(s, lower, diag, upper)" in src.text, src.text
    assert "apply_2" not in src.text, src.text
