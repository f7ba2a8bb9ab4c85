"""What a `Comparison` says, in text, in colours and as HTML, and on the command line."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner, Result
from jax import lax
from rich.console import Console

import untrace
from untrace.cli import main

X = np.linspace(-1.0, 1.0, 4, dtype=np.float32)
CHECKPOINT = jax.make_jaxpr(jax.checkpoint(jnp.sin))(X).eqns[0].primitive.name
ROWS = np.ones((3, 4), np.float32)


def compared(f: Callable[..., Any], g: Callable[..., Any], *args: Any) -> Any:
    return untrace.diff(f, g)(*(args or (X,)))


def only(found: untrace.Comparison) -> Any:
    assert found.verdict == "different"
    assert len(found.differences) == 1, str(found)
    return found.differences[0]


def test_names_and_parameters_do_not_count() -> None:
    def first(x: Any, scale: Any) -> Any:
        shifted = x + 1.0
        return shifted * scale

    def second(values: Any, s: Any) -> Any:
        y = values + 1.0
        return y * s

    assert compared(first, second, X, X).verdict == "equal"


class Pair(NamedTuple):
    a: Any
    b: Any


class Couple(NamedTuple):
    a: Any
    b: Any


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["value", "kind"], meta_fields=[]
)
@dataclasses.dataclass
class Labelled:
    value: Any
    kind: Any


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda x: Pair(x, x + 1.0), lambda x: Couple(x, x + 1.0)),
        (lambda x: Labelled(x, "a"), lambda x: Labelled(x, "b")),
        (lambda x: Labelled(x, "a"), lambda x: Labelled(x, None)),
        (lambda x: Labelled(x, None), lambda x: x),
        (lambda x: Pair(x, x + 1.0), lambda x: {"a": x, "b": x + 1.0}),
    ],
)
def test_an_object_is_no_other_one(first: Any, second: Any) -> None:
    assert "in another way" in only(compared(first, second)).what
    assert "in another way" in only(compared(second, first)).what
    assert compared(first, first).verdict == "equal"


def test_an_object_may_be_a_named_tuple_of_a_file(tmp_path: Path) -> None:
    def function(x: Any) -> Any:
        return Labelled(x, x + 1.0)

    path = untrace.source(function)(X).save(tmp_path / "saved.py")
    assert untrace.diff(function, path)(X).verdict == "equal"


def test_a_file_with_stand_ins_is_itself(tmp_path: Path) -> None:
    def host(a: Any) -> Any:
        return a

    def function(x: Any) -> Any:
        return jax.pure_callback(host, x, x)

    path = untrace.source(function)(X).save(tmp_path / "saved.py")
    found = untrace.diff(path, path)
    assert found.verdict == "equal"
    assert "stand-in" in found.notes[0]


def test_what_traced_functions_were_told_is_said() -> None:
    donating, plain = (
        jax.jit(lambda x: x * 2.0, donate_argnums=given).trace(X) for given in (0, ())
    )
    (note,) = untrace.diff(donating, plain).notes
    assert "donated arguments" in note
    assert not untrace.diff(plain, plain).notes


def test_order_calls_and_dead_statements_are_equivalent_and_listed() -> None:
    def first(x: Any) -> Any:
        a, b = jnp.sin(x), jnp.cos(x)
        return a + b

    @jax.jit
    def second(x: Any) -> Any:
        b, a = jnp.cos(x), jnp.sin(x)
        jnp.exp(x)
        return a + b

    found = compared(first, second)
    assert found.verdict == "equivalent"
    kinds = [change.kind for change in found.differences]
    assert kinds == ["call", "unused", "moved"], kinds
    assert "moved: a = jnp.sin(x)" in str(found)


KINDS: dict[str, tuple[Any, Any, str, str]] = {
    "primitive": (jnp.sin, jnp.cos, "primitive", "`sin` became `cos`"),
    "literal": (lambda x: x * 2.0, lambda x: x * 2.5, "literal", "2.0 became 2.5"),
    "param": (
        lambda x: jnp.cumsum(x),
        lambda x: lax.cumsum(x, reverse=True),
        "param",
        "`reverse` was False, is True",
    ),
    "operand": (
        lambda x: jnp.sin(x) - x,
        lambda x: x - jnp.sin(x),
        "operand",
        "operands 0 and 1 are exchanged",
    ),
    "constant": (
        lambda x: x + np.array([1.0, 2.0, 3.0, 4.0], np.float32),
        lambda x: x + np.array([1.0, 2.0, 5.0, 4.0], np.float32),
        "constant",
        "1 of 4 elements differ, the first at [2]: 3.0 became 5.0",
    ),
    "result": (
        lambda x: (jnp.sin(x), x),
        lambda x: (x, jnp.sin(x)),
        "result",
        "result 0 was",
    ),
    "tree": (
        lambda x: {"a": x},
        lambda x: {"b": x},
        "result",
        "put together in another way",
    ),
    "added": (lambda x: x + 1.0, lambda x: jnp.sin(x + 1.0), "added", ""),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_differs_is_said_in_words(name: str) -> None:
    before, after, kind, words = KINDS[name]
    found = compared(before, after)
    assert found.verdict == "different"
    assert kind in [change.kind for change in found.differences], str(found)
    assert words in " ".join(change.what for change in found.differences), str(found)
    assert words in " ".join(str(found).split())


def scan(scale: float) -> Callable[..., Any]:
    def body(carry: Any, row: Any) -> tuple[Any, Any]:
        carry = jnp.tanh(carry * row) * scale
        return carry, carry

    return lambda x: lax.scan(body, x, ROWS)


def cond(scale: float) -> Callable[..., Any]:
    return lambda x: lax.cond(x[0] > 0, jnp.sin, lambda v: v * scale, x)


def loop(scale: float) -> Callable[..., Any]:
    return lambda x: lax.while_loop(lambda v: jnp.sum(v) < scale, lambda v: v + 1.0, x)


def rule(scale: float) -> Callable[..., Any]:
    @jax.custom_jvp
    def f(x: Any) -> Any:
        return jnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), tangents[0] * scale))
    return f


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (scan, "scan/jaxpr"),
        (cond, "cond/branches[0]"),
        (loop, "while/cond_jaxpr"),
        (rule, "custom_jvp_call/jvp"),
        (lambda scale: jax.jit(scan(scale)), "jit/jaxpr/scan/jaxpr"),
        (
            lambda scale: jax.checkpoint(cond(scale)),
            f"{CHECKPOINT}/jaxpr/cond/branches[0]",
        ),
    ],
)
def test_the_innermost_place_is_named(make: Any, path: str) -> None:
    change = only(compared(make(2.0), make(2.5)))
    assert change.path.startswith(path)
    assert change.what == "2.0 became 2.5"
    assert "test_comparison.py:" in change.before_line or path.startswith("custom")


def test_one_more_captured_value_is_found_inside_of_a_loop() -> None:
    def program(is_shifted: bool) -> Callable[..., Any]:
        def f(x: Any, y: Any, z: Any) -> Any:
            def body(carry: Any, row: Any) -> tuple[Any, None]:
                carry = carry * row + y
                return (carry + z if is_shifted else carry), None

            return lax.scan(body, x, ROWS)[0]

        return f

    found = compared(program(False), program(True), X, X + 1, X + 2)
    inside = [c for c in found.differences if c.path == "scan/jaxpr"]
    assert [c.kind for c in inside] == ["added", "result"], str(found)


def test_types_that_follow_from_an_input_are_not_differences() -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x) * x + x

    before = jax.make_jaxpr(f)(X)
    after = jax.make_jaxpr(f)(np.ones(7, np.float32))
    change = only(untrace.diff(before, after))
    assert change.kind == "input"
    assert "was f32[4], is f32[7]" in change.what


def test_inputs_are_matched_by_name_if_one_is_new() -> None:
    before = jax.make_jaxpr(lambda x, y: x - y)(X, X)
    after = jax.make_jaxpr(lambda key, x, y: x - y * key)(X, X, X)
    found = untrace.diff(before, after)
    assert [c.kind for c in found.differences] == ["input", "operand", "added"]


def test_order_of_effects_is_a_difference() -> None:
    def prints(*labels: str) -> Callable[..., Any]:
        def f(x: Any) -> Any:
            for label in labels:
                jax.debug.print(label + " {x}", x=x, ordered=True)
            return x

        return f

    found = compared(prints("a", "b"), prints("b", "a"))
    assert found.verdict == "different"
    assert found.differences


def test_a_comparison_is_neither_true_nor_false() -> None:
    with pytest.raises(TypeError, match="verdict"):
        bool(compared(jnp.sin, jnp.sin))


def test_html_is_escaped_and_terminals_get_colours() -> None:
    before = jax.make_jaxpr(lambda d: d["<b>&"] * 2.0)({"<b>&": X})
    after = jax.make_jaxpr(lambda d: d["<b>&"] * 3.0)({"<b>&": X})
    found = untrace.diff(before, after)
    page = found._repr_html_()
    assert "<b>" not in page and "&lt;b&gt;" in page
    console = Console(force_terminal=True, color_system="standard", record=True)
    with console.capture() as captured:
        console.print(found)
    assert "\x1b[3" in captured.get()


def test_strings_from_outside_cannot_steer_the_terminal() -> None:
    name = "a\x1b[31m\nb"
    before = jax.make_jaxpr(lambda d: d[name] * 2.0)({name: X})
    after = jax.make_jaxpr(lambda d: d[name] * 3.0)({name: X})
    found = untrace.diff(before, after)
    assert "\x1b" not in str(found) and "\x1b" not in found._repr_html_()


def test_sources_traced_functions_and_files_are_compared(tmp_path: Path) -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x) * 2.0

    source = untrace.source(f, level="lax")(X)
    path = source.save(tmp_path / "f.py")
    traced = jax.jit(f).trace(X)
    assert untrace.diff(source, f)(X).verdict == "equal"
    assert untrace.diff(path, source).verdict == "equal"
    assert untrace.diff(traced, str(path)).verdict == "equal"


def long_program(n: int, changed: int | None) -> Callable[..., Any]:
    def f(x: Any, w: Any) -> Any:
        for i in range(n):
            x = x + jnp.sin(x * (2.5 if i == changed else 2.0)) * w
        return x

    return f


def test_ten_thousand_equations_take_seconds() -> None:
    before = jax.make_jaxpr(long_program(2500, None))(X, X)
    after = jax.make_jaxpr(long_program(2500, 1000))(X, X)
    start = time.perf_counter()
    found = untrace.diff(before, after)
    text = str(found)
    assert time.perf_counter() - start < 30
    assert only(found).what == "2.0 became 2.5"
    assert text.count("\n") < 20


MODEL = """\
import jax.numpy as jnp

x = jnp.ones(3)

def f(x):
    return jnp.sin(x) * {scale}

def g(x):
    y = jnp.sin(x)
    return y * {scale}
"""


def run(*args: Any) -> Result:
    return CliRunner().invoke(main, ["diff", *map(str, args)])


def test_exit_status_is_that_of_diff(tmp_path: Path) -> None:
    old, new = tmp_path / "old.py", tmp_path / "new.py"
    old.write_text(MODEL.format(scale=2.0))
    new.write_text(MODEL.format(scale=2.5))
    same = run(old, old, "f(x)", "g(x)")
    assert (same.exit_code, same.stdout.split(":")[0]) == (0, "equal")
    other = run(old, new, "f(x)")
    assert other.exit_code == 1
    assert "2.0 became 2.5   old.py:6 → new.py:6" in other.stdout
    assert run(old, new, "f(x)", "-q").stdout == ""
    assert run(old, new, "h(x)").exit_code == 2
    assert run(old, tmp_path / "none.py", "f(x)").exit_code == 2
