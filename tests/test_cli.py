"""The command line: what it prints where, and its exit status."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

from untrace.cli import main

MODEL = """\
import jax, jax.numpy as jnp
ran = []
def layer(w, x):
    ran.append(type(x).__name__)
    return jnp.tanh(x @ w)
def loss(w, x, *, scale=1.0):
    return layer(w, x).sum() * scale
w, x = jnp.ones((3, 4)), jnp.ones((2, 3))
traced = jax.jit(loss).trace(w, x)
def broken(x):
    raise KeyError("mine")
"""


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model_of_mine.py"
    path.write_text(MODEL)
    return path


def run(*args):
    return CliRunner().invoke(main, [str(arg) for arg in args])


def test_show_prints_plain_source_to_standard_output(model):
    done = run("show", model, "loss(w, x, scale=2.0)")
    assert done.exit_code == 0, done.output
    assert "def loss(w, x, *, scale):" in done.stdout and "\x1b" not in done.stdout
    compile(done.stdout, "shown", "exec")
    assert "Verified" in done.stderr


def test_the_call_itself_is_only_traced(model, tmp_path):
    probe = "def probe(w):\n    y = layer(w, w.T)\n    assert 'ArrayImpl' not in ran\n    return y\n"
    model.write_text(MODEL + probe)
    assert run("show", model, "probe(w)").exit_code == 0


def test_transformed_functions_and_stars_are_calls_too(model):
    for call in ("jax.grad(loss)(w, x)", "layer(*(w, x))", "loss(**dict(w=w, x=x))"):
        done = run("show", model, call)
        assert done.exit_code == 0, done.output


def test_a_module_can_be_named(model, monkeypatch):
    monkeypatch.chdir(model.parent)
    assert run("show", model.stem, "layer(w, x)").exit_code == 0


def test_output_is_saved_and_verifies(model, tmp_path):
    out = tmp_path / "out.py"
    done = run("show", model, "loss(w, x)", "-o", out, "--types", "--name", "cost")
    assert done.exit_code == 0 and done.stdout == ""
    assert "def cost(w, x):" in out.read_text() and "# f32[" in out.read_text()
    assert run("verify", out).exit_code == 0
    out.write_text(out.read_text().replace("jnp.tanh", "jnp.sin"))
    done = run("verify", out)
    assert done.exit_code == 1 and "difference" in done.stderr


def test_verification_can_be_switched_off(model):
    done = run("show", model, "loss(w, x)", "--no-verify")
    assert done.exit_code == 0 and "Not verified" in done.stdout


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("loss", "is not a call"),
        ("loss(w, x", "is not a Python expression"),
        ("nothing(w)", "cannot evaluate"),
        ("loss(w, y)", "name 'y' is not defined"),
        ("broken(w)", "KeyError: 'mine'"),
        ("loss(w)", "missing 1 required positional argument"),
        ("layer(w, 'text')", "Error"),
    ],
)
def test_bad_input_is_explained(model, call, message):
    done = run("show", model, call)
    assert done.exit_code == 2
    assert message in done.stderr and "src/untrace" not in done.stderr


def test_missing_files_are_named(tmp_path):
    done = run("show", tmp_path / "none.py", "f(x)")
    assert done.exit_code == 2 and "there is no file" in done.stderr
    done = run("show", "no_such_module_here", "f(x)")
    assert done.exit_code == 2 and "neither a file nor a module" in done.stderr


def test_a_file_that_does_not_import_shows_its_own_traceback(tmp_path):
    path = tmp_path / "bad_model.py"
    path.write_text("import jax\n1 / 0\n")
    done = run("show", path, "f(x)")
    assert done.exit_code == 2 and "ZeroDivisionError" in done.stderr
    assert "bad_model.py" in done.stderr.replace("\n", "")


def test_an_unwritable_output_is_explained(model, tmp_path):
    done = run("show", model, "loss(w, x)", "-o", tmp_path / "no" / "out.py")
    assert done.exit_code == 2 and "cannot write" in done.stderr


def test_help_and_version():
    assert "train_step" in run("--help").output
    assert run("--version").output.startswith("untrace, version")
    assert run("show").exit_code == 2


def test_the_command_is_installed(model):
    command = [sys.executable, "-m", "untrace", "show", str(model), "layer(w, x)"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "def layer(w, x):" in done.stdout


def test_decisions_are_listed_and_refused_by_number(model):
    listed = CliRunner().invoke(main, ["show", str(model), "loss(w, x)", "--decisions"])
    assert listed.exit_code == 0
    rows = [line for line in listed.stderr.splitlines() if "│ fold " in line]
    number = next(row.split()[1] for row in rows if "loss" in row)
    found = CliRunner().invoke(
        main, ["show", str(model), "loss(w, x)", "--refuse", number]
    )
    assert found.exit_code == 0
    assert "`fold` (loss); it was refused." in found.stdout
    assert found.stdout.count("\n") > listed.stdout.count("\n")


@pytest.mark.parametrize("option", ["--time", "--time-passes"])
def test_where_the_time_went_is_shown(model, option):
    done = run("show", model, "loss(w, x)", option)
    assert done.exit_code == 0 and "s of processor time" in done.stderr
    assert "verify" in done.stderr and "processor" not in done.stdout


@pytest.mark.parametrize("command", [["show"], ["reduce", "--keep", "nan()"]])
@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "there is no file"),
        (b"", "is empty"),
        (bytes(range(256)), "in no format"),
        (b"{ lambda ; a:f32[3]. let b:f32[3] = sinus a in (b,) }", "no primitive"),
        (b"module { func.func @main(%x: tensor<3xf33>) { return } }", "column 39"),
    ],
)
def test_bad_programs_are_messages(command, content, words, tmp_path):
    path = tmp_path / "given.bin"
    if content is not None:
        path.write_bytes(content)
    result = run(command[0], path, *command[1:])
    assert result.exit_code == 2
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert result.stderr.startswith(f"untrace: {'' if content is None else path}")
    assert words in result.stderr
    assert "Traceback" not in result.stderr


def test_bytes_of_standard_input_in_no_format_are_a_message():
    result = CliRunner().invoke(main, ["show", "-"], input=b"\x00\xff\x01")
    assert result.exit_code == 2
    assert "standard input is in no format" in result.stderr


def test_what_is_not_proved_is_a_message(tmp_path):
    path = tmp_path / "given.mlir"
    path.write_text("""module { func.func @main(%x: tensor<?xf32>) -> tensor<?xf32> {
      %y = stablehlo.add %x, %x : tensor<?xf32>
      return %y : tensor<?xf32> } }""")
    result = run("show", path)
    assert "untrace: Read from StableHLO; not proved" in result.stderr
    assert "UnverifiedWarning" not in result.stderr
