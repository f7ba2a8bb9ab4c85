"""Edit jaxprs in every way that matters, one small edit at a time.

`edits(jaxpr)` lists edits as (description, thunk). Every thunk builds a jaxpr that
means something else, or is written differently, by construction. The results need not
be valid programs: a comparison must not care.
"""

from __future__ import annotations

import dataclasses
import enum
import random
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax._src import core

from untrace import jaxapi
from untrace.verification.canonical import class_name

Edit = tuple[str, Callable[[], Any]]

OTHER_PRIMITIVE = {
    "add": jax.lax.sub_p,
    "sub": jax.lax.add_p,
    "mul": jax.lax.div_p,
    "div": jax.lax.mul_p,
    "sin": jax.lax.cos_p,
    "cos": jax.lax.sin_p,
    "max": jax.lax.min_p,
    "gt": jax.lax.ge_p,
    "lt": jax.lax.le_p,
    "exp": jax.lax.tanh_p,
}


def sample(jaxpr: Any, n_edits: int, seed: str) -> list[Edit]:
    """Choose edits at random, the same in every run."""
    chosen: list[Edit] = []
    for i, edit in enumerate(edits(jaxpr)):
        if len(chosen) < n_edits:
            chosen.append(edit)
        else:
            place = random.Random(f"{seed} {i}").randrange(i + 1)
            if place < n_edits:
                chosen[place] = edit
    return chosen


def edits(jaxpr: Any) -> Iterator[Edit]:
    """List every edit of a jaxpr and of the jaxprs inside it."""
    body, consts = jaxapi.split_jaxpr(jaxpr)
    is_closed = isinstance(jaxpr, jaxapi.ClosedJaxpr)

    def rebuild(**changes: Any) -> Any:
        new_consts = changes.pop("consts", consts)
        new = body.replace(**changes) if changes else body
        return jaxapi.close_jaxpr(new, new_consts) if is_closed else new

    for what, change in _body_edits(body, consts):
        yield what, lambda change=change: rebuild(**change())


def _body_edits(body: Any, consts: list[Any]) -> Iterator[Edit]:
    scope = list(body.invars)
    for i, eqn in enumerate(body.eqns):
        for what, change in eqn_edits(eqn, list(scope)):

            def put(i: int = i, change: Any = change) -> Any:
                return {"eqns": [*body.eqns[:i], change(), *body.eqns[i + 1 :]]}

            yield f"{i} {eqn.primitive.name}: {what}", put
        yield from _order_edits(body, i)
        yield from _type_edits(body, i)
        scope.extend(v for v in eqn.outvars if type(v) is not core.DropVar)
    yield from _result_edits(body, scope)
    used = {v for eqn in body.eqns for v in _vars(eqn.invars)} | set(
        _vars(body.outvars)
    )
    for i, (var, value) in enumerate(zip(body.constvars, consts)):
        if var in used and not jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            changed = [*consts[:i], _next_value(value), *consts[i + 1 :]]
            yield f"constant {i}: one step", lambda changed=changed: {"consts": changed}


def _vars(atoms: Any) -> list[Any]:
    return [a for a in atoms if type(a) is not core.Literal]


def _next_value(value: Any) -> Any:
    array = np.array(value)
    flat = array.reshape(-1)
    if array.dtype == bool:
        flat[0] = not flat[0]
    else:  # the last bit of the first element
        flat.view(np.uint8)[0] ^= 1
    return flat.reshape(array.shape)


def _order_edits(body: Any, i: int) -> Iterator[Edit]:
    eqns = list(body.eqns)
    eqn = eqns[i]
    yield f"{i} twice", lambda: {"eqns": [*eqns[:i], _copy(eqn), *eqns[i:]]}
    later = {v for e in eqns[i + 1 :] for v in _vars(e.invars)} | set(
        _vars(body.outvars)
    )
    if not later & set(eqn.outvars):
        yield f"{i} dropped", lambda: {"eqns": eqns[:i] + eqns[i + 1 :]}
    if i + 1 == len(eqns):
        return
    after = eqns[i + 1]
    if set(eqn.outvars) & set(_vars(after.invars)):
        return
    if eqn.primitive is not after.primitive or eqn.invars != after.invars:
        swapped = [*eqns[:i], after, eqn, *eqns[i + 2 :]]
        both = bool(eqn.effects) and bool(after.effects)
        name = "effects" if both else "equations"
        yield f"{i} {name} exchanged", lambda: {"eqns": swapped}


def _copy(eqn: Any) -> Any:
    return eqn.replace(outvars=[core.Var(v.aval) for v in eqn.outvars])


def _type_edits(body: Any, i: int) -> Iterator[Edit]:
    for k, var in enumerate(body.eqns[i].outvars):
        if not isinstance(var.aval, core.ShapedArray) or var.aval.dtype == jax.float0:
            continue

        def put(k: int = k, var: Any = var) -> Any:
            other = core.Var(var.aval.update(weak_type=not var.aval.weak_type))
            swap = lambda atoms: [other if a is var else a for a in atoms]
            eqns = [
                e.replace(invars=swap(e.invars), outvars=swap(e.outvars))
                for e in body.eqns
            ]
            return {"eqns": eqns, "outvars": swap(body.outvars)}

        yield f"{i} result {k}: weak type", put


def _result_edits(body: Any, scope: list[Any]) -> Iterator[Edit]:
    for k, atom in enumerate(body.outvars):
        for what, other in _atom_edits(atom, scope):
            results = [*body.outvars[:k], other, *body.outvars[k + 1 :]]
            yield f"result {k}: {what}", lambda results=results: {"outvars": results}
    if body.outvars:
        yield "last result dropped", lambda: {"outvars": body.outvars[:-1]}


def eqn_edits(eqn: Any, scope: list[Any]) -> Iterator[Edit]:
    """List the edits of one equation; `scope` holds the variables before it."""
    other = OTHER_PRIMITIVE.get(eqn.primitive.name)
    if other is not None:
        yield "another primitive", lambda: eqn.replace(primitive=other)
    for k, atom in enumerate(eqn.invars):
        for what, new in _atom_edits(atom, scope):
            operands = [*eqn.invars[:k], new, *eqn.invars[k + 1 :]]
            yield (
                f"operand {k}: {what}",
                lambda operands=operands: eqn.replace(invars=operands),
            )
    if len(eqn.invars) > 1 and eqn.invars[0] is not eqn.invars[1]:
        first, second, *rest = eqn.invars
        if core.Literal not in (type(first), type(second)):
            yield (
                "operands exchanged",
                lambda: eqn.replace(invars=[second, first, *rest]),
            )
    for name, param in eqn.params.items():
        for what, value in value_edits(param):

            def put(name: str = name, value: Any = value) -> Any:
                return eqn.replace(params={**eqn.params, name: value()})

            yield f"param {name}{what}", put
    if eqn.effects:
        yield "no effects", lambda: eqn.replace(effects=core.no_effects)
    yield "context", lambda: eqn.replace(ctx=_other_context(eqn.ctx))


def _other_context(context: Any) -> Any:
    with (
        context.manager,
        jax.threefry_partitionable(not context.threefry_partitionable),
    ):
        return core.JaxprEqnContext()


def _atom_edits(atom: Any, scope: list[Any]) -> Iterator[tuple[str, Any]]:
    if type(atom) is core.Literal:
        yield from _literal_edits(atom)
        return
    others = [v for v in scope if v is not atom and v.aval == atom.aval]
    for other in others[:1] + others[-1:]:
        yield "another variable", other


def _literal_edits(literal: Any) -> Iterator[tuple[str, Any]]:
    aval = literal.aval
    if not isinstance(aval.dtype, np.dtype):
        return
    value = np.asarray(literal.val, aval.dtype)
    changed = _next_value(value)
    yield "literal value", core.Literal(changed, aval)
    if np.issubdtype(value.dtype, np.floating):
        yield (
            "literal sign",
            core.Literal(np.copysign(value, -1 if not np.signbit(value) else 1), aval),
        )
    weak = aval.update(weak_type=not aval.weak_type)
    yield "literal weak type", core.Literal(literal.val, weak)
    dtype = np.dtype(np.int16 if aval.dtype != np.int16 else np.int8)
    if np.isfinite(value).all():
        other = core.ShapedArray(aval.shape, dtype, weak_type=aval.weak_type)
        yield "literal dtype", core.Literal(value.real.astype(dtype), other)


def value_edits(value: Any) -> Iterator[Edit]:
    """List the edits of a param: how, and the changed value."""
    if jaxapi.is_jaxpr(value):
        for what, make in edits(value):
            yield f" / {what}", make
    elif isinstance(value, bool):
        yield " negated", lambda: not value
        yield " as int", lambda: int(value)
    elif isinstance(value, enum.Enum):
        for member in type(value):
            if member is not value:
                yield f" {member.name}", lambda member=member: member
    elif isinstance(value, int | np.integer):
        yield " + 1", lambda: value + 1
        yield " as float", lambda: float(value)
        if value in (0, 1):
            yield " as bool", lambda: bool(value)
    elif isinstance(value, float):
        yield " sign", lambda: -value
    elif type(value) is str:
        yield " text", lambda: value + "x"
    elif isinstance(value, np.dtype):
        yield " dtype", lambda: np.dtype(np.int8 if value != np.int8 else np.int16)
    elif isinstance(value, tuple) and type(value) is tuple:
        yield from _tuple_edits(value)
    elif isinstance(value, frozenset):
        yield " + element", lambda: value | {"another"}
    elif hasattr(value, "_fields"):
        for name in value._fields:
            yield from _field_edits(value, name, lambda v, n, x: v._replace(**{n: x}))
    elif dataclasses.is_dataclass(value) and not isinstance(value, jaxapi.Primitive):
        origins = jaxapi.ORIGIN_FIELDS.get(class_name(type(value)), ())
        for field in dataclasses.fields(value):
            if field.init and field.name not in origins:
                put = lambda v, n, x: dataclasses.replace(v, **{n: x})
                yield from _field_edits(value, field.name, put)
    elif callable(value):
        yield " dropped", lambda: None


def _field_edits(value: Any, name: str, put: Any) -> Iterator[Edit]:
    for what, make in value_edits(getattr(value, name)):
        yield f".{name}{what}", lambda make=make: put(value, name, make())


def _tuple_edits(value: tuple[Any, ...]) -> Iterator[Edit]:
    for i, item in enumerate(value):
        for what, make in value_edits(item):
            yield (
                f"[{i}]{what}",
                lambda i=i, make=make: (*value[:i], make(), *value[i + 1 :]),
            )
    if value:
        yield " shortened", lambda: value[:-1]
        yield " as list", lambda: list(value)
    if value != value[::-1] and str(value) != str(value[::-1]):
        yield " reversed", lambda: value[::-1]
