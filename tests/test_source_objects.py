"""What a `Source` can do, how `source` is called, and what `untrace` shows of itself."""

import jax.numpy as jnp
import pytest

import untrace


def double(x):
    return x * 2.0


def test_the_text_and_name_of_a_source():
    made = untrace.source(double)(1.0)
    assert made.text == str(made) and made.name == "double"


def test_sources_are_equal_by_their_text():
    made = [untrace.source(double, name=n)(1.0) for n in ("double", "double", "twice")]
    assert made[0] == made[1] != made[2] and made[0] != str(made[0])
    assert len({*made}) == 2


def test_the_texts_of_sources_are_compared_by_lines():
    before, after = (untrace.source(double, name=n)(1.0) for n in ("f", "g"))
    assert before.diff(before) == ""
    lines = before.diff(after).split("\n")
    assert lines[:2] == ["--- f (before)", "+++ g (after)"]
    assert any(line.startswith("-def f(x):") for line in lines)


def test_source_is_a_decorator_with_options():
    @untrace.source(level="lax", name="twice")
    def decorated(x):
        return x * 2.0

    made = decorated(1.0)
    assert made.name == "twice" and made.options.level == "lax"
    assert untrace.source()(double)(1.0) == untrace.source(double)(1.0)


def test_only_public_names_are_listed():
    assert dir(untrace) == sorted(untrace.__all__)


class Shell:
    def __init__(self, **names):
        self.user_ns, self.magics = names, {}

    def register_magic_function(self, function, magic_kind, magic_name):
        assert magic_kind == "line_cell"
        self.magics[magic_name] = function


def test_magics_of_notebooks():
    shell = Shell(double=double, x=jnp.ones(3))
    untrace.load_ipython_extension(shell)
    made = shell.magics["untrace"]("double(x)")
    assert made == untrace.source(double)(jnp.ones(3))
    assert shell.magics["untrace"]("", "double(\n  x)\n") == made
    shown = made._repr_html_()
    assert "<details open><summary><code>double: identical</code>" in shown
    with pytest.raises(SyntaxError, match="is not a call"):
        shell.magics["untrace"]("double")
