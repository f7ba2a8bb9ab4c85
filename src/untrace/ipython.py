"""Magics for notebooks: `%load_ext untrace`, then `%untrace f(x)` and `%%untrace`.

The call is evaluated in the notebook, but for the call itself: its function is traced
and not run. Before it stand options, those of `untrace show` that a `Source` depends on:
`%untrace --level lax f(x)`. What comes back is a `Source`, which a notebook shows
highlighted and folds.
"""

from __future__ import annotations

import ast
import linecache
from typing import Any

import click

from untrace.api import source
from untrace.cli.calls import CALL, taking
from untrace.cli.showing import show
from untrace.errors import OptionError
from untrace.parsing import parse
from untrace.result import Source

_SAME = """level isolated types scopes name comments reroll expand keep_types annotate
symbolic anonymous refuse max_seconds"""
_NAMES = {**{name: name for name in _SAME.split()}, "inputs": "example_inputs"}
_NO_VERIFY = "no_verify"
OPTIONS = [p for p in show.params if p.name in {*_NAMES, _NO_VERIFY}]
"""The options of `untrace show` that the magics take."""

_HELP = """Recover the source of a call.

    %untrace f(x)
    %untrace --level lax f(x)

As a cell, %%untrace has its options in its first line, and the call below. The call
itself is traced, and not run. The options are those of `untrace show`:

"""


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; IPython calls this for `%load_ext untrace`."""

    def untrace(line: str, cell: str | None = None) -> Source:
        options, call = options_and_call(line)
        if cell is None:
            return shown(call, shell.user_ns, options)
        if call:
            raise SyntaxError(f"{call!r} stands beside %%untrace; write it below")
        return shown(cell, shell.user_ns, options)

    untrace.__doc__ = _HELP + _listed()  # what `%untrace?` shows
    shell.register_magic_function(untrace, "line_cell", "untrace")


def shown(
    call: str, namespace: dict[str, Any], options: dict[str, Any] | None = None
) -> Source:
    """Recover the source of a call that is given as text.

    Args:
      call: The call, such as `f(x, y)`.
      namespace: The names in it.
      options: Those of `untrace.source`.

    Raises:
      SyntaxError: If it is no call.
    """
    call = call.strip()
    tree = parse(call or "None", "eval")
    if not isinstance(tree.body, ast.Call):
        raise SyntaxError(f"{call!r} is not a call; write it as in a cell: f(x, y)")
    names = dict(namespace)
    taking(tree, names)
    lines = [f"{line}\n" for line in call.split("\n")]
    linecache.cache[CALL] = (len(call), None, lines, CALL)
    # The user's own expression, in the user's own namespace.
    function, args, kwargs = eval(compile(tree, CALL, "eval"), names)
    return source(function, **(options or {}))(*args, **kwargs)


def options_and_call(line: str) -> tuple[dict[str, Any], str]:
    """Split a line into the options of `untrace.source` and the call after them.

    >>> options_and_call("--level lax --types f(x, '--name')")[1]
    "f(x, '--name')"

    Raises:
      OptionError: If there is no such option, or it has not such a value.
    """
    words, rest = list[str](), line.strip()
    flags = {opt: bool(getattr(p, "is_flag", False)) for p in OPTIONS for opt in p.opts}
    while rest.startswith("-"):
        word, _, rest = rest.partition(" ")
        words.append(word)
        rest = rest.lstrip()
        if not flags.get(word, "=" in word):
            value, _, rest = rest.partition(" ")
            words.append(value)
            rest = rest.lstrip()
    try:
        given = _command().make_context("%untrace", words).params
    except click.UsageError as error:
        raise OptionError(
            f"{error.format_message()} `%untrace?` lists the options."
        ) from None
    options = {ours: given[name] for name, ours in _NAMES.items()}
    return {**options, "verify": not given[_NO_VERIFY]}, rest


def _command() -> click.Command:
    return click.Command("%untrace", params=OPTIONS, add_help_option=False)


def _listed() -> str:
    """List the options as a command line does."""
    command = _command()
    formatter = click.HelpFormatter(width=80)
    command.format_options(click.Context(command), formatter)
    return formatter.getvalue()
