"""Functions that close over values which are given in another order than they are read."""

from __future__ import annotations

from collections.abc import Sequence

from untrace.ir import Atom, Block, Value
from untrace.lifting.blocks.control import hoists_in_order, uses
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.names.naming import block_name
from untrace.lifting.printing import Function, Group, unpacked
from untrace.syntax.names import identifier


def captured_values(
    block: Block, captured: Sequence[Atom], frame: Frame, child: Frame
) -> dict[Value, str]:
    """Name the values that a function closes over, as it names them.

    JAX finds them in the order in which they are read. Where a loop was differentiated,
    what it computes anew every time is moved out of it, and closed over in another order.
    """
    texts = dict(zip(block.inputs, frame.texts(captured)))
    distinct = list(dict.fromkeys(texts.values()))
    if hoists_in_order(block, captured) or len(captured) > len(distinct) == 1:
        return texts  # one alone that is out of order is not read at all
    names = {text: child.names.fresh(identifier(text)) for text in distinct}
    helper = frame.lifter.helper("hoisted")
    target = unpacked(list(names.values()))
    child.lines.append(f"{target} = {helper}({', '.join(distinct)})")
    read = set(uses(block))
    unread = [value for value in texts if value not in read]
    if unread:  # JAX forgets what no equation reads
        frame.lifter.imports.module("jax.numpy")
        child.lines += [f"jnp.copy({names[texts[value]]})" for value in unread]
    return {value: names[text] for value, text in texts.items()}


def closing_over(
    block: Block,
    captured: Sequence[Atom],
    groups: Sequence[Group],
    frame: Frame,
) -> str:
    """Write a block as a function that closes over its first inputs; return its name."""
    if hoists_in_order(block, captured):
        results = plain_results(block)
        return frame.callable(block, "function", captured, groups, results)
    name = frame.names.fresh(identifier(block_name(block, "function")))
    child = frame.child()
    child.env = captured_values(block, captured, frame, child)
    parameters = child.parameters(block, groups, len(captured))
    child.body(block)
    child.returns(plain_results(block)(child))
    frame.nest(Function(name, parameters, child.lines).text_lines())
    return name
