"""Control flow: scan, while, cond and switch.

Each function returns None where JAX's public function would not give the identical
equation, so that the caller binds the primitive instead. The conditions are those of
JAX's own tracing: closed-over values become leading operands in the order of their
first use, and an unused one disappears. A carry that a body returns unchanged becomes a
leading constant, so constants that no closure brings back in their order are written
as such carries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value
from untrace.jaxapi import written
from untrace.lifting.bind import bind, jaxpr_text
from untrace.lifting.blocks.branch_indices import forwards, uses
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.lifter import Lifter
from untrace.lifting.names.naming import Names, block_name, input_hints
from untrace.lifting.printing import Group, Rhs, grouped, is_literal


def hoists_in_order(block: Block, captured: Sequence[Atom]) -> bool:
    """Whether a closure over `captured` would be hoisted in just this order."""
    return n_unhoisted(block, captured) == 0


def n_unhoisted(block: Block, captured: Sequence[Atom]) -> int:
    """Count the leading constants that a closure does not bring back in their order.

    The others are distinct variables that the block uses, in the order of first use.
    """
    n = len(captured)
    if not n:
        return 0
    wanted = block.inputs[:n]
    among = set(wanted)
    first_uses = list({atom: None for atom in uses(block) if atom in among})
    kept = n
    seen: set[Atom] = set()
    while kept:
        atom = captured[kept - 1]
        if is_literal(atom) or atom in seen:
            break
        tail = set(wanted[kept - 1 :])
        if [value for value in first_uses if value in tail] != list(wanted[kept - 1 :]):
            break
        seen.add(atom)
        kept -= 1
    return kept


def _variant(
    lifter: Lifter, block: Block, key: object, inputs: tuple[Value, ...]
) -> Block:
    """Return a block with other inputs, always the same one: functions are shared."""
    made = lifter.variants.get((block, key))
    if made is None:
        known = dict(zip(block.inputs, input_hints(block)))
        names = tuple([known.get(value, "") for value in inputs])
        debug_info = Names(block_name(block, ""), names)
        made = lifter.variants[block, key] = replace(
            block, inputs=inputs, debug_info=debug_info
        )
        if id(block) in lifter.shared:
            lifter.shared.add(id(made))
    return made


# ---- scan --------------------------------------------------------------------------


@control("scan")
def scan(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.scan`, with carry and xs as one value or a tuple."""
    params = eqn.params
    body: Block = params["jaxpr"]
    n_consts, n_carry = jaxapi.scan_sizes(params)
    m = n_unhoisted(body, eqn.operands[:n_consts])
    if body.constants or not scan_is_canonical(eqn, body, m, n_consts, n_carry):
        return None
    captured = eqn.operands[m:n_consts]
    init = (*eqn.operands[:m], *eqn.operands[n_consts : n_consts + n_carry])
    xs = eqn.operands[n_consts + n_carry :]
    groups = [_group("carry", init), _group("xs", xs)]
    kept = body.inputs[:m]
    if m:
        body = _variant(
            frame.lifter,
            body,
            m,
            (*body.inputs[m:n_consts], *kept, *body.inputs[n_consts:]),
        )

    def results(child: Frame) -> str:
        texts = child.texts((*kept, *body.outputs))
        return (
            f"{grouped(texts[: m + n_carry])}, {grouped(texts[m + n_carry :], 'None')}"
        )

    hint = block_name(params["jaxpr"], "body")
    given = (*init, *xs)
    function = frame.callable(body, hint, captured, groups, results, given)
    args = [function, grouped(frame.texts(init)), grouped(frame.texts(xs), "None")]
    frame.lifter.imports.module("jax")

    def target(names: list[str]) -> str:
        if not names:
            return ""
        carry = [*["_"] * m, *names[:n_carry]]
        return f"{grouped(carry, '_')}, {grouped(names[n_carry:], '_')}"

    return Rhs(
        f"jax.lax.scan({', '.join([*args, *_scan_options(eqn, xs, frame)])})", target
    )


def _scan_options(eqn: Equation, xs: Sequence[Atom], frame: Frame) -> list[str]:
    params = eqn.params
    options: list[str] = []
    if not xs:
        options.append(f"length={params['length']}")
    if params["reverse"]:
        options.append("reverse=True")
    if params["unroll"] != 1:
        options.append(f"unroll={frame.lifter.spell(params['unroll'])}")
    return options


def scan_is_canonical(
    eqn: Equation, body: Block, m: int, n_consts: int, n_carry: int
) -> bool:
    n_inner = n_consts + n_carry
    sources = forwards(body)
    # A carry that the body returns unchanged is moved to the constants, and an x that
    # it returns as a y never enters the equation.
    moved = any(source == n_consts + i for i, source in enumerate(sources[:n_carry]))
    forwarded = any(
        source is not None and source >= n_inner for source in sources[n_carry:]
    )
    carried = body.inputs[n_consts:n_inner]
    returns = all(
        jaxapi.same_type(a.aval, b.aval) for a, b in zip(body.outputs, carried)
    )
    entering = [
        *zip(eqn.operands[:m], body.inputs),
        *zip(eqn.operands[n_consts:], carried),
    ]
    enters = all(jaxapi.same_aval(a.aval, b.aval) for a, b in entering)
    return enters and returns and not moved and not forwarded


def _group(name: str, atoms: Sequence[Atom]) -> Group:
    return Group(name if atoms else "_", len(atoms))


# ---- while -------------------------------------------------------------------------


@control("while")
def while_loop(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.while_loop`."""
    params = eqn.params
    cond: Block = params["cond_jaxpr"]
    body: Block = params["body_jaxpr"]
    n_cond, n_body = params["cond_nconsts"], params["body_nconsts"]
    first = n_cond + n_body
    m = n_unhoisted(body, eqn.operands[n_cond:first])
    if not _while_is_canonical(eqn, cond, body, m):
        return None
    init = (*eqn.operands[n_cond : n_cond + m], *eqn.operands[first:])
    kept = body.inputs[:m]
    if m:
        unused = tuple(Value(value.aval) for value in kept)
        inputs = (*cond.inputs[:n_cond], *unused, *cond.inputs[n_cond:])
        cond = _variant(frame.lifter, cond, m, inputs)
        inputs = (*body.inputs[m:n_body], *kept, *body.inputs[n_body:])
        body = _variant(frame.lifter, body, m, inputs)
    groups = [_group("carry", init)]

    def results(*values: Atom) -> Callable[[Frame], str]:
        return lambda child: ", ".join(child.texts(values))

    texts = [
        frame.callable(
            cond,
            "cond_fun",
            eqn.operands[:n_cond],
            groups,
            results(*cond.outputs),
            init,
        ),
        frame.callable(
            body,
            "body_fun",
            eqn.operands[n_cond + m : first],
            groups,
            results(*kept, *body.outputs),
            init,
        ),
        grouped(frame.texts(init)),
    ]
    frame.lifter.imports.module("jax")
    return Rhs(
        f"jax.lax.while_loop({', '.join(texts)})",
        lambda names: ", ".join([*["_"] * m, *names]) if names else "",
    )


def _while_is_canonical(eqn: Equation, cond: Block, body: Block, m: int) -> bool:
    n_cond, n_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
    init = eqn.operands[n_cond + n_body :]
    if not init or cond.constants or body.constants:
        return False
    carried = body.inputs[n_body:]
    is_scalar = getattr(cond.outputs[0].aval, "shape", None) == ()
    used = set(uses(cond))
    # A carry that the body returns unchanged and the condition does not read is moved.
    moved = any(
        source == n_body + i and cond.inputs[n_cond + i] not in used
        for i, source in enumerate(forwards(body))
    )
    entering = [
        *zip(eqn.operands[n_cond : n_cond + m], body.inputs),
        *zip(init, carried),
    ]
    enters = all(jaxapi.same_aval(a.aval, b.aval) for a, b in entering)
    returns = all(
        jaxapi.same_type(a.aval, b.aval) for a, b in zip(carried, body.outputs)
    )
    hoisted = hoists_in_order(cond, eqn.operands[:n_cond])
    return is_scalar and hoisted and enters and returns and not moved


# ---- cond and switch ---------------------------------------------------------------


@control("cond")
def cond(eqn: Equation, frame: Frame) -> Rhs | None:
    """Write `jax.lax.cond` or `jax.lax.switch`, else bind `cond_p` on jaxprs."""
    selector = frame.lifter.selectors.get(eqn)
    branches: tuple[Block, ...] = eqn.params["branches"]
    if selector is None:
        return _bound_cond(eqn, frame)
    groups = [Group("x", 1)] * (len(eqn.operands) - 1)
    hints = ["false_fun", "true_fun"]
    if selector.function != "jax.lax.cond":
        hints = [f"branch_{i}" for i in range(len(branches))]
    names = [
        frame.callable(block, hint, (), groups, plain_results(block))
        for block, hint in zip(branches, hints)
    ]
    chosen = (
        names[::-1]
        if selector.function == "jax.lax.cond"
        else [f"[{', '.join(names)}]"]
    )
    args = [frame.text(selector.atom), *chosen, *frame.texts(eqn.operands[1:])]
    frame.lifter.imports.module("jax")
    return Rhs(f"{selector.function}({', '.join(args)})", ", ".join)


def _bound_cond(eqn: Equation, frame: Frame) -> Rhs:
    """Bind `cond_p` on an index that was made elsewhere."""
    if set(eqn.params) - {"branches"}:
        return bind(eqn, frame)
    branches: tuple[Block, ...] = eqn.params["branches"]
    given = eqn.operands[1:]
    texts = [
        jaxpr_text(block, frame, f"branch_{i}", given)
        for i, block in enumerate(branches)
    ]
    name = frame.lifter.imports.attribute(written.PRIMITIVES, "cond_p")
    comma = "," if len(branches) == 1 else ""
    args = [*frame.texts(eqn.operands), f"branches=({', '.join(texts)}{comma})"]
    return Rhs(f"{name}.bind({', '.join(args)})")
