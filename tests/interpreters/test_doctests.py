"""The examples in docstrings of what compares run."""

import doctest
from types import ModuleType

import pytest

import untrace.comparing
import untrace.recompiling


@pytest.mark.parametrize("module", [untrace.comparing, untrace.recompiling])
def test_examples_in_docstrings_run(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert found.attempted and not found.failed
