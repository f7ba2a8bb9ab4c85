"""Long tuples stay whole where their values are only passed on."""

import itertools

import jax
import jax.numpy as jnp
import pytest
from jax.custom_derivatives import SymbolicZero

import untrace
from untrace.lifting.blocks.wholes import kept_whole
from untrace.lifting.lines.free_names import renamed

NAMES = ["x", *[f"x_{i}" for i in range(2, 11)]]
UNPACKED = f"{', '.join(NAMES)} = carry"


def kept(*lines, depth=0, only=None):
    counter = itertools.count(1)
    return kept_whole(lines, lambda hint: f"{hint}_new{next(counter)}", depth, only)


def test_values_that_are_passed_on_are_a_slice():
    lines = kept(UNPACKED, "return x, x_2, x_3, f(x_4), x_5, x_6, x_7, x_8, x_9, x_10")
    assert lines == ["return *carry[:3], f(carry[3]), *carry[4:]"]


def test_all_values_are_the_tuple_itself():
    assert kept(UNPACKED, f"return {', '.join(NAMES)}") == ["return carry"]
    assert kept(UNPACKED, "return x_3, x_4, x_5") == ["return carry[2:5]"]


def test_value_that_is_computed_with_twice_keeps_a_name():
    lines = kept(UNPACKED, "y = x_4 * x_4", "return x_5, x_6, x_7, x_8, y")
    assert lines == ["x = carry[3]", "y = x * x", "return *carry[4:8], y"]


def test_list_is_no_tuple():
    lines = kept(f"{', '.join(NAMES)} = f_p.bind(a)", "return x_2, x_3, x_4")
    assert lines == ["x = f_p.bind(a)", "return (*x[1:4],)"]


def test_tuple_that_is_an_index_is_left_alone():
    lines = kept(UNPACKED, "return a[x, x_2, x_3]")
    assert lines == ["return a[carry[0], carry[1], carry[2]]"]


def test_functions_inside_read_the_tuple():
    lines = kept(
        UNPACKED,
        "def inner(x_2):",
        "    return x_2 + x_3",
        "return inner(x), lambda x_4: x_4 + x_5",
    )
    assert lines == [
        "def inner(x):",
        "    return x + carry[2]",
        "return inner(carry[0]), lambda x_2: x_2 + carry[4]",
    ]


def test_names_that_say_something_stay():
    names = "rate, speed, mass, angle, time, step, width, depth"
    lines = [f"{names} = carry", "return rate * speed * mass * angle * time + step"]
    assert kept(*lines) == lines


def test_name_with_two_values_is_left_alone():
    lines = [UNPACKED, "x = x.value", "return x, x_2, x_3"]
    assert kept(*lines) == lines


def test_others_than_the_given_names_are_left_alone():
    lines = [UNPACKED, "return x, x_2, x_3"]
    assert kept(*lines, only={"y"}) == lines


def test_many_names_are_unpacked_in_short_lines():
    names = [f"velocity_of_part_{letter}" for letter in "abcdefghij"]
    products = [f"y{i} = {name} * {name}" for i, name in enumerate(names)]
    lines = kept(f"{', '.join(names)} = carry", *products)
    assert lines[0] == f"{', '.join(names[:3])} = carry[:3]"
    assert all(len(line) < 80 for line in lines)


def test_numbers_are_taken_down_to_those_that_are_free():
    lines = renamed(["x_4 = f()", "x_7 = g(of=x_4)", "return x_4 + x_7"], ["x"])
    assert lines == ["x = f()", "x_2 = g(of=x)", "return x + x_2"]


def test_two_kinds_of_names_do_not_become_one():
    lines = ["x_7, x_8 = f()", "x_2_2 = g()", "return x_7, x_8, x_2_2"]
    made = renamed(lines, ["x", "x_2", "x_3"])
    assert made == ["x, x_2 = f()", "x_2_2 = g()", "return x, x_2, x_2_2"]


def test_name_of_an_enclosing_function_is_not_renamed():
    lines = ["y = x_4 + 1", "return y"]
    assert renamed(lines, ["x"]) == lines


def step(carry):
    first, *rest = carry
    return (first + 1, *[a + b for a, b in itertools.pairwise(rest)], rest[-1])


@pytest.mark.parametrize("level", ["lax", "api"])
def test_long_carries_trace_the_same(level):
    def loop(*args):
        return jax.lax.while_loop(lambda carry: carry[0] < 3, step, args)

    args = [jnp.array(0), *[jnp.array(float(i)) for i in range(15)]]
    jaxpr = jax.make_jaxpr(lambda *args: jax.jit(loop)(*args)[2:9])(*args)
    src = untrace.source(jaxpr, level=level)
    assert src.report.strength == "identical"
    assert "carry[0]" in str(src)
    assert "[2:9]" in str(src)


@jax.custom_jvp
def chosen(*args):
    return args[1:10]


def chosen_jvp(primals, tangents):
    zeros = [SymbolicZero.from_primal_value(primal) for primal in primals[1:4]]
    return primals[1:10], (*zeros, *tangents[4:10])


chosen.defjvp(chosen_jvp, symbolic_zeros=True)


@pytest.mark.parametrize("level", ["lax", "api"])
def test_rules_pass_tuples_on(level):
    args = [jnp.array(float(i)) for i in range(12)]
    src = untrace.source(
        jax.make_jaxpr(lambda *args: chosen(*args))(*args), level=level
    )
    assert src.report.strength == "identical"
    assert "def chosen(*args):\n    return args[1:10]" in str(src)
    assert "*map(SymbolicZero.from_primal_value, primals[1:4])" in str(src)
    assert "*tangents[4:10]" in str(src)
