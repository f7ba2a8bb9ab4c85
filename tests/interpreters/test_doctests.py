"""The examples in docstrings of what compares run."""

import doctest
from types import ModuleType

import pytest

import untrace.comparing
import untrace.interpreters.diverging.divergence
import untrace.recompiling

MODULES = [
    untrace.comparing,
    untrace.interpreters.diverging.divergence,
    untrace.recompiling,
]


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
