"""Every mutant is rejected: by `compare`, by its fingerprint, and by name."""

from __future__ import annotations

import pytest

from tests.verification.mutation import sample
from tests.verification.programs import PROGRAMS, trace
from untrace.verification.compare import compare
from untrace.verification.fingerprint import fingerprint

N_MUTANTS = 80


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_mutant_is_rejected(name: str) -> None:
    program = trace(name)
    original = fingerprint(program)
    chosen = sample(program, N_MUTANTS, name)
    assert chosen
    for what, mutate in chosen:
        mutant = mutate()
        found = compare(program, mutant)
        assert found is not None, f"not seen: {what}"
        assert compare(mutant, program) is not None, f"not seen backwards: {what}"
        assert str(found).strip()
        assert fingerprint(mutant) != original, f"same fingerprint: {what}"
