"""The cause that was planted is in the result, and without it there is no failure.

`python -m benchmarks.reduce.tautology` does so with fifty programs for each predicate.
"""

import numpy as np
import pytest

from benchmarks.reduce.tautology import measure


@pytest.mark.parametrize("word", ["nan", "differs"])
def test_the_cause_is_in_the_result(word):
    with np.errstate(all="ignore"):
        found = measure(word, 0)
    assert found.has_cause, found
    assert found.needs_cause, found
