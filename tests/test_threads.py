"""Threads and nested calls get what they would get alone; the process stays as it was."""

from __future__ import annotations

import ast
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace
from tests.soak import left, rounds, settings
from untrace.parsing import parse
from untrace.saved import verify_file

X = np.ones(3, np.float32)


pytestmark = pytest.mark.filterwarnings("ignore:mine")


@pytest.fixture(autouse=True)
def same_settings() -> Any:
    untrace.source(jnp.sin)(X)  # what is imported at the first use adds warning filters
    before = settings()
    yield
    assert settings() == before


def layer(x: Any) -> Any:
    return jnp.sin(x) * 2.0 + jax.nn.softmax(x)


def wide(x: Any) -> Any:
    return jnp.cumsum(jnp.sin(x)) / 3.0


def test_threads_at_once_get_what_each_gets_alone() -> None:
    alone = str(untrace.source(layer)(X))
    barrier = threading.Barrier(4)

    def run(_: int) -> list[str]:
        barrier.wait()
        return [str(untrace.source(layer)(X)) for _ in range(3)]

    with ThreadPoolExecutor(4) as pool:
        for texts in pool.map(run, range(4)):
            assert texts == [alone] * 3


@pytest.mark.parametrize("level", ["api", "lax"])
def test_a_call_inside_a_traced_function_changes_nothing(level: str) -> None:
    found: list[str] = []

    def nested(depth: int) -> Callable[[Any], Any]:
        def layer(x: Any) -> Any:
            y = jnp.sin(x)
            if depth:
                found.append(str(untrace.source(nested(depth - 1), level=level)(X)))
            return y * 2.0 + jax.nn.softmax(x)

        return layer

    alone = str(untrace.source(nested(0), level=level)(X))
    found.append(str(untrace.source(nested(4), level=level)(X)))
    assert found == [alone] * 5
    for text in found:
        assert "identical" in text.partition("import")[0]
        assert "from its equations" not in text


def test_a_function_may_show_the_source_of_another_at_its_own_tracers() -> None:
    texts: list[str] = []

    def f(x: Any) -> Any:
        texts.append(str(untrace.source(layer)(x)))
        return x + 1.0

    src = untrace.source(f)(X)
    assert src.report.strength == "identical"
    assert "return x + 1.0" in str(src) and "softmax" not in str(src)
    assert "jax.nn.softmax(x)" in texts[0] and "identical" in texts[0]


@pytest.mark.parametrize("level", ["api", "lax"])
def test_a_call_that_closes_over_the_tracers_around_it_says_so(level: str) -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        with pytest.raises(untrace.LiftingError, match="of another trace"):
            untrace.source(lambda z: z * y, level=level)(X)
        return y + 1.0

    assert untrace.source(f)(X).report.strength == "identical"


@pytest.mark.parametrize("transform", [jax.jit, jax.vmap, jax.jacfwd])
def test_a_call_inside_a_transformation_adds_nothing_to_it(transform: Any) -> None:
    def plain(x: Any) -> Any:
        return x * 2.0

    def nested(x: Any) -> Any:
        assert untrace.source(layer)(x).report.is_verified
        return x * 2.0

    def n_lines(f: Any) -> int:
        return str(jax.make_jaxpr(transform(f))(np.stack([X, X]))).count("\n")

    assert n_lines(nested) == n_lines(plain)


def test_other_threads_compute_as_before_while_a_wide_program_is_verified() -> None:
    seen: set[Any] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add(jnp.asarray(np.ones(2)).dtype.name)
            seen.add(bool(jax.config.jax_enable_x64))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        with jax.enable_x64(True):
            srcs = [untrace.source(wide)(np.ones(3)) for _ in range(5)]
            loaded = [src.load() for src in srcs]
    finally:
        stop.set()
        thread.join()
    assert loaded[0](np.ones(3)).dtype == np.float64
    assert seen == {"float32", False}


def test_importing_a_wide_file_changes_nothing(tmp_path: Any, monkeypatch: Any) -> None:
    weights = np.linspace(0.0, 1.0, 300)

    def f(x: Any) -> Any:
        return wide(x) + jnp.asarray(weights) @ jnp.asarray(weights) * S

    with jax.enable_x64(True):
        S = jnp.array([1.1, 2.2, 3.3])
        wanted = np.asarray(jax.jit(f)(np.ones(3)))
        src = untrace.source(f)(np.ones(3))
        path = src.save(tmp_path / "wide_file.py")
    assert src.report.strength == "identical"
    monkeypatch.syspath_prepend(tmp_path)
    import wide_file  # pyright: ignore[reportMissingImports]

    assert not jax.config.jax_enable_x64
    assert jnp.ones(2).dtype == np.float32
    for made in (wide_file.f, src.load()):
        np.testing.assert_array_equal(made(**wide_file.example_args()), wanted)
    assert verify_file(path).is_verified
    del sys.modules["wide_file"]


def test_filters_of_warnings_are_no_business_of_other_threads() -> None:
    stop = threading.Event()
    errors: list[BaseException] = []

    def warn() -> None:
        while not stop.is_set():
            try:
                warnings.warn("mine", UserWarning, stacklevel=1)
            except BaseException as error:
                errors.append(error)

    threads = [threading.Thread(target=warn)]
    for thread in threads:
        thread.start()
    try:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda _: idioms(), range(6)))
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not errors


def idioms() -> None:
    jaxpr = jax.make_jaxpr(layer)(X)
    assert untrace.source(jaxpr, level="api").report.is_verified


def test_threads_count_the_checks_of_checkify_apart() -> None:
    from jax.experimental import checkify

    def f(x: Any) -> Any:
        checkify.check(x[0] > 0, "first")
        checkify.check(x[1] > 0, "second")
        return x * 2

    checked = checkify.checkify(f)
    with ThreadPoolExecutor(4) as pool:
        reports = list(pool.map(lambda _: untrace.source(checked)(X).report, range(8)))
    assert {report.strength for report in reports} == {"identical"}


@pytest.mark.parametrize("level", ["api", "lax"])
def test_leaks_may_be_looked_for(level: str) -> None:
    with jax.checking_leaks():
        assert untrace.source(layer, level=level)(X).report.is_verified


def test_an_error_in_the_function_restores_all() -> None:
    def broken(x: Any) -> Any:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        untrace.source(broken)(X)


def test_a_limit_that_the_function_sets_stays() -> None:
    before = sys.getrecursionlimit()

    def f(x: Any) -> Any:
        sys.setrecursionlimit(before + 321)
        return jnp.sin(x)

    try:
        untrace.source(f)(X)
        assert sys.getrecursionlimit() == before + 321
    finally:
        sys.setrecursionlimit(before)


def test_threads_parse_one_at_a_time() -> None:
    text = "\n".join(f"x{i} = [{i}, (a + {i}) * b]" for i in range(300))

    def run(_: int) -> int:
        return len(parse(text).body)

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(run, range(200))) == {300}


def test_the_package_parses_in_one_place() -> None:
    found = {
        path.name
        for path in Path(untrace.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "ast.parse"
    }
    assert found == {"parsing.py"}


@pytest.fixture
def dropped_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ignore interrupts that arrive while Python drops objects, where nobody can catch them.

    Python says so and goes on; pytest makes an error of it.
    """
    shown = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, KeyboardInterrupt):
            shown(unraisable)

    monkeypatch.setattr(sys, "unraisablehook", hook)


@pytest.mark.usefixtures("dropped_interrupts")
def test_a_sample_of_the_soak() -> None:
    (soak,) = rounds(n_threads=4, n_programs=6, n_rounds=1)
    assert not soak.wrong, soak.wrong[0]


@pytest.mark.corpus
@pytest.mark.usefixtures("dropped_interrupts")
def test_the_soak() -> None:
    """Eight threads and 200 programs, three times: what is left is left the first time."""
    kept: list[tuple[int, float]] = []
    for soak in rounds(n_threads=8, n_programs=200, n_rounds=3):
        assert not soak.wrong, "\n".join(soak.wrong[:5])
        kept.append(left())
    (n_second, mb_second), (n_last, mb_last) = kept[1:]
    assert n_last < 1.01 * n_second and mb_last < 1.05 * mb_second, kept
