"""The programs of `benchmarks/readability` trace, and their equivalents are equal."""

from __future__ import annotations

import jax
import pytest

import untrace
from benchmarks.readability import corpus, names, scoring, tokens
from benchmarks.readability.scoring import compare_leaves


def load(name: str) -> corpus.Program:
    """Load a program, or skip where its framework does not import."""
    for package in sorted(corpus.imported_by(name) - corpus.PLAIN):
        pytest.importorskip(package, exc_type=ImportError)
    return corpus.load(name)


HANDWRITTEN = corpus.names(is_handwritten=True)


@pytest.mark.parametrize("name", corpus.names())
def test_program_is_identical_at_level_lax(name: str) -> None:
    program = load(name)
    src = untrace.source(program.function, level="lax")(*program.args)
    assert src.report.strength == "identical", str(src.report)
    assert src.report.n_equations


@pytest.mark.parametrize("name", HANDWRITTEN)
def test_handwritten_version_is_equal(name: str) -> None:
    program = load(name)
    found = corpus.handwritten(program)
    assert found is not None
    _, function, args = found
    expected = jax.jit(program.function)(*program.args)
    actual = jax.jit(function)(*args)
    leaves = jax.tree.leaves(expected), jax.tree.leaves(actual)
    assert compare_leaves(*leaves) == ""


@pytest.mark.parametrize("name", HANDWRITTEN)
def test_handwritten_version_imports_jax_only(name: str) -> None:
    path = corpus.HERE / "handwritten" / f"{name}.py"
    assert corpus.imported(path.read_text()) <= corpus.PLAIN


def test_the_corpus_is_large() -> None:
    assert len(corpus.names()) >= 26
    assert len(HANDWRITTEN) >= 10


@pytest.mark.parametrize("name", ["attention", "clip_gradient", "gpt", "hmc", "ppo"])
def test_original_would_get_full_marks(name: str) -> None:
    program = load(name)
    observed = names.observe(program)
    text = program.path.read_text()
    computation = tokens.computation(text, observed.functions)
    score = scoring.Score(name)
    scoring.measure_level(score, computation, observed)
    scoring.measure_names(score, computation, observed)
    assert score.low_statements == ()
    for share in (score.arguments, score.local_names, score.functions):
        assert share.missing == () and share.n_asked
    assert score.parameters.missing == ()
    assert score.letters == ()


def test_repeated_blocks_are_found() -> None:
    line = "    {0} = jax.nn.relu({0} @ params['{1}'] + params['b{1}'])"
    layer = ["    x = x * jnp.sqrt(2.0)", line, "    x = x - jnp.mean(x, axis=0)", line]
    body = [text.format("x", n) for n in range(3) for text in layer]
    text = "\n".join(["def f(params, x):", *body, "    return x"])
    assert len(scoring.repeats(tokens.computation(text))) == 1
    shorter = "\n".join(["def f(params, x):", *body[:8], "    return x"])
    assert not scoring.repeats(tokens.computation(shorter))
