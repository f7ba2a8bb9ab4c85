"""Magics for notebooks: `%load_ext untrace`, then `%untrace f(x)` and `%%untrace`.

The call is evaluated in the notebook, but for the call itself: its function is traced
and not run. What comes back is a `Source`, which a notebook shows highlighted and folds.
"""

from __future__ import annotations

import ast
import linecache
from typing import Any

from untrace.api import source
from untrace.cli.calls import CALL, taking
from untrace.parsing import parse
from untrace.result import Source


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; IPython calls this for `%load_ext untrace`."""

    def untrace(line: str, cell: str | None = None) -> Source:
        """Recover the source of a call: %untrace f(x)"""
        return shown(line if cell is None else cell, shell.user_ns)

    shell.register_magic_function(untrace, "line_cell", "untrace")


def shown(call: str, namespace: dict[str, Any]) -> Source:
    """Recover the source of a call that is given as text.

    Args:
      call: The call, such as `f(x, y)`.
      namespace: The names in it.

    Raises:
      SyntaxError: If it is no call.
    """
    call = call.strip()
    tree = parse(call, "eval")
    if not isinstance(tree.body, ast.Call):
        raise SyntaxError(f"{call!r} is not a call; write it as in a cell: f(x, y)")
    names = dict(namespace)
    taking(tree, names)
    lines = [f"{line}\n" for line in call.split("\n")]
    linecache.cache[CALL] = (len(call), None, lines, CALL)
    # The user's own expression, in the user's own namespace.
    function, args, kwargs = eval(compile(tree, CALL, "eval"), names)
    return source(function)(*args, **kwargs)
