"""Where an expression is put in the place of another, Python reads it as it was meant."""

import ast
import itertools

import pytest

from untrace.syntax.precedence import LEVELS, SYMBOLS, level_at, level_of

PIECES = [
    "a",
    "2",
    "a.b",
    "a[b]",
    "a(b)",
    "-a",
    "~a",
    "not a",
    "lambda: a",
    "a if b else c",
    "a and b",
    "(a, b)",
    "'text'",
    *(f"a {sign} b" for sign in LEVELS),
]
HOLES = [
    "x.y",
    "x[0]",
    "y[x]",
    "x(y)",
    "y(x)",
    "y(k=x)",
    "-x",
    "~x",
    "[x, y]",
    "f(*x)",
    "x < y < z",
    *(f"{left} {sign} {right}" for sign in LEVELS for left, right in ("xy", "yx")),
]


@pytest.mark.parametrize("hole", HOLES)
def test_what_is_put_into_a_place_is_one_operand_there(hole):
    tree = ast.parse(hole, mode="eval").body
    node, parent = next(
        (child, around)
        for around in ast.walk(tree)
        for child in ast.iter_child_nodes(around)
        if isinstance(child, ast.Name) and child.id == "x"
    )
    needed = level_at(node, parent)
    for piece in PIECES:
        inner = ast.parse(piece, mode="eval").body
        is_bare = piece.startswith("(") or level_of(inner) >= needed
        text = piece if is_bare else f"({piece})"
        whole = hole.replace("x", text)
        wanted = hole.replace("x", f"({piece})")
        assert ast.dump(ast.parse(whole)) == ast.dump(ast.parse(wanted)), whole


def test_levels_are_those_of_the_grammar_of_python():
    for (one, first), (other, second) in itertools.product(LEVELS.items(), repeat=2):
        tree = ast.parse(f"a {one} b {other} c", mode="eval").body
        if isinstance(tree, ast.Compare) and len(tree.ops) > 1:
            continue  # a row of comparisons
        is_left = ast.unparse(tree.left) != "a"  # type: ignore[attr-defined]
        is_tighter = first > second or (first == second and one != "**")
        assert is_left == is_tighter, (one, other)
    assert set(SYMBOLS.values()) <= set(LEVELS)
