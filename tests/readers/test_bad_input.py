"""What cannot be read is an error that says where, and what to do."""

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from untrace.jaxapi.modules import ModuleError
from untrace.readers.stablehlo.read import not_parsed

FUNCTION = jax.jit(lambda x: jnp.sin(x) * 2)
X = np.ones(3, np.float32)
MODULE = FUNCTION.lower(X).as_text()
JAXPR = str(jax.make_jaxpr(FUNCTION)(X))
FUTURE = MODULE.replace("stablehlo.sine", "stablehlo.sine_of_tomorrow")
FOREIGN = MODULE.replace("stablehlo.sine", "triton.sine")
TYPES = """module {
  func.func @main(%x: !torch.vtensor<[2],f32>) -> !torch.vtensor<[2],f32> {
    return %x : !torch.vtensor<[2],f32>
  }
}"""

BAD = {
    "nothing": ("", ["is empty"]),
    "a jaxpr that is cut off": (JAXPR[: len(JAXPR) // 2], ["line 4", "is cut off"]),
    "results that are cut off": (JAXPR.rstrip()[:-4], ["line 9", "is cut off"]),
    "a beginning": ("{ lambda ", ["line 1, column 10", "is cut off"]),
    "a module that is cut off": (MODULE[: len(MODULE) // 2], ["line 3", "is cut off"]),
    "a bracket that is missing": (
        MODULE.rstrip()[:-1],
        ["line 8", "bracket is missing"],
    ),
    "an operation": (FUTURE, ["line 3, column", "stablehlo.sine_of", "no such oper"]),
    "a dialect": (FOREIGN, ["line 3, column", "triton", "convert the program to"]),
    "types of a dialect": (TYPES, ["line 2", "torch", "convert the program to"]),
    "a lambda": ("It { lambda x: x + 1 }\nfails", ["line 1, column 14", "make_jaxpr"]),
    "prose": ("{ lambda ; this is no jaxpr }", ["line 1, column 29", "make_jaxpr"]),
    "Python": (
        "{ lambda ; a:f32[3]. let b = a + 1 in (b,) }",
        ["line 1, column 32", "make_jaxpr"],
    ),
    "a primitive": (
        "{ lambda ; a:f32[3]. let b:f32[3] = sine_of_tomorrow a in (b,) }",
        ["line 1, column 37", "no primitive is called", "import that first"],
    ),
    "a type": (
        "{ lambda ; a:f99[3]. let in (a,) }",
        ["line 1, column 12", "no type of elements `f99`"],
    ),
    "a type of a module": (
        MODULE.replace("xf32>", "xf33>", 1),
        ["line 2, column 42", "func.func public @main", "it was changed here"],
    ),
    "a type of another library": (
        MODULE.replace("tensor<3xf32>", "tensor<3x!quant.uniform<i8:f32, 0.1>>"),
        ["line 2, column", "dialects", "convert the program to"],
    ),
    "a name that is not there": (
        "{ lambda ; a:f32[3]. let b:f32[3] = sin c in (b,) }",
        ["line 1, column 41", "not defined before", "make_jaxpr"],
    ),
    "another type": (
        "{ lambda ; a:f32[3]. let b:f32[4] = sin a in (b,) }",
        ["line 1, column 26", "is said to be f32[4], and is f32[3]", "make_jaxpr"],
    ),
    "a module without a beginning": (
        "module { }",
        ["no function `main`", "call the one to read so"],
    ),
    "HLO that is cut off": ("HloModule f\n\nENTRY main {\n", ["is cut off"]),
    "another program": ("def f(x):\n    return x", ["in no format", "a printed jaxpr"]),
    "a graph of torch.fx": ("graph():\n    return sin", ["in no format"]),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_say_where_and_what_to_do(name, tmp_path):
    content, words = BAD[name]
    path = tmp_path / "given.txt"
    path.write_text(content)
    with pytest.raises(untrace.LoadError) as caught:
        untrace.source(str(path))
    said = str(caught.value)
    assert str(path) in said
    assert [word for word in words if word not in said] == [], said


@pytest.mark.parametrize("kind", ["utf-8-sig", "utf-16", "latin-1"])
@pytest.mark.parametrize("program", [f"Caf\xe9:\n{JAXPR}", MODULE])
def test_texts_are_read_in_any_encoding(program, kind, tmp_path):
    path = tmp_path / "given.txt"
    path.write_bytes(program.encode(kind))
    np.testing.assert_array_equal(jax.jit(untrace.load(str(path)))(X), FUNCTION(X))


def test_folders_are_named_as_such(tmp_path):
    with pytest.raises(untrace.LoadError, match=r"is a folder"):
        untrace.source(str(tmp_path))


ARTEFACT = bytes(jax.export.export(FUNCTION)(X).mlir_module_serialized)
BYTES = {
    "half of an artefact": (ARTEFACT[: len(ARTEFACT) // 2], "cut off or damaged"),
    "its first bytes": (ARTEFACT[:20], "cut off or damaged"),
    "an artefact of a newer release": (
        ARTEFACT.replace(b"sine_v2", b"sine_v9"),
        "written by a newer JAX",
    ),
    "a pickle": (b"\x80\x04\x95\x10\0\0\0\0\0\0\0\x8c\x05hello\x94.", "in no format"),
    "an archive": (b"PK\x03\x04" + b"\xff" * 100, "in no format"),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_that_are_broken_or_of_others_are_refused(name, tmp_path):
    content, words = BYTES[name]
    path = tmp_path / "given.bin"
    path.write_bytes(content)
    with pytest.raises(untrace.LoadError, match=words):
        untrace.source(str(path))


def test_params_of_a_newer_jax_are_named():
    text = "{ lambda ; a:f32[3]. let b:f32[2] c:i32[2] = top_k[k=2 magic=1] a in (b,) }"
    words = rf"line 1, column 46: `top_k` has no param `magic` in jax {jax.__version__}"
    with pytest.raises(untrace.ParseError, match=words) as caught:
        untrace.parse(text)
    assert "newer JAX" in str(caught.value)


@pytest.mark.parametrize("written", ["sin[magic=1] a", "add[magic=()] a a"])
def test_params_that_rules_would_pass_over_are_errors(written):
    text = f"{{ lambda ; a:f32[3]. let b:f32[3] = {written} in (b,) }}"
    with pytest.raises(untrace.ParseError, match="has no param `magic`"):
        untrace.parse(text)


def test_params_that_only_the_rule_of_a_platform_reads_are_known():
    printed = str(jax.make_jaxpr(jax.lax.linalg.schur)(np.eye(3, dtype=np.float32)))
    assert "sort_eig_vals" in printed
    assert str(untrace.parse(printed)) == printed


@pytest.mark.parametrize("params", ["_input_dtype=float32", "_a=1 _b=None"])
def test_params_that_are_named_as_not_read_are_kept(params):
    text = f"{{ lambda ; a:f32[3]. let b:c64[3] = conj[{params}] a in (b,) }}"
    found = untrace.parse(text)
    assert {part.split("=")[0] for part in params.split()} <= {*found.eqns[0].params}
    assert jax.eval_shape(untrace.load(text), jnp.ones(3)).dtype == jnp.complex64


def test_params_of_another_release_that_say_nothing_are_left_out():
    text = "{ lambda ; a:f32[3]. let b:f32[3] = add[magic=None] a a in (b,) }"
    assert "magic" not in str(untrace.parse(text))


def test_types_of_a_dialect_that_was_loaded_are_refused_as_those_that_are_not_known():
    # JAX loads more dialects as a process goes on: the parser gets further, and complains
    # of an operation whose types do not fit.
    text = BAD["a type of another library"][0]
    late = ModuleError("line 5, column 10: op requires compatible element types")
    error = not_parsed(late, text)
    assert "line 2, column" in str(error)
    assert "`!quant` is a type of another dialect" in str(error)
    assert "convert the program to StableHLO first" in str(error)
