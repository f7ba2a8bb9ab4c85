"""Text that calls itself without end fails; it does not take the process with it."""

from typing import Any

import jax
import numpy as np

from untrace import jaxapi
from untrace.capture import capture
from untrace.capture.user_code import MAX_FRAMES
from untrace.verification.check import Candidate, check

TEXT = '''"""Endless."""

import jax


def f(x):
    return jax.lax.cond(x > 0.0, lambda x: f(x), lambda x: x, x)
'''


def test_text_that_calls_itself_without_end_fails() -> None:
    def f(x: Any) -> Any:
        return jax.lax.cond(x > 0.0, lambda x: -x, lambda x: x, x)

    program = capture(f, (np.float32(1.0),), {})
    with jaxapi.deep_recursion(MAX_FRAMES):  # as texts of recorded calls are verified
        report = check(Candidate(TEXT, "f", {}), program)
    assert report.strength == "failed"
    assert isinstance(report.difference, RecursionError)
