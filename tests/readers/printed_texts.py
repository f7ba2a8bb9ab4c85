"""The jaxprs of small programs as old releases of JAX print them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tests.corpus.parsed import with_constants_as_arguments
from tests.readers.print_programs import PROGRAMS
from untrace import jaxapi
from untrace.readers.jaxprs import parse
from untrace.verification.compare import compare
from untrace.verification.equivalence import equivalent

FOLDER = Path(__file__).parent / "printed"
RELEASES = sorted(path.stem for path in FOLDER.glob("*.txt"))


def texts(release: str) -> Iterator[tuple[str, str]]:
    """Yield the names and the jaxprs of the programs that a release printed.

    Those of `meshes/0.4.30` are for several devices.
    """
    parts = re.split(r"^# (\w+)\n", (FOLDER / f"{release}.txt").read_text(), flags=re.M)
    yield from zip(parts[1::2], parts[2::2])


def strength(name: str, text: str) -> str:
    """Say how much a printed program is the one that is traced today.

    The strengths are those of the verifier, then "equal" for equal values (bit by bit)
    and "close" for those that differ by rounding, since releases compute otherwise.
    """
    function, args = PROGRAMS[name]
    jaxpr = jax.make_jaxpr(function)(*args)
    found = parse(text)
    expected = with_constants_as_arguments(jaxpr)
    if compare(expected, found) is None:
        return "identical"
    if equivalent(expected, found) is None:
        return "equivalent"
    consts = jaxapi.split_jaxpr(jaxpr)[1]
    n_consts = len(found.in_avals) - len(args)
    wanted = jax.tree.leaves(function(*args))
    made = jaxapi.as_function(found)(*consts[:n_consts], *args)
    return _closeness(wanted, made)


def _closeness(wanted: list[Any], made: list[Any]) -> str:
    assert len(wanted) == len(made)
    is_equal = True
    for one, other in zip(wanted, made):
        one, other = np.asarray(one), np.asarray(other)
        assert one.shape == other.shape and one.dtype == other.dtype
        is_equal &= one.tobytes() == other.tobytes()
        np.testing.assert_allclose(
            one.astype(complex), other.astype(complex), rtol=2e-5, atol=1e-6
        )
    return "equal" if is_equal else "close"
