"""What a module says of the user's file stands beside the statements."""

import importlib.util

import jax
import numpy as np
import pytest

import untrace
from untrace import jaxapi
from untrace.jaxapi.module_copy import place_of

PROGRAM = """
import jax
import jax.numpy as jnp


def scaled(x):
    return jnp.tanh(x) * 2


def loss(x, y):
    error = scaled(x) - y
    with jax.named_scope("total"):
        return jnp.sum(
            error**2
        )
"""
X = np.ones(3, np.float32)


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "program.py"
    path.write_text(PROGRAM)
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return path, module.loss


def comments(program):
    text = str(untrace.source(program, comments="origin"))
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


LINES = [
    "# return jnp.tanh(x) * 2  (program.py:7)",
    "# error = scaled(x) - y  (program.py:11)",
    "# return jnp.sum(error**2)  (program.py:13)",
]


@pytest.mark.parametrize("form", ["lowered", "text", "exported"])
def test_statements_are_quoted_as_those_of_functions_are(program, form):
    _, loss = program
    lowered = jax.jit(loss).lower(X, X)
    forms = {
        "lowered": lambda: lowered,
        "text": lambda: lowered.as_text(debug_info=True),
        "exported": lambda: jax.export.export(jax.jit(loss))(X, X),
    }
    assert comments(forms[form]()) == comments(jax.make_jaxpr(loss)(X, X)) == LINES


def test_scopes_come_back_and_names_of_the_file(program):
    _, loss = program
    text = jax.jit(loss).lower(X, X).as_text(debug_info=True)
    src = str(untrace.source(text, level="api", scopes=True))
    assert 'with jax.named_scope("total"):' in src
    assert "error = " in src


def test_a_file_that_is_another_one_now_is_not_quoted(program):
    path, loss = program
    other = path.with_name("other.py")
    other.write_text(PROGRAM.replace("import jax\n", "import jax, os\n\n", 1))
    text = jax.jit(loss).lower(X, X).as_text(debug_info=True)
    found = comments(text.replace(str(path), str(other)))
    assert {*found} == {f"# other.py:{line}" for line in (7, 11, 13, 14)}


def test_without_locations_there_are_no_comments(program):
    _, loss = program
    assert comments(jax.jit(loss).lower(X, X).as_text()) == []


def test_a_location_says_all_frames_innermost_first():
    found = place_of(
        'loc("jit(f)/mul"(callsite("f"("/a/b.py":3:4 to :9) at '
        '"<module>"("C:\\\\c.py":7:0 to 8:2))))'
    )
    assert found.scopes == "jit(f)/mul"
    assert [tuple(frame) for frame in found.frames] == [
        ("/a/b.py", "f", 3, 4, 3, 9),
        ("C:\\c.py", "<module>", 7, 0, 8, 2),
    ]
    assert place_of('loc("-":3:8)')[:4] == ("", "", 3, 8)


@pytest.mark.parametrize("file", ["", "a\0b.py", "x.py", '"; import os #'])
def test_any_file_and_line_can_be_named(file):
    place = jaxapi.CodePlace(file, "f\n", 2**70, 5, 1, 0)
    assert jaxapi.code_at(place) is None
    code = jaxapi.code_at(place._replace(line=3, end_line=3, end_column=9))
    assert code is None or code.co_filename == file
