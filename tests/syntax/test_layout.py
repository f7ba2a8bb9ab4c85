"""Long lines are split exactly as ruff would; short ones are left alone."""

import shutil
import subprocess
import sys

import pytest

from untrace.syntax.layout import WIDTH, lay_out, split_commas

LONG = "argument_with_a_long_name"


def ruff(text):
    command = [
        sys.executable,
        "-m",
        "ruff",
        "format",
        "--isolated",
        "--line-length",
        str(WIDTH),
        "-",
    ]
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, check=True
    )
    return done.stdout


CASES = [
    f"x = function({LONG}, {LONG}, {LONG}, 1)",
    f"x = function({LONG}, {LONG}, {LONG}, {LONG}, {LONG}, 1)",
    f"x = outer(inner({LONG}, {LONG}), {LONG}, {LONG}, key=({LONG}, 1, (2,)))",
    f"x = outer(inner({LONG}, {LONG}, {LONG}, {LONG}), {LONG}, {LONG}, k=[1, 2])",
    f"a, b, c = module.function({LONG}, {LONG}, {LONG}, option={{'k': 1}})",
    f"(a, b), c = module.function({LONG}, ({LONG}, {LONG}), option=None)",
    f"return {LONG}, {LONG}, {LONG}, {LONG}",
    f"return {{'a': {LONG}, 'b': {LONG}, 'c': [{LONG}, {LONG}]}}",
    f"from jax.extend.core.primitives import {', '.join(sorted(f'primitive_{i}_p' for i in range(6)))}",
    f"x = make({LONG}, {LONG}, {LONG})(first_argument, second_argument)",
    f"x = make(first, second)({LONG}, {LONG}, {LONG}, {LONG})",
    f"x = np.array([{', '.join(map(str, range(100, 125)))}])",
    f"x = np.array([{', '.join(map(str, range(100, 116)))}], dtype=np.float32).view(np.int32)",
    f"with context({LONG}, {LONG}), other_context({LONG}):\n    pass",
    f"def function({LONG}_1, {LONG}_2, {LONG}_3, {LONG}_4):\n    pass",
    f"{', '.join(f'result_{i}' for i in range(12))} = function({LONG}, {LONG})",
    f'x = function("a, (string", {LONG}, {LONG}, {LONG})',
    f"x = function(*{LONG}, {LONG}, {LONG}, **options_of_it)",
    "x = " + "f(" * 12 + LONG + ")" * 12 + ".shape",
]


@pytest.mark.parametrize("text", CASES)
def test_long_lines_are_split_as_ruff_does(text):
    text = text.replace("'", '"') if '"' not in text else text
    laid = "\n".join(lay_out(text.split("\n"))) + "\n"
    assert laid == ruff(laid)
    assert laid == ruff(text + "\n")


def test_short_lines_are_left_alone():
    lines = ["x = 1", "", "    return x"]
    assert lay_out(lines) == lines


def test_a_comment_that_does_not_fit_goes_above():
    laid = lay_out([f"    x = function({LONG}, {LONG}, {LONG})  # f32[4,128,32]"])
    assert laid[0] == "    # f32[4,128,32]" and len(laid) > 2


def test_commas_in_brackets_and_strings_do_not_split():
    assert split_commas("a, f(b, c), [d, e], 'f, g'") == [
        "a",
        "f(b, c)",
        "[d, e]",
        "'f, g'",
    ]
    assert split_commas("") == [] and split_commas("a,") == ["a"]


def test_ruff_is_here():
    assert shutil.which("ruff") or ruff("x = 1\n") == "x = 1\n"
