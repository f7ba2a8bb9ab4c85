"""A printed jaxpr goes in wherever a program does, as text, as a file, as input."""

import functools

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main
from untrace.readers.formats import is_text, read

TEXT = """It prints

> { lambda ; a:f32[3] b:f32[3]. let
>     c:f32[3] = log a
>     d:f32[3] = mul c b
>     e:f32[] = reduce_sum[axes=(0,)] d
>   in (e,) }

and then a NaN.
"""


@pytest.fixture
def path(tmp_path):
    found = tmp_path / "issue.txt"
    found.write_text(TEXT)
    return found


def run(*args, **kwargs):
    return CliRunner().invoke(main, [str(arg) for arg in args], **kwargs)


def test_texts_and_paths_are_told_apart(tmp_path):
    assert is_text(TEXT) and is_text("{ lambda ; a:f32[]. let in (a,) }")
    assert not is_text("model.py") and not is_text(str(tmp_path / "a {b} c"))
    quoting = tmp_path / "model.py"
    quoting.write_text(f'"""{TEXT}"""')
    assert read(quoting) == quoting


@pytest.mark.parametrize("kind", ["text", "str", "path"])
def test_source_and_load_take_texts_and_files(kind, path):
    program = {"text": TEXT, "str": str(path), "path": path}[kind]
    source = untrace.source(program)
    assert source.report.strength == "identical"
    assert [p.name for p in source.captured.parameters] == ["a", "b"]
    ones = jnp.ones(3)
    assert untrace.load(program)(ones * np.e, ones) == pytest.approx(3.0)
    assert jax.grad(untrace.load(program))(ones, ones).tolist() == [1.0, 1.0, 1.0]


def test_tools_take_texts(path):
    ones = jnp.ones(3)
    seen = []

    def handler(step, *operands):
        seen.append(step.name)
        return step(*operands)

    assert untrace.interpret(TEXT, handler)(ones, ones) == 0.0
    assert seen == ["log", "mul", "reduce_sum"]
    assert untrace.diff(path, untrace.parse(TEXT)).verdict == "equal"
    changed = TEXT.replace("log a", "sin a")
    assert untrace.diff(TEXT, changed).verdict == "different"
    assert untrace.nan_origin(path)(-ones, ones) is not None
    assert "log" in str(untrace.watch(TEXT)(ones, ones))


def test_reduce_takes_texts_and_makes_inputs_up(path, tmp_path, monkeypatch):
    given = []

    def reduced(program, keep, plan, folder, *others):
        given.append(program)
        raise untrace.KeepError("enough")

    monkeypatch.setattr("untrace.reducing._reduced", reduced)
    done = run("reduce", path, "--keep", "nan()", "-q")
    assert "enough" in done.output and done.exit_code == 2
    with pytest.raises(untrace.KeepError):
        untrace.reduce(TEXT, keep="nan()")(-jnp.ones(3), jnp.zeros(3))
    made_up, own = given
    assert [value.shape for value in made_up.values] == [(3,), (3,)]
    assert own.values[0].tolist() == [-1.0, -1.0, -1.0]


def test_show_finds_the_jaxpr_in_a_file_and_in_standard_input(path):
    for done in (run("show", path), run("show", "-", input=TEXT)):
        assert done.exit_code == 0, done.output
        assert "def function(a, b):" in done.output
        assert "jnp.log(a)" in done.output


def test_errors_name_the_file_and_the_place(tmp_path):
    path = tmp_path / ("a_long_name" * 9) / "issue.txt"
    path.parent.mkdir()
    path.write_text(TEXT.replace("log a", "logg a"))
    done = run("show", path)
    assert done.exit_code == 2
    place, line, caret, *_ = done.output.splitlines()
    assert f"{path}, line 4, column 18: no primitive is called `logg`" in place
    assert line.index("logg") == caret.index("^")
    path.write_text("nothing of that kind")
    assert "in no format that is read: a StableHLO module" in run("show", path).output
    model = tmp_path / "model.py"
    assert f"there is no file {model}" in run("show", model).output
    model.touch()
    assert "give a call as well" in run("show", model).output
    with pytest.raises(untrace.LoadError, match="there is no file"):
        untrace.source(str(tmp_path / "none.txt"))
    with pytest.raises(untrace.LoadError, match="in no format"):
        untrace.load("several\nlines")
    binary = tmp_path / "binary.bin"
    binary.write_bytes(b"\xff\xfe{ lambda")
    with pytest.raises(untrace.LoadError, match="in no format"):
        untrace.source(binary)


def test_what_is_compiled_is_refused():
    compiled = jax.jit(jnp.sin).lower(1.0).compile()
    with pytest.raises(TypeError, match=r"pass the function, or the result of"):
        untrace.source(compiled)
    with pytest.raises(TypeError, match="bytes; pass a function, a jaxpr"):
        untrace.source(b"\0")


def test_tools_name_the_line_of_the_text(path):
    given = np.array([-1, 1, 2], np.float32), np.ones(3, np.float32)
    found = str(untrace.nan_origin(path)(*given))
    assert "NaN at line 4 of the text" in found
    assert "c:f32[3] = log a" in found
    assert "line 6 of the text" in str(untrace.watch(TEXT)(*given))


def cooled(x, w):
    return jnp.tanh(x @ w), jnp.log(x - x)


@functools.cache
def doors():
    jitted = jax.jit(cooled)
    given = np.ones((4, 3), np.float32), np.eye(3, dtype=np.float32)
    rows = jax.export.symbolic_shape("n, 3")
    any_size = jax.ShapeDtypeStruct(rows, np.float32)
    lowered = jitted.lower(*given)
    return {
        "jaxpr": str(jax.make_jaxpr(cooled)(*given)),
        "text": lowered.as_text(),
        "names": lowered.as_text(debug_info=True),
        "lowered": lowered,
        "bytes": bytes(jax.export.export(jitted)(*given).mlir_module_serialized),
        "HLO": lowered.as_text("hlo"),
        "any size": jax.export.export(jitted)(any_size, given[1]).mlir_module(),
    }


OPTIONS = {
    "lax": {"level": "lax"},
    "api": {"level": "api"},
    "expand": {"expand": "jit"},
    "anonymous": {"anonymous": True},
    "comments": {"comments": "both", "scopes": True},
    "symbolic": {"symbolic": True},
}


@pytest.mark.parametrize("option", OPTIONS)
def test_options_of_source_hold_for_what_came_through_every_door(option):
    for name, program in doors().items():
        if option == "symbolic" and name != "any size":
            with pytest.raises(ValueError, match="lowered or exported has fixed ones"):
                untrace.source(program, symbolic=True)
            continue
        source = untrace.source(program, **OPTIONS[option])
        assert source.report.is_verified, (name, source.report)
        sizes = (4, 3) if name != "any size" else (5, 3)
        given = np.ones(sizes, np.float32), np.eye(3, dtype=np.float32)
        out = source.load()(*given)
        np.testing.assert_allclose(out[0], cooled(*given)[0], rtol=1e-6)


@pytest.mark.parametrize("name", doors())
def test_show_recognises_every_door_by_content(name, tmp_path):
    program = doors()[name]
    path = tmp_path / "program"  # no suffix
    text = program.as_text() if name == "lowered" else program
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = run("show", path)
    assert done.exit_code == 0, done.output
    assert "Verified: traces to the identical equations." in done.output
    proved = "Read from StableHLO: lowering it again gives the same module."
    assert (proved in done.output) == (name != "jaxpr")


def test_show_says_why_an_option_does_not_suit_a_program(path):
    done = run("show", path, "--symbolic")
    assert done.exit_code == 2 and "Traceback" not in done.output
    assert "untrace: symbolic=True traces the function again" in done.output
