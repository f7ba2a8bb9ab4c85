"""`comments="user"`: the comments and annotations that the user wrote come back."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import pytest

import untrace

X = jnp.ones(4)


def scale(x, n):
    # above 3.141592653589793
    y = x * n  # beside it  # pylint: disable=C0103
    # type: ignore
    z = jnp.tanh(y) * jnp.sin(
        # inside of it
        y
    )
    if n > 1:
        # in a branch
        z = z + jnp.cos(z) * y
    # before the end
    return z


def program(x, w):
    # first
    a = scale(x, 2)
    b = scale(a, 3)
    # the loop
    for _ in range(3):
        # shift
        b = jnp.roll(b, 1) * jnp.cos(b)
        # add
        a = a + b * jnp.sin(b)
    # all of them
    parts = [jnp.sin(v) * a for v in w]

    def body(c, v):
        # multiply
        c = c * v
        return c, c + 1

    # scan it
    c, _ = jax.lax.scan(body, a.sum(), b)
    # it is `scale` that this is about
    return c + sum(parts)


def body_of(function, *args, **options):
    src = untrace.source(function, **options)(*args)
    assert src.report.strength == "identical", str(src.report)
    return src.module.body


def test_comments_stand_before_their_statements():
    text = body_of(program, X, [X] * 3, comments="user")
    functions = text[text.index("def scale") : text.index("def example_args")].strip()
    assert functions == SHOWN.strip(), functions
    for options in ({}, {"comments": "types"}, {"anonymous": True}):
        text = untrace.source(program, **options)(X, [X] * 3).module.body
        assert "# above" not in text and "# first" not in text


SHOWN = """
def scale(x, n):
    # above 3.141592653589793
    # beside it
    y = x * n
    # inside of it
    z = jnp.tanh(y) * jnp.sin(y)
    # in a branch
    z = z + jnp.cos(z) * y
    # before the end
    return z


def body(c, v):
    # multiply
    c = c * v
    return c, c + 1


def program(x, w):
    # first
    a = scale(x, 2)
    b = scale(a, 3)
    # the loop
    for _ in range(3):
        # shift
        b = jnp.roll(b, 1) * jnp.cos(b)
        # add
        a = a + b * jnp.sin(b)
    # all of them
    parts = [jnp.sin(v) * a for v in w]
    # scan it
    c, _ = jax.lax.scan(body, a.sum(), b)
    # it is `scale` that this is about
    return c + sum(parts)
"""


def test_the_users_comments_and_anonymous_files_exclude_each_other():
    with pytest.raises(ValueError, match='comments="user" writes the comments'):
        untrace.source(program, comments="user", anonymous=True)


def test_a_file_that_changed_has_no_comments(tmp_path):
    path = tmp_path / "changing_model.py"
    path.write_text("def f(x):\n    # old\n    return x * 2\n")
    names: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), names)
    assert "# old" in body_of(names["f"], X, comments="user")
    path.write_text("def f(x):\n    # new\n    return x * 3\n")
    text = body_of(names["f"], X, comments="user")
    assert "# new" not in text


# ---- annotations ---------------------------------------------------------------------


class State(NamedTuple):
    m: jax.Array
    v: jax.Array


def norm(x: jax.Array, eps: float = 1e-6) -> jax.Array:
    n = jnp.sqrt(jnp.sum(x**2) + eps)
    y = x / n
    return y * jnp.cos(n) + y


def step(
    state: State,
    x: jax.Array,
    rate: float,
    weights: dict[str, jax.Array],
    rows: tuple[jax.Array, ...],
    anything: Any,
    wrong: int,
    maybe: jax.Array | None = None,
    flag: bool = True,
) -> tuple[State, jax.Array]:
    y = norm(norm(x), 1e-3)
    m = state.m * rate + y.sum() + weights["a"] + rows[0] + anything + wrong
    if maybe is not None and flag:
        m = m + maybe
    return State(m, state.v), y


GIVEN = State(X, X), X, 0.3, {"a": X}, (X, X), X, X, X


def test_annotations_come_back_where_they_can_be_written():
    text = " ".join(body_of(step, *GIVEN, comments="user").split())
    assert "def norm(x: jax.Array, eps: float = 1e-06) -> jax.Array:" in text
    for part in (
        "state: State",
        "x: jax.Array",
        "rate: float",
        "weights: dict[str, jax.Array]",
        "rows: tuple[jax.Array, ...]",
        "anything: Any",
        " wrong,",  # it is no integer
        "maybe: jax.Array | None",
        "-> tuple[State, jax.Array]:",
    ):
        assert part in text, part
    assert "jax.Array" not in body_of(step, *GIVEN)


def unknown(x: Missing, y: "jax.Array") -> None:  # noqa: F821, UP037
    return x + y


class Held:
    def apply(self, x: jax.Array) -> State:
        return jnp.sin(x) + jnp.cos(x) * jnp.tanh(x)


def test_annotations_that_mean_nothing_are_dropped():
    assert "def unknown(x, y):" in body_of(unknown, X, X, comments="user")
    text = body_of(lambda x: Held().apply(x) * 2, X, comments="user")
    assert "def apply(x: jax.Array):" in text


def test_types_of_functions_are_said_when_they_are_asked_for():
    assert "def norm(x, eps=1e-06):\n" in body_of(lambda x: norm(norm(x)), X)
    text = body_of(lambda x: norm(norm(x)), X, types=True)
    assert "def norm(x):  # f32[4] -> f32[4]\n" in text or "# f32[4]" in text


def test_dimensions_have_their_names_for_jaxtyping():
    jaxtyping = pytest.importorskip("jaxtyping")

    def mean(x, w):
        return (x @ w).mean(axis=1) + jnp.zeros((x.shape[0],))

    given = jnp.ones((8, 3)), jnp.ones((3, 5))
    text = body_of(mean, *given, annotate="jaxtyping", symbolic=True)
    assert 'x: Float[Array, "x_rows ' in text, text
    kind = jaxtyping.Float[jax.Array, "batch features"]
    mean.__annotations__ = {"x": kind, "return": kind}
    text = body_of(mean, *given, annotate="jaxtyping")
    assert 'x: Float[Array, "batch features"], w: Float[Array, "3 5"]' in text
    assert '-> Float[Array, "8"]:' in text
    text = untrace.source(mean, annotate="jaxtyping", anonymous=True)(*given).text
    assert "batch" not in text
