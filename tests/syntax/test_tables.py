"""Arrays of more than a dozen elements are not written one number a line."""

import ast

import numpy as np
import pytest

import untrace
from untrace.syntax.formatting import format_source
from untrace.syntax.tables import MAX_COLUMN, with_tables

ROW = np.random.default_rng(0).normal(size=20).astype(np.float32)
SQUARE = np.random.default_rng(1).normal(size=(8, 8)).astype(np.float32)


def scaled(x):
    return (x * ROW).sum() + (SQUARE @ x[:8]).sum()


def longest_column(text):
    longest = column = 0
    for line in text.split("\n"):
        item = line.strip()
        is_number = (
            item.endswith(",") and item[:-1].lstrip("-").replace(".", "").isdigit()
        )
        column = column + 1 if is_number else 0
        longest = max(longest, column)
    return longest


@pytest.mark.parametrize("level", ["api", "lax"])
@pytest.mark.parametrize("inputs", ["drawn", "given"])
def test_numbers_of_constants_and_inputs_stand_in_full_lines(level, inputs):
    src = untrace.source(scaled, level=level, example_inputs=inputs)(ROW)
    body = src.module.body
    assert src.report.is_verified
    assert longest_column(body) <= MAX_COLUMN
    assert max(map(len, body.split("\n"))) <= 88
    assert format_source(body) == body


def test_a_program_is_the_same_afterwards():
    numbers = ", ".join(str(n / 7) for n in range(30))
    rows = ", ".join(f"[{numbers}]" for _ in range(3))
    text = format_source(
        f"a = {{'b': f([{numbers}]), 'c': [{rows}]}}\n\n\n"
        f"def g(x=[{numbers}]):\n    return x, [{numbers}, 'a']\n"
    )
    made = with_tables(text)
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(text))
    assert format_source(made) == made
    assert made.count("# fmt: skip") == 1  # what is no table, and what has others in it


def test_rows_of_few_numbers_stand_in_full_lines():
    column = ", ".join(f"[{n / 7}]" for n in range(30))
    text = format_source(f"a = np.array([[{column}], [{column}]])\n")
    made = with_tables(text)
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(text))
    assert len(text.split("\n")) > 60 > 30 > len(made.split("\n"))


def test_short_arrays_stay_as_they_are():
    text = format_source(f"a = f([{', '.join(str(n / 7) for n in range(12))}])\n")
    assert with_tables(text) == text


def test_what_an_array_is_made_of_opens_in_the_line_of_the_call():
    numbers = ", ".join(str(n / 7) for n in range(30))
    text = format_source(
        f"a = np.array([{numbers}], dtype=np.float32)\n"
        f"b = f([{numbers}], [{numbers}])\n"
        f"c = f([{numbers}], é) + g(h([{numbers}], 'x', *d), [1])\n"
    )
    made = with_tables(text)
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(text))
    assert format_source(made) == made
    assert made.startswith("a = np.array([\n    0.0, ")
    assert "\n], dtype=np.float32)  # fmt: skip\n" in made
    assert '\n    ], "x", *d),\n' in made


def test_tuples_are_written_in_full_lines_too():
    numbers = ", ".join(map(str, range(100, 140)))
    text = format_source(
        f"def f(x):\n    i = jnp.array(({numbers}))\n    return x[i]\n"
    )
    made = with_tables(text)
    assert "    i = jnp.array((\n        100, 101," in made, made
    assert "\n    ))  # fmt: skip\n" in made
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(text))
    assert format_source(made) == made


def test_tuples_of_one_number_stay_tuples():
    text = format_source(f"ROWS = ({', '.join(f'({n},)' for n in range(50))})\n")
    made = with_tables(text)
    assert "(0,), (1,), (2,)," in made, made
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(text))


def test_indices_are_no_tuples_of_numbers():
    text = "x[\n" + "".join(f"    {n},\n" for n in range(20)) + "]\n"
    assert with_tables(text) == text
