"""What people write every day is readable without a recording, on all versions of JAX."""

import jax
import pytest

import untrace
from tests.lifting.everyday import CASES


@pytest.mark.parametrize("name", CASES)
def test_jaxpr_is_written_as_people_write_it(name):
    function, args, expected = CASES[name]
    jaxpr = jax.make_jaxpr(function)(*args)
    src = untrace.source(jaxpr, level="api", name="recovered")
    assert src.report.is_verified, src.report
    text = str(src).split("def example_args")[0]
    for part in (expected,) if isinstance(expected, str) else expected:
        assert any(one in text for one in part.split("|")), text
