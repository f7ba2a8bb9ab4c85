"""Every string becomes a legal identifier; every name is unique and shadows nothing."""

import keyword

import pytest
from hypothesis import given
from hypothesis import strategies as st

from untrace.syntax.names import MAX_LENGTH, RESERVED, Scope, identifier, is_name
from untrace.syntax.text import quote


@given(st.text(max_size=200))
def test_any_string_becomes_a_legal_name(text):
    name = identifier(text)
    assert name.isidentifier() and name.isascii()
    assert not keyword.iskeyword(name) and name not in RESERVED
    assert len(name) <= MAX_LENGTH + len("value_") + 1
    assert identifier(text) == name


@given(st.lists(st.sampled_from(["x", "y", "x_2", "x_3", "y_2"]), max_size=40))
def test_names_are_unique_in_nested_scopes(hints):
    outer = Scope()
    inner = Scope(outer)
    names = [(inner if i % 2 else outer).fresh(hint) for i, hint in enumerate(hints)]
    seen_outer = names[::2]
    assert len(set(seen_outer)) == len(seen_outer)
    for position, name in enumerate(names):
        if position % 2:
            assert name not in names[:position]


def test_a_global_name_was_used_nowhere():
    outer = Scope()
    inner = Scope(outer)
    inner.fresh("x")
    assert outer.fresh_global("x") == "x_2"


@given(st.text())
def test_quoted_text_evaluates_to_itself(text):
    assert eval(quote(text)) == text


@pytest.mark.parametrize("text", ["a b", "class", "__debug__", "\ufb01le", "1", "", 1])
def test_what_python_takes_for_no_name_is_no_name(text):
    assert not is_name(text)
