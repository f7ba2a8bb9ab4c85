"""Loops as people write them: `jax.lax.map` for scans without a carry, and `fori_loop`.

JAX keeps no trace of either. A scan that carries nothing is a map. A loop that counts is
a scan of known length, or a while loop up to a bound, whose first carry goes up by one;
that the body does not see how it is counted makes it a `fori_loop`. The equation that
counts then has no statement of its own, so level "lax" leaves it as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Literal, Value
from untrace.lifting.blocks.control import n_unhoisted, scan_is_canonical
from untrace.lifting.controls import preferred
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.names.naming import Names, block_name, input_hints
from untrace.lifting.printing import Group, Rhs, grouped
from untrace.optional import gives, optional


@preferred("scan")
@optional(gives(None))
def scan(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a scan as `jax.lax.map` or `jax.lax.fori_loop`, if it is one."""
    params = eqn.params
    body: Block = params["jaxpr"]
    n_consts, n_carry = jaxapi.scan_sizes(params)
    if frame.lifter.step(eqn) or params["reverse"] or body.constants:
        return None
    if n_unhoisted(body, eqn.operands[:n_consts]):
        return None
    if not scan_is_canonical(eqn, body, 0, n_consts, n_carry):
        return None
    if n_carry == 0 and params["unroll"] == 1:
        return _map(eqn, frame, n_consts)
    n_xs = len(eqn.operands) - n_consts - n_carry
    if n_xs == 0 and len(eqn.results) == n_carry and _is_api(frame):
        return _counted_scan(eqn, frame, n_consts)
    return None


def _is_api(frame: Frame) -> bool:
    return frame.lifter.options.level == "api"


# ---- map ---------------------------------------------------------------------------


def _map(eqn: Equation, frame: Frame, n_consts: int) -> Rhs | None:
    """Write `jax.lax.map`."""
    body: Block = eqn.params["jaxpr"]
    xs = eqn.operands[n_consts:]
    if not xs or not body.outputs:
        return None
    hint = block_name(body, "body")
    groups = [Group("xs", len(xs))]
    consts = eqn.operands[:n_consts]
    function = frame.callable(body, hint, consts, groups, plain_results(body))
    frame.lifter.imports.module("jax")
    return Rhs(f"jax.lax.map({function}, {grouped(frame.texts(xs))})", ", ".join)


# ---- fori_loop ---------------------------------------------------------------------


def _counted_scan(eqn: Equation, frame: Frame, n_consts: int) -> Rhs | None:
    """Write a scan of known length as `jax.lax.fori_loop`."""
    body: Block = eqn.params["jaxpr"]
    start = eqn.operands[n_consts]
    lower = frame.text(start)
    if not isinstance(start, Literal) or not lower.lstrip("-").isdigit():
        return None
    inner = _uncounted(frame, body, n_consts, ())
    if inner is None:
        return None
    bounds = [lower, str(int(lower) + eqn.params["length"])]
    is_plain = eqn.params["unroll"] == 1
    options = [] if is_plain else [f"unroll={frame.lifter.spell(eqn.params['unroll'])}"]
    consts, init = eqn.operands[:n_consts], eqn.operands[n_consts + 1 :]
    return _fori(frame, inner, bounds, consts, init, options, dropped=1)


@preferred("while")
@optional(gives(None))
def while_loop(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write a loop up to a bound that is not known as `jax.lax.fori_loop`."""
    params = eqn.params
    body: Block = params["body_jaxpr"]
    n_consts: int = params["body_nconsts"]
    if frame.lifter.step(eqn) or not _is_api(frame) or params["cond_nconsts"]:
        return None
    consts, init = eqn.operands[:n_consts], eqn.operands[n_consts:]
    if body.constants or len(init) < 3 or not frame.is_traced(init[:2]):
        return None
    if n_unhoisted(body, consts) or not _counts_up_to(params["cond_jaxpr"]):
        return None
    if not _is_carried(init, body, n_consts):
        return None
    upper = body.inputs[n_consts + 1]
    inner = _uncounted(frame, body, n_consts, (upper,))
    if inner is None:
        return None
    return _fori(frame, inner, frame.texts(init[:2]), consts, init[2:], [], dropped=2)


def _counts_up_to(cond: Block) -> bool:
    """Whether a condition is that the first carry is less than the second."""
    if len(cond.equations) != 1 or cond.constants:
        return False
    (eqn,) = cond.equations
    line = getattr(eqn.params.get("line"), "text", "")
    is_less = eqn.name == "lt" or (eqn.name == "idiom" and line == "v0 < v1")
    return is_less and eqn.operands == cond.inputs[:2] and eqn.results == cond.outputs


def _is_carried(init: Sequence[Atom], body: Block, n_consts: int) -> bool:
    """Whether values enter a loop, and come back, with the same types."""
    carried = body.inputs[n_consts:]
    same_entry = all(jaxapi.same_aval(a.aval, b.aval) for a, b in zip(init, carried))
    same = all(jaxapi.same_type(a.aval, b.aval) for a, b in zip(carried, body.outputs))
    return same_entry and same


def _fori(
    frame: Frame,
    body: Block,
    bounds: Sequence[str],
    consts: Sequence[Atom],
    init: Sequence[Atom],
    options: Sequence[str],
    dropped: int,
) -> Rhs:
    groups = [Group("i", 1), Group("carry" if init else "_", len(init))]
    function = frame.callable(
        body,
        block_name(body, "body"),
        consts,
        groups,
        lambda child: grouped(child.texts(body.outputs)),
    )
    args = [*bounds, function, grouped(frame.texts(init)), *options]
    frame.lifter.imports.module("jax")
    return Rhs(
        f"jax.lax.fori_loop({', '.join(args)})",
        lambda names: ", ".join(names[dropped:]),
    )


def _uncounted(
    frame: Frame, body: Block, n_consts: int, bound: tuple[Value, ...]
) -> Block | None:
    """Leave out how a body counts, and its bound; None if it does anything else with them."""
    counter = body.inputs[n_consts]
    n_kept = 1 + len(bound)
    added = body.outputs[0]
    counting = next((eqn for eqn in body.equations if added in eqn.results), None)
    if counting is None or not _adds_one(counting, counter):
        return None
    if tuple(body.outputs[1:n_kept]) != bound:
        return None
    rest = tuple([eqn for eqn in body.equations if eqn is not counting])
    outputs = body.outputs[n_kept:]
    read: set[Any] = {*outputs}.union(*[eqn.operands for eqn in rest])
    if not read.isdisjoint((added, *bound)):
        return None
    key = (body, "uncounted")
    if key not in frame.lifter.variants:
        names = tuple(input_hints(body))
        known = dict(zip(body.inputs, names))
        inputs = tuple([value for value in body.inputs if value not in bound])
        made = replace(
            body,
            inputs=inputs,
            equations=rest,
            outputs=outputs,
            debug_info=Names(
                block_name(body, "body"), tuple([known[v] for v in inputs])
            ),
        )
        frame.lifter.variants[key] = made
        if id(body) in frame.lifter.shared:
            frame.lifter.shared.add(id(made))
    return frame.lifter.variants[key]


def _adds_one(eqn: Equation, counter: Value) -> bool:
    """Whether an equation counts: one more than the counter."""
    line = getattr(eqn.params.get("line"), "text", "")
    if eqn.name == "idiom":
        return line == "v0 + 1" and eqn.operands == (counter,)
    if eqn.name != "add" or eqn.operands[0] is not counter:
        return False
    one = eqn.operands[1]
    return isinstance(one, Literal) and int(one.value) == 1
