"""Where the rules of a function are defined: beside it, or where it is called."""

from __future__ import annotations

from collections.abc import Sequence

from untrace.lifting.recorded.building import attribute, call
from untrace.lifting.recorded.terms import Global, Term, is_bound, is_global
from untrace.lifting.recorded.tree import Statement
from untrace.lifting.recorded.writer import Writer


def has_own_rules(made: Term, rules: Sequence[Term], writer: Writer) -> bool:
    """Whether rules see values of the function around a call, so that it has its own.

    Rules that call the function know it by its name in the module.
    """
    if not any(map(is_bound, rules)):
        return False
    inner = [one.nested for one in writer.draft.statements if one.nested is not None]
    return all(part != made.parts[0] for draft in inner for part in draft.parts())


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
      options: The other arguments of the method.
      writer: Writes the function around a call.

    Returns:
      Whether these are its rules: a function of the module may have others already.
    """
    term = call(attribute(made, method), [*rules, *options])
    if is_global(made) and not any(map(is_bound, rules)):
        name, text, program = made.render(), term.render(), writer.program
        known = program.rule_statements.setdefault(name, text)
        if known is text:
            parts = [part for each in (made, *rules) for part in each.tokens()]
            names = {part.text for part in parts if type(part) is Global}
            program.add_after(names, term)
        return known == text
    writer.draft.statements.append(Statement(None, term, True))
    return True
