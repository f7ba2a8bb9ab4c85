"""Control flow: scan, while, cond and switch.

Each function returns None where JAX's public function would not give the identical
equation, so that the caller binds the primitive instead. The conditions are those of
JAX's own tracing: closed-over values become leading operands in the order of their
first use, and an unused one disappears.
"""

from __future__ import annotations

from collections.abc import Sequence

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value
from untrace.lifting.bind import jaxpr_text
from untrace.lifting.lifter import Frame, Group, Rhs, control, grouped, is_literal


def hoists_in_order(block: Block, captured: Sequence[Atom]) -> bool:
    """Tell whether a closure over `captured` would be hoisted in just this order."""
    n = len(captured)
    if not n:
        return True
    if any(is_literal(atom) for atom in captured) or len(set(captured)) < n:
        return False
    wanted = block.inputs[:n]
    order = {value: None for value in _uses(block) if value in set(wanted)}
    return list(order) == list(wanted)


def _uses(block: Block) -> list[Atom]:
    atoms: list[Atom] = []
    for eqn in block.equations:
        atoms += eqn.operands
    return [atom for atom in [*atoms, *block.outputs] if type(atom) is Value]


@control("scan")
def scan(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.scan`, with carry and xs as one value or a tuple."""
    params = eqn.params
    body: Block = params["jaxpr"]
    n_consts, n_carry = jaxapi.scan_sizes(params, len(eqn.operands))
    captured = eqn.operands[:n_consts]
    init = eqn.operands[n_consts : n_consts + n_carry]
    xs = eqn.operands[n_consts + n_carry :]
    if body.constants or not _scan_is_canonical(body, captured, init, n_carry, xs):
        return None
    groups = [_group("carry", init), _group("xs", xs)]

    def results(child: Frame) -> str:
        texts = child.texts(body.outputs)
        return f"{grouped(texts[:n_carry])}, {grouped(texts[n_carry:], 'None')}"

    function = frame.callable(body, "body", captured, groups, results)
    args = [function, grouped(frame.texts(init)), grouped(frame.texts(xs), "None")]
    if not xs:
        args.append(f"length={params['length']}")
    if params["reverse"]:
        args.append("reverse=True")
    if params["unroll"] != 1:
        args.append(f"unroll={params['unroll']!r}")
    frame.lifter.imports.module("jax")

    def target(names: list[str]) -> str:
        return f"{grouped(names[:n_carry], '_')}, {grouped(names[n_carry:], '_')}"

    return Rhs(f"jax.lax.scan({', '.join(args)})", target)


def _scan_is_canonical(
    body: Block, captured: Sequence[Atom], init: Sequence[Atom], n_carry: int, xs: Sequence[Atom]
) -> bool:
    n = len(captured)
    carried, scanned = body.inputs[n : n + n_carry], set(body.inputs[n + n_carry :])
    # A carry that the body returns unchanged is moved to the constants, and an x that
    # it returns as a y never enters the equation.
    moved = any(a is b for a, b in zip(carried, body.outputs))
    forwarded = any(output in scanned for output in body.outputs[n_carry:])
    enters = all(jaxapi.same_aval(a.aval, b.aval) for a, b in zip(init, carried))
    returns = all(jaxapi.same_type(a.aval, b.aval) for a, b in zip(body.outputs, carried))
    canonical = enters and returns and not moved and not forwarded
    return canonical and hoists_in_order(body, captured)


def _group(name: str, atoms: Sequence[Atom]) -> Group:
    return Group(name if atoms else "_", len(atoms))


@control("while")
def while_loop(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.while_loop`."""
    params = eqn.params
    cond: Block = params["cond_jaxpr"]
    body: Block = params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    cond_captured = eqn.operands[:n_cond]
    body_captured = eqn.operands[n_cond : n_cond + n_body]
    init = eqn.operands[n_cond + n_body :]
    scalar = getattr(cond.outputs[0].aval, "shape", None) == ()
    hoisted = hoists_in_order(cond, cond_captured) and hoists_in_order(body, body_captured)
    typed = all(
        jaxapi.same_aval(a.aval, b.aval) and jaxapi.same_type(a.aval, c.aval)
        for a, b, c in zip(init, body.inputs[n_body:], body.outputs)
    )
    if not (scalar and hoisted and typed and init):
        return None
    groups = [_group("carry", init)]

    def results(block: Block) -> object:
        return lambda child: grouped(child.texts(block.outputs))

    cond_text = frame.callable(cond, "cond_fun", cond_captured, groups, results(cond))  # type: ignore[arg-type]
    body_text = frame.callable(body, "body_fun", body_captured, groups, results(body))  # type: ignore[arg-type]
    frame.lifter.imports.module("jax")
    init_text = grouped(frame.texts(init))
    return Rhs(f"jax.lax.while_loop({cond_text}, {body_text}, {init_text})", grouped)


@control("cond")
def cond(eqn: Equation, frame: Frame) -> Rhs | None:
    """Bind `cond_p` on the branches' jaxprs.

    `jax.lax.cond` and `jax.lax.switch` convert or clamp the index first, which is an
    equation of its own and printed as such.
    """
    if set(eqn.params) - {"branches"}:
        return None
    branches = [jaxpr_text(block, frame, f"branch_{i}") for i, block in enumerate(eqn.params["branches"])]
    name = frame.lifter.imports.attribute("jax.extend.core.primitives", "cond_p")
    comma = "," if len(branches) == 1 else ""
    text = f"{name}.bind({', '.join(frame.texts(eqn.operands))}, branches=({', '.join(branches)}{comma}))"
    return Rhs(text)
