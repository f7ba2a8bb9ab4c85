"""Long functions are called with room on the interpreter's stack."""

import pytest

from untrace.verification.stack_room import with_room

resource = pytest.importorskip("resource")

FEW = 100
"""Page faults that a call may cost, however many calls it makes itself."""


def long_function(n):
    """Make a function of n locals, each computed by a call some frames deep."""
    lines = ["def nested(depth):", "    return nested(depth - 1) if depth else 0"]
    lines += ["def function():", *(f"    x{i} = nested(40)" for i in range(n))]
    namespace = {}
    exec("\n".join([*lines, "    return x0"]), namespace)
    return namespace["function"]


def page_faults(function, *args):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    function(*args)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


@pytest.mark.parametrize("n", range(1_000, 2_000, 100))
def test_calls_of_a_long_function_take_no_new_memory(n):
    function = long_function(n)
    assert page_faults(with_room, function) < FEW


def test_arguments_and_errors_pass_through():
    assert with_room(divmod, 7, 2) == (3, 1)
    assert with_room(dict, a=1) == {"a": 1}
    with pytest.raises(ZeroDivisionError):
        with_room(divmod, 7, 0)
