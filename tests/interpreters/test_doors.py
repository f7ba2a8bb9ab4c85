"""What the tools take besides functions: files that untrace saved, at any arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from untrace.cli import main
from untrace.errors import LoadError

X = {"rows": jnp.array([1.0, 0.0, 4.0]), "scale": jnp.float32(2.0)}


def loss(x: Any) -> Any:
    logs = jnp.log(x["rows"]) - jnp.log(x["rows"] * x["scale"])
    return {"sum": logs.sum(), "logs": logs}


def as_it_is(step: Any, *operands: Any) -> Any:
    return step(*operands)


@pytest.fixture(params=["api", "lax"])
def saved(request: Any, tmp_path: Path) -> Path:
    return untrace.source(loss, level=request.param)(X).save(tmp_path / "saved.py")


@pytest.mark.parametrize("kind", [Path, str])
def test_tools_take_saved_files(saved: Path, kind: Any) -> None:
    path = kind(saved)
    found = untrace.interpret(path, as_it_is)()
    jax.tree.map(np.testing.assert_array_equal, found, loss(X))
    names = [row.name for row in untrace.watch(path)().rows]
    assert names == [row.name for row in untrace.watch(loss)(X).rows]
    origin = untrace.nan_origin(path)()
    assert origin is not None and origin.origin is not None
    assert origin.primitive == "sub" and origin.origin.place.startswith("saved.py:")
    assert untrace.diff(path, loss)(X).verdict == "equal"
    assert untrace.diff(path, path).verdict == "equal"


def test_saved_files_are_called_as_their_function_is(saved: Path) -> None:
    other = {"rows": jnp.ones(2), "scale": jnp.float32(1.0)}
    found = untrace.interpret(saved, as_it_is)(other)
    jax.tree.map(np.testing.assert_array_equal, found, loss(other))
    assert untrace.nan_origin(saved)(other) is None


def test_saved_files_of_64_bits_are_traced_as_such(tmp_path: Path) -> None:
    with jax.enable_x64(True):
        wide = untrace.source(lambda x: jnp.sin(x) + 1)(np.arange(3.0))
        wanted = jnp.sin(jnp.arange(3.0)) + 1
    path = wide.save(tmp_path / "wide.py")
    found = untrace.interpret(path, as_it_is)()
    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, wanted)


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def f(x):\n    return x\n")
    with pytest.raises(LoadError, match="was not written by untrace"):
        untrace.watch(path)()
    with pytest.raises(LoadError, match=r"there is no file .*none\.py"):
        untrace.nan_origin(tmp_path / "none.py")()
    path.write_text("def f(x):\n    return x + 'a'\n\n\nf(**example_args())\n")
    with pytest.raises(LoadError, match="cannot load"):
        untrace.interpret(path, as_it_is)()


def test_command_line_takes_saved_files(saved: Path, tmp_path: Path) -> None:
    made = CliRunner().invoke(main, ["nan-origin", str(saved)])
    assert made.exit_code == 1 and "NaN at saved.py:" in made.stdout, made.output
    made = CliRunner().invoke(main, ["watch", str(saved), "--name", "log*"])
    assert made.exit_code == 0 and "saved.py:" in made.stdout, made.output
    other = tmp_path / "other.py"
    other.write_text("x = 1\n")
    for command in ("nan-origin", "watch"):
        made = CliRunner().invoke(main, [command, str(other)])
        assert made.exit_code == 2 and "not written by untrace" in made.stderr
