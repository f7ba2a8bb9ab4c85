"""Code that is no part of a program passes on what the program calls."""

import importlib.util

import jax.numpy as jnp
import pytest

import untrace
from untrace.recovery.classifying import pass_over, write_inside

BETWEEN = """
import jax.numpy as jnp


def scaled(x, by=2.0):
    return _product(x, by)


def _product(x, by):
    shifted = jnp.sin(x)
    return jnp.multiply(shifted, by)
"""


@pytest.fixture
def between(tmp_path):
    path = tmp_path / "between.py"
    path.write_text(BETWEEN)
    spec = importlib.util.spec_from_file_location("between", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pass_over(str(tmp_path))
    write_inside(str(tmp_path))
    return module


def body(function):
    text = untrace.source(function, name="f")(jnp.ones(3)).module.body
    lines = text[text.index("def f") : text.index("def example_args")].split("\n")
    return [line.partition("  # ")[0] for line in lines if line]


def test_what_it_calls_is_named_by_its_variables_and_by_the_line_around(between):
    def f(x):
        doubled = between.scaled(x)
        return doubled + 1.0

    assert body(f) == [
        "def f(x):",
        "    shifted = jnp.sin(x)",
        "    doubled = jnp.multiply(shifted, 2.0)",
        "    return doubled + 1.0",
    ]


def test_a_loop_holds_all_calls_that_one_line_makes(between):
    def f(x):
        for _ in range(4):
            x = between.scaled(x)
        return x

    assert body(f) == [
        "def f(x):",
        "    for _ in range(4):",
        "        shifted = jnp.sin(x)",
        "        x = jnp.multiply(shifted, 2.0)",
        "    return x",
    ]
