"""`untrace.nan_origin` finds what was planted, explains the classic traps, and no more."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import untrace
from tests.interpreters import planted
from untrace.cli import main

X = jnp.array([1.0, 0.0, 4.0])
CASES = list(planted.cases())


def test_there_are_more_than_200_plants() -> None:
    assert len(CASES) >= 200


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_planted_nan_is_found(case: planted.Case) -> None:
    function = case.function()
    found = untrace.nan_origin(function)(case.x)
    if found is None:  # on some values XLA's exp(NaN) is a number
        assert np.isfinite(jax.jit(function)(case.x)).all()
        pytest.skip("compiled, the model has no NaN")
    assert not case.wrong(found)


@pytest.mark.parametrize("model", planted.MODELS, ids=lambda model: model.__name__)
def test_nothing_is_found_where_there_is_no_nan(model: Callable[..., Any]) -> None:
    def masked(x: Any, h: Any) -> Any:
        """A plant whose NaN and infinity reach no result."""
        return jnp.where(x > 1e9, jnp.log(-jnp.abs(x)), x) + 0.0 * jnp.exp(-1e9 * x**2)

    for is_backward in (False, True):
        if is_backward and model is planted.while_loop:
            continue
        case = planted.Case(model, 0, "", lambda x, h: x, is_backward, False)
        assert untrace.nan_origin(case.function())(case.x) is None
        if not is_backward:
            assert untrace.nan_origin(case.function(masked))(case.x) is None


def inverse_variance(x: Any) -> Any:
    return 1.0 / jnp.sqrt((x**2).mean() - x.mean() ** 2)


def rounded_down() -> Any:
    """Equal numbers whose variance is rounded to a negative number."""
    run = jax.jit(inverse_variance)
    tried = [jnp.full(3, x / 7, jnp.float32) for x in range(1, 200)]
    return next(x for x in tried if jnp.isnan(run(x)))


def with_log_of_negative(x: Any) -> Any:
    y = x.sum() - 100.0
    return jnp.log(y) * 2.0


def no(x: Any) -> Any:
    return jnp.where(x > 9, x, -jnp.inf)


TRAPS: list[tuple[str, Callable[[Any], Any], Any]] = [
    ("where", jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0).sum()), X),
    ("where", jax.grad(lambda x: jnp.where(x > 0, x / x, 0.0).sum()), X),
    ("where", jax.grad(lambda x: jnp.where(x > 0, x * jnp.log(x), 0.0).sum()), X),
    ("sqrt", jax.grad(lambda x: jnp.sqrt(x * x).sum()), X),
    ("sqrt", jax.grad(jnp.linalg.norm), X * 0),
    ("sqrt", jax.grad(lambda x: jnp.linalg.norm(x - x) * 2.0), X),
    ("sqrt", jax.grad(lambda x: jnp.std(x)), X * 0 + 1.0),
    ("log of 0", lambda x: x * jnp.log(x), X),
    ("log of 0", lambda x: jnp.log(x) - jnp.log(x * 2), X),
    ("log of a negative number", with_log_of_negative, X),
    ("square root of a negative number", lambda x: jnp.sqrt(x - 1), X),
    ("0 * inf", lambda x: x * jnp.inf, X),
    ("0 / 0", lambda x: x / x, X),
    ("power", jax.grad(lambda x: (x**x).sum()), X),
    ("power of a negative number", lambda x: (x - 2) ** 0.3, X),
    ("arctan2", jax.grad(lambda x: jnp.arctan2(x, x).sum()), X),
    ("overflow in exp", lambda x: jnp.exp(x * 99) / jnp.exp(x * 99).sum(), X),
    ("overflow in exp", lambda x: jnp.exp(x * 99) * 0.0, X),
    ("softmax of -inf alone", lambda x: jax.nn.softmax(jnp.full(3, -jnp.inf) + x), X),
    ("softmax of -inf alone", lambda x: jnp.exp(no(x) - no(x).max()), X),
    ("variance by difference", inverse_variance, rounded_down()),
    ("outside of the domain", lambda x: jnp.arccos(x), X),
    ("outside of the domain", jax.grad(lambda x: jnp.arcsin(x * 2).sum()), X),
    ("inf - inf", lambda x: x / 0.0 - x / 0.0, X + 1),
    (
        "not positive definite",
        lambda x: jnp.linalg.cholesky(jnp.outer(x, x) - jnp.eye(3) * 2),
        X,
    ),
]


@pytest.mark.parametrize("number", range(len(TRAPS)), ids=lambda i: TRAPS[i][0])
def test_classic_trap_is_explained(number: int) -> None:
    trap, function, x = TRAPS[number]
    found = untrace.nan_origin(function)(x)
    assert found is not None
    assert found.trap == trap, str(found)
    assert "why:" in str(found) and "mend:" in str(found)


def test_where_the_user_wrote_it_is_said() -> None:
    found = untrace.nan_origin(with_log_of_negative)(X)
    assert found is not None and found.origin is not None
    assert found.origin.text == "return jnp.log(y) * 2.0"
    assert found.origin.function == "with_log_of_negative"
    assert found.origin.place.startswith("test_nan_origin.py:")
    assert found.values == (-95.0,) and found.n_bad == 1
    assert np.isnan(found.result)


def test_a_bad_input_is_said_to_be_one() -> None:
    def f(p: Any, x: Any) -> Any:
        return p["w"][0] * x

    found = untrace.nan_origin(f)({"w": [jnp.array([1.0, jnp.nan])]}, 2.0)
    assert found is not None and found.input == 'p["w"][0]'
    assert str(found).splitlines()[0] == 'NaN in input `p["w"][0]`'
    assert found.indices == ((1,),)


def test_infinities_and_overflows() -> None:
    def f(x: Any) -> Any:
        y = 1.0 / (1.0 + jnp.exp(x * 1000))
        return y, jnp.log(x)

    inf = untrace.nan_origin(f, kind="inf")(X)
    assert inf is not None and (inf.primitive, inf.values) == ("log", (0.0,))
    overflow = untrace.nan_origin(f, kind="overflow")(X)
    assert overflow is not None and overflow.primitive == "exp"
    assert untrace.nan_origin(f, kind="overflow")(X * 0) is None
    assert untrace.nan_origin(f)(X) is None
    cast = untrace.nan_origin(lambda x: x.astype(jnp.float16), kind="overflow")
    found = cast(X * 1e6)
    assert found is not None and found.primitive == "convert_element_type"
    with pytest.raises(ValueError, match="no kind 'huge'"):
        untrace.nan_origin(f, kind="huge")


def test_it_takes_what_source_takes() -> None:
    def f(x: Any, n: int) -> Any:
        return jnp.log(x - n)

    jitted = jax.jit(f, static_argnums=1)
    recovered = untrace.source(jitted)(X, 1)
    for found in (
        untrace.nan_origin(jitted)(X, 1),
        untrace.nan_origin(f, static_argnums=1)(X, 1),
        untrace.nan_origin(jitted.trace(X, 1))(X),
        untrace.nan_origin(jax.make_jaxpr(f, static_argnums=1)(X, 1))(X),
        untrace.nan_origin(recovered)(),
    ):
        assert found is not None and found.primitive == "log"


def test_a_selection_blames_the_branch_that_is_taken() -> None:
    def f(x: Any) -> Any:
        untaken = jnp.log(-x)
        taken = jnp.sqrt(-x)
        return jnp.where(x > 0, taken, untaken * 0 + jnp.where(x > 0, untaken, 1.0))

    found = untrace.nan_origin(f)(jnp.array([1.0, 2.0]))
    assert found is not None and found.primitive == "sqrt"


def test_it_costs_no_more_than_three_runs() -> None:
    from benchmarks.nan_origin import ratio, rnn

    assert min(ratio(rnn, 0.0, 1) for _ in range(3)) < 3


def test_markup_of_names_is_escaped() -> None:
    def f(x: Any) -> Any:
        return {"<b>": jnp.log(x["<b>"])}

    found = untrace.nan_origin(f)({"<b>": jnp.float32(jnp.nan)})
    assert found is not None and "<b>" in str(found)
    assert "<b>" not in found._repr_html_() and "&lt;b&gt;" in found._repr_html_()


MODEL = """\
import jax
import jax.numpy as jnp

x = jnp.zeros(3)


def loss(x):
    return jnp.linalg.norm(x)
"""


def test_command_line(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    made = CliRunner().invoke(main, ["nan-origin", str(path), "jax.grad(loss)(x)"])
    assert made.exit_code == 1, made.output
    assert made.stdout.startswith("NaN at model.py:8 in `loss`, in its backward pass\n")
    assert "return jnp.linalg.norm(x)" in made.stdout
    made = CliRunner().invoke(main, ["nan-origin", str(path), "loss(x)"])
    assert made.exit_code == 0 and made.stdout == ""
    made = CliRunner().invoke(
        main, ["nan-origin", str(path), "jnp.log(x)", "--kind", "inf"]
    )
    assert made.exit_code == 1 and "log(0)" in made.stdout
