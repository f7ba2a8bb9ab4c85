"""The handler that does nothing changes no bit: a sample, and all with `-m corpus`."""

from __future__ import annotations

import collections
from collections.abc import Iterable

import pytest

from tests.corpus import interpreted

pytest.importorskip("absl", reason="the harness of JAX needs absl-py")


def check(outcomes: Iterable[interpreted.Outcome]) -> None:
    counts: collections.Counter[str] = collections.Counter()
    bad: list[str] = []
    for outcome in outcomes:
        counts[outcome.verdict] += 1
        if outcome.verdict in ("different", "error"):
            bad.append(f"{outcome.verdict} {outcome.name}: {outcome.detail[:300]}")
    assert not bad, "\n".join(bad[:20])
    assert counts["equal"] > sum(counts.values()) * 0.9, counts


def test_sample_of_the_harness_has_the_bits_of_jax() -> None:
    check(interpreted.of_harness(80))


def test_sample_of_the_documented_programs_has_the_bits_of_jax() -> None:
    check(interpreted.of_programs(25))


@pytest.mark.corpus
def test_whole_harness_and_all_programs_have_the_bits_of_jax() -> None:
    check(interpreted.of_programs(1))
    check(interpreted.of_harness(1))
