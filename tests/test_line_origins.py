"""`Source.explain` and `--explain`: which of the user's lines a line comes from."""

import inspect
import pickle

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main
from untrace.errors import UntraceError

X = np.linspace(0.1, 1.0, 4, dtype=np.float32)


def scaled(x):
    y = jnp.sin(x) * 2.0
    return y + jnp.cos(y)


def loss(x):
    def body(c, _):
        return scaled(c), c.sum()

    x, rows = jax.lax.scan(body, x, None, length=3)
    return jnp.sum(x * x) + rows.sum()


def program(x):
    value, grad = jax.value_and_grad(loss)(x)
    return value, grad * 3.0


def line_of(text, part):
    """Return the number of the only line that holds something, from 1."""
    (found,) = [i for i, row in enumerate(text.splitlines(), 1) if part in row]
    return found


def place(function, part):
    lines, first = inspect.getsourcelines(function)
    (number,) = [first + i for i, line in enumerate(lines) if part in line]
    return f"test_line_origins.py:{number}"


SOURCE = untrace.source(program)(X)


@pytest.mark.parametrize("level", ["api", "lax"])
def test_a_statement_has_the_line_that_it_comes_from(level):
    src = untrace.source(scaled, level=level)(X)
    found = src.explain(line_of(str(src), "jnp.sin(x)"))
    assert found.call is not None and found.call.place == place(scaled, "jnp.sin")
    assert found.call.text == "y = jnp.sin(x) * 2.0"
    assert "sin" in [name for name, _ in found.users[0].primitives]
    assert found.function == "scaled"


def test_a_function_that_is_called_in_a_loop_and_differentiated():
    text = str(SOURCE)
    found = SOURCE.explain(line_of(text, "return y + jnp.cos(y)"))
    assert {one.place for one in found.users} == {place(scaled, "return")}
    assert {one.kind for one in found.users} == {"derivative", "backward pass"}
    found = SOURCE.explain(line_of(text, "value_and_grad"))
    assert found.call is not None and found.call.place == place(program, "value_and_")
    assert len(found.users) > 4


def test_lines_without_equations():
    text = str(SOURCE)
    for part in ("import jax.numpy", "def loss", "Fingerprint of"):
        found = SOURCE.explain(line_of(text, part))
        assert not found.users and found.call is None
        assert "It makes no equation." in str(found)
    for line in (0, text.count("\n") + 2):
        with pytest.raises(ValueError, match="lines 1 to"):
            SOURCE.explain(line)


def test_what_is_traced_once_is_of_the_line_that_calls_it():
    @jax.jit
    def inner(x):
        return jnp.exp(x) - 1.0

    def outer(x):
        y = inner(x)
        z = inner(y)
        return y * z

    src = untrace.source(outer)(X)
    for name in "yz":
        found = src.explain(line_of(str(src), f"    {name} = inner("))
        assert found.call is not None and f"{name} = inner(" in found.call.text
        assert [n for n, _ in found.users[0].primitives] == ["exp", "sub"]


@pytest.mark.parametrize("size", [40, 200])
def test_lines_of_a_text_with_large_constants(size):
    weights = np.random.default_rng(0).normal(size=(size, size)).astype(np.float32)
    src = untrace.source(lambda x: jnp.tanh(x @ weights))(np.ones(size, np.float32))
    assert src.module.stored  # which are packed, or left out of what is printed
    found = src.explain(line_of(str(src), "return jnp.tanh("))
    assert [name for one in found.users for name, _ in one.primitives] == [
        "dot_general",
        "tanh",
    ]


def test_decisions_that_may_be_refused_are_named():
    found = SOURCE.explain(line_of(str(SOURCE), "return y + jnp.cos(y)"))
    numbers = {number for number, _ in found.decisions}
    assert numbers and all(
        SOURCE.decisions[number - 1] == decision for number, decision in found.decisions
    )
    assert "--refuse" in str(found)


def test_a_pickled_source_has_no_program():
    copy = pickle.loads(pickle.dumps(SOURCE))
    with pytest.raises(UntraceError, match="recover it again"):
        copy.explain(1)


def test_command_line(tmp_path):
    file = tmp_path / "model.py"
    file.write_text("import jax.numpy as jnp\ndef f(x):\n    return jnp.sin(x) + x\n")
    call = ["show", str(file), "f(jnp.ones(3))", "--explain"]
    text = CliRunner().invoke(main, call[:-1]).stdout
    line = line_of(text, "return jnp.sin(x) + x")
    result = CliRunner().invoke(main, [*call, str(line)])
    assert "from model.py:3 in `f`: return jnp.sin(x) + x" in result.output
    assert result.exit_code == 0
    result = CliRunner().invoke(main, [*call, "999"])
    assert result.exit_code == 2 and "no line 999" in result.output
