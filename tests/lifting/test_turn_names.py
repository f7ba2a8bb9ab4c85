"""Values of a turn have the name of the variable that they become, if it is free."""

from untrace.lifting.recorded.repeats.turn_names import taken_up
from untrace.lifting.recorded.terms import Name, Ref, Term
from untrace.lifting.recorded.tree import Loop, Statement


def assigned(target: Name, *read: Name) -> Statement:
    parts = [part for name in read for part in (Ref(name), " + ")]
    return Statement(target, Term([*parts, "1"]))


def test_values_take_the_name_of_the_variable_that_they_become() -> None:
    value, variable = Name("x"), Name("x")
    variable.text = "x"
    body = [assigned(value, variable), assigned(variable, value)]
    found = taken_up(Loop((), Term(["xs"]), body), 1, {"x": variable})
    assert found == {id(value): variable}


def test_a_variable_does_not_take_the_name_of_another() -> None:
    """Both had one name, and the loop was another program (a step of jax-cfd)."""
    one, other = Name("x"), Name("x")
    one.text, other.text = "x", "x_2"
    body = [assigned(one, one), assigned(other, one)]
    holders = {"x": one, "x_2": other}
    assert taken_up(Loop((), Term(["xs"]), body), 1, holders) == {}


def test_values_take_the_name_of_what_the_loop_is_over() -> None:
    """Unless it is read again in the turn, or they are read in the next one, or later."""
    value, item = Name("s"), Name("s", uses=1)
    body = [assigned(value, item), assigned(Name("y"), value)]
    assert taken_up(Loop((item,), Term(["xs"]), body), 0, {}) == {id(value): item}
    again = [assigned(value, item), assigned(Name("y"), item, value)]
    assert taken_up(Loop((item,), Term(["xs"]), again), 0, {}) == {}
    carried = [assigned(Name("y"), value), assigned(value, item)]
    assert taken_up(Loop((item,), Term(["xs"]), carried), 0, {}) == {}
    value.last_use = 3
    assert taken_up(Loop((item,), Term(["xs"]), body), 0, {}) == {}
    value.last_use, item.uses = -1, 0  # it has no name then
    assert taken_up(Loop((item,), Term(["xs"]), body), 0, {}) == {}
