"""`untrace.watch`: names are those of the text, numbers those of NumPy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from rich.console import Console

import untrace
from untrace.cli import main
from untrace.errors import CallError

X = jnp.arange(6.0).reshape(2, 3)
P = {"w": jnp.ones((3, 3))}


def model(p: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ p["w"])
    scaled = hidden / hidden.sum()

    def step(carry: Any, row: Any) -> Any:
        carry = carry * 0.5 + row
        return carry, carry.sum()

    last, sums = jax.lax.scan(step, x[0], scaled)
    return {"last": last, "norm": jnp.linalg.norm(sums)}


def test_names_are_those_of_the_text_and_of_the_user() -> None:
    watched = untrace.watch(model)(P, X)
    text = str(untrace.source(model, level="lax")(P, X))
    for row in watched.rows:
        if row.name != "scan":  # a result that the text drops
            assert f"{row.name} = " in text or f"{row.name}, " in text, row.name
    variables = [row.variable for row in watched.rows if row.variable]
    assert variables == ["hidden", "scaled", "carry", "carry", "last", "sums"]
    assert [row.turn for row in watched.rows if row.variable == "carry"] == [
        "scan[0]",
        "scan[1]",
    ]


def test_summaries_and_results_are_true() -> None:
    watched = untrace.watch(model, names="hidden", expr=jnp.std)(P, X)
    (row,) = watched.rows
    hidden = np.tanh(np.asarray(X @ P["w"]))
    found = row.summary
    assert found.type == "f32[2,3]"
    numbers = [found.min, found.max, found.mean, found.norm]
    wanted = [hidden.min(), hidden.max(), hidden.mean(), np.linalg.norm(hidden)]
    np.testing.assert_allclose(numbers, wanted, rtol=1e-5)
    np.testing.assert_allclose(float(row.extra[0]), hidden.std(), rtol=1e-3)
    jax.tree.map(np.testing.assert_allclose, watched.result, model(P, X))


def test_shares_of_what_is_not_finite() -> None:
    watched = untrace.watch(lambda x: jnp.log(x - 1))(jnp.array([0.0, 1.0, 2.0, 2.0]))
    found = watched.rows[-1].summary
    assert (found.nan, found.inf, found.zero) == (0.25, 0.25, 0.5)
    assert found.min == found.max == 0.0


def test_filters() -> None:
    def listed(**options: Any) -> set[str]:
        return {row.name for row in untrace.watch(model, **options)(P, X).rows}

    everything = listed()
    assert listed(functions="step") == {"product", "added", "total"}
    assert listed(names=["tanh", "last"]) == {"tanh", "scanned"}
    first = model.__code__.co_firstlineno
    assert listed(lines=first + 1) == {"dot", "tanh"}
    assert listed(lines=[first + 1, 10**6]) < everything


def test_functions_of_jax_are_one_value() -> None:
    watched = untrace.watch(lambda x: jnp.linalg.norm(x))(X)
    assert len(watched.rows) == 1


def test_keys_booleans_and_empty_arrays_are_listed() -> None:
    def f(key: Any, x: Any) -> Any:
        return jax.random.split(key), x > 1, x[:0] * 2, x * 1j

    rows = untrace.watch(f)(jax.random.key(0), X).rows
    assert len(rows) >= 4
    assert {row.summary.min is None for row in rows} == {True, False}


def test_it_needs_values() -> None:
    with pytest.raises(CallError, match="needs values"):
        jax.jit(lambda x: untrace.watch(jnp.sin)(x).result)(1.0)


def test_it_is_shown_as_text_markup_and_by_rich() -> None:
    watched = untrace.watch(model, expr={"[red]<b>": jnp.max})(P, X)
    text = str(watched)
    assert "hidden" in text and "[red]<b>" in text and "scan[1]" in text
    assert "<b>" not in watched._repr_html_()
    assert repr(watched) == f"<untrace.Watched: {len(watched.rows)} values>"
    console = Console(width=200)
    with console.capture() as capture:
        console.print(watched)
    assert "scan[1]" in capture.get()


def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(
        "import jax.numpy as jnp\n\n\ndef f(x):\n    y = jnp.sin(x)\n    return y * 2\n\n\n"
        "x = jnp.zeros(3)\n"
    )
    made = CliRunner().invoke(main, ["watch", str(path), "f(x)", "--name", "y"])
    assert made.exit_code == 0, made.output
    assert "model.py:5" in made.stdout and "f32[3]" in made.stdout
    assert len(made.stdout.splitlines()) == 2
