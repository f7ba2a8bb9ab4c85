"""Compile a module so that its text is parsed in parts, each when it is needed.

CPython's parser keeps every token and every attempt of a file until all of it is parsed:
for a long function, several times what the compiler needs. The compiler also takes
syntax trees, and reads a statement's `body` when it comes to it. So the tree made here
holds runs of statements that are parsed when they are read, and forgotten once they are
converted. It is the tree of the text in one piece, but that a run is the body of an
`if 1:` in its own place, which the compiler removes.

A run that begins or ends inside a statement does not parse; the text is then compiled
as a whole. Hence runs that all parse follow one another as they do in the text.
"""

from __future__ import annotations

import ast
import io
import itertools
import re
import types
from collections.abc import Iterator, Sequence

from untrace.parsing import parse

N_PARTS = 16
MIN_LINES = 16  # of a run: parsing a line takes about five kilobytes for a moment

# What only goes on with the statement before it, or says nothing.
_NO_START = r"[\s)\]}#]|(?:else|elif|except|finally|case)\b"
# Tabs and form feeds also move columns; a carriage return ends a line.
_ODD = re.compile(r"[\t\f\r]")


def split_lines(text: str) -> list[str]:
    """Split text into lines as Python counts them, with their ends."""
    return list(io.StringIO(text))


def compile_lines(lines: Sequence[str], filename: str) -> types.CodeType:
    """Compile the lines of a module.

    Raises:
      SyntaxError: If the text is not Python.
    """
    if len(lines) >= 4 * MIN_LINES and not any(map(_ODD.search, lines)):
        try:
            tree = _Parser(lines, filename).module()
            return compile(tree, filename, "exec", dont_inherit=True)
        except (SyntaxError, RecursionError):
            pass  # a run ended inside a statement, or the text itself is wrong
    return compile("".join(lines), filename, "exec", dont_inherit=True)


class _Run(ast.If):
    """Statements that are parsed when the compiler asks for them."""

    def __init__(self, parser: _Parser, first: int, stop: int, indent: int) -> None:
        # Not by `ast.If.__init__`, which would set the body too.
        self.run = parser, first, stop, indent
        self.test = ast.Constant(1)
        self.orelse = []
        for node in (self, self.test):
            node.lineno = node.end_lineno = first + 1
            node.col_offset = node.end_col_offset = indent

    @property
    def body(self) -> list[ast.stmt]:  # pyright: ignore[reportIncompatibleVariableOverride]
        parser, first, stop, indent = self.run
        return parser.statements(first, stop, indent)


class _Parser:
    """The lines of a module, and how to parse runs of them."""

    def __init__(self, lines: Sequence[str], filename: str) -> None:
        self.lines = lines
        self.filename = filename
        self.size = max(MIN_LINES, len(lines) // N_PARTS)

    def module(self) -> ast.Module:
        """Parse the first statements, the docstring among them; put off the others."""
        stop = len(self.lines)
        starts = [*self.starts(0, stop, 0), stop]
        # A long function is put off wherever it stands.
        spans = itertools.pairwise(starts)
        late = (i for i, j in spans if i >= MIN_LINES or j - i > self.size)
        cut = next(late, stop)
        module = self.parse("", 0, cut)
        module.body += self.runs(cut, stop, 0)
        return module

    def runs(self, first: int, stop: int, indent: int) -> list[_Run]:
        """Split a block into runs; a long statement is a run of its own."""
        cuts = [first]
        starts = [*self.starts(first, stop, indent), stop]
        for start, following in itertools.pairwise(starts):
            if max(following - start, following - cuts[-1]) > self.size:
                cuts.append(start)
        spans = zip(cuts, [*cuts[1:], stop])
        return [_Run(self, *span, indent) for span in spans if span[0] < span[1]]

    def statements(self, first: int, stop: int, indent: int) -> list[ast.stmt]:
        """Parse a run; of a long function only the beginning."""
        cut = self.body_cut(first, stop, indent)
        # The line before the run is a head, or part of the same block.
        head = "if 1:\n" if indent else ""
        found = self.parse(head, first, cut).body
        if indent:
            if len(found) != 1 or not isinstance(found[0], ast.If) or found[0].orelse:
                raise SyntaxError("these lines are no block")
            found = found[0].body
        if cut == stop:
            return found
        function = found[-1]
        if (
            len(found) != 1
            or not isinstance(function, ast.FunctionDef)
            or function.body[0].col_offset != indent + 4
        ):
            raise SyntaxError("these lines are no function")
        function.body += self.runs(cut, stop, indent + 4)
        return found

    def body_cut(self, first: int, stop: int, indent: int) -> int:
        """Return the line of a long function up to which to parse it at once."""
        if stop - first <= 2 * self.size:
            return stop
        pad = " " * indent
        line = first
        while line < stop and not self.lines[line].startswith(f"{pad}def "):
            line += 1
        if line < stop and self.lines[line].endswith("(\n"):
            while line < stop and not self.lines[line].startswith(f"{pad})"):
                line += 1
        starts = self.starts(line + 1, stop, indent + 4)
        return next((i for i in starts if i >= line + MIN_LINES), stop)

    def starts(self, first: int, stop: int, indent: int) -> Iterator[int]:
        """Yield the lines where statements of a block may begin, or their decorators."""
        is_start = re.compile(rf" {{{indent}}}(?!{_NO_START})").match
        is_decorated = False
        for number in range(first, stop):
            line = self.lines[number]
            if is_start(line):
                if not is_decorated:
                    yield number
                is_decorated = line[indent] == "@"

    def parse(self, head: str, first: int, stop: int) -> ast.Module:
        """Parse lines in their place in the file, under a head on the line before."""
        n_before = first - head.count("\n")
        text = "\n" * n_before + head + "".join(self.lines[first:stop])
        return parse(text, "exec", self.filename)
