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


def _sampled(cases: list[planted.Case], step: int) -> list[Any]:
    """Mark all but every how manyth case for the whole corpora."""
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.corpus] if i % step else [])
        for i, case in enumerate(cases)
    ]


AS_USERS = {"xla_backend_optimization_level": 3}
"""How programs are compiled where no test says otherwise."""


@pytest.mark.parametrize("case", _sampled(CASES, 5))
def test_planted_nan_is_found(case: planted.Case) -> None:
    function = case.function()
    found = untrace.nan_origin(function)(case.x)
    if found is None:  # on some values XLA's exp(NaN) is a number
        compiled = jax.jit(function, compiler_options=AS_USERS)
        assert np.isfinite(compiled(case.x)).all()
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
    ("one over the root of 0", lambda x: x * jax.lax.rsqrt(x), X),
    ("pole of gamma", lambda x: jax.lax.lgamma(x) - jax.lax.lgamma(x - 1), X),
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
    (
        "singular matrix",
        lambda x: jnp.linalg.solve(jnp.outer(x, x), x),
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


@pytest.mark.parametrize(
    ("trap", "function", "x"),
    [
        ("too large for the dtype", lambda x: x.astype(jnp.float16) * 2, 9e4),
        ("overflow", lambda x: x * x + 1, 1e30),
        ("overflow", lambda x: x / 1e-30, 1e30),
        ("division by 0", lambda x: x / 0.0, 1e30),
    ],
)
def test_what_is_too_large_is_explained(trap: str, function: Any, x: float) -> None:
    found = untrace.nan_origin(function, kind="inf")(np.float32([1, x]))
    assert found is not None and found.trap == trap


def test_where_the_user_wrote_it_is_said() -> None:
    found = untrace.nan_origin(with_log_of_negative)(X)
    assert found is not None and found.origin is not None
    assert found.origin.text == "return jnp.log(y) * 2.0"
    assert found.origin.function == "with_log_of_negative"
    assert found.origin.place.startswith("test_nan_origin.py:")
    assert found.values == (-95.0,) and found.n_bad == 1
    assert np.isnan(found.result)


def test_a_call_of_several_lines_is_quoted_as_a_whole() -> None:
    def f(x: Any) -> Any:
        return jnp.log(
            x - 1,  # is negative
        )

    found = untrace.nan_origin(f)(X * 0)
    assert found is not None and found.origin is not None
    assert found.origin.text == "jnp.log(x - 1)"


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


@pytest.mark.corpus
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


# ---- on several devices ------------------------------------------------------------------

ROWS = jnp.arange(16.0) + 1


def on_devices(body: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = jax.P("d")
    return jax.shard_map(
        body, mesh=mesh, **{"in_specs": spec, "out_specs": spec, **options}
    )


def found_on_devices(body: Callable[..., Any], x: Any, **options: Any) -> Any:
    found = untrace.nan_origin(on_devices(body, **options))(x)
    assert found is not None and found.origin is not None
    assert found.origin.path[0] == "shard_map", str(found)
    return found


def test_mapped_bodies_are_searched_on_all_devices() -> None:
    def body(x: Any) -> Any:
        y = jnp.log(x - 5.0) * 2.0
        return jax.lax.psum(jnp.where(x > 0, y, 0.0).sum(), "d")

    found = found_on_devices(body, ROWS.at[10].set(4.0), out_specs=jax.P())
    assert found.primitive == "log" and found.values == (-4.0,)
    assert found.origin.text == "y = jnp.log(x - 5.0) * 2.0"
    assert found.trap == "log of a negative number"
    assert untrace.nan_origin(on_devices(jnp.log))(ROWS) is None


def test_what_devices_exchange_may_be_the_origin() -> None:
    def body(x: Any) -> Any:
        huge = jnp.where(x > 9, jnp.inf, jnp.where(x > 7, -jnp.inf, x))
        return jax.lax.psum(huge, "d")

    found = found_on_devices(body, ROWS, out_specs=jax.P())
    assert found.primitive.startswith("psum") and np.isnan(found.result).any()


@pytest.mark.parametrize("is_checked", [True, False])
def test_loops_of_mapped_bodies_are_looked_into(is_checked: bool) -> None:
    def body(x: Any) -> Any:
        def step(total: Any, row: Any) -> Any:
            total = jax.lax.cond(
                row > 3, lambda t: t * 0.5 + jnp.sqrt(row - 9), abs, total
            )
            return total, None

        return jax.lax.scan(step, x.sum() * 0.0, x)[0][None]

    found = found_on_devices(body, ROWS, check_vma=is_checked)
    assert found.primitive == "sqrt"
    assert list(found.origin.path) == ["shard_map", "scan[1]", "cond[1]"]


def test_loops_in_which_devices_exchange_values_are_the_end() -> None:
    def body(x: Any) -> Any:
        def step(total: Any, row: Any) -> Any:
            return total + jax.lax.psum(jnp.log(row), "d"), None

        return jax.lax.scan(step, 0.0, x - 5)[0]

    found = found_on_devices(body, ROWS, out_specs=jax.P())
    assert found.primitive == "scan" and found.trap == "several devices"


def nested(inner: Callable[..., Any], is_checked: bool, loops: bool = False) -> Any:
    """Map a function over the columns of what is mapped over rows."""
    auto = jax.sharding.AxisType.Auto
    mesh = jax.make_mesh((4, 2), ("rows", "columns"), axis_types=(auto, auto))
    options: Any = {"check_vma": is_checked}
    columns, rows = jax.P(None, "columns"), jax.P("rows", None)

    def outer(x: Any) -> Any:
        def mapped(y: Any) -> Any:
            return jax.shard_map(
                inner,
                in_specs=columns,
                out_specs=columns,
                axis_names={"columns"},
                **options,
            )(y)

        if loops:
            return jax.lax.scan(lambda c, y: (c, mapped(y)), 0.0, x[None])[1][0]
        return mapped(x * 2.0) + 1.0

    return jax.jit(
        jax.shard_map(
            outer,
            mesh=mesh,
            in_specs=rows,
            out_specs=rows,
            axis_names={"rows"},
            **options,
        )
    )


MATRIX = jnp.arange(8.0, 72.0).reshape(8, 8)


@pytest.mark.parametrize("is_checked", [True, False])
def test_maps_inside_of_maps_are_searched(is_checked: bool) -> None:
    def inner(y: Any) -> Any:
        z = jnp.log(y - 5.0)
        return jnp.where(y > 3, z, jax.lax.psum(y, "rows"))

    f = nested(inner, is_checked)
    assert untrace.nan_origin(f)(MATRIX) is None
    assert untrace.nan_origin(f)(MATRIX.at[4, 6].set(1.0)) is None  # not selected
    found = untrace.nan_origin(f)(MATRIX.at[5, 6].set(2.0))
    assert found is not None and found.origin is not None
    assert found.primitive == "log" and found.values == (-1.0,)
    assert [p for p in found.origin.path if p == "shard_map"] == ["shard_map"] * 2


def test_loops_in_maps_inside_of_maps_are_searched() -> None:
    def inner(y: Any) -> Any:
        return jax.lax.scan(lambda c, row: (c + jnp.sqrt(row - 3), c), y[0] * 0, y)[1]

    f = nested(inner, True)
    assert untrace.nan_origin(f)(MATRIX) is None
    found = untrace.nan_origin(f)(MATRIX.at[4, 6].set(1.0))
    assert found is not None and found.origin is not None
    assert found.primitive == "sqrt" and found.origin.path[-1] == "scan[0]"


def test_loops_in_which_devices_are_mapped_over_again_are_the_end() -> None:
    found = untrace.nan_origin(nested(jnp.log, True, loops=True))(MATRIX - 9)
    assert found is not None and found.primitive == "scan"
    assert found.trap == "several devices"


def test_backward_passes_of_mapped_bodies_are_searched() -> None:
    def loss(x: Any) -> Any:
        return on_devices(lambda x: jnp.linalg.norm(x)[None])(x).sum()

    found = untrace.nan_origin(jax.grad(loss))(ROWS.at[6:8].set(0.0))
    assert found is not None and found.trap == "sqrt" and found.origin is not None
    assert found.origin.path[0] == "shard_map" and found.origin.is_backward
    assert untrace.nan_origin(jax.grad(loss))(ROWS) is None


def test_values_in_several_memories_and_shardings_are_searched() -> None:
    def f(x: Any) -> Any:
        on_host = jax.device_put(x * 2.0, jax.memory.Space.Host)
        return jnp.log(jax.device_put(on_host, jax.memory.Space.Device) - 3.0), on_host

    found = untrace.nan_origin(f)(X)
    assert found is not None and found.primitive == "log"
    mesh = jax.make_mesh((8,), ("d",), axis_types=(jax.sharding.AxisType.Explicit,))
    with jax.set_mesh(mesh):
        rows = jax.device_put(ROWS, jax.P("d"))
        g = lambda x, y: (jnp.sqrt(x - 2.0) + jax.reshard(y, jax.P("d")), y * 2.0)
        found = untrace.nan_origin(g)(rows, ROWS)
    assert found is not None and found.primitive == "sqrt"


# ---- where the search ends ---------------------------------------------------------------


def test_kernels_are_named() -> None:
    pallas = pytest.importorskip("jax.experimental.pallas")

    def log_kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jnp.log(x_ref[...])

    kernel = pallas.pallas_call(
        log_kernel, out_shape=jax.ShapeDtypeStruct((3,), np.float32), interpret=True
    )
    found = untrace.nan_origin(lambda x: kernel(x) * 2.0)(X - 1.0)
    assert found is not None and found.primitive == "pallas_call"
    assert found.trap == "inside of a kernel" and "log_kernel" in str(found)


def test_host_functions_are_named() -> None:
    def on_host(x: Any) -> Any:
        with np.errstate(all="ignore"):
            return np.log(np.asarray(x))

    def f(x: Any) -> Any:
        return jax.pure_callback(on_host, jax.ShapeDtypeStruct((3,), np.float32), x)

    found = untrace.nan_origin(f)(X - 1.0)
    assert found is not None and found.trap == "on the host"
