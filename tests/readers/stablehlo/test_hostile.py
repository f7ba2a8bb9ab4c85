"""Broken, foreign and newer programs are refused with a reason and a place."""

import random
import re

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from untrace.errors import LoadError
from untrace.readers.formats import format_of
from untrace.readers.stablehlo.load import read, read_and_compare

X = np.ones((3, 3), np.float32)


def f(x):
    return jax.lax.fori_loop(0, 3, lambda i, a: jnp.sin(a) @ x, x)


@pytest.fixture(scope="module")
def text():
    return jax.jit(f).lower(X).as_text()


@pytest.fixture(scope="module")
def artefact():
    return bytes(jax.export.export(jax.jit(f))(X).mlir_module_serialized)


def main(body, kind="tensor<2xf32>", result=None):
    result = result or kind
    return (
        f"func.func @main(%x: {kind}) -> {result} {{\n{body}\nreturn %y : {result}\n}}"
    )


REFUSED = {
    "unknown operation": (
        main("%y = stablehlo.frobnicate %x : tensor<2xf32>"),
        r"line 2.*frobnicate.*unknown",
    ),
    "unknown dialect": (
        main('%y = "triton.load"(%x) : (tensor<2xf32>) -> tensor<2xf32>'),
        r"line 2",
    ),
    "not valid": (
        main("%y = stablehlo.sine %z : tensor<2xf32>"),
        r"line 2.*undeclared",
    ),
    "custom call": (
        main(
            '%y = stablehlo.custom_call @evil(%x) {backend_config = "1"} '
            ": (tensor<2xf32>) -> tensor<2xf32>"
        ),
        r"custom_call.*`main` \(line 2, column 6\).*calls `evil`",
    ),
    "callback": (
        main(
            "%y = stablehlo.custom_call @xla_ffi_python_cpu_callback(%x) "
            "{mhlo.backend_config = {other = 0 : ui64}, api_version = 4 : i32} "
            ": (tensor<2xf32>) -> tensor<2xf32>"
        ),
        r"a function on the host that has no number",
    ),
    "quantised": (
        main(
            "%y = stablehlo.uniform_quantize %x : (tensor<2xf32>) -> "
            "tensor<2x!quant.uniform<i8:f32, 0.1>>",
            result="tensor<2x!quant.uniform<i8:f32, 0.1>>",
        ),
        r"quant",
    ),
    "dynamic": (
        main("%y = stablehlo.sine %x : tensor<*xf32>", "tensor<*xf32>"),
        r"tensor<\*xf32>",
    ),
    "devices": (
        main(
            '%y = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, '
            "replica_groups = dense<[[0]]> : tensor<1x1xi64>} "
            ": (tensor<2xf32>) -> tensor<2xf32>"
        ),
        r"all_gather.*between devices",
    ),
    "recursion": (
        "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
        "%y = func.call @main(%x) : (tensor<f32>) -> tensor<f32>\n"
        "return %y : tensor<f32>\n}",
        r"`main` calls itself",
    ),
    "attribute": (
        main('%y = stablehlo.sine %x {strange.note = "do it twice"} : tensor<2xf32>'),
        r"strange|unregistered",
    ),
    "no main": ("module @m {}", "no function `main`"),
    "nothing": ("module @m", "line 1"),
    "jumps": (
        "func.func @main(%x: tensor<i1>) -> tensor<i1> {\n"
        "cf.br ^b\n^b:\nreturn %x : tensor<i1>\n}",
        "jumps|unregistered|cf",
    ),
    "HLO": ("HloModule m\nENTRY e { ROOT a = f32[2] add(b, c) }", "HLO cannot be read"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_read_is_refused(name):
    program, reason = REFUSED[name]
    assert format_of(program) is not None
    with pytest.raises(LoadError, match=re.compile(reason, re.DOTALL)):
        read(program)


def test_what_only_looks_like_a_module_is_refused(text):
    for program in (
        text[: len(text) // 2],
        text.replace("stablehlo", "stable"),
        "module {",
    ):
        with pytest.raises(LoadError, match="line"):
            read(program)


@pytest.mark.parametrize(
    "program",
    ["", "hello", "import jax", b"\0\1", 3],
)
def test_other_things_are_not_recognised(program):
    assert format_of(program) is None


def test_broken_artefacts_do_not_end_the_process(artefact):
    newer = artefact.replace(b"StableHLO_v", b"StableHLO_v9", 1)
    broken = artefact[:90] + b"\xff\xfe\xfd" + artefact[93:]
    for program in (artefact[:200], broken, newer, artefact[:13]):
        try:
            found = read_and_compare(program)
        except LoadError as error:
            assert "up to version" in str(error)
        else:
            assert program is newer and found


def mutated(text, chance):
    """Return a text with a few changes: characters, words, numbers, lines."""
    for _ in range(chance.choice([1, 1, 2])):
        words = [*re.finditer(r"[\w.%@]+", text)]
        one, other = chance.choice(words), chance.choice(words)
        number = chance.choice([*re.finditer(r"\d+", text)])
        at = chance.randrange(len(text))
        text = chance.choice(
            [
                text[:at] + chance.choice("0123456789xif<>[],%-") + text[at + 1 :],
                text[: one.start()] + other[0] + text[one.end() :],
                text[: number.start()]
                + str(chance.randrange(9))
                + text[number.end() :],
                text[:at] + text[at + chance.randrange(9) :],
            ]
        )
    return text


def test_mutated_texts_give_a_load_error_or_a_program(text):
    chance = random.Random(0)
    n_read = 0
    for _ in range(150):
        try:
            read_and_compare(mutated(text, chance))
            n_read += 1
        except LoadError as error:
            assert str(error)
    assert 0 < n_read < 100
