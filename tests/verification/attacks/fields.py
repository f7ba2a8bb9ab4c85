"""One pair for every field of the params of every primitive that JAX can trace here.

The equations come from JAX's own harness, the programs of the tests and the pairs of
the red team. Each stands alone in a program, and again with one param changed.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.extend.core.primitives as extend
import numpy as np
from jax._src import core
from jax._src.interpreters import ad, batching, mlir

from tests.corpus.harness import cases
from tests.verification.attacks import rarely
from tests.verification.attacks.changing import Change, changed
from tests.verification.attacks.pairs import PAIRS, trace
from tests.verification.programs import PROGRAMS
from untrace import jaxapi

N_CASES = 4
"""How many cases of each group of the harness are traced."""
N_CHANGES = 6
"""How many other values of a field are tried, for each class that it has."""

Field = tuple[str, str]


@dataclass
class Seen:
    """What equations of one primitive have in one field: by class, and other values."""

    eqns: dict[type, Any] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)


@functools.cache
def seen_fields() -> dict[Field, Seen]:
    """Collect the fields of all equations; primitives without any have the field ""."""
    found: dict[Field, Seen] = defaultdict(Seen)
    for eqn in sorted(_equations(), key=_is_dead):
        name = eqn.primitive.name
        found[name, ""].eqns.setdefault(type(None), eqn)
        for param, value in eqn.params.items():
            seen = found[name, param]
            seen.eqns.setdefault(type(value), eqn)
            if len(seen.values) < 4 and not jaxapi.is_jaxpr(value):
                seen.values.setdefault(repr(value), value)
    return dict(found)


def _is_dead(eqn: Any) -> bool:
    """Whether nothing of an equation can count: an example only where there is no other."""
    return not eqn.outvars and not eqn.effects


def _equations() -> Iterator[Any]:
    known: set[int] = set()
    stack = list(_programs())
    while stack:
        body, _ = jaxapi.split_jaxpr(stack.pop())
        if id(body) in known:
            continue
        known.add(id(body))
        for eqn in body.eqns:
            yield eqn
            stack.extend(_jaxprs_in(list(eqn.params.values())))


def _jaxprs_in(value: Any) -> Iterator[Any]:
    if jaxapi.is_jaxpr(value):
        yield value
    elif isinstance(value, tuple | list):
        yield from itertools.chain.from_iterable(map(_jaxprs_in, value))
    elif isinstance(value, dict):
        yield from _jaxprs_in(list(value.values()))


def _programs() -> Iterator[Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for case in _harness():
            try:
                yield jax.make_jaxpr(case.dyn_fun)(
                    *case.dyn_args_maker(np.random.RandomState(0))
                )
            except Exception:  # what JAX itself cannot trace is not ours
                continue
        for function, args in (*PROGRAMS.values(), *rarely.PROGRAMS.values()):
            yield jax.make_jaxpr(lambda *args, function=function: function(*args))(
                *args
            )
        for pair in PAIRS.values():
            yield from (trace(side, pair.args) for side in pair.sides)


def _harness() -> Iterator[Any]:
    counts: Counter[str] = Counter()
    for case in cases():
        counts[case.group_name] += 1
        if counts[case.group_name] <= N_CASES:
            yield case


def alone(eqn: Any, another: bool = False, **params: Any) -> Any:
    """A program of one equation, with another primitive or some params changed."""
    names: dict[Any, Any] = {}
    for atom in eqn.invars:
        if not isinstance(atom, core.Literal):
            names.setdefault(atom, core.Var(atom.aval))
    results = [core.Var(var.aval) for var in eqn.outvars]
    effects = {_moved(effect, names) for effect in eqn.effects}
    copy = eqn.replace(
        primitive=core.Primitive("another") if another else eqn.primitive,
        invars=[
            atom if isinstance(atom, core.Literal) else names[atom]
            for atom in eqn.invars
        ],
        outvars=results,
        params={**eqn.params, **params},
        effects=effects,
    )
    body, _ = jaxapi.split_jaxpr(jax.make_jaxpr(lambda: None)())
    made = body.replace(
        invars=list(names.values()),
        outvars=results,
        eqns=[copy],
        effects=core.no_effects,
    )
    return jaxapi.close_jaxpr(made)


def _moved(effect: Any, names: dict[Any, Any]) -> Any:
    if isinstance(effect, jaxapi.JaxprInputEffect) and effect.input in names:
        return effect.replace(input=names[effect.input])
    return effect


def pairs(name: str, param: str, seen: Seen) -> Iterator[tuple[str, Any, Any]]:
    """Make pairs of programs that differ in one field: how, and both."""
    for kind, eqn in seen.eqns.items():
        if not param:
            yield f"{name}: another primitive", alone(eqn), alone(eqn, another=True)
            return
        value = eqn.params[param]
        changes = itertools.chain(_observed(value, seen), changed(value))
        for what, make in itertools.islice(changes, N_CHANGES):
            try:
                other = make()
            except (TypeError, ValueError):  # the class refuses such a value
                continue
            if repr(other) != repr(value):  # its constructor may say the same
                what = f"{name}.{param} ({kind.__name__}): {what}"
                yield what, alone(eqn), alone(eqn, **{param: other})


def _observed(value: Any, seen: Seen) -> Iterator[Change]:
    """Take one value that the field has in another equation."""
    for text, other in seen.values.items():
        is_one = text == repr(value) or _sizes(value) == _sizes(other) is not None
        if not is_one and "0x" not in text:
            yield f"as elsewhere, {text}"[:80], lambda other=other: other
            return


def _sizes(value: Any) -> tuple[int, ...] | None:
    """What a tree of JAX's bookkeeping means; None of all else."""
    is_tree = isinstance(value, (*jaxapi.FLAT_TREES, *jaxapi.FLAT_PYTREES))
    return jaxapi.flat_tree_sizes(value) if is_tree else None


@functools.cache
def primitives() -> dict[str, Any]:
    """Collect all primitives of which JAX knows how to do something, by name."""
    tables = (
        mlir._lowerings,
        *mlir._platform_specific_lowerings.values(),
        ad.primitive_jvps,
        ad.primitive_transposes,
        batching.fancy_primitive_batchers,
        {getattr(extend, name) for name in dir(extend) if name.endswith("_p")},
    )
    known = itertools.chain.from_iterable(tables)
    return {p.name: p for p in known if type(p).__module__.startswith("jax")}


def placeholder(name: str, value: int) -> Any:
    """A program of a primitive that is traced nowhere, with one made-up param."""
    template = jax.make_jaxpr(lambda x: -x)(1.0).eqns[0]
    made = template.replace(primitive=primitives()[name], params={"made_up": value})
    return alone(made)
