"""Values that are used once are written where they are used, in the same order."""

import jax
import jax.numpy as jnp

import untrace
from untrace.lifting.lines.folding import folded
from untrace.lifting.lines.function_lines import Made

X = jnp.arange(6.0).reshape(2, 3)


def body(function, *args):
    """Recover a function from its jaxpr alone; return its statements."""
    jaxpr = jax.make_jaxpr(function)(*args)
    src = untrace.source(jaxpr, level="api", name="recovered")
    assert src.report.strength == "identical", src.report
    text = str(src).split("def recovered")[1].split("def ")[0]
    return [line.strip() for line in text.strip().split("\n")[1:]]


def test_statement_of_the_user_is_one_line():
    def affine(x):
        y = (x + 1) * 2 - x
        return jnp.sin(y)

    assert body(affine, X) == ["y = (x + 1.0) * 2.0 - x", "return jnp.sin(y)"]


def test_different_statements_stay_apart():
    def steps(x):
        y = x + 1
        z = y * y
        return z / 2

    assert body(steps, X) == ["y = x + 1.0", "z = y * y", "return z / 2.0"]


def test_value_that_is_used_twice_keeps_its_name():
    lines = body(lambda x: (lambda s: s * s)(jnp.sin(x)), X)
    assert lines == ["sine = jnp.sin(x)", "return sine * sine"]


def test_order_of_equations_is_kept():
    def swapped(x, y):
        return jnp.subtract(*[jnp.sin(x), jnp.cos(y)][::-1])

    assert body(swapped, X, X) == ["sine = jnp.sin(x)", "return jnp.cos(y) - sine"]


def test_statement_over_several_lines_is_one():
    def wide(x):
        total = (
            jnp.sin(x)
            + jnp.cos(x)
            + 1
        )  # fmt: skip
        return total**2

    assert body(wide, X)[0] == "total = jnp.sin(x) + jnp.cos(x) + 1.0"


def test_long_statements_are_not_folded_altogether():
    def long(x):
        return jnp.sin(jnp.cos(jnp.tanh(jnp.exp(jnp.log1p(jnp.sqrt(jnp.abs(x) + 1))))))

    jaxpr = jax.make_jaxpr(
        lambda x: long(long(x)) + long(x),
    )(X)
    src = untrace.source(jaxpr, level="api")
    assert max(map(len, str(src).split("\n"))) <= 88


def lines(text, **made):
    """Fold lines, all of which come from one statement."""
    names = [line.split(" = ")[0].strip() for line in text if " = " in line]
    return folded(text, {name: made.get(name, Made(0)) for name in names})


def test_brackets_stand_where_they_are_needed():
    cases = {
        ("a = x + y", "b = a * z"): "(x + y) * z",
        ("a = x * y", "b = a + z"): "x * y + z",
        ("a = x + y", "b = z - a"): "z - (x + y)",
        ("a = x + y", "b = a - z"): "x + y - z",
        ("a = -x", "b = a**2"): "(-x)**2",
        ("a = x**2", "b = -a"): "-(x**2)",
        ("a = x < y", "b = a & z"): "(x < y) & z",
        ("a = x @ y", "b = a.T"): "(x @ y).T",
        ("a = x[0]", "b = a.T"): "x[0].T",
        ("a = x + y", "b = f(a, z)"): "f(x + y, z)",
        ("a = x + y", "b = z[a]"): "z[x + y]",
        ("a = x + y", "b = a[0]"): "(x + y)[0]",
        ("a = 2", "b = a.real"): "(2).real",
    }
    for (first, second), expected in cases.items():
        assert lines([first, second], b=Made(0, is_named=True)) == [f"b = {expected}"]


def test_nested_functions_and_blocks_are_left_alone():
    text = ["a = f(x)", "def g(y):", "    return a + y", "return g(x)"]
    assert lines(text) == text
    text = ["a = f(x)", "with c:", "    b = g(a)", "return b"]
    assert lines(text) == text


def test_reads_of_arguments_go_where_they_are_needed():
    text = ['w = params["w"]', 'b = params["b"]', "c = x @ w", "return c + b"]
    made = {"w": Made(is_read=True), "b": Made(is_read=True), "c": Made(0, True)}
    assert folded(text, made) == ['c = x @ params["w"]', 'return c + params["b"]']


def test_numbers_are_taken_down():
    text = ["a = f(x)", 'b = g(a, a_2="a_3")', "a_2 = f(b)", "a_3 = f(b)"]
    text += ["c = g(a_2.a_3, a_2, a_3, a_3)"]
    kept = Made(0, is_named=True, is_final=True)
    assert lines(text, b=kept, c=kept) == [
        'b = g(f(x), a_2="a_3")',
        "a = f(b)",
        "a_2 = f(b)",
        "c = g(a.a_3, a, a_2, a_2)",
    ]


def test_names_that_nested_functions_know_keep_their_numbers():
    text = ["a = f(x)", "b = g(a)", "a_2 = f(b)", "def h():", "    return a_2"]
    kept = Made(0, is_named=True, is_final=True)
    assert lines(text, b=kept)[1:] == text[2:]


def test_numbers_of_the_user_stay():
    text = ["h = f(x)", "y = g(h)", "h_2 = f(y)", "return h_2, h_2, y"]
    kept = Made(0, is_named=True, is_final=True)
    assert lines(text, y=kept, h_2=kept)[1] == "h_2 = f(y)"


def test_delayed_expressions_are_not_folded_into():
    text = ["a = f(x)", "b = g(lambda: a)", "c = 1", "return b, c, b"]
    assert lines(text)[:2] == text[:2]


def acceleration(v, psi, delta, beta, a):
    f = jnp.array(
        [
            v * jnp.cos(psi + beta),
            v * jnp.sin(psi + beta),
            (v / 0.33)
            * (
                0.17 * 4.7 * (9.81 * 0.17 - a * 0.07) * jnp.sin(delta + psi) ** 2
                - (5.4 * (9.81 * 0.15 + a * 0.07) + 4.7 * (9.81 * 0.17 - a * 0.07))
                * jnp.cos(beta)
                + (psi / v) * (0.17 * 0.17 * 5.4 * (9.81 * 0.15 + a * 0.07))
            )
            - psi,
        ]
    )
    return f * 2


def test_expressions_of_the_user_are_as_long_as_he_wrote_them():
    src = untrace.source(acceleration)(*map(jnp.float32, (1, 2, 3, 4, 5)))
    assert src.report.strength == "identical", str(src.report)
    assert "        [\n            v * jnp.cos(psi + beta),\n" in src.text, src.text
    assert " = v * jnp.cos(" not in src.text and "product" not in src.text, src.text


def test_bits_that_are_compared_stand_in_brackets():
    text = str(untrace.source(lambda x, bit: (x & bit) != 3)(jnp.arange(4), 1))
    assert "return (x & bit) != 3" in text, text
