"""Texts that are read by Python's parser, and edits of them."""

import ast

import pytest

from untrace.syntax.parsed import Edit, Parsed


def calls(text, name):
    return [
        node
        for node in text.nodes
        if isinstance(node, ast.Call) and text.source(node.func) == name
    ]


def test_an_edit_keeps_parts_that_are_edited_as_well():
    text = Parsed('x = f(a, f(b, 1), "f(1)")  # f(2)\nreturn f(x, y)')
    edits = []
    for call in calls(text, "f"):
        given = [text.span(one) for one in call.args]
        edits.append(Edit(text.span(call), ("g(", given[1], ", ", given[0], ")")))
    assert text.edited(edits) == "x = g(g(1, b), a)  # f(2)\nreturn g(y, x)"


def test_places_are_counted_in_characters():
    text = Parsed('y = f("é", α) + β\n# ü\nz = γ')
    edits = [Edit(text.span(n), ("n",)) for n in text.names() if n.id in "αβγ"]
    assert text.edited(edits) == 'y = f("é", n) + n\n# ü\nz = n'


def test_names_and_words():
    text = Parsed("for i, x in items:\n    y = f(x.shape, axis=i)\ng = lambda a: a")
    assert text.variables() == {"i", "x", "items", "y", "f", "g", "a"}
    assert text.words() == text.variables() | {"shape", "axis"}
    assert [*text.bound()] == ["i", "x", "y", "g", "a"]


def test_strings_that_are_put_together_are_left_out():
    text = Parsed("""a["w"], f"{b}/w", 'x'""")
    assert [one.value for one in text.strings()] == ["w", "x"]


def test_what_is_no_python_is_refused():
    with pytest.raises(SyntaxError):
        Parsed("x = (")
