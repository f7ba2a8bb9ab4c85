"""Where the rules of a function are defined: beside it, or where it is called."""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.recorded.terms import (
    Global,
    Term,
    is_bound,
    is_global,
    joined,
    placed,
)
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.writer import Writer
from untrace.syntax.precedence import ATOM


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
