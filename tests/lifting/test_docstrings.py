"""Docstrings of the user's own functions come back as they were written."""

import ast
import inspect

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main
from untrace.lifting.heads import plain_head
from untrace.lifting.printing import Function, with_docstrings
from untrace.static_check import check_file
from untrace.syntax.text import kept_docstring


def norm(x):
    r"""Scale to length one.

    It is $\frac{x}{|x|}$ with 0.3 and "quotes".

        indented {x.__class__}
    """
    n = jnp.sqrt(jnp.sum(x**2))
    y = x / n
    return y * jnp.cos(n) + y


@jax.jit
def layer(w, x):
    """Apply a layer."""

    def inner(z):
        """Be inside."""
        return jnp.tanh(z) + x[0] * jnp.sin(z)

    return norm(jax.vmap(inner)(x @ w))


def model(p, x):
    """The model:
    all of it."""
    for w in p:
        x = layer(w, x)
    return x


def loss(p, x):
    """'''The loss.'''"""
    return model(p, x).sum()


P, X = [jnp.ones((4, 4))] * 3, jnp.ones(4)


def docstrings(text):
    """The docstrings of all functions, by their names."""
    return {
        node.name: inspect.cleandoc(ast.get_docstring(node, clean=False) or "")
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.FunctionDef)
    }


EXPECTED = {
    "norm": inspect.getdoc(norm),
    "layer": "Apply a layer.",
    "inner": "Be inside.",
    "model": "The model:\nall of it.",
    "loss": "'''The loss.'''",
}


@pytest.mark.parametrize("function", [loss, jax.jit(loss), jax.grad(loss)])
def test_docstrings_come_back(function):
    src = untrace.source(function)(P, X)
    assert src.report.strength == "identical", str(src.report)
    found = {**docstrings(src.text), "example_args": ""}
    name = "grad_of_loss" if "grad_of_loss" in found else ""
    assert found == {**EXPECTED, **({name: ""} if name else {}), "example_args": ""}
    assert r"$\frac{x}{|x|}$" in src.text  # raw, as it was
    assert check_file(src.text.encode()) == []


def test_docstrings_are_left_out_where_they_are_not_wanted():
    for options in ({"comments": "none"}, {"anonymous": True}):
        found = docstrings(untrace.source(loss, **options)(P, X).text)
        assert not any(found.values()), found
    for comments in ("types", "origin"):
        text = untrace.source(loss, comments=comments)(P, X).text
        assert docstrings(text)["layer"] == "Apply a layer."


def test_libraries_keep_their_docstrings_to_themselves():
    def smooth(x):
        """Be smooth."""
        return jnp.convolve(jax.nn.silu(x), jnp.ones(3))

    found = docstrings(untrace.source(smooth)(X).text)
    assert {name for name, doc in found.items() if doc} == {"smooth"}


def test_functions_that_became_one_say_what_all_of_them_said():
    def scaled(number, doc):
        def scale(x):
            return jnp.tanh(x * number) * jnp.cos(x + number) + jnp.sin(x * number)

        scale.__code__ = scale.__code__.replace(
            co_consts=(doc, *scale.__code__.co_consts[1:]),
            co_flags=scale.__code__.co_flags | getattr(inspect, "CO_HAS_DOCSTRING", 0),
        )
        return scale

    one, other, same = scaled(0.3, "One."), scaled(0.7, "Other."), scaled(0.9, "One.")
    text = untrace.source(lambda x: one(other(x)))(X).text
    assert text.count("def scale(") == 1 and '"""One' not in text
    text = untrace.source(lambda x: one(same(x)))(X).text
    assert docstrings(text)["scale"] == "One."


def test_functions_of_one_name_in_one_place_have_their_own_or_none():
    function = Function(
        "f", plain_head("x"), ["def g(x):", "    return x", "return g(x)"]
    )
    function.docs = {"": "F.", "g": "G.\n\nMore."}
    assert function.described_lines(set()) == [
        "def f(x):",
        '    """F."""',
        "    def g(x):",
        '        """G.',
        "",
        "        More.",
        '        """',
        "        return x",
        "    return g(x)",
    ]
    lines = ["def f(x):", "    def g(x):", "        def h(x):", "    def h(x):"]
    written = with_docstrings(lines, {"g.h": "Inner."})
    assert written == [*lines[:3], '            """Inner."""', lines[3]]


def activated(x, kind):
    """Apply an activation.

    Args:
      x: The input.
    """
    if kind == "relu":
        return jnp.maximum(x, 0) * 2
    return jnp.cos(x) + jnp.exp(x)


def test_the_whole_docstring_is_shown_once():
    text = untrace.source(lambda x: activated(activated(x, "relu"), "cos"))(X).text
    found = [docstrings(text)[f"activated_{kind}"] for kind in ("relu", "cos")]
    assert found == [inspect.getdoc(activated), "Apply an activation."]


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        'ends in a quote"',
        "ends in a backslash\\",
        '"""',
        'a """ in the middle \\" of it',
        "two\n  lines \\d\n",
        "a line ends in \\\nand goes on",
        "\\N{DASH} \\u20 {} %s",
        '"',
        "\\",
    ],
)
def test_any_text_can_be_a_docstring(text):
    module = ast.parse(f"def f():\n    {kept_docstring(text)}\n")
    assert [type(node) for node in module.body[0].body] == [ast.Expr]
    (function,) = module.body
    assert ast.get_docstring(function, clean=False).strip() == text.strip()


def test_control_characters_stay_text():
    shown = kept_docstring("a\x00b\u202ec\rd")
    assert shown.isprintable()
    ast.parse(shown)


def test_the_command_line_has_the_same_choices(tmp_path):
    model = tmp_path / "model.py"
    model.write_text('import jax.numpy as jnp\ndef f(x):\n    "F."\n    return x * 2\n')
    shown = [
        CliRunner().invoke(main, ["show", str(model), "f(jnp.ones(3))", *options])
        for options in ((), ("--comments", "none"))
    ]
    assert ['"""F."""' in done.stdout for done in shown] == [True, False]


def test_the_docstring_of_a_copy_is_not_cut_within_its_first_paragraph():
    def scaled(x, is_odd):
        """Scale an array in one of two ways, and say so in a sentence
        of two lines.

        Args:
          x: The array.
        """
        return jnp.sin(x) * x if is_odd else jnp.cos(x) + jnp.tanh(x)

    def both(x):
        return scaled(scaled(x, True), False)

    text = untrace.source(both)(jnp.ones(3)).text
    assert text.count("of two lines.") == 2 and text.count("Args:") == 1, text
