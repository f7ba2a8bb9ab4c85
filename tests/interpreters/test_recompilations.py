"""Every planted recompilation happens, and its cause and place are named."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from click.testing import CliRunner
from rich.console import Console

import untrace
from tests.interpreters.planted_recompilations import PLANTED, Planted
from untrace import jaxapi
from untrace.cli import main
from untrace.errors import CallError


def explained(planted: Planted) -> Any:
    """Explain the two calls without making them, or by making them."""
    with planted.before():
        args, kwargs = planted.first()
        second = untrace.why_recompiled(planted.make())(*args, **kwargs)
    with planted.after():
        args, kwargs = planted.second()
        return second(*args, **kwargs)


def causes(found: Any) -> list[Any]:
    if isinstance(found, untrace.Recompilation):
        return list(found.causes)
    return [cause for one in found.recompilations for cause in one.causes]


def test_there_are_sixty() -> None:
    assert sum(bool(planted.kind) for planted in PLANTED.values()) >= 60


@pytest.mark.parametrize("name", PLANTED)
def test_the_cause_of_a_recompilation_is_named(name: str) -> None:
    planted = PLANTED[name]
    found = causes(explained(planted))
    if not planted.kind:
        assert not found, [str(cause) for cause in found]
        return
    assert [(cause.kind, cause.where) for cause in found] == [
        (planted.kind, planted.where)
    ], [str(cause) for cause in found]
    assert found[0].advice


@pytest.mark.parametrize("name", PLANTED)
def test_jax_compiles_again_for_that(name: str) -> None:
    planted = PLANTED[name]
    function = planted.make()
    with untrace.watch_compiles(show=False) as watch:
        with planted.before():
            args, kwargs = planted.first()
            function(*args, **kwargs)
        with planted.after():
            args, kwargs = planted.second()
            function(*args, **kwargs)
    if not planted.kind:
        assert not watch.recompilations, str(watch)
        return
    assert len(watch.recompilations) == 1, str(watch)
    found = watch.recompilations[0].causes
    assert [(cause.kind, cause.where) for cause in found] == [
        (planted.kind, planted.where)
    ], str(watch)


def train(step: Any, sizes: tuple[int, ...]) -> None:
    for n in sizes:
        step({"w": jnp.ones((3, 2))}, jnp.ones((n, 3)))


def new_step() -> Any:
    return jax.jit(lambda params, batch: jnp.sum(batch @ params["w"]))


def test_what_is_compiled_again_for_one_reason_is_one_entry(capsys: Any) -> None:
    with untrace.watch_compiles() as watch:
        train(new_step(), (8, 8, 7, 5, 8))
    assert len(watch.recompilations) == 2
    text = str(watch)
    assert text.count("`batch` was f32[8,3], is f32[7,3]") == 1
    assert "2 times" in text and "test_recompilations.py:" in text
    assert text in capsys.readouterr().err
    console = Console(width=100, record=True)
    with console.capture() as shown:
        console.print(watch)
    assert "function" in shown.get()


def test_an_entry_is_compared_with_what_is_most_like_it() -> None:
    step = new_step()
    with untrace.watch_compiles(show=False) as watch:
        train(step, (8,))
        step({"w": jnp.ones((3, 5))}, jnp.ones((4, 3)))
        step({"w": jnp.ones((3, 5))}, jnp.ones((2, 3)))
    last = watch.recompilations[-1]
    assert [cause.where for cause in last.causes] == ["batch"]


def test_cleared_caches_are_said_to_be_unknown() -> None:
    step = new_step()
    with untrace.watch_compiles(show=False) as watch:
        train(step, (8,))
        jax.clear_caches()
        train(step, (8,))
    assert [c.kind for c in watch.recompilations[0].causes] == ["unknown"]


def test_nothing_is_told_after_the_end() -> None:
    with untrace.watch_compiles(show=False) as watch:
        pass
    train(new_step(), (8, 7))
    assert not watch.recompilations and watch.n_first == 0
    assert str(watch).startswith("No function was compiled again")


def test_operations_that_run_by_themselves_are_counted_only() -> None:
    with untrace.watch_compiles(show=False) as watch:
        for n in (31, 37, 41):
            jnp.cumsum(jnp.ones(n) + 1)
    assert not watch.recompilations and watch.n_own > 0


def test_arrays_are_not_kept_alive() -> None:
    step = jax.jit(lambda x: x + 1, donate_argnums=0)
    with untrace.watch_compiles(show=False) as watch:
        x = jnp.ones(3)
        before = sys.getrefcount(x)
        step(x)
        assert sys.getrefcount(x) <= before + 1
        step(jnp.ones(4))
    assert len(watch.recompilations) == 1


def test_frames_are_as_expected_on_this_version() -> None:
    found: list[Any] = []
    step = jax.jit(lambda x: x * 3)
    with jaxapi.watching_compiles(lambda call, name, seconds: found.append(call)):
        step(jnp.ones(17))
    calls = [c for c in found if c is not None and c.function is step.__wrapped__]
    assert len(calls) == 1
    assert calls[0].args[0].shape == (17,)
    assert calls[0].place.startswith("test_recompilations.py:")


def test_names_from_outside_cannot_steer_the_terminal() -> None:
    name = "a\x1b[31m<b>"
    f = jax.jit(lambda d: d[name] * 2)
    found = untrace.why_recompiled(f)({name: jnp.ones(2)})({name: jnp.ones(3)})
    assert "\x1b" not in str(found)
    assert "<b>" not in found._repr_html_()


SCRIPT = """\
import sys
import jax, jax.numpy as jnp

step = jax.jit(lambda x: x * 2)
for n in map(int, sys.argv[1:]):
    step(jnp.ones(n))
print("done", __name__)
"""


def test_a_script_is_run_and_explained(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    run = CliRunner().invoke(main, ["watch-compiles", str(path), "3", "4"])
    assert run.exit_code == 0, run.output
    assert run.stdout == "done __main__\n"
    assert "`x` was f32[3], is f32[4]" in " ".join(run.stderr.split())
    path.write_text("raise ValueError('mine')")
    run = CliRunner().invoke(main, ["watch-compiles", str(path)])
    assert run.exit_code == 2 and "mine" in run.stderr


class Stubborn:
    """Cannot be compared with anything, nor be written."""

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    def __hash__(self) -> int:
        return 1

    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_what_is_watched_goes_on_whatever_it_holds() -> None:
    def run(x: Any) -> Any:
        held = Stubborn()
        return jax.jit(lambda v: v if held is None else v + 1)(x)

    with untrace.watch_compiles(show=False) as watch:
        for _ in range(2):
            assert run(jnp.ones(2)).shape == (2,)
    assert len(watch.recompilations) == 1
    assert str(watch)


def test_large_arrays_that_are_closed_over_are_not_copied() -> None:
    def run(x: Any, large: Any) -> Any:
        return jax.jit(lambda v: v + large)(x)

    large = jnp.ones((512, 512))
    with untrace.watch_compiles(show=False) as watch:
        run(1.0, large)
        run(1.0, large)
        run(1.0, large + 1)
    kinds = [one.causes[0].kind for one in watch.recompilations]
    assert kinds == ["function", "closure"]
    assert "a float32[512,512] of other values" in str(watch)


# ---- other than jitted functions -----------------------------------------------------


def doubled(x: Any) -> Any:
    return x * 2


def test_a_function_that_is_not_jitted_is_explained_as_if_it_were() -> None:
    found = untrace.why_recompiled(doubled)(jnp.ones(3))(jnp.ones(4))
    assert isinstance(found, untrace.Recompilation) and not found.is_jitted
    assert [(cause.kind, cause.where) for cause in found.causes] == [("shape", "x")]
    assert "is not jitted" in str(found) and "With `jax.jit` around it" in str(found)
    same = untrace.why_recompiled(doubled)(jnp.ones(3))(jnp.ones(3))
    assert "is not jitted" in str(same) and not same.causes


def test_functions_that_jit_are_run() -> None:
    def train(n: int) -> Any:
        return jax.jit(lambda x: x * n)(1.0)

    found = untrace.why_recompiled(train)(1)(2)
    assert [cause.kind for cause in found.recompilations[0].causes] == ["closure"]


def test_programs_know_their_first_call(tmp_path: Path) -> None:
    source = untrace.source(doubled)(jnp.ones(3))
    source.save(tmp_path / "saved.py")
    for program in (
        jax.jit(doubled).trace(jnp.ones(3)),
        jax.make_jaxpr(doubled)(jnp.ones(3)),
        source,
        tmp_path / "saved.py",
        str(tmp_path / "saved.py"),
    ):
        why = untrace.why_recompiled(program)()
        assert not why(jnp.ones(3)).causes
        (cause,) = why(jnp.ones(4)).causes
        assert (cause.kind, cause.where) == ("shape", "x")
        given = untrace.why_recompiled(program)(jnp.ones(4))
        assert not given(jnp.ones(4)).causes


def test_what_is_no_program_is_refused() -> None:
    with pytest.raises(CallError, match="int is no program"):
        untrace.why_recompiled(3)
