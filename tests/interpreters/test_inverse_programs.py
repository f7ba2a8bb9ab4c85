"""What can be inverted besides functions: jaxprs, traced functions, sources, files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.interpreters.inverting import vector
from untrace.errors import CallError

X = vector()


def notebook(x: Any) -> Any:
    return jnp.exp(jnp.tanh(x))


def rows(x: Any, scale: Any) -> Any:
    """The result has another type than the argument."""
    return {"rows": x.reshape(2, 3) * scale["a"], "last": [x[-1]]}


SCALE = {"a": 2.0}


def saved(f: Any, folder: Path, *args: Any) -> Path:
    path = folder / "saved.py"
    untrace.source(f)(*args).save(path)
    return path


def programs(f: Any, folder: Path, *args: Any) -> list[Any]:
    """The program of a function in all its forms, those with trees of arguments."""
    return [
        jax.jit(f).trace(*args),
        untrace.source(f)(*args),
        untrace.source(jax.jit(f).trace(*args)),
        saved(f, folder, *args),
    ]


def test_programs_of_all_kinds_are_inverted(tmp_path: Path) -> None:
    flat = jax.make_jaxpr(notebook)(X)
    for program in (flat, untrace.source(flat), *programs(notebook, tmp_path, X)):
        found = untrace.inverse(program)(notebook(X))
        np.testing.assert_allclose(found, X, rtol=1e-4, atol=1e-5)
        _, log_det = untrace.inverse_and_log_det(program)(notebook(X))
        wanted = untrace.inverse_and_log_det(notebook)(notebook(X))[1]
        np.testing.assert_allclose(log_det, wanted, rtol=1e-5)


def test_they_know_the_types_of_their_arguments(tmp_path: Path) -> None:
    y = rows(X, SCALE)
    with pytest.raises(
        AttributeError
    ) as caught:  # what the user's code makes of a dict
        untrace.inverse(rows, argnums=0)(y, SCALE)
    assert "ShapeDtypeStruct" in "".join(caught.value.__notes__)
    for program in programs(rows, tmp_path, X, SCALE):
        found = untrace.inverse(program, argnums=0)(y, SCALE)
        np.testing.assert_allclose(found, X, rtol=1e-5)


def test_jaxprs_take_flat_results() -> None:
    jaxpr = jax.make_jaxpr(rows)(X, SCALE)
    found = untrace.inverse(jaxpr, argnums=0)((X[-1], (X * 2).reshape(2, 3)), 2.0)
    np.testing.assert_allclose(found, X, rtol=1e-5)
    unbound = jax.make_jaxpr(lambda x: jnp.sinh(x) + 1)(X).jaxpr
    np.testing.assert_allclose(
        untrace.inverse(unbound)(jnp.sinh(X) + 1), X, rtol=1e-4, atol=1e-5
    )


def test_keyword_and_static_arguments_of_programs(tmp_path: Path) -> None:
    def power(x: Any, n: int, *, shift: Any) -> Any:
        return jnp.sinh(x) * n + shift

    y = power(X, 3, shift=X)
    src = untrace.source(power, static_argnums=1)(X, 3, shift=X)
    traced = jax.jit(power, static_argnums=1).trace(X, 3, shift=X)
    for program in (src, traced):
        found = untrace.inverse(program)(y, shift=X)
        np.testing.assert_allclose(found, X, rtol=1e-4, atol=1e-5)


def test_refusals_name_the_line_of_the_program_that_was_traced() -> None:
    jaxpr = jax.make_jaxpr(lambda x: jnp.abs(x) + 1)(X)
    for program in (jaxpr, untrace.source(lambda x: jnp.abs(x) + 1)(X)):
        with pytest.raises(
            untrace.InverseError, match=r"`abs`.*test_inverse_prog.*:\d"
        ):
            untrace.inverse(program)(X)


def test_sources_of_inverses_are_inverted_again() -> None:
    src = untrace.source(untrace.inverse(notebook))(notebook(X))
    np.testing.assert_allclose(untrace.inverse(src)(X), notebook(X), rtol=1e-4)


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CallError, match="int is no program"):
        untrace.inverse(3)
    path = tmp_path / "other.py"
    for text, said in (("x = 1\n", "not written by"), ("not python (", "SyntaxError")):
        path.write_text(text)
        with pytest.raises(untrace.LoadError, match=said):
            untrace.inverse(path)
