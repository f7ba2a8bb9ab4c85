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
    assert found == {id(value): "x"}


def test_a_variable_does_not_take_the_name_of_another() -> None:
    """Both had one name, and the loop was another program (a step of jax-cfd)."""
    one, other = Name("x"), Name("x")
    one.text, other.text = "x", "x_2"
    body = [assigned(one, one), assigned(other, one)]
    holders = {"x": one, "x_2": other}
    assert taken_up(Loop((), Term(["xs"]), body), 1, holders) == {}
