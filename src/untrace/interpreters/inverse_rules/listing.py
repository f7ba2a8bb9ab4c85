"""The table of primitives in the documentation: invertible, when, or why not."""

from __future__ import annotations

from collections.abc import Sequence

from untrace.interpreters import sub_programs
from untrace.interpreters.inverse_rules.table import (
    CALLS,
    ELEMENTWISE,
    LOST,
    RULES,
    Inverse,
)

# It fills the tables.
from untrace.interpreters.inverse_rules.tables import TABLES as TABLES


def listed() -> str:
    """Return a table in Markdown, in alphabetic order."""
    rows: dict[str, tuple[str, str]] = {}
    for name, inverses in ELEMENTWISE.items():
        rows[name] = _elementwise(inverses)
    own = {name: when for name, (_, when) in RULES.items() if when != "registered"}
    rows |= {name: ("yes", when) for name, when in own.items()}
    rows |= {name: ("no", why) for name, why in LOST.items()}
    rows |= {name: ("yes", "its body is") for name in sub_programs.CALLS}
    rows |= {
        f"{name.removeprefix('jax:')} (function)": ("yes", when)
        for name, (_, when) in CALLS.items()
        if name.startswith("jax:")
    }
    lines = ["| primitive | invertible | when, or why not |", "|---|---|---|"]
    for name, (verdict, text) in sorted(rows.items()):
        text = text.replace("|", "\\|")
        lines.append(f"| `{name}` | {verdict} | {text} |")
    return "\n".join(lines)


def _elementwise(inverses: Sequence[Inverse | None]) -> tuple[str, str]:
    known = [inverse for inverse in inverses if inverse is not None]
    conditions: list[str] = []
    if len(inverses) > 1:
        conditions.append("one operand is known")
    conditions += dict.fromkeys(inverse.on for inverse in known if inverse.on)
    if any(inverse.is_principal is True for inverse in known):
        return "principal=True", "; ".join(conditions)
    if any(callable(inverse.is_principal) for inverse in known):
        where = " where it is not injective (even powers, complex numbers)"
        conditions.append(f"`principal=True`{where}")
    if any(inverse.when is not None for inverse in known):
        conditions.append("nothing is lost in these types and params")
    return "yes", "; ".join(conditions) or "always"
