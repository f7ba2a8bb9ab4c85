"""Write recorded checks at run time: `x = error_if(x, x < 0, "message")`."""

from __future__ import annotations

from untrace import jaxapi
from untrace.lifting.blocks.error_checks import HELPER
from untrace.lifting.recorded.building import call, literal_term
from untrace.lifting.recorded.expressions import tree_term
from untrace.lifting.recorded.terms import Global, Term
from untrace.lifting.recorded.writer import Writer


def error_check_term(check: jaxapi.ErrorCheck, writer: Writer) -> Term:
    """Write a check as a call of the helper."""
    lifter = writer.program.lifter
    # All leaves that it was given are part of the check.
    writer.program.rearranged.append(writer.values.tree(check.x)[0])
    args = [
        tree_term(check.x, writer),
        writer.value(check.pred),
        literal_term(check.message, lifter.spell(check.message)),
    ]
    if check.index is not None:
        args.append(writer.value(check.index))
    return call(Term([Global(lifter.helper(HELPER))]), args)
