"""Members of enums are the numbers and words that JAX takes them for: files stand alone."""

from enum import IntEnum, StrEnum

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import untrace

X = np.linspace(0.1, 1.0, 6, dtype=np.float32).reshape(2, 3)


class Axis(IntEnum):
    ROWS = 0
    COLUMNS = 1


class Mode(StrEnum):
    SAME = "same"


def recover(function, **options):
    src = untrace.source(function, **options)(X)
    assert src.report.strength == "identical", str(src.report)
    assert "from its equations" not in str(src)
    return str(src)


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (lambda x: jnp.sum(x, axis=Axis.COLUMNS), "jnp.sum(x, axis=1)"),
        (lambda x: x.sum((Axis.ROWS, Axis.COLUMNS)), "x.sum((0, 1))"),
        (
            lambda x: jnp.convolve(x[0], x[1], mode=Mode.SAME),
            'jnp.convolve(x[0], x[1], mode="same")',
        ),
    ],
)
def test_members_are_plain_values(function, text):
    found = recover(function)
    assert text in found and "import Axis" not in found and "import Mode" not in found


def test_a_member_that_a_primitive_keeps_is_imported_and_the_header_says_so():
    found = recover(lambda x: jax.lax.concatenate([x, x], Axis.ROWS))
    assert "jax.lax.concatenate([x, x], Axis.ROWS)" in found
    assert f"It imports {__name__}, without which it cannot be run." in found


def test_members_stay_where_types_are_kept():
    found = recover(lambda x: jnp.sum(x, axis=Axis.COLUMNS), keep_types=True)
    assert "axis=Axis.COLUMNS" in found and "It imports" not in found


def test_other_files_import_nothing_of_programs():
    assert "It imports" not in recover(lambda x: jnp.sin(x) * 2)
