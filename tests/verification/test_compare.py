"""Two traces of one program are identical; anything that matters is a difference."""

from __future__ import annotations

import pytest

from tests.verification.programs import PROGRAMS, retrace, trace
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent
from untrace.verification.fingerprint import fingerprint


@pytest.mark.parametrize("name", PROGRAMS)
def test_two_traces_of_one_program_are_identical(name: str) -> None:
    first, second = trace(name), retrace(name)
    unproved: list[str] = []
    assert compare(first, second, unproved) is None
    assert fingerprint(first) == fingerprint(second)
    assert equivalent(first, second) is None
    assert [n for n in unproved if "symbolic zeros" not in n] == []
