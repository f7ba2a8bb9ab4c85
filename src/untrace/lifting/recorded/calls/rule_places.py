"""Where the rules of a function are defined: beside it, or where it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from untrace.lifting.recorded.statements import Statement
from untrace.lifting.recorded.terms import ATOM, Global, Term, joined, placed

if TYPE_CHECKING:
    from untrace.lifting.recorded.writer import Writer


def place_rules(
    made: Term,
    method: str,
    rules: Sequence[Term],
    options: Sequence[Term],
    writer: Writer,
) -> bool:
    """Write the statement that defines the rules of a function.

    Args:
      made: The function.
      method: Which of its methods takes them.
      rules: The rules.
      options: The other arguments of the method.
      writer: Writes the function around a call.

    Returns:
      Whether the statement is one of the module.
    """
    if is_global(made) and not any(map(is_bound, rules)):
        texts = ", ".join(term.render() for term in [*rules, *options])
        names = {term.render() for term in (made, *rules) if is_global(term)}
        writer.program.add_after(names, f"{made.render()}.{method}({texts})")
        return True
    given = joined([*rules, *options])
    term = Term([*placed(made, ATOM), f".{method}(", *given, ")"])
    writer.draft.statements.append(Statement(None, term, True))
    return False


def is_global(term: Term) -> bool:
    """Tell whether an expression begins with a name of the module."""
    return type(term.parts[0]) is Global


def is_bound(term: Term) -> bool:
    """Tell whether an expression sees a value of the function around it.

    The parameters of a lambda have their names already.
    """
    return any(not ref.name.text for ref in term.all_refs())
