"""How a program is named on the command line: calls, functions, types, standard input."""

import inspect

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner

from untrace.cli import main
from untrace.cli.arguments import read_arguments
from untrace.errors import ParseError

MODEL = """\
from jax.numpy import sin
def f(x, scale=2.0):
    return sin(x) * scale
class Model:
    @staticmethod
    def loss(params, x):
        return (params["w"] * x).sum()
def example_args():
    return {examples}
"""


def run(*args, **options):
    return CliRunner().invoke(main, [str(arg) for arg in args], **options)


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "model_with_examples.py"
    path.write_text(MODEL.format(examples="{'x': __import__('numpy').ones(3)}"))
    return path


def shown(*args):
    """Return the functions of what is shown, without the example inputs."""
    done = run("show", *args)
    assert done.exit_code == 0, done.output
    return (
        done.stdout.partition("\n\n\n")[2].partition("\n\ndef example_args")[0].strip()
    )


def test_function_of_a_file_is_called_with_its_own_examples(model):
    text = shown(f"{model}:f")
    assert text == "def f(x):\n    scale = 2.0\n    return jnp.sin(x) * scale"


@pytest.mark.parametrize("examples", ["(1.0,)", "[1.0]", "1.0", "{'x': 1.0}"])
def test_examples_are_arguments_in_any_form(tmp_path, examples):
    path = tmp_path / "model_in_forms.py"
    path.write_text(MODEL.format(examples=examples))
    assert shown(f"{path}:f").startswith("def f(x):")


def test_types_are_enough(model):
    assert "bf16[8,3] -> bf16[8,3]" in shown(
        f"{model}:f", "--types", "--args", "bf16[8,3]"
    )
    text = shown(f"{model}:Model.loss", "--args", '{"w": f32[3]}, x=f32[3]')
    assert text.startswith("def loss(params, x)")
    text = shown(model, "jax.grad(lambda t: f(t).sum())", "--args", "f32[3]")
    assert "jax.grad(lambda t: f(t).sum())(t)" in text
    assert "f32[n] -> f32[n]" in shown(f"{model}:f", "--types", "--args", "f32[n]")


def test_modules_are_named_with_their_packages(model, tmp_path, monkeypatch):
    package = tmp_path / "package_of_mine"
    package.mkdir()
    (package / "__init__.py").write_text("")
    model.rename(package / "inner.py")
    monkeypatch.chdir(tmp_path)
    for target in (("package_of_mine.inner:f",), ("package_of_mine.inner", "f(1.0)")):
        assert shown(*target).startswith("def f(x):")


def test_jax_and_numpy_are_there_in_every_call(model):
    assert "def f(x):" in shown(model, "f(np.ones(3)) ")
    assert "def f(x):" in shown(model, "f(jax.random.normal(jax.random.key(0), (3,)))")
    assert "jnp.tanh(x)" in shown("jax.numpy", "tanh(jnp.ones(3))")


def test_names_of_the_file_come_before(tmp_path):
    path = tmp_path / "model_with_own_np.py"
    path.write_text("class np:\n    one = 1.0\ndef f(x):\n    return -x\n")
    assert "def f(x):" in shown(path, "f(np.one)")


@pytest.mark.parametrize(
    "call",
    [
        "jax.vmap(lambda item, scale: f(item) * scale + 1)(x, x)",
        "jax.jit(lambda x: jnp.sin(x) + 1)(x)",
        "jax.grad(lambda t: (f(t) ** 2).sum())(x)",
        "(lambda x: f(x) * 2)(x)",
    ],
)
def test_a_lambda_in_the_call_is_as_readable_as_in_a_file(tmp_path, call):
    path = tmp_path / "model_with_lambdas.py"
    function = call.rpartition("(")[0]
    path.write_text(
        "import jax, jax.numpy as jnp\ndef f(x):\n    return jnp.sin(x)\n"
        f"x = jnp.ones(3)\ng = {function}\n"
    )
    in_file = shown(path, f"g{call.removeprefix(function)}")
    assert shown(path, call) == in_file.replace(
        "def g(", "def lambda_("
    )  # its variable
    assert "known_as" not in in_file and "run_" not in in_file


def test_standard_input_is_a_program():
    jaxpr = str(jax.make_jaxpr(jnp.sin)(1.0))
    done = run("show", "-", input=jaxpr)
    assert done.exit_code == 0 and "jnp.sin" in done.stdout


def test_standard_input_is_a_program_of_python_where_there_is_a_call(tmp_path):
    text = "import jax.numpy as jnp\nSHIFT = 0.3\ndef f(x):\n    # a comment\n"
    text += "    return jnp.sin(x) + SHIFT\nx = jnp.ones(3)\n"
    path = tmp_path / "piped.py"
    path.write_text(text)
    done = run("show", "-", "f(x)", "--comments", "user", input=text)
    assert done.exit_code == 0, done.stderr
    in_file = run("show", path, "f(x)", "--comments", "user").stdout
    assert done.stdout == in_file.replace("piped.py", "<stdin>")
    assert "# a comment" in in_file
    done = run("show", "-", input=text)
    assert done.exit_code == 2 and "give a call as well" in done.stderr
    done = run("show", "-", "f(x)", input="1 / 0")
    assert done.exit_code == 2 and '"<stdin>", line 1' in done.stderr


def test_a_module_alone_lacks_its_call(tmp_path, monkeypatch):
    (tmp_path / "lonely_module.py").write_text("def f(x):\n    return x\n")
    monkeypatch.chdir(tmp_path)
    done = run("show", "lonely_module")
    assert done.exit_code == 2 and "untrace show lonely_module 'f(x)'" in done.stderr
    for missing in ("no_such_module", "no_such_file.py"):
        assert f"there is no file {missing}" in run("show", missing).stderr


def test_a_saved_file_needs_no_call(model, tmp_path):
    saved = tmp_path / "saved.py"
    assert run("show", f"{model}:f", "-o", saved).exit_code == 0
    assert shown(saved) == shown(f"{model}:f")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["{model}:f", "f(1.0)"], "either"),
        (["{model}:g"], "name 'g' is not defined"),
        (["{model}", "--args", "f32[3]"], "give the function, too"),
        (["{model}:f", "--args", "f32[3"], "no closing bracket"),
        (["{model}:f", "--args", "f32[3] f32[3]"], "`,` expected"),
        (["{model}:f", "--args", "g32[3]"], "no type of elements `g32`"),
        (
            ["{model}:f", "--args", "f32[3], 1, 2"],
            "takes from 1 to 2 positional arguments",
        ),
        (["{model}:__name__", "--args", "1"], "is no function"),
        (["math:f.x y"], "there is no file"),
        (["jax.numpy:sin"], "example_args"),
    ],
)
def test_what_is_wrong_is_said(model, args, message):
    done = run("show", *[arg.format(model=model) for arg in args])
    assert done.exit_code == 2, done.output
    assert message in done.stderr and "raceback" not in done.stderr


def test_arguments_are_parsed_and_not_evaluated():
    struct = jax.ShapeDtypeStruct
    text = "f32[8, 128], (i32[], [1, -2.5e-3]), {'a': ()}, n=3, flag=True, s=\"x\""
    args, kwargs = read_arguments(text)
    assert args[0] == struct((8, 128), jnp.float32)
    assert args[1:] == ((struct((), jnp.int32), [1, -2.5e-3]), {"a": ()})
    assert kwargs == {"n": 3, "flag": True, "s": "x"}
    assert read_arguments("") == ((), {}) and read_arguments("(1)") == ((1,), {})
    assert read_arguments("~f32[]")[0][0].weak_type
    assert read_arguments("key<fry>[2]")[0][0].dtype == jax.random.key(0).dtype
    for bad in (
        "open('x')",
        "f32[3](",
        "(1",
        "'a",
        "a=1, 2",
        "a=1, a=2",
        "-",
        "{1}",
        "x",
    ):
        with pytest.raises(ParseError, match="line 1, column"):
            read_arguments(bad)
    assert "eval" not in inspect.getsource(inspect.getmodule(read_arguments))[400:]
