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
from dataclasses import dataclass, replace

import numpy as np

from untrace import jaxapi
from untrace.ir import Atom, Block, Equation, Value
from untrace.lifting.bind import bind, jaxpr_text
from untrace.lifting.controls import control
from untrace.lifting.frame import Frame, plain_results
from untrace.lifting.lifter import Lifter
from untrace.lifting.names.naming import Names, block_name, input_hints
from untrace.lifting.printing import Group, Rhs, grouped, is_literal
from untrace.optional import optional


def hoists_in_order(block: Block, captured: Sequence[Atom]) -> bool:
    """Tell whether a closure over `captured` would be hoisted in just this order."""
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


def uses(block: Block) -> list[Atom]:
    """List the values that a block reads, in their order, as often as it does."""
    atoms: list[Atom] = []
    for eqn in block.equations:
        atoms += eqn.operands
    return [atom for atom in [*atoms, *block.outputs] if type(atom) is Value]


def _forwards(block: Block) -> list[int | None]:
    """Say for each output of a block which input it is, if it is one."""
    position = {value: i for i, value in enumerate(block.inputs)}
    return [
        position.get(atom) if type(atom) is Value else None for atom in block.outputs
    ]


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
    n_consts, n_carry = jaxapi.scan_sizes(dict(params), len(eqn.operands))
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
    forwards = _forwards(body)
    # A carry that the body returns unchanged is moved to the constants, and an x that
    # it returns as a y never enters the equation.
    moved = any(source == n_consts + i for i, source in enumerate(forwards[:n_carry]))
    forwarded = any(
        source is not None and source >= n_inner for source in forwards[n_carry:]
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
        for i, source in enumerate(_forwards(body))
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


@dataclass(frozen=True, slots=True)
class Selector:
    """The value a branch is chosen by, before JAX makes an index of it."""

    function: str
    atom: Atom


@optional(lambda block, lifter: list(block.equations))
def without_indices(block: Block, lifter: Lifter) -> list[Equation]:
    """Leave out the equations by which `jax.lax.cond` and `switch` make their index.

    A conversion (cond) or clamping (switch) directly before the equation that uses its
    result, alone, is part of the public call. What was found goes to
    `lifter.selectors`.
    """
    kept: list[Equation] = []
    counts: dict[Atom, int] = {}
    for atom in uses(block):
        counts[atom] = counts.get(atom, 0) + 1
    for eqn in block.equations:
        if eqn.name == "cond" and kept:
            before = kept[-1]
            untouched = not (lifter.step(eqn) or lifter.step(before))
            if (
                untouched
                and counts.get(eqn.operands[0]) == 1
                and before.context is eqn.context
            ):
                selector = _selector(before, eqn)
                if selector is not None:
                    lifter.selectors[eqn] = selector
                    kept.pop()
        kept.append(eqn)
    return kept


def _selector(before: Equation, eqn: Equation) -> Selector | None:
    """Return what selects the branch if both equations are one public call."""
    branches: tuple[Block, ...] = eqn.params["branches"]
    if before.results != eqn.operands[:1] or not _cond_is_canonical(eqn, branches):
        return None
    if before.name == "convert_element_type":
        atom = before.operands[0]
        is_bool = getattr(atom.aval, "dtype", None) == np.bool_
        is_made = len(branches) == 2 and is_bool and not is_literal(atom)
        return Selector("jax.lax.cond", atom) if is_made else None
    if before.name == "clamp" and len(branches) > 1:
        low, atom, high = before.operands
        bounds = [getattr(bound, "value", None) for bound in (low, high)]
        is_made = bounds == [0, len(branches) - 1] and not is_literal(atom)
        return Selector("jax.lax.switch", atom) if is_made else None
    return None


def _cond_is_canonical(eqn: Equation, branches: tuple[Block, ...]) -> bool:
    if set(eqn.params) - {"branches"} or any(block.constants for block in branches):
        return False
    # An output that is the same input in every branch never enters the equation.
    sources = zip(*[_forwards(block) for block in branches])
    forwarded = any(
        len(set(source)) == 1 and source[0] is not None for source in sources
    )
    first = branches[0].outputs
    typed = all(
        jaxapi.same_type(a.aval, b.aval)
        for block in branches
        for a, b in zip(block.outputs, first)
    )
    entering = zip(eqn.operands[1:], branches[0].inputs)
    return (
        typed
        and not forwarded
        and all(jaxapi.same_aval(a.aval, b.aval) for a, b in entering)
    )


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
    name = frame.lifter.imports.attribute("jax.extend.core.primitives", "cond_p")
    comma = "," if len(branches) == 1 else ""
    args = [*frame.texts(eqn.operands), f"branches=({', '.join(texts)}{comma})"]
    return Rhs(f"{name}.bind({', '.join(args)})")
