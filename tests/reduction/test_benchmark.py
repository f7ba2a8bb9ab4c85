"""The failures of `benchmarks/reduce` come down to their minimal forms.

One by default; `UNTRACE_REDUCE=all` takes them all, `UNTRACE_REDUCE=NAME,NAME` some.
"""

import math
import os

import jax
import pytest

from benchmarks.reduce.__main__ import fails_again, reduced
from benchmarks.reduce.cases import load, names
from tests.reduction.minimality import removable
from untrace.reduction import reproducer
from untrace.reduction.polishing import with_public_calls
from untrace.reduction.trials import Judge

QUICK = "gelu_abort"
SPARE = 2
"""Equations by which a result may be larger than the form found by hand."""


def chosen():
    wanted = os.environ.get("UNTRACE_REDUCE", QUICK)
    found = names() if wanted == "all" else wanted.split(",")
    return [name for name in found if jax.__version__.startswith(load(name).VERSIONS)]


@pytest.mark.parametrize("name", chosen())
def test_failure_becomes_minimal(name, tmp_path, monkeypatch):
    searched = []  # the program before public calls, which do more than a primitive

    def polished(program, tables):
        searched.append(program)
        return with_public_calls(program, tables)

    monkeypatch.setattr(reproducer, "with_public_calls", polished)
    case = load(name)
    reduction = reduced(case)
    after, runs = reduction.n_equations, reduction.stats.runs
    assert after <= case.MINIMAL + SPARE
    if not reduction.keep.is_measured:  # a threshold of time may need more
        assert runs <= 10 * math.log2(reduction.start) + 20 * after
    assert fails_again(reduction.save(tmp_path / "repro.py"), reduction.keep)
    assert not removable(searched[0], Judge(reduction.keep))
