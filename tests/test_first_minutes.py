"""What people do first with the command line and the functions, done as they do it."""

import ast
import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main, sources
from untrace.static_check import check_file

WEIGHTS = np.random.default_rng(0).normal(size=(40, 40)).astype(np.float32)

LARGE = """\
import jax.numpy as jnp, numpy as np
W = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
def f(x):
    return jnp.tanh(x @ W)
x = jnp.ones((3, 200))
"""


def run(*args, **options):
    return CliRunner().invoke(main, [str(arg) for arg in args], **options)


def python(*args, **options):
    env = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=env, **options)


def written(path, text):
    path.write_text(text)
    return path


# ---- what is printed is complete ----------------------------------------------------


@pytest.fixture
def large(tmp_path):
    return written(tmp_path / "model_with_weights.py", LARGE)


def test_what_is_printed_runs_with_large_constants(large, tmp_path):
    done = run("show", large, "f(x)")
    assert done.exit_code == 0, done.output
    printed = written(tmp_path / "printed.py", done.stdout)
    assert check_file(printed.read_bytes()) == []
    alone = python("printed.py", cwd=tmp_path)
    assert alone.returncode == 0, alone.stderr
    weights = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)
    values = str(jnp.tanh(jnp.ones((3, 200)) @ weights)).split()
    assert set(values[:3]) <= set(alone.stdout.split())
    assert run("verify", printed, "--no-isolated").exit_code == 0


@pytest.mark.parametrize("options", [{}, {"level": "lax"}, {"anonymous": True}])
def test_text_of_a_source_needs_no_other_file(options):
    source = untrace.source(lambda x: x @ WEIGHTS, **options)(jnp.ones(40))
    assert source.module.stored
    module = {"__file__": "nowhere.py", "__name__": "shown"}
    exec(compile(source.text, "shown", "exec"), module)
    found = module[source.name](*module["example_args"]().values())
    np.testing.assert_array_equal(found, jnp.ones(40) @ WEIGHTS)


def test_text_that_lacks_constants_says_what_saves_them(large, monkeypatch, tmp_path):
    monkeypatch.setattr(sources, "PIPED_CHARS", 1000)
    monkeypatch.chdir(tmp_path)
    done = run("show", large.name, "f(x)", "--level", "lax")
    first, command = (ast.get_docstring(ast.parse(done.stdout)) or "").split("\n")[:2]
    assert first == "INCOMPLETE: its constants, 160 kB, are saved by:"
    assert command.endswith(f"show {large.name} 'f(x)' --level lax -o f.py")
    assert run("show", *command.split("show ")[1].replace("'", "").split()).exit_code == 0
    # The printed text is the saved one but for those lines: the sidecar is its own.
    saved = (tmp_path / "f.py").read_text()
    assert saved == done.stdout.replace(f"{first}\n{command}\n\n", "")


def test_printed_source_that_lacks_constants_says_so():
    source = untrace.source(lambda x: x @ WEIGHTS)(jnp.ones(40))
    assert '"""INCOMPLETE' in source.printed(limit_chars=10)
    assert 'src.save("' in source.printed(limit_chars=10)
