"""Highlighted source for terminals and notebooks."""

from __future__ import annotations

import html
import io

from rich.console import Console
from rich.syntax import Syntax

THEME = "ansi_light"


def to_html(text: str, title: str = "") -> str:
    """Return source as a self-contained HTML fragment.

    It can be folded up to its title, if it has one.
    """
    console = Console(record=True, width=100, file=io.StringIO(), force_jupyter=False)
    console.print(Syntax(text, "python", theme="default", background_color="default"))
    shown = console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")
    if not title:
        return shown
    summary = f"<summary><code>{html.escape(title)}</code></summary>"
    return f"<details open>{summary}{shown}</details>"


def to_terminal(text: str, console: Console) -> None:
    """Print source, highlighted where the console is a terminal, plain otherwise."""
    if console.is_terminal:
        console.print(Syntax(text, "python", theme=THEME, background_color="default"))
    else:
        console.file.write(text)
