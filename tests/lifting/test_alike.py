"""Statements that are alike become loops and lists."""

import jax
import jax.numpy as jnp

import untrace
from untrace.lifting.lines.alike import without_repetition
from untrace.lifting.lines.function_lines import Made


def written(*lines, made=None):
    names = {line.partition(" = ")[0] for line in lines}
    known = {name: Made() for name in names} if made is None else made
    locals_ = {*names, *"abcdefgh"}
    return without_repetition(lines, known, locals_, lambda hint: f"{hint}_2")


def test_chain_is_a_loop():
    lines = ["y = f(a)", *[f"y_{i} = f(y_{i - 1})" for i in range(3, 9)]]
    lines[1] = "y_3 = f(y)"
    assert written(*lines, "return y_8") == [
        "y_8 = a",
        "for _ in range(7):",
        "    y_8 = f(y_8)",
        "return y_8",
    ]


def test_chain_whose_values_are_used_is_left_alone():
    lines = ["y = f(a)", "y_2 = f(y)", "y_3 = f(y_2)", "y_4 = f(y_3)"]
    assert written(*lines, "return y, y_2, y_3, y_4") == [
        *lines,
        "return y, y_2, y_3, y_4",
    ]


def test_expressions_that_differ_in_a_value_are_a_list():
    lines = ["y = f(a, h)", "y_2 = f(b, h)", "y_3 = f(c, h)", "y_4 = f(d, h)"]
    assert written(*lines, "return y, y_2, y_3, y_4") == [
        "y, y_2, y_3, y_4 = [f(value, h) for value in (a, b, c, d)]",
        "return y, y_2, y_3, y_4",
    ]


def test_turns_of_several_statements_are_one_expression():
    pairs = zip(["", "_2", "_3", "_4"], "abcd", "efgh")
    lines = [f"u{n} = f({a})!y{n} = g(u{n}, {b})" for n, a, b in pairs]
    split = [part for line in lines for part in line.split("!")]
    target = "y, y_2, y_3, y_4"
    source = "zip((a, b, c, d), (e, f, g, h))"
    assert written(*split) == [
        f"{target} = [g(f(value), other) for value, other in {source}]"
    ]


def test_copies_of_literals_are_copies():
    lines = [
        "y = jnp.copy(a)",
        "y_2 = copy_p.bind(np.int32(0))",
        "y_3 = jnp.copy(b)",
        "y_4 = copy_p.bind(1)",
    ]
    assert written(*lines) == [
        "y, y_2, y_3, y_4 = [copy_p.bind(value) for value in (a, np.int32(0), b, 1)]"
    ]
    assert written(*lines[:2]) == lines[:2]


def test_order_of_evaluation_is_kept():
    lines = [
        part
        for n, a in zip(["", "_2", "_3", "_4"], "abcd")
        for part in (f"u{n} = f({a})", f"v{n} = g({a})", f"y{n} = v{n} - u{n}")
    ]
    assert written(*lines) == lines


def test_names_of_the_user_are_left_alone():
    lines = ["y = f(a)", "y_2 = f(b)", "y_3 = f(c)", "y_4 = f(d)"]
    made = {line.partition(" = ")[0]: Made(is_named=True) for line in lines}
    assert written(*lines, made=made) == lines


def test_functions_are_no_values():
    lines = ["y = f.sin(a)", "y_2 = jnp.sin(a)", "y_3 = np.sin(a)", "y_4 = f.sin(a)"]
    assert written(*lines) == lines


def test_repetition_traces_the_same():
    def rounds(x):
        for _ in range(6):
            x = jnp.tanh(x)
        parts = [jnp.exp(part) for part in (x, x + 1, x * 2, x - 3, x / 4)]
        return [part * other for part, other in zip(parts, parts[::-1])]

    src = untrace.source(jax.make_jaxpr(rounds)(jnp.ones(3)), level="api")
    assert src.report.is_verified
