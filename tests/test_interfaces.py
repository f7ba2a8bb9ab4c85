"""What a program is given and gives back comes out as what it is, or that is said."""

import builtins
import collections
import enum
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.jaxapi.helpers import HELPERS
from untrace.syntax.importable import is_importable
from untrace.syntax.names import HELPER_NAMES
from untrace.verification.retrace import execute

X = np.arange(3, dtype=np.float32)
LEVELS = pytest.mark.parametrize("level", ["api", "lax"])


class Color(enum.Enum):
    RED = 1


class Text(str, enum.Enum):  # noqa: UP042  (its `str` is another)
    LEFT = "left"
    RIGHT = "right"


class Number(enum.IntEnum):
    ONE = 1


Odd = enum.Enum("Odd", [("a b", 1), ("x; y", 2)])


def _verified(function, *args, level="api", **kwargs):
    made = untrace.source(function, level=level)(*args, **kwargs)
    assert made.report.is_verified, str(made)
    return str(made), execute(str(made))


@LEVELS
@pytest.mark.parametrize(
    "key",
    [
        Color.RED,
        Text.LEFT,
        Number.ONE,
        Odd["a b"],
        np.str_("a"),
        np.int64(1),
        np.float32(0.5),
        np.bool_(True),
        True,
        0.5,
        float("inf"),
        b"x\n",
        ("a", 1),
        (Color.RED, np.int8(1)),
    ],
    ids=repr,
)
def test_keys_come_back_as_what_they_are(key, level):
    def f(d):
        return {key: d[key] * 2}

    _, module = _verified(f, {key: X}, level=level)
    ((found, value),) = module.f({key: X}).items()
    assert (type(found), found) == (type(key), key)
    np.testing.assert_array_equal(value, X * 2)
    assert [*module.example_args()["d"]] == [key]


@LEVELS
def test_keys_that_cannot_be_written_are_the_fields_of_a_stand_in(level):
    class Local(enum.Enum):
        KEY = 1

    text, module = _verified(
        lambda d: {Local.KEY: d[Local.KEY] * 2}, {Local.KEY: X}, level=level
    )
    assert "stands for builtins.dict" in text
    np.testing.assert_array_equal(module.lambda_(**module.example_args())[0], X * 2)


@LEVELS
def test_two_enums_of_one_name_are_refused(level):
    other = types.ModuleType("other_colors")
    other.Color = enum.Enum("Color", "RED", module="other_colors")
    sys.modules["other_colors"] = other
    try:
        with pytest.raises(
            untrace.LiftingError, match="two classes are called `Color`"
        ):
            untrace.source(lambda a, b: a[Color.RED] + b[other.Color.RED], level=level)(
                {Color.RED: X}, {other.Color.RED: X}
            )
    finally:
        del sys.modules["other_colors"]


@LEVELS
def test_ordered_dicts_keep_their_order(level):
    def f(x):
        made = collections.OrderedDict(b=x, a=x + 1)
        return made, {"inner": made}

    _, module = _verified(f, X, level=level)
    first, second = module.f(X)
    assert [*first] == [*second["inner"]] == ["b", "a"]
    assert type(first) is type(second["inner"]) is collections.OrderedDict


@LEVELS
def test_arguments_that_get_other_names_are_noted(level):
    def f(**given):
        return given["class"] + given["a b"] - given["a_b"]

    text, module = _verified(f, level=level, **{"class": X, "a b": X, "a_b": X + 1})
    header = " ".join(text.split('"""')[1].split())
    assert '`class_` for "class", `a_b_` for' in header or "`class_` for" in header
    given = module.example_args()
    assert sorted(given) == ["a_b", "a_b_", "class_"]
    np.testing.assert_array_equal(module.f(**given), X - 1)


@LEVELS
def test_names_that_are_kept_are_not_noted(level):
    text, _ = _verified(lambda x, *, y: x + y, X, y=X, level=level)
    assert "cannot be kept" not in text


@LEVELS
def test_an_argument_may_be_called_like_the_function(level):
    def f(*, f):
        return f * 2

    _verified(f, f=X, level=level)


@LEVELS
def test_an_argument_may_be_called_like_a_helper(level):
    assert set(HELPERS) == HELPER_NAMES
    text, _ = _verified(
        lambda **given: sum(given.values()), level=level, **dict.fromkeys(HELPERS, X)
    )
    assert "`merged_` for" in " ".join(text.split())


@LEVELS
@pytest.mark.parametrize("is_nested", [False, True])
def test_lists_and_dicts_that_are_changed_in_place_are_noted(level, is_nested):
    def f(d, items, x):
        held = d["in"] if is_nested else d
        held["new"] = x * 2
        items.append(x)
        return x + 1

    given = {"in": {"a": X}} if is_nested else {"a": X}
    text, _ = _verified(f, given, [X], X, level=level)
    assert "Changed in place by the original, but not here: `d`, `items`." in text


@LEVELS
def test_lists_and_dicts_that_are_read_are_not_noted(level):
    def f(d, items):
        mine = {**d, "b": items[0]}
        mine["c"] = 1
        return mine

    text, _ = _verified(f, {"a": X}, [X], level=level)
    assert "in place" not in text


def test_a_list_put_into_itself_is_noted():
    def f(items):
        items.append(items)
        return items[0] * 2

    assert "in place" in _verified(f, [X])[0]


def test_nothing_is_imported_to_find_out_whether_a_class_can_be(monkeypatch):
    imported = []
    real = builtins.__import__
    monkeypatch.setattr(
        builtins,
        "__import__",
        lambda name, *a, **k: imported.append(name) or real(name, *a, **k),
    )
    cls = type("Antigravity", (), {"__module__": "antigravity"})
    assert not is_importable(cls)
    assert "antigravity" not in sys.modules and "antigravity" not in imported


def test_a_module_that_raises_has_no_importable_classes(monkeypatch):
    class Raising(types.ModuleType):
        def __getattr__(self, name):
            raise RuntimeError(name)

    monkeypatch.setitem(sys.modules, "raising", Raising("raising"))
    cls = collections.namedtuple("Pair", "a b")
    cls.__module__ = "raising"
    assert not is_importable(cls)
    _verified(lambda pair: pair.a + pair.b, cls(X, X), level="lax")


def test_names_that_are_none_are_not_imported(monkeypatch):
    name = "Pair\nimport os"
    cls = collections.namedtuple("Pair", "a b")
    cls.__qualname__, cls.__module__ = name, __name__
    monkeypatch.setitem(globals(), name, cls)
    assert not is_importable(cls)
    for level in ("api", "lax"):
        made = untrace.source(lambda p: p.a + p.b, level=level, keep_types=True)(
            cls(X, X)
        )
        assert made.report.is_verified and "\nimport os" not in str(made)


def _shows(self, spec=""):
    return "open('CANARY', 'w')"


def _disguised(kind):
    shown = dict.fromkeys(("__repr__", "__str__", "__format__"), _shows)
    return type(f"Shown{kind.__name__}", (kind,), shown)


Int, Float, Tuple, Bytes = map(_disguised, (int, float, tuple, bytes))
DISGUISED = [
    lambda x: jax.lax.scan(lambda c, _: (jnp.sin(c), None), x, None, 4, unroll=Int(2))[
        0
    ],
    lambda x: jnp.sum(x.reshape(Int(1), 3), axis=Int(1)) * Float(2.5) + Int(3),
    lambda x: jnp.roll(x, Int(1)) + jnp.cumsum(x, axis=Int(0)),
    lambda x: jax.lax.fori_loop(Int(0), Int(3), lambda i, c: c * Float(1.5), x),
    lambda x: jax.lax.pad(x, Float(0.0), ((Int(1), Int(1), Int(0)),)),
    lambda x: x.reshape(Tuple((1, 3))) + jnp.zeros(Tuple((1, Int(3)))),
    lambda x: x.at[Int(0)].set(Float(1.0)),
    lambda x: {Tuple(("a", 1)): x, Bytes(b"b"): x * 2, Int(3): x + 1}[Int(3)],
    lambda x: {Tuple(("a", 1)): x * 2},
    lambda x: {Int(3): x * 2, Int(4): x},
    jax.jit(lambda x: x * 2, donate_argnums=Int(0)),
]


@LEVELS
@pytest.mark.parametrize("function", DISGUISED)
def test_numbers_and_tuples_that_show_themselves_as_code(function, level):
    assert "open(" not in _verified(function, X, level=level)[0]
