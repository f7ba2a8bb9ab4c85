"""Text that is parsed in parts is the text in one piece."""

import ast
import dis
import traceback
import types
from pathlib import Path

import pytest

from untrace.syntax import compiling
from untrace.syntax.compiling import compile_lines, split_lines

ROOT = Path(__file__).parents[2]
GENERATED = sorted(ROOT.glob("tests/golden/**/*.py"))
FILES = [*GENERATED, *sorted(ROOT.glob("src/untrace/*/*.py"))]


def _statements(n):
    return [f"    x_{i + 1} = x_{i} + {i}\n" for i in range(n)]


def _function(n, name="function", head="(x_0)"):
    return [f"def {name}{head}:\n", *_statements(n), f"    return x_{n}\n"]


def _in_parts(lines):
    """Return the tree that is compiled, the runs unwrapped."""
    tree = compiling._Parser(lines, "text").module()
    tree.body = _unwrapped(tree.body)
    return tree


def _unwrapped(body):
    found = []
    for statement in body:
        if isinstance(statement, compiling._Run):
            found += _unwrapped(statement.body)
        else:
            if isinstance(statement, ast.FunctionDef):
                statement.body = _unwrapped(statement.body)
            found.append(statement)
    return found


def _dump(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):  # of which the end is not known yet
            node.end_lineno = node.end_col_offset = 0
    return ast.dump(tree, include_attributes=True)


def _codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)


def _instructions(code):
    """List what a function does, and where; jumps only by their kind."""
    found = []
    for step in dis.get_instructions(code):
        # Python 3.12 cannot tell for the 65th local that a later run finds it defined.
        name = step.opname.replace("LOAD_FAST_CHECK", "LOAD_FAST")
        if name in ("NOP", "EXTENDED_ARG"):
            continue
        is_far = "JUMP" in name or name in ("FOR_ITER", "SEND")
        is_code = isinstance(step.argval, types.CodeType)
        value = None if is_far or is_code else ascii(step.argrepr)
        place = step.positions
        found.append((name, value, place and (place.lineno, place.col_offset)))
    return found


def _runs_of(monkeypatch, n_parts, min_lines):
    monkeypatch.setattr(compiling, "N_PARTS", n_parts)
    monkeypatch.setattr(compiling, "MIN_LINES", min_lines)


@pytest.mark.parametrize("size", [(16, 16), (64, 2), (4, 8)])
def test_runs_are_the_tree_of_the_text(monkeypatch, size):
    _runs_of(monkeypatch, *size)
    n_whole = 0
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        try:
            tree = _in_parts(split_lines(text))
        except SyntaxError:  # such as a run that ends in a docstring
            n_whole += 1
            continue
        assert _dump(tree) == _dump(ast.parse(text)), path
    assert n_whole < len(FILES) * 0.9


def test_code_is_that_of_the_text():
    for path in GENERATED:
        text = path.read_text(encoding="utf-8")
        whole = list(_codes(compile(text, "text", "exec", dont_inherit=True)))
        parts = list(_codes(compile_lines(split_lines(text), "text")))
        assert len(whole) == len(parts), path
        for code, other in zip(whole, parts):
            assert code.co_qualname == other.co_qualname
            assert _instructions(code) == _instructions(other), path


def test_long_function_is_parsed_in_runs():
    tree = compiling._Parser(_function(500), "text").module()
    (run,) = tree.body
    assert isinstance(run, compiling._Run)
    (function,) = run.body
    runs = [part for part in function.body if isinstance(part, compiling._Run)]
    assert len(runs) > 8
    assert sum(len(part.body) for part in runs) > 450


@pytest.mark.parametrize(
    "lines",
    [
        ["@staticmethod\n", *_function(200)],
        _function(200, head="(\n    x_0,\n    y=(\n        1\n    ),\n)"),
        ["def outer(x_0):\n", *["    " + line for line in _function(200)]],
        [*_function(100), "    @staticmethod\n", "    def inner():\n        pass\n"],
        [
            *_function(90),
            "    if x_1:\n",
            "        pass\n",
            *["    else:\n        pass\n"],
        ],
        [line for i in range(40) for line in _function(3, f"f_{i}")],
    ],
)
def test_statements_are_not_torn_apart(monkeypatch, lines):
    _runs_of(monkeypatch, 64, 4)
    lines = split_lines("".join(lines))
    assert _dump(_in_parts(lines)) == _dump(ast.parse("".join(lines)))


@pytest.mark.parametrize(
    "lines",
    [
        ["if True:\n", *["    " + line for line in _function(100)], "else:\n", "    y = 1\n"],
        ["def f(x_0):\n", "    if x_0:\n", *["    " + line for line in _statements(100)]],
        ["text = '''\n", *_function(100), "'''\n", *_function(100)],
        ["values = [\n", *["    1,\n"] * 100, "]\n"],
        ["def f(x_0):\n", "  if x_0:\n", *_statements(100), "  return 1\n"],
        [*_function(90), "    text = '''\n", *_statements(90), "    '''\n"],
    ],
)  # fmt: skip
def test_what_cannot_be_split_is_compiled_as_a_whole(monkeypatch, lines):
    _runs_of(monkeypatch, 64, 4)
    text = "".join(lines)
    whole = compile(text, "text", "exec", dont_inherit=True)
    parts = compile_lines(split_lines(text), "text")
    for code, other in zip(_codes(whole), _codes(parts)):
        assert _instructions(code) == _instructions(other)


@pytest.mark.parametrize(
    "lines",
    [
        [*_function(100), "    )\n"],
        [*_function(100), "      y = 1\n"],
        [*_function(100), "  y = 1\n"],
        [*_function(100), "else:\n", "    pass\n"],
        [*_function(100), "    return (\n"],
        ["def f(x_0): return 1\n", *_statements(100)],
        ["    y = 1\n", *_function(100)],
        ["nonlocal y\n", *_function(100)],
    ],
)
def test_what_is_not_python_is_refused(monkeypatch, lines):
    _runs_of(monkeypatch, 64, 4)
    with pytest.raises(SyntaxError):
        compile("".join(lines), "text", "exec", dont_inherit=True)
    with pytest.raises(SyntaxError):
        compile_lines(split_lines("".join(lines)), "text")


def test_unbound_local_is_not_looked_up_elsewhere():
    lines = [
        "x_9000 = 1\n",
        "def f(x_0):\n",
        *_statements(100),
        "    y = x_9000\n",
        *_statements(100),
        "    x_9000 = y\n",
    ]
    namespace = {}
    exec(compile_lines(lines, "text"), namespace)
    with pytest.raises(UnboundLocalError):
        namespace["f"](1)


def test_tracebacks_name_the_line_of_the_text():
    lines = [*_function(300)[:-1], "    return x_300 / 0\n"]
    namespace = {}
    exec(compile_lines(lines, "<text>"), namespace)
    with pytest.raises(ZeroDivisionError) as raised:
        namespace["function"](1)
    last = traceback.extract_tb(raised.value.__traceback__)[-1]
    assert (last.filename, last.lineno, last.name) == ("<text>", len(lines), "function")


def test_future_statements_of_this_package_are_not_inherited():
    lines = ["def f(x: undefined):\n", "    return x\n", *_function(100)]
    with pytest.raises(NameError):
        exec(compile_lines(lines, "text"), {})


def test_lines_are_those_that_python_counts():
    assert split_lines("a = '\x0c'\nb = '\u2028'\n") == [
        "a = '\x0c'\n",
        "b = '\u2028'\n",
    ]
