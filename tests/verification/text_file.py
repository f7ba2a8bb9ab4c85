"""A generated file with its syntax tree, and edits of stretches of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

RULE_SETTERS = {"defjvp", "defvjp", "defjvps", "def_vmap"}


@dataclass(frozen=True)
class TextEdit:
    """One edit: its kind, and the stretch of the file (in bytes) that gets a new text."""

    kind: str
    start: int
    stop: int
    new: str

    def apply(self, text: str) -> str:
        raw = text.encode()
        return (raw[: self.start] + self.new.encode() + raw[self.stop :]).decode()

    def show(self, text: str) -> str:
        """Describe the edit by its line and by what is replaced."""
        raw = text.encode()
        line = raw[: self.start].count(b"\n") + 1
        old = raw[self.start : self.stop].decode()
        return f"{self.kind}, line {line}: {old[:120]!r} -> {self.new[:120]!r}"


@dataclass
class TextFile:
    """A file with its syntax tree, and what its edits may put in."""

    text: str
    raw: bytes = b""
    lines: list[int] = field(default_factory=list[int])
    names: list[str] = field(default_factory=list[str])
    attributes: list[str] = field(default_factory=list[str])
    returned: set[int] = field(default_factory=set[int])

    tree: ast.Module = field(init=False)

    def __post_init__(self) -> None:
        self.raw = self.text.encode()
        self.lines = [0, *(m.end() for m in re.finditer(rb"\n", self.raw))]
        self.tree = ast.parse(self.text)
        nodes = list(ast.walk(self.tree))
        self.names = sorted({n.id for n in nodes if isinstance(n, ast.Name)})
        self.attributes = sorted(
            {n.attr for n in nodes if isinstance(n, ast.Attribute)}
        )
        for node in nodes:
            if isinstance(node, ast.Return) and node.value is not None:
                self.returned |= set(map(id, containers(node.value)))

    def offset(self, line: int, column: int) -> int:
        return self.lines[line - 1] + column

    def stretch(self, node: ast.AST) -> tuple[int, int]:
        start = self.offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        stop = self.offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        return start, stop

    def segment(self, node: ast.AST) -> str:
        start, stop = self.stretch(node)
        return self.raw[start:stop].decode()

    def edit(self, kind: str, node: ast.AST, new: str) -> TextEdit:
        return TextEdit(kind, *self.stretch(node), new)

    def exchange(self, kind: str, first: ast.AST, second: ast.AST) -> TextEdit:
        (start, between), (resumed, stop) = self.stretch(first), self.stretch(second)
        middle = self.raw[between:resumed].decode()
        new = self.segment(second) + middle + self.segment(first)
        return TextEdit(kind, start, stop, new)


def containers(value: ast.expr) -> Iterator[ast.expr]:
    """List a result and the containers and leaves inside it."""
    yield value
    match value:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            pass
        case ast.Dict(values=parts):
            pass
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords):
            if not name[:1].isupper():
                return
            parts = [*args, *(k.value for k in keywords)]
        case _:
            return
    for part in parts:
        yield from containers(part)


def rule_stretches(file: TextFile) -> Iterator[tuple[int, int]]:
    """List where derivative and batching rules stand."""
    named: set[str] = set()
    for node in ast.walk(file.tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in RULE_SETTERS
        ):
            named |= {a.id for a in node.args if isinstance(a, ast.Name)}
            yield file.stretch(node)
    for node in ast.walk(file.tree):
        if isinstance(node, ast.FunctionDef):
            decorators = [
                d for d in node.decorator_list if isinstance(d, ast.Attribute)
            ]
            setters = {decorator.attr for decorator in decorators}
            if node.name in named or setters & RULE_SETTERS:
                yield file.stretch(node)
