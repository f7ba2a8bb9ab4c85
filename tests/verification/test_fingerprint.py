"""Fingerprints are the same in every process."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.verification.programs import PROGRAMS, trace
from untrace.verification.fingerprint import fingerprint

SCRIPT = """
from tests.verification.programs import PROGRAMS, trace
from untrace.verification.fingerprint import fingerprint
for name in reversed(PROGRAMS):
    print(name, fingerprint(trace(name)))
"""


def test_fingerprints_do_not_depend_on_the_process() -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    printed = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    theirs = dict(line.split() for line in printed.splitlines())
    assert theirs == {name: fingerprint(trace(name)) for name in PROGRAMS}


def test_fingerprints_of_different_programs_differ() -> None:
    prints = {fingerprint(trace(name)) for name in PROGRAMS}
    assert len(prints) == len(PROGRAMS)
