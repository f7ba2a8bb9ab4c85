"""Where in the user's program an equation comes from, and what it is part of there."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from untrace import jaxapi
from untrace.interpreters.evaluate import Place
from untrace.parsing import parse
from untrace.recovery.quoting import MAX_LENGTH, on_one_line
from untrace.syntax.precedence import SYMBOLS

Extent = tuple[int, int, int, int]
"""First line, first column, last line and last column, in bytes."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The call of the user's code that an equation belongs to.

    Attributes:
      file: The path of the file; "" if the equation has no traceback.
      line: The line, from 1; 0 if it is not known. Without a file: of the text that the
        equation was read from.
      function: The function that it is in.
      text: The line as it is in the file; the call alone if it takes several.
      scopes: The name stack: `jax.named_scope`s and transformations.
      path: The calls, turns and branches that it is in, outermost first.
      calls: The functions that the user's code called there, and those of JAX.
      is_backward: Whether it belongs to a backward pass.
      is_derivative: Whether it belongs to a derivative, forward or backward.
    """

    file: str
    line: int
    function: str
    text: str
    scopes: str
    path: tuple[str, ...]
    calls: frozenset[str]
    is_backward: bool
    is_derivative: bool

    @property
    def place(self) -> str:
        """The file, without its folder, and the line."""
        name = self.file.replace("\\", "/").rpartition("/")[2]
        if not name and self.line:
            return f"line {self.line} of the text"
        return f"{name}:{self.line}" if name else "an unknown line"

    def __str__(self) -> str:
        inside = f" in `{self.function}`" if self.function else ""
        if self.is_backward:
            return f"{self.place}{inside}, in its backward pass"
        if self.is_derivative:
            return f"{self.place}{inside}, in its derivative"
        return f"{self.place}{inside}"


def origin_of(equation: Any, path: Sequence[Place]) -> Origin:
    """Say where an equation in some sub-programs comes from.

    The bodies of JAX's own jitted functions hold no lines of the user's; the call of the
    function does.
    """
    around = [equation.source_info, *(p.equation.source_info for p in reversed(path))]
    calls: set[str] = {str(p.equation.params.get("name", "")) for p in path}
    frame = None
    for info in around:
        calls.update(jaxapi.jax_functions(info))
        frames = jaxapi.forward_frames(info)
        if frames:
            frame = frames[0]
            break
    stacks = [str(info.name_stack) for info in reversed(around)]
    line, text = (frame is None and jaxapi.text_line(equation.source_info)) or (0, "")
    if frame is not None:
        text = _text(frame.file, frame.place)
        calls.add(_called(frame.file, frame.place))
    return Origin(
        frame.file if frame else "",
        frame.place[0] if frame else line,
        frame.function if frame else "",
        text,
        "/".join(stack for stack in stacks if stack),
        tuple([str(p) for p in path]),
        frozenset(calls - {""}),
        any("transpose(" in stack for stack in stacks),
        any("jvp(" in stack or "transpose(" in stack for stack in stacks),
    )


def _text(file: str, place: Extent) -> str:
    """Return the line of an expression, or, of one with several, all on one line."""
    line = linecache.getline(file, place[0]).strip()
    whole = on_one_line(_expression(file, place)) if place[2] > place[0] else ""
    return whole if 0 < len(whole) <= MAX_LENGTH else line


def _called(file: str, place: Extent) -> str:
    """Return what the expression at a place calls: a name, or an operator."""
    try:
        tree = parse(f"({_expression(file, place)})", "eval").body
    except (SyntaxError, ValueError):
        return ""
    if isinstance(tree, ast.Call):
        function = tree.func
        return getattr(function, "attr", getattr(function, "id", ""))
    if isinstance(tree, ast.BinOp):
        return SYMBOLS[type(tree.op)]
    return ""


def _expression(file: str, place: Extent) -> str:
    """Return what stands at a place; "" if it is not there any more."""
    first, start, last, end = place
    lines = [linecache.getline(file, n) for n in range(first, last + 1)]
    if not lines or not all(lines):
        return ""
    # Columns count bytes.
    encoded = [line.encode() for line in lines]
    encoded[-1] = encoded[-1][:end]
    encoded[0] = encoded[0][start:]
    return b"".join(encoded).decode(errors="replace")
