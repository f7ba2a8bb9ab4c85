"""The public function: what it accepts, what it returns, and its errors."""

import dataclasses
import functools
import math
import subprocess
import sys
import traceback
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.capture.trees import accessors


def area(width, height=2.0):
    return width * height


class Counter:
    def __init__(self, step):
        self.step = step

    def add(self, x):
        return x + self.step

    def __call__(self, x):
        return x * self.step


class Pair(NamedTuple):
    left: object
    right: object


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["mean", "std"], meta_fields=["name"]
)
@dataclasses.dataclass
class Normal:
    mean: object
    std: object
    name: str = "normal"


def _verified(src):
    assert src.report.is_verified, str(src.report)
    if src.options.level == "lax":
        assert src.report.strength == "identical", str(src.report)
    return str(src)


def test_a_function_keeps_its_name_and_arguments():
    text = _verified(untrace.source(area)(jnp.ones(3), jnp.ones(3)))
    assert "def area(width, height):" in text
    assert "return" in text


def test_a_default_that_was_not_passed_is_fixed():
    assert "def area(width):" in _verified(untrace.source(area)(jnp.ones(3)))


def test_partials_methods_and_callables_are_functions_too():
    counter = Counter(3.0)
    fixed = functools.partial(area, height=1.0)
    assert "def area(width):" in _verified(untrace.source(fixed)(jnp.ones(2)))
    given = untrace.source(fixed)(jnp.ones(2), height=2.0)
    assert "def area(width, *, height):" in _verified(given)
    assert "def add(x):" in _verified(untrace.source(counter.add)(jnp.ones(2)))
    assert "def Counter(x):" in _verified(untrace.source(counter)(jnp.ones(2)))


def test_a_jitted_function_comes_back_jitted():
    text = _verified(untrace.source(jax.jit(area))(jnp.ones(3), 2.0))
    assert "@jax.jit\ndef area(width, height):" in text


def test_static_arguments_are_fixed():
    def power(x, n):
        return x**n

    for options in ({"static_argnums": 1}, {"static_argnames": "n"}):
        text = _verified(untrace.source(power, **options)(jnp.ones(3), 3))
        assert "def power(x):" in text


def test_static_arguments_of_a_jitted_function_are_known():
    power = jax.jit(lambda x, n, *, m: x**n * m, static_argnums=1, static_argnames="m")
    src = untrace.source(power)(jnp.ones(3), 3, m=2)
    _verified(src)
    assert src.load()(jnp.full(3, 2.0))[0] == 16.0


def test_abstract_arguments_are_enough():
    spec = jax.ShapeDtypeStruct((3, 4), jnp.bfloat16)
    src = untrace.source(jnp.sin)(spec)
    _verified(src)
    assert src.load()(jnp.ones((3, 4), jnp.bfloat16)).shape == (3, 4)


def test_jaxprs_and_traced_functions_need_no_arguments():
    args = ({"w": jnp.ones(3)}, jnp.ones(3))

    def f(params, x):
        return {"y": params["w"] * x}

    _verified(untrace.source(jax.make_jaxpr(f)(*args)))
    text = _verified(untrace.source(jax.jit(f).trace(*args)))
    assert "def f(params, x):" in text and '{"y": ' in text


def test_sourcerize_is_an_alias():
    assert untrace.sourcerize is untrace.source


def test_pytrees_keep_their_form():
    def f(params, pair, empty, nothing):
        mean = params["net"][0]["w"] + pair.left
        return {
            "out": [mean, (mean,)],
            "pair": Pair(mean, None),
            "empty": empty,
            "none": nothing,
        }

    args = ({"net": [{"w": jnp.ones(2)}, ()]}, Pair(jnp.ones(2), 3.0), {}, None)
    src = untrace.source(f, keep_types=True)(*args)
    text = _verified(src)
    assert 'params["net"][0]["w"]' in text and "pair.left" in text
    assert "from tests.test_api import Pair" in text
    assert jax.tree.structure(src.load()(*args)) == jax.tree.structure(f(*args))


def test_a_registered_dataclass_is_imported_and_rebuilt():
    def shift(dist, by):
        return Normal(dist.mean + by, dist.std)

    src = untrace.source(shift, keep_types=True)(Normal(jnp.zeros(2), jnp.ones(2)), 1.0)
    text = _verified(src)
    assert "from tests.test_api import Normal" in text


def test_a_local_class_is_replaced_and_the_header_says_so():
    class Local(NamedTuple):
        a: object

    text = _verified(untrace.source(lambda t: t.a + 1)(Local(jnp.ones(2))))
    assert "class Local(NamedTuple):" in text
    assert "`Local` stands for" in text


def test_text_is_the_same_every_time_and_in_every_process():
    program = (
        "import jax, jax.numpy as jnp, untrace\n"
        "def f(p, x): return jax.nn.softmax(jnp.tanh(x @ p['w']) + p['b'])\n"
        "args = ({'w': jnp.ones((3, 4)), 'b': jnp.ones(4)}, jnp.ones((2, 3)))\n"
        "print(untrace.source(jax.value_and_grad(lambda p, x: f(p, x).sum()))(*args))\n"
    )
    run = [sys.executable, "-c", program]
    texts = {
        subprocess.run(
            run,
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed, "PATH": ""},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1


def test_a_source_shows_itself():
    src = untrace.source(area)(jnp.ones(3))
    assert (
        repr(src)
        == f"<untrace.Source of `area`: {str(src).count(chr(10))} lines, identical>"
    )
    assert "<span" in src._repr_html_() and "area" in src._repr_html_()
    assert src.report.is_verified and "identical" in str(src.report)


def test_types_are_written_on_request():
    text = _verified(untrace.source(area, types=True)(jnp.ones((2, 3)), 2.0))
    assert "# f32[2,3]" in text


def test_the_name_can_be_chosen():
    assert "def surface(width, height):" in _verified(
        untrace.source(area, name="surface")(1.0, 2.0)
    )


@pytest.mark.parametrize(
    "name",
    [
        "f():\n  import os",
        "class",
        "λ",
        "x" * 10_000,
        "",
        "__init__",
        "jax",
        "print",
        "1f",
    ],
)
def test_hostile_names_become_identifiers(name):
    def f(x):
        return jnp.sin(x)

    f.__name__ = f.__qualname__ = name
    for function in (f, jax.jit(f), lambda x: jax.jit(f)(x)):
        src = untrace.source(function)(jnp.ones(3))
        text = _verified(src)
        assert "import os\n" not in text.split('"""')[2].replace("\\n", "")
        np.testing.assert_array_equal(src.load()(jnp.ones(3)), jnp.sin(jnp.ones(3)))


def test_hostile_docstring_material_stays_in_the_docstring():
    def f(x):
        return x

    f.__name__ = '"""\nimport os\n"""'
    compile(_verified(untrace.source(f)(1.0)), "f", "exec")


def test_wrong_arguments_give_the_users_own_error():
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        untrace.source(lambda x, y: x)(1.0)
    try:
        untrace.source(_raises)(1.0)
    except KeyError as error:
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/src/untrace/" in frame.filename]
        assert len(ours) <= 1  # where it is raised again
        assert frames[-1].name == "_raises"


def _raises(x):
    raise KeyError("mine")


def test_a_function_that_does_not_trace_says_why():
    with pytest.raises(jax.errors.TracerBoolConversionError):
        untrace.source(lambda x: x if x > 0 else -x)(1.0)


def test_unhashable_static_arguments_are_refused_clearly():
    with pytest.raises(untrace.CaptureError, match="`sizes` of `f` is a list"):

        def f(x, sizes):
            return x

        untrace.source(f, static_argnums=1)(1.0, [2])


def test_what_is_no_function_is_refused_clearly():
    with pytest.raises(TypeError, match="cannot recover source from a int"):
        untrace.source(3)
    with pytest.raises(ValueError, match="level must be one of"):
        untrace.source(area, level="magic")


def test_closed_over_arrays_are_exact_constants():
    values = [
        np.array([1.0, -0.0, np.nan, np.inf, -np.inf], np.float32),
        np.array([[1.5, 2.5]], jnp.bfloat16),
        np.arange(12).reshape(3, 4),
        np.eye(3, dtype=np.float32),
        np.array([True, False]),
        np.array([1 + 2j, complex(-0.0, np.inf)], np.complex64),
    ]
    src = untrace.source(lambda: [jnp.asarray(v) * 1 for v in values])()
    _verified(src)


def test_typed_keys_can_be_closed_over():
    key = jax.random.key(3)
    src = untrace.source(lambda: jax.random.normal(key, (2,)))()
    _verified(src)
    np.testing.assert_array_equal(src.load()(), jax.random.normal(key, (2,)))


def test_named_scopes_are_written_on_request():
    def f(x):
        with jax.named_scope("first"):
            x = jnp.sin(x)
            with jax.named_scope("inner"):
                x = jnp.cos(x)
        return x + 1

    src = untrace.source(f, level="lax", scopes=True)(1.0)
    text = _verified(src)
    assert 'with jax.named_scope("first"):' in text
    assert 'with jax.named_scope("first/inner"):' in text
    assert "named_scope" not in str(untrace.source(f)(1.0))
    stacks = [
        str(e.source_info.name_stack) for e in jax.make_jaxpr(src.load())(1.0).eqns
    ]
    assert stacks == ["first", "first/inner", ""]


def test_an_unknown_primitive_is_named_with_its_place():
    from jax.extend.core import Primitive

    mystery = Primitive("mystery")
    mystery.def_abstract_eval(lambda x: x)
    with pytest.raises(
        untrace.LiftingError, match=r"`mystery` float32\[3\].*test_api.py"
    ):
        untrace.source(lambda x: mystery.bind(x))(jnp.ones(3))


def test_a_difference_is_a_warning_with_both_equations(monkeypatch):
    from untrace.lifting import bind
    from untrace.lifting.rules import table

    monkeypatch.setitem(table.RULES, "sin", [])
    table.rule("sin", "jnp.cos({0})", accuracy=None)
    for memo in ("_COVERING", "_ACCEPTED"):
        monkeypatch.setattr(table, memo, {})
    src = untrace.source(lambda x: jnp.sin(x) * 2.0, level="lax")(jnp.ones(3))
    assert src.report.strength == "identical"  # printed lower: jax.lax or bind

    spell = bind.spell_primitive
    monkeypatch.setattr(
        bind, "spell_primitive", lambda p, i: spell(p, i).replace("sin", "cos")
    )
    with pytest.warns(untrace.UnverifiedWarning, match="NOT VERIFIED"):
        src = untrace.source(lambda x: jnp.sin(x) * 2.0, level="lax")(jnp.ones(3))
    assert src.report.strength in ("different", "failed")
    assert "NOT VERIFIED" in str(src).split('"""')[1]
    if src.report.strength == "different":
        assert "sin f32[3]" in str(src.report) and "cos f32[3]" in str(src.report)
        assert "jnp.cos(x)" in str(src.report)


def repeated(x, n, flag=False, scale=2.0):
    for _ in range(n):
        x = jnp.sin(x) * scale
    return x if flag else -x


@pytest.mark.parametrize("level", ["api", "lax"])
def test_numbers_that_the_function_branches_on_are_fixed(level):
    x = jnp.ones(3)
    src = untrace.source(repeated, level=level)(x, 3, flag=True, scale=3.0)
    assert src.report.strength == "identical"
    assert "Leaves that are not arrays are fixed: bool, int." in src.report.notes
    names = [p.name for p in src.captured.parameters]
    assert names == ["x", "scale"]  # a number that nobody needs to know is an input
    expected = repeated(x, 3, True, 3.0)
    assert jnp.array_equal(jax.jit(src.load())(x, 3.0), expected)


def test_numbers_that_the_function_computes_with_in_python_are_fixed():
    def damped(x, rate, scale):
        return x * np.sqrt(1 - rate) ** math.ceil(scale)

    src = untrace.source(damped)(jnp.ones(3), 0.19, 1.5)
    assert src.report.strength == "identical"
    assert "Leaves that are not arrays are fixed: float." in src.report.notes


def test_numbers_that_equinox_holds_in_a_module_are_no_inputs():
    eqx = pytest.importorskip("equinox")
    model = eqx.nn.Sequential([eqx.nn.Dropout(0.5), eqx.nn.LayerNorm(3)])

    def loss(model, x, key):
        return jnp.sum(model(x, key=key))

    def step(model, x, key):
        return eqx.apply_updates(model, eqx.filter_grad(loss)(model, x, key))

    src = untrace.source(step)(model, jnp.ones(3), jax.random.key(0))
    assert src.report.is_verified
    assert "Leaves that are not arrays are fixed: bool, float." in src.report.notes
    (parameter, *_) = src.captured.parameters
    names = [path for _, path, _ in accessors(parameter.tree, "")]
    assert names == [".layers[1].weight", ".layers[1].bias"]
    assert "from its equations" not in str(src), src.report.notes


def test_a_function_that_branches_on_an_array_raises_its_own_error():
    def branching(x, flag):
        return x if x.sum() > 0 else -x

    with pytest.raises(jax.errors.TracerBoolConversionError):
        untrace.source(branching)(jnp.ones(3), True)


@jax.jit
def _clipped(x, limit):
    return jnp.minimum(x, limit)


@pytest.mark.parametrize(
    ("function", "number", "expected"),
    [
        (lambda x, d: jnp.mean(x, keepdims=d), True, "keepdims=True"),
        (lambda x, d: jax.lax.cumsum(x, reverse=d), True, "reverse=True"),
        (lambda x, n: jnp.zeros((n,)) + x[0], 2, "jnp.zeros((2,))"),
        (lambda x, n: jax.lax.integer_pow(x, n), 3, "jax.lax.integer_pow(x, 3)"),
        (lambda x, n: x * n.bit_length(), 4, "x * 3"),
        (lambda x, n: {2: jnp.sin, 3: jnp.cos}[n](x), 3, "jnp.cos(x)"),
        (lambda x, a: _clipped(x, float(a)), 0.5, "0.5"),
    ],
)
def test_numbers_that_a_function_needs_to_know_stay_what_they_are(
    function, number, expected
):
    source = untrace.source(function)(jnp.arange(3.0), number)
    assert source.report.is_verified and expected in str(source), str(source)


def test_errors_of_functions_that_are_given_numbers_are_their_own():
    def refuses(x, n):
        raise KeyError(f"{type(n).__name__} is none of ours")

    with pytest.raises(KeyError, match="Tracer is none of ours"):
        untrace.source(refuses)(jnp.ones(3), 2)


# ---- what fails only while it is recorded ------------------------------------------


def test_program_that_fails_only_while_recorded_is_written_from_its_equations() -> None:
    """Values are copied by their class, which may note that there is one more."""
    made: list[object] = []

    @jax.tree_util.register_pytree_node_class
    class Measurement:
        def __init__(self, value: Any) -> None:
            self.value = value
            made.append(self)

        def tree_flatten(self) -> Any:
            return (self.value,), None

        @classmethod
        def tree_unflatten(cls, _: None, children: Any) -> Any:
            return cls(*children)

    def circuit(x: Any) -> Any:
        return Measurement(jnp.sin(x))

    def f(x: Any) -> Any:
        made.clear()
        measured = circuit(x)
        if made != [measured]:
            raise ValueError("measured twice")
        return measured.value * 2.0

    src = untrace.source(f)(1.0)
    assert src.report.is_verified
    assert "recording them raised ValueError: measured twice" in str(src.report.notes)


def test_program_that_fails_raises_its_own_error_once() -> None:
    def f(x: Any) -> Any:
        raise ValueError("never")

    with pytest.raises(ValueError, match="never") as caught:
        untrace.source(f)(1.0)
    assert caught.value.__cause__ is None and caught.value.__context__ is None
