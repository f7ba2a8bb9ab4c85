"""Where names are read: functions that read none of them are not gone through."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from untrace.lifting.lines import names_read as module
from untrace.lifting.lines.names_read import names_read

NAMES = {"x": 0, "y": 0}


def read(text: str) -> list[str]:
    found = names_read(ast.parse(text), NAMES, text.split("\n"))
    return [name for reading in found for name in reading.names]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def f(a):\n    return a + x", ["x"]),
        ("def f(x):\n    return x + 1", []),
        ("def f(x):\n    return x + y", ["y"]),
        ("def f(a):\n    x = a\n    return x", []),
        ("def f(a):\n    def g(x):\n        return x\n    return x", ["x"]),
        ("def f(a):\n    def g():\n        return y\n    return a", ["y"]),
        ("@x\ndef f(a):\n    return a", ["x"]),
        ("@x(\n    y\n)\ndef f(a):\n    return a", ["y", "x"]),
        ("def f(a=x):\n    return a", ["x"]),
        ("def f(a):\n    return f'{x}'", ["x"]),
        ("def f(a):\n    return a.x\nz = y", ["y"]),
        ("def f(a):\n    return x\ndef g(x):\n    return x\nx", ["x", "x"]),
    ],
)
def test_names_are_found_in_functions(text: str, names: list[str]) -> None:
    assert read(text) == names


def test_functions_that_read_none_of_the_names_are_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    visited: list[Any] = []
    original = module._in_node

    def counted(node: ast.AST, *args: Any) -> Any:
        visited.append(node)
        return original(node, *args)

    monkeypatch.setattr(module, "_in_node", counted)
    lines = ["def f(x):", *["    z = x + 1"] * 1000, "    return z", "w = y"]
    assert read("\n".join(lines)) == ["y"]
    assert len(visited) < 10
