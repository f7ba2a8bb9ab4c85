"""Expressions are trees: groups say what stands in their brackets."""

import ast
import math

import pytest

from untrace.lifting.recorded.building import (
    attribute,
    binary,
    call,
    dict_term,
    display,
    indexed,
    joined,
    keyword,
    literal_term,
    starred,
)
from untrace.lifting.recorded.checks import check_nodes
from untrace.lifting.recorded.repeats.slots import kind_of
from untrace.lifting.recorded.terms import (
    CALL,
    LIST,
    Group,
    Literal,
    Name,
    Ref,
    Term,
    update,
)
from untrace.lifting.recorded.tree import Draft, Statement
from untrace.syntax.steps import Item

X, Y = Name("x"), Name("y")
X.held = (1, 2, 3)


def ref(name, path=()):
    return Term([Ref(name, path)])


SUM = binary(ref(X), "+", ref(Y))
MEMBERS = [ref(X, (Item(i),)) for i in range(3)]
TERMS = [
    (
        call(ref(X), [SUM, starred(SUM), keyword("k", SUM)]),
        "x(x + y, *(x + y), k=x + y)",
    ),
    (display("()", [SUM]), "(x + y,)"),
    (display("[]", []), "[]"),
    (dict_term([("a", SUM)], [ref(Y)]), '{**y, "a": x + y}'),
    (indexed(SUM, [ref(X), SUM]), "(x + y)[x, x + y]"),
    (binary(SUM, "*", attribute(SUM, "T")), "(x + y) * (x + y).T"),
    (joined([ref(X), SUM]), "x, x + y"),
    (call(ref(Y), MEMBERS), "y(*x)"),
    (display("()", MEMBERS), "(*x,)"),
    (display("()", [ref(Y), *MEMBERS]), "(y, *x)"),
    (dict_term(zip("abc", MEMBERS)), '{"a": x[0], "b": x[1], "c": x[2]}'),
    (update(indexed(ref(X), [ref(Y)]), SUM), "x[y] = x + y"),
]


@pytest.mark.parametrize("term, text", TERMS)
def test_an_expression_is_what_its_text_says(term, text):
    assert term.render() == text
    ast.parse(text)
    check_nodes(Draft("f", statements=[Statement(Y, term)]))
    whole = term.of_parts([[token] for token in term.tokens()])
    assert whole == term and whole.render() == text


def test_tokens_that_are_others_leave_groups_as_they_are():
    term = call(ref(X), [display("[]", [SUM, ref(Y)])])
    pieces = [["z"] if token == Ref(Y, (), 8) else [token] for token in term.tokens()]
    made = term.of_parts(pieces)
    assert [group.kind for group in made.groups()] == [CALL, LIST]
    assert made.render() == "x([x + z, y])"


def test_a_group_that_loses_its_brackets_is_none():
    tokens = display("[]", [SUM]).tokens()
    pieces = [["z"], *[[] for _ in tokens[1:]]]
    assert display("[]", [SUM]).of_parts(pieces).render() == "z"


def test_groups_are_changed_in_one_expression_only():
    inner = display("[]", [ref(X)])
    first, second = call(ref(Y), [inner]), call(ref(Y), [inner])
    first.map_refs(lambda part: Ref(Name("z")) if part.name is X else part)
    second.map_groups(lambda group: ["w"] if group.kind == LIST else [group])
    assert (first.render(), second.render()) == ("y([z])", "y(w)")
    assert inner.render() == "[x]"


def test_a_group_that_is_none_is_found():
    lie = Term(["f", Group(LIST, [ref(X)])])
    with pytest.raises(AssertionError, match="does not find"):
        check_nodes(Draft("f", statements=[Statement(Y, lie)]))
    with pytest.raises(AssertionError, match="no Python"):
        check_nodes(Draft("f", result=Term(["for ", Group(CALL, [])])))


@pytest.mark.parametrize(
    ("value", "text", "kind"),
    [
        (3, "3", "number"),
        (-0.5, "-0.5", "number"),
        (1e-06, "1e-06", "number"),
        ("layer_1/w", '"layer_1/w"', "word"),
        ("a:b", '"a:b"', ""),
        ("", '""', ""),
    ],
)
def test_a_literal_is_known_by_what_it_is(value, text, kind):
    term = literal_term(value)
    (literal,) = term.parts
    assert (term.render(), literal.value, kind_of(literal)) == (text, value, kind)
    assert literal == Literal(text, value) != Literal(text + "0", value)


@pytest.mark.parametrize("value", [True, math.inf, ("a", 1), b"x"])
def test_what_is_no_number_and_no_string_is_text(value):
    (part,) = literal_term(value).parts
    assert type(part) is str


def test_a_sign_binds_less_tightly_than_an_attribute():
    assert attribute(literal_term(-2), "real").render() == "(-2).real"


def test_a_lead_has_the_key_itself():
    (item,) = dict_term([(("a", 1), ref(X))]).group.items
    assert item.lead.word == ("a", 1)
    assert item.lead.text == '("a", 1): '
