"""Functions of libraries that would share a name get one that tells them apart."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.lifting.installed import library

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


def recover(function, *args):
    src = untrace.source(function)(*args)
    assert "Written from its equations" not in str(src), src.report.notes
    assert src.report.is_verified, str(src.report)
    return str(src)


def defined(text):
    """List the functions of a file, in order, without those that every file has."""
    names = re.findall(r"^def (\w+)", text, re.MULTILINE)
    return [name for name in names if name != "example_args"]


SHAPES = """
class Flat:
    def score(self, value):
        a = jnp.sin(value) + jnp.cos(value) * jnp.tan(value)
        b = jnp.exp(a) - jnp.tanh(a) * jnp.log(a * a)
        return a * b + jnp.sqrt(a * a) + jnp.cos(b)

class Base:
    def score(self, value):
        a = jnp.tanh(value) - jnp.sin(value) * jnp.exp(value)
        b = jnp.cos(a) + jnp.tan(a) * jnp.abs(a)
        return a - b * jnp.exp(b) - jnp.sin(a) - jnp.cos(b)

class HeavyTail(Base):
    pass
"""


def test_methods_of_one_name_have_their_class():
    layers = library(SHAPES)
    flat, heavy = layers.Flat(), layers.HeavyTail()
    text = recover(lambda x: flat.score(x) + heavy.score(x), X)
    assert defined(text)[:2] == ["flat_score", "heavy_tail_score"]


def test_a_method_that_is_alone_keeps_its_name():
    flat = library(SHAPES).Flat()
    assert defined(recover(lambda x: flat.score(flat.score(x)), X))[0] == "score"


def test_the_functions_of_the_user_keep_their_names():
    flat = library(SHAPES).Flat()

    def score(x):
        y = flat.score(x) * 2
        return y + flat.score(y)

    def model(x):
        y = score(x)
        return y * score(y)

    assert defined(recover(model, X)) == ["flat_score", "score", "model"]


def test_the_program_itself_keeps_its_name():
    flat = library(SHAPES).Flat()

    def score(x):
        return flat.score(flat.score(x))

    assert defined(recover(score, X)) == ["flat_score", "score"]


FACTORIES = """
def scale(rate):
    def update_fn(updates, state):
        updates = jnp.sin(updates) * rate + jnp.cos(updates) * jnp.tan(state)
        state = state + jnp.exp(updates) - jnp.tanh(updates) * jnp.sin(state)
        return updates * jnp.cos(state), state * jnp.exp(updates)
    return update_fn

def trace(decay):
    def init_fn(params):
        start = jnp.sin(params) + jnp.cos(params) * jnp.tan(params) - jnp.exp(params)
        return start * jnp.tanh(start) + jnp.sin(start) - jnp.log(start * start)
    def update_fn(updates, state):
        state = updates + decay * state - jnp.tanh(state) * jnp.log(state * state)
        updates = jnp.exp(state) - jnp.sin(updates) * jnp.cos(state) + jnp.abs(state)
        return updates * jnp.tan(state), state - jnp.exp(updates)
    return init_fn, update_fn
"""


def test_functions_made_by_a_function_have_its_name():
    layers = library(FACTORIES)
    scale, (_, trace) = layers.scale(0.3), layers.trace(0.4)

    def step(x, state):
        x, first = scale(x, state[0])
        x, second = trace(x, state[1])
        x, second = trace(x, second)
        return scale(x, first), second

    assert defined(recover(step, X, (X, X)))[:2] == ["scale", "trace"]


def test_several_functions_made_by_one_have_their_own_names_too():
    init, update = library(FACTORIES).trace(0.4)

    def step(x):
        state = init(x)
        x, state = update(x, state)
        return update(x, state), init(state)

    assert defined(recover(step, X))[:2] == ["trace_init", "trace_update"]


def test_locals_of_the_user_keep_their_names():
    flat = library(SHAPES).Flat()

    def model(x):
        score = flat.score(x)
        return score * flat.score(x * score)

    text = recover(model, X)
    assert defined(text) == ["flat_score", "model"]
    assert "    score = flat_score(x)\n" in text


WRAPPED = """
def checked(score_fn):
    @functools.wraps(score_fn)
    def wrapper(self, *args, **kwargs):
        score = score_fn(self, *args, **kwargs)
        value = kwargs["value"] if "value" in kwargs else args[0]
        mask = (value == value) & (jnp.abs(value) < 3.0) & (jnp.sin(value) < 2.0)
        return jnp.where(mask, score, jnp.abs(value) - jnp.cos(value))
    return wrapper

class Normal:
    def __init__(self, scale):
        self.scale = scale

    @checked
    def score(self, value):
        a = jnp.sin(value / self.scale) + jnp.cos(value) * jnp.tan(value)
        b = jnp.exp(a) - jnp.tanh(a) * jnp.log(a * a) / self.scale
        c = jnp.sqrt(b * b) + jnp.arctan(a) * b
        return a * b * c + jnp.sqrt(a * a) + jnp.cos(b) / c
"""


def test_a_wrapper_has_the_name_of_what_it_wraps():
    normal = library(WRAPPED).Normal(5.0)
    text = recover(lambda x: normal.score(normal.score(x)), X)
    assert defined(text)[:2] == ["normal_score", "checked_normal_score"]
    assert "def checked_normal_score(value):" in text


def test_a_wrapper_around_little_has_its_name():
    layers = library("""
def checked(score_fn):
    @functools.wraps(score_fn)
    def wrapper(*args):
        score = score_fn(*args)
        mask = (score == score) & (jnp.abs(score) < 3.0) & (jnp.sin(score) < 2.0)
        return jnp.where(mask, score, jnp.abs(score) - jnp.cos(score))
    return wrapper

@checked
def score(value):
    return jnp.sin(value)
""")
    text = recover(lambda x: layers.score(layers.score(x)), X)
    assert defined(text)[0] == "score"
    assert "def score(value):" in text


def test_locals_have_no_number_of_a_function():
    layers = library(SHAPES + WRAPPED)
    narrow, wide = layers.Normal(X), layers.Normal(X[0])
    flat = layers.Flat()

    def model(x):
        return narrow.score(x) + wide.score(x) * flat.score(x) + flat.score(x)

    text = recover(model, X)
    numbered = [name for name in defined(text) if re.search(r"_\d+$", name)]
    for name in numbered:
        assert not re.search(rf"^ +{name}\b.* = ", text, re.MULTILINE)


def test_functions_that_differ_in_an_attribute_are_one():
    layers = library(WRAPPED)
    narrow, wide = layers.Normal(5.0), layers.Normal(2.5)
    text = recover(lambda x: narrow.score(x) + wide.score(narrow.score(x)), X)
    assert defined(text)[:2] == ["normal_score", "checked_normal_score"]
    assert "def normal_score(value, scale):" in text
    assert "def checked_normal_score(value, scale):" in text
    assert "checked_normal_score(x, 5.0)" in text


@pytest.mark.parametrize("name", ["body_fn", "step_fn"])
def test_functions_that_are_passed_keep_the_names_of_their_roles(name):
    layers = library(f"""
def repeat(x):
    def {name}(carry, _):
        carry = jnp.sin(carry) * jnp.cos(carry) + jnp.tan(carry) - jnp.exp(carry)
        return carry * jnp.tanh(carry) + jnp.log(carry * carry), None
    return jax.lax.scan({name}, x, None, length=3)[0]
""")
    text = recover(lambda x: layers.repeat(x) * layers.repeat(2 * x), X)
    assert f"jax.lax.scan({name}, " in text


def test_a_local_keeps_a_name_that_only_ends_like_a_number():
    def score(x, n):
        y = jnp.sin(x) * n + jnp.cos(x) * jnp.tan(x) - jnp.exp(x) * jnp.log(x * x)
        return y[:n] * jnp.tanh(y[:n])

    def model(x):
        score_2 = score(x, 2)
        return score_2.sum() * score(x, 3) + jnp.sin(score_2).sum()

    text = recover(model, X)
    assert re.search(r"^    score_2(_2)? = ", text, re.MULTILINE)


class Answering:
    """An object with an answer to every attribute, or an error of its own."""

    def __init__(self, factor):
        self.__dict__["_held"] = {"factor": factor}

    def __getattr__(self, name):
        return self.__dict__["_held"][name]

    def __call__(self, x):
        y = jnp.sin(x) * self.factor
        return y + jnp.cos(y)


def test_objects_that_answer_for_every_attribute_are_called_after_their_class():
    first, second = Answering(0.25), Answering(0.75)
    text = recover(lambda x: first(x) * second(x), X)
    assert defined(text)[0] == "answering", text
    assert "Written without" not in text


class Population:
    """The user's class: a public method that calls a private one, and a noun."""

    def spread(self, x):
        return jnp.max(x) - jnp.min(x)

    def _tell(self, x, spread):
        return jnp.tanh(x) * spread

    def tell(self, x):
        x = jnp.where(jnp.isnan(x), 0.0, x)
        spread = self.spread(x)
        told = self._tell(x, spread)
        return told + jnp.sin(told)


def test_private_function_keeps_its_underscore_beside_a_public_one():
    text = recover(lambda x: Population().tell(x) + Population().tell(x + 1), X)
    assert {"_tell", "tell"} <= set(defined(text))
    assert "told = _tell(x, spread)" in text


def test_method_is_named_after_its_class_beside_a_variable_of_its_name():
    text = recover(lambda x: Population().tell(x) + Population().tell(x + 1), X)
    assert "spread = population_spread(x)" in text


WRAPPING = """
class Bound:
    def __init__(self, function):
        self.__wrapped__ = function

    def __call__(self, *args):
        x = self.__wrapped__(*args)
        return jnp.sin(x) * jnp.cos(x) + jnp.exp(x) - jnp.tanh(x)

def evaluate(x):
    return jnp.sin(x) + jnp.cos(x) * jnp.tan(x) - jnp.log(x * x)

bound = Bound(evaluate)
"""


def test_objects_that_wrap_a_function_have_its_name():
    bound = library(WRAPPING).bound
    text = recover(lambda x: bound(x) + bound(x * x), X)
    assert defined(text)[0].endswith("evaluate") and "bound(" not in text


COSMOLOGY = """
class Cosmology:
    def __init__(self, Omega_c, sigma8):
        self._Omega_c, self._sigma8 = Omega_c, sigma8

def expansion(cosmology, a):
    x = cosmology._Omega_c * jnp.power(a, -3) + jnp.sin(a)
    return x * jnp.exp(a) + (1 - cosmology._Omega_c) * jnp.log(a)

def growth(cosmology, a):
    x = expansion(cosmology, a) / cosmology._sigma8 + jnp.cos(a)
    y = expansion(cosmology, a * 2) * jnp.tanh(x)
    return x * y + y ** 2
"""


def test_what_objects_hand_to_functions_is_called_after_their_attributes():
    module = library(COSMOLOGY)

    def counts(theta, a):
        cosmology = module.Cosmology(Omega_c=theta[0], sigma8=theta[1])
        return module.growth(cosmology, a) + module.growth(cosmology, a * 3)

    text = recover(counts, X, X)
    assert "def expansion(a, Omega_c):" in text
    assert "def growth(a, Omega_c, sigma8):" in text
    assert "    Omega_c = theta[0]\n    sigma8 = theta[1]\n" in text


def test_parts_without_a_name_are_called_after_attributes():
    class Dense:
        def __init__(self, kernel):
            self.kernel = kernel

        def __call__(self, x):
            return jnp.tanh(x * self.kernel) + jnp.sin(x)

    def f(weights, x):
        first, second = (Dense(weight) for weight in weights)
        return second(first(x))

    assert "def dense(kernel, x):" in recover(f, [X, X], X)


def pooled(x, kind="mean", train=False):
    if train:
        return jnp.sin(x) * 2 @ x
    if kind == "max":
        return jnp.cos(x) @ x @ x + 3
    return x @ x + jnp.tanh(x)


def pooled_in_three_ways(x):
    return pooled(x) + pooled(x, train=True) + pooled(x, kind="max")


def pooled_by_axis(x):
    return pooled(x) + pooled(x[:2, :2]).sum()


def test_flags_and_words_tell_the_functions_apart_that_one_became():
    x = jnp.ones((3, 3))
    text = untrace.source(pooled_in_three_ways)(x).text
    assert "pooled(x) + pooled_train(x) + pooled_max(x)" in text
    text = untrace.source(pooled_by_axis)(x).text
    assert "return pooled(x) + pooled(x[:2, :2]).sum()" in text


class Table:
    """Columns, changed by keyword: `table.with_rows(rows, height=new)`."""

    def __init__(self, columns):
        self.columns = columns

    def with_rows(self, rows, **changed):
        made = dict(self.columns)
        for name, values in changed.items():
            made[name] = made[name].at[rows].set(values)
        return Table(made)


def test_a_parameter_is_not_called_like_a_keyword_beside_it():
    def lengthened(length, value):
        table = Table({"value": jnp.zeros((6, 2)), "length": length})
        table = table.with_rows(np.arange(3), value=value)
        return jnp.sin(table.columns["value"]) * table.columns["length"][:, None]

    text = recover(lengthened, jnp.ones(6), jnp.ones((3, 2)))
    assert "def with_rows(rows, value_2, **changed):" in text
    assert "jnp.zeros((6, 2)), value=value" in text


def made_with_a_name():
    def x(value):
        y = jnp.sin(value) * 2
        return jnp.cos(y) + y * value

    return x


KEPT = made_with_a_name()


def called_by_another_name(x):
    return KEPT(x) + KEPT(x + 1)


def test_a_function_that_is_called_like_an_argument_gives_way():
    text = recover(called_by_another_name, X)
    assert "def x_2(value):" in text and "return x_2(x) + x_2(x + 1)" in text


def Scaled(n):
    def init(key):
        return jnp.ones(n)

    def apply(params, x):
        return jnp.tanh(params * x).sum() + x

    return init, apply


def Biased(n):
    def apply(params, x):
        return jnp.sin(params + x) * x

    return None, apply


def test_functions_of_factories_that_are_called_like_classes():
    def net(scales, biases, x):
        x = Scaled(3)[1](scales, x)
        return Biased(3)[1](biases, Scaled(3)[1](scales, x))

    text = str(untrace.source(net)(*[np.ones(3, np.float32)] * 3))
    assert "def scaled(params, x):" in text and "def biased(params, x):" in text, text


doubled = jax.jit(lambda x: jnp.sin(x) * 2)


def test_a_lambda_is_called_after_the_variable_that_holds_it():
    src = untrace.source(doubled)(np.float32(1.0))
    assert "def doubled(x):" in src.text, src.text
    assert untrace.source(lambda x: x + 1)(1.0).name == "lambda_"
