"""JAX's primitive harness: a sample by default, all of it with `-m corpus`."""

from __future__ import annotations

import collections

import pytest

from tests.corpus import harness

pytest.importorskip("absl", reason="the harness of JAX needs absl-py")


def failures(step: int) -> list[str]:
    """Run every `step`-th case; list those that are not identical."""
    verdicts: collections.Counter[str] = collections.Counter()
    bad: list[str] = []
    for outcome in harness.outcomes(harness.sampled(step), values=False):
        verdicts[outcome.verdict] += 1
        if outcome.verdict not in ("identical", "untraceable"):
            bad.append(f"{outcome.verdict} {outcome.name}: {outcome.detail[-300:]}")
    assert verdicts["identical"] > sum(verdicts.values()) * 0.9
    return bad


def test_sample_of_the_harness_is_identical() -> None:
    bad = failures(40)
    assert not bad, "\n".join(bad[:20])


@pytest.mark.corpus
def test_whole_harness_is_identical() -> None:
    bad = failures(1)
    assert not bad, "\n".join(bad[:40])
