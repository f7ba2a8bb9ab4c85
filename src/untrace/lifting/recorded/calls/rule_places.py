"""Where the rules of a function are defined: beside it, or where it is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from untrace.lifting.recorded.terms import Global, Term, joined, placed
from untrace.lifting.recorded.tree import Statement
from untrace.syntax.precedence import ATOM

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
      Whether these are its rules: a function of the module may have others already.
    """
    if is_global(made) and not any(map(is_bound, rules)):
        name, program = made.render(), writer.program
        texts = ", ".join(term.render() for term in [*rules, *options])
        statement = f"{name}.{method}({texts})"
        known = program.rule_statements.get(name)
        if known is None:
            program.rule_statements[name] = statement
            parts = [part for term in (made, *rules) for part in term.parts]
            names = {part.text for part in parts if type(part) is Global}
            program.add_after(names, statement)
        return known in (None, statement)
    given = joined([*rules, *options])
    term = Term([*placed(made, ATOM), f".{method}(", *given, ")"])
    writer.draft.statements.append(Statement(None, term, True))
    return True


def is_global(term: Term) -> bool:
    """Tell whether an expression begins with a name of the module."""
    return type(term.parts[0]) is Global


def is_bound(term: Term) -> bool:
    """Tell whether an expression sees a value of the function around it.

    The parameters of a lambda have their names already.
    """
    return any(not ref.name.text for ref in term.all_refs())
