"""`untrace.nan_origin` finds nothing in programs without a NaN, and something in others."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import pytest

import untrace
from tests.corpus import programs


def has_nan(result: Any) -> bool:
    floats = [
        x
        for x in jax.tree.leaves(result)
        if jnp.issubdtype(jnp.result_type(x), jnp.inexact)
    ]
    return any(bool(jnp.isnan(x).any()) for x in floats)


def wrong(case: Any) -> str:
    """Say what is wrong with what is found in a program; nothing if it is right."""
    with case.context():
        try:
            result = jax.jit(lambda *args: case.function(*args))(*case.args)
        except Exception:  # JAX does not run it
            return ""
        is_bad = has_nan(result)
        try:
            found = untrace.nan_origin(case.function)(*case.args)
        except Exception as error:
            return f"{case.name}: {type(error).__name__}: {str(error)[:300]}"
        if is_bad or found is None:
            return (
                "" if is_bad == (found is not None) else f"{case.name}: nothing found"
            )
        return f"{case.name}: {found!r}"


def check(cases: list[Any]) -> None:
    bad = [text for text in map(wrong, cases) if text]
    assert not bad, "\n".join(bad)


def test_sample_of_the_programs_has_no_false_origin() -> None:
    check(programs.chosen(kinds="base", step=80))


@pytest.mark.corpus
def test_no_program_has_a_false_origin() -> None:
    check(programs.chosen(kinds="base,grad"))
