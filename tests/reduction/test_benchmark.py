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
from untrace.reduction.trials import Judge

QUICK = "gelu_abort"
SPARE = 2
"""Equations by which a result may be larger than the form found by hand."""


def chosen():
    wanted = os.environ.get("UNTRACE_REDUCE", QUICK)
    found = names() if wanted == "all" else wanted.split(",")
    return [name for name in found if jax.__version__.startswith(load(name).VERSIONS)]


@pytest.mark.parametrize("name", chosen())
def test_failure_becomes_minimal(name, tmp_path):
    case = load(name)
    reduction = reduced(case)
    after, runs = reduction.n_equations, reduction.stats.runs
    assert after <= case.MINIMAL + SPARE
    if not reduction.keep.is_measured:  # a threshold of time may need more
        assert runs <= 10 * math.log2(reduction.start) + 20 * after
    assert fails_again(reduction.save(tmp_path / "repro.py"), reduction.keep)
    left = removable(reduction.program, Judge(reduction.keep))
    if len(reduction.program.block.equations) > after:  # a public call does more
        left = [what for what in left if not what.startswith("equation ")]
    assert not left
