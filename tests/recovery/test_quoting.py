"""Comments quote what ran, whole statements, or nothing but the place."""

import importlib.util
import linecache
import re

import jax
import jax.numpy as jnp
import pytest

import untrace
from untrace.recovery.quoting import MAX_LENGTH, quoted

BEFORE = """\
import jax.numpy as jnp


def loss(x):
    y = jnp.sin(x)
    return jnp.sum(y * y)
"""


def load(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def comments(text):
    return re.findall(r"# (?:backward of: )?(.*\.py.*)", text.split('"""', 2)[2])


def texts(loss):
    x = jnp.ones(3)
    yield str(untrace.source(loss, comments="origin")(x))
    yield str(untrace.source(loss, level="lax", comments="origin")(x))
    yield str(untrace.source(jax.grad(loss), expand="grad")(x))


def test_unchanged_file_is_quoted(tmp_path):
    module = load(tmp_path / "same.py", BEFORE)
    first, last = "y = jnp.sin(x)  (same.py:5)", "return jnp.sum(y * y)  (same.py:6)"
    calls, equations, gradient = map(comments, texts(module.loss))
    assert {*calls} == {first}  # what is returned has no name
    assert {*equations} == {*gradient} == {first, last}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sin(x)", "cos(x)"),
        ("y * y", "y + y"),
        ("jnp.sin(x)", "jnp.sin(x) + 1.0"),
        ("def loss", "# a line more\ndef loss"),
        ("import jax.numpy as jnp\n", "import jax.numpy as jnp, jax\n\n"),
        (BEFORE, "def loss(x:\n"),
        (BEFORE, ""),
    ],
)
def test_changed_file_is_not_quoted(tmp_path, old, new):
    path = tmp_path / "changed.py"
    module = load(path, BEFORE)
    path.write_text(BEFORE.replace(old, new))
    linecache.clearcache()
    for text in texts(module.loss):
        found = comments(text)
        assert found and {*found} <= {"changed.py:5", "changed.py:6"}, found


def test_function_beside_a_changed_one_is_quoted(tmp_path):
    path = tmp_path / "beside.py"
    module = load(path, BEFORE)
    path.write_text(BEFORE + "\n\ndef other(x):\n    return x\n")
    for text in texts(module.loss):
        assert "y = jnp.sin(x)  (beside.py:5)" in comments(text)


def test_file_that_is_gone_is_not_quoted(tmp_path):
    path = tmp_path / "gone.py"
    module = load(path, BEFORE)
    path.unlink()
    linecache.clearcache()
    for text in texts(module.loss):
        assert {*comments(text)} <= {"gone.py:5", "gone.py:6"}


def test_file_that_was_imported_again_is_quoted(tmp_path):
    path = tmp_path / "again.py"
    first = load(path, BEFORE)
    assert any("sin(x)  (again.py" in text for text in texts(first.loss))
    second = load(path, BEFORE.replace("jnp.sin(x)", "jnp.tanh(x * 2.0)"))
    for text in texts(second.loss):
        assert any("jnp.tanh(x * 2.0)  (again.py:5)" in c for c in comments(text))


STATEMENTS = '''\
import jax
import jax.numpy as jnp


def f(x, flag=True):
    a = jnp.where(
        x > 0,  # where it is positive
        x * 2.0,
        -x,
    )
    b = (
        jnp.exp(a)
        .sum(axis=0)
        .reshape(1)
    )
    c = b + \\
        jnp.sin(b)
    d = c; e = jnp.cos(d)  # two
    if jnp.ndim(jnp.negative(e)) and flag: e = jnp.tan(e)
    for part in jnp.split(
        jnp.concatenate([e, e]),
        2,
    ):
        e = e + part
    s = """one
    two"""; g = e * len(
        s)
    é = jnp.abs(g); k = (jnp.floor(é),
    )
    return k[0]
'''

EXPECTED = {
    6: "a = jnp.where(x > 0, x * 2.0, -x)",
    11: "b = (jnp.exp(a).sum(axis=0).reshape(1))",
    16: "c = b + jnp.sin(b)",
    19: "e = jnp.tan(e)",
    20: "for part in jnp.split(jnp.concatenate([e, e]), 2):",
    24: "e = e + part",
    26: "g = e * len(s)",
}


def test_statements_are_quoted_whole(tmp_path):
    module = load(tmp_path / "whole.py", STATEMENTS)
    text = str(untrace.source(module.f, level="lax", comments="origin")(jnp.ones(3)))
    found = dict.fromkeys(comments(text))
    for line, statement in EXPECTED.items():
        assert f"{statement}  (whole.py:{line})" in found, (line, [*found])
    for statement in ("e = jnp.cos(d)", "é = jnp.abs(g)", "k = (jnp.floor(é),)"):
        assert any(line.startswith(f"{statement}  (whole.py:") for line in found)
    assert not any("positive" in line or "two" in line for line in found)


def test_long_statements_are_shortened(tmp_path):
    sums = " + ".join(f"jnp.sin(x * {i}.0)" for i in range(40))
    module = load(
        tmp_path / "long.py",
        f"import jax.numpy as jnp\n\n\ndef f(x):\n    return {sums}\n",
    )
    text = str(untrace.source(module.f, level="lax", comments="origin")(jnp.ones(3)))
    (line,) = {*comments(text)}
    assert line.endswith(" ...  (long.py:5)")
    assert len(line) < MAX_LENGTH + 20


def test_of_a_long_statement_a_part_is_quoted(tmp_path):
    products = ",\n        ".join(f"jnp.sin(x * {i}.0)" for i in range(1, 30))
    module = load(
        tmp_path / "long.py",
        "import jax.numpy as jnp\n\n\ndef f(x):\n    return (\n"
        f"        {products},\n        jnp.log(\n            x\n        ),\n    )\n",
    )
    reduction = untrace.reduce(module.f, keep="inf()")(jnp.float32(0))
    assert "# jnp.log(x)  (long.py:" in str(reduction.source)


def test_code_without_a_file_has_its_place():
    space = {}
    exec(compile("def f(x):\n    return x + x\n", "<made>", "exec"), space)
    code = space["f"].__code__
    assert quoted(code, len(code.co_code) - 2) == "<made>:2"
