"""A module is found in an issue, a mail or a log, and errors name its lines there."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.readers.stablehlo import holds_module, modules_in

X = np.linspace(-1, 1, 3, dtype=np.float32)
JITTED = jax.jit(lambda x: {"out": jnp.tanh(x) * 2}).lower(X)
FUNCTION = """func.func @main(%x: tensor<3xf32> {jax.arg_info = "x"}) -> tensor<3xf32> {
  %y = call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

func.func private @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = stablehlo.add %x, %x : tensor<3xf32>
  return %y : tensor<3xf32>
}
"""
TEXTS = {
    "module": JITTED.as_text(),
    "locations": JITTED.as_text(debug_info=True),
    "functions": FUNCTION,
}


def marked(text, mark):
    return "".join(mark + line + "\n" for line in text.splitlines())


AROUND = {
    "fence": lambda text: (
        f"I see {{x}}:\n\n```mlir\n{text}```\n\nThe module (a) [1] {{\n"
    ),
    "quotation": lambda text: f"X wrote:\n\n{marked(text, '> ')}\nmodule @m ends\n",
    "indent": lambda text: f"See:\n\n{marked(text, '    ')}\nend\n",
    "pytest": lambda text: f"assert x\n{marked(text, 'E   ')}E   assert False\n",
    "another first": lambda text: (
        f"In module {{\n and\nmodule @bad {{\n}}}}\n{text}ok\n"
    ),
}


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("kind", TEXTS)
def test_a_module_is_found_in_the_text_around_it(kind, around):
    text = AROUND[around](TEXTS[kind])
    source = untrace.source(text)
    assert source.report.is_verified
    assert "same module" in source.report.notes[0]
    found = jax.tree.leaves(source.load()(X))
    wanted = jnp.tanh(X) * 2 if kind != "functions" else X + X
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6)


def test_names_of_a_quoted_module_are_kept():
    source = untrace.source(AROUND["quotation"](TEXTS["locations"]))
    assert "def" in str(source) and '{"out":' in str(source)


def test_an_error_names_the_line_of_the_text():
    text = AROUND["fence"](FUNCTION.replace("stablehlo.add", "stablehlo.ad"))
    with pytest.raises(untrace.ParseError) as caught:
        untrace.source(text)
    assert caught.value.line == text[: text.index("stablehlo.ad")].count("\n") + 1


def test_talk_of_modules_is_none():
    talk = "the module {\n is\nmodule of which\na func.func @main here\n"
    assert not holds_module(talk) and not list(modules_in(talk))


def test_a_jaxpr_in_the_same_text_comes_first():
    jaxpr = "{ lambda ; a:f32[3]. let b:f32[3] = sin a in (b,) }"
    source = untrace.source(f"{TEXTS['module']}\n".join(["Both:\n", jaxpr]))
    assert "jnp.sin" in str(source)
