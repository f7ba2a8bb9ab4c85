"""`--debug-passes` shows what every pass changed, and changes nothing; passes are checked."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from benchmarks.readability import corpus
from tests.lifting.functions import function
from untrace.cli import main
from untrace.lifting.recorded.checks import check_defined, check_functions
from untrace.lifting.recorded.passes import FINISHING, FUNCTION_PASSES, SHORTENING
from untrace.passes_watched import watching


def program(params, x):
    def layer(p, x, scale):
        y = x @ p["w"]
        y = y + p["b"]
        return jnp.tanh(y * scale)

    for p in params:
        x = layer(p, x, 0.3333333333333333)
    return jnp.sum(x)


PARAMS = [{"w": np.eye(3, dtype=np.float32), "b": np.zeros(3, np.float32)}] * 3
X = np.ones(3, np.float32)


def test_every_pass_is_shown_in_order():
    seen = []
    with watching(lambda name, subject, text: seen.append((name, subject, text))):
        src = untrace.source(jax.grad(program))(PARAMS, X)
    names = [name for name, subject, _ in seen if subject == "layer"]
    assert names[: len(FUNCTION_PASSES) + 1] == ["write", *FUNCTION_PASSES]
    last = [name for name, subject, _ in seen if not subject]
    assert last == [run.__name__.replace("_", " ") for run in (*SHORTENING, *FINISHING)]
    texts = {name: text for name, subject, text in seen if subject == "program"}
    assert "x = layer(params[0], x" in texts["write"]
    assert "for p in params:" in texts["reroll"]
    assert "1 / 3" in seen[-1][2] and "1 / 3" in str(src)


@pytest.mark.parametrize("name", ["deep_mlp", "control_flow"])
def test_watching_changes_nothing(name):
    try:
        given = corpus.load(name)
    except corpus.MissingError:
        pytest.skip("its framework is not installed")
    before = str(untrace.source(given.function)(*given.args))
    with watching(lambda name, subject, text: None):
        assert str(untrace.source(given.function)(*given.args)) == before


def test_command_line(tmp_path):
    file = tmp_path / "model.py"
    file.write_text(
        "import jax.numpy as jnp\n"
        "def f(x):\n"
        "    y = jnp.sin(x) * 0.3333333333333333\n"
        "    return jnp.exp(y) + y\n"
    )
    call = ["show", str(file), "f(jnp.ones(3))"]
    plain = CliRunner().invoke(main, call)
    result = CliRunner().invoke(main, [*call, "--debug-passes"])
    assert result.stdout == plain.stdout
    shown = result.stderr
    assert shown.index("--- write `f`") < shown.index("--- fold `f`")
    assert "--- write floats\n" in shown and "+    y = jnp.sin(x) * (1 / 3)" in shown
    assert "--- unify" not in shown  # which changes nothing


@pytest.mark.parametrize(
    "functions, message",
    [
        ([function("f", "x", "return g(x, x)"), function("g", "x", "return x")], "fit"),
        ([function("f", "x", "return g()"), function("g", "x", "return x")], "fit"),
        ([function("f", "x", "return g(y=x)"), function("g", "x", "return x")], "fit"),
        ([function("f", "x", "return (x")], "no Python"),
        ([function("f", "x", "return x"), function("f", "x", "return x")], "one name"),
    ],
)
def test_what_is_no_program_is_found(functions, message):
    with pytest.raises(AssertionError, match=message):
        check_functions(functions, "unify")


@pytest.mark.parametrize("line", ["return z(x)", "return [z for b in x]", "z.y = x"])
def test_what_nothing_defines_is_found(line):
    with pytest.raises(AssertionError, match=r"in `f`, nothing defines \['z'\]"):
        check_defined([function("f", "x", line)], {"jnp"}.__contains__)


def test_what_is_defined():
    lines = ["y = jnp.sin(x)", "def h(a):", "    return a + y", "return g(len(h(x)))"]
    functions = [function("f", "x", *lines), function("g", "b", "return b")]
    check_defined(functions, {"jnp"}.__contains__)


def test_calls_that_fit():
    taken = function("g", "x, y=1, *args, z, **rest", "return x")
    calls = ["g(1, z=2)", "g(*a)", "g(1, 2, 3, z=1, w=2)", "g(**a)", "g(x=1, z=3)"]
    check_functions([function("f", "a", *calls), taken], "unify")
    hidden = function("f", "a", "g = lambda: a", "return g()")
    check_functions([hidden, taken], "unify")


def test_the_page_about_passes_lists_all_of_them():
    page = (Path(__file__).parent.parent / "docs/design/passes.md").read_text("utf-8")
    listed = re.findall(r"(?m)^\| \*([a-z ]+)\* \|", page)
    names = [
        *FUNCTION_PASSES,
        *(run.__name__.replace("_", " ") for run in (*SHORTENING, *FINISHING)),
    ]
    assert listed == names
