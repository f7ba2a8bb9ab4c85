"""No argument of the command line, and no string in a program that it is given, gets out."""

import os

import click
import pytest
from click.testing import CliRunner

from tests.hostile.strings import CANARY, STRINGS, sample
from untrace import cli

N_STRINGS = 10

# Of subclasses of `str`, whose `repr` is code, a file has the text.
PLAIN = [str.__str__(string) for string in sample(12, salt=5)]
MODEL = f"""
import jax, jax.numpy as jnp, numpy as np

x = np.arange(3.0, dtype=np.float32)
STRINGS = {PLAIN!a}

def f(d):
    for key in STRINGS:
        with jax.named_scope(key.encode("utf-8", "replace").decode()):
            x = jnp.log(jnp.sin(d[key]) - 2)
    return {{key: x for key in STRINGS}}

def g(d):
    return {{key: jnp.sinh(d[key]) for key in STRINGS}}

f.__name__ = f.__qualname__ = STRINGS[0]
g.__name__ = g.__qualname__ = STRINGS[1]
d = dict.fromkeys(STRINGS, x)
"""
SHOW = ["show", "model.py", "f(d)"]
REDUCE = ["reduce", "model.py", "f(d)", "--keep", "nan()", "--max-runs", "4"]
REDUCE += ["--control", "none"]  # it has none, which would be looked for each time


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(MODEL)
    yield
    found = [path for path in tmp_path.rglob("*") if CANARY in path.name]
    assert not [path for path in found if path.name == CANARY], "a string was executed"


def run(args: list[str]) -> int:
    done = CliRunner().invoke(cli.main, args, standalone_mode=True)
    error = done.exception
    assert error is None or isinstance(error, SystemExit), repr(error)
    said = done.stdout + done.stderr
    assert said.replace("\n", "").isprintable(), ascii(said)
    assert done.exit_code in (0, 1, 2)
    return done.exit_code


def taking(kind: type[click.Parameter]) -> list[tuple[str, click.Parameter]]:
    """List the arguments or options of all commands that take any text."""
    return [
        (name, parameter)
        for name, command in cli.main.commands.items()
        for parameter in command.params
        if isinstance(parameter, kind)
        and isinstance(parameter.type, click.types.StringParamType | click.Path)
    ]


WHOLE = {
    "show": SHOW,
    "verify": ["verify", "model.py"],
    "reduce": REDUCE,
    "watch": ["watch", "model.py", "f(d)"],
    "nan-origin": ["nan-origin", "model.py", "f(d)"],
    "divergence": ["divergence", "model.py", "f(d)"],
    "diff": ["diff", "model.py", "model.py", "f(d)", "f(d)"],
    "watch-compiles": ["watch-compiles", "model.py"],
    "inverse": ["inverse", "model.py", "g(d)"],
}


def strings(salt: int) -> list[str]:
    """Choose strings that a shell can pass; bytes that are no UTF-8 arrive escaped."""
    chosen = [*map(str.__str__, sample(N_STRINGS, salt=salt)), "\udc80\udcffx"]
    return [text for text in chosen if _is_passed(text)]


def _is_passed(text: str) -> bool:
    try:
        return "\0" not in text and 0 < len(os.fsencode(text)) < 200
    except UnicodeEncodeError:
        return False


@pytest.mark.parametrize(
    "command, option", taking(click.Option), ids=lambda x: getattr(x, "name", x)
)
def test_options_take_any_text(command, option):
    n = 3 if command == "reduce" else 0  # where each takes seconds; 0 for all
    n = 1 if option.name == "report" else n  # which runs the program several times
    for string in strings(len(option.name))[-n:]:
        if option.name == "resume":  # it stands for the program
            run([command, "--resume", string])
        else:
            run([*WHOLE[command], f"{option.opts[-1]}={string}"])


@pytest.mark.parametrize(
    "command, argument", taking(click.Argument), ids=lambda x: getattr(x, "name", x)
)
def test_arguments_take_any_text(command, argument):
    for string in strings(len(argument.name)):
        args = list(WHOLE[command])
        arguments = [
            parameter.name
            for parameter in cli.main.commands[command].params
            if isinstance(parameter, click.Argument)
        ]
        args[1 + arguments.index(argument.name)] = f" {string}"
        assert run(args) == 2


OTHERS = {"refuse": "3", "lines": "14"}
FLAGS = [
    [f"{option.opts[-1]}"] if option.is_flag else [f"{option.opts[-1]}={choice}"]
    for option in cli.show.params
    if isinstance(option, click.Option)
    for choice in getattr(option.type, "choices", [OTHERS.get(option.name, "jit")])
    if option.is_flag or option.multiple or hasattr(option.type, "choices")
    if option.name != "isolated"  # a process each; the text is the same
]


@pytest.mark.parametrize("flags", FLAGS, ids=" ".join)
def test_every_option_shows_any_text(flags):
    assert run([*SHOW, *flags, "-o", "out.py"]) == 0
    n_unproved = 2 if flags == ["--no-verify"] else 0  # it has no fingerprint
    assert run(["verify", "out.py", "--no-isolated"]) == n_unproved
    run(["verify", "out.py", "--no-run"])


@pytest.mark.parametrize("flags", [[], ["--json"], ["--quiet"], ["--anonymous"]])
def test_programs_with_any_text_are_reduced(flags):
    assert run([*REDUCE, *flags]) == 0
    assert run(["show", "repro.py"]) == 0
    assert run(["verify", "repro.py", "--no-isolated"]) == 2  # it has no fingerprint


def test_there_are_strings_of_every_kind():
    assert len(strings(1)) > 5 and len(STRINGS) == 2000
