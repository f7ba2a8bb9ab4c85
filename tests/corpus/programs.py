"""Programs of JAX's documentation, with their derivatives and batches, as a corpus.

`python -m tests.corpus.programs` recovers all of them and prints a table; `--help` says
how to run a part. Each must trace back to identical equations, with the same text when
it is recovered twice.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.corpus.documented import basics, derivatives, models  # noqa: F401  (register)
from tests.corpus.origins import origin
from tests.corpus.registry import PROGRAMS, Program
from untrace import jaxapi

MAX_HESSIAN = 64
"""Largest input, in elements, that gets a hessian."""


# Programs that do not come back identical yet, and why. None at present.
KNOWN: dict[str, str] = {}


ORIGINS = {"calls": "", "regions": ", with regions", "equations": ", from equations"}
"""What a verdict says of a program that was not written from its calls alone."""


@dataclass(frozen=True)
class Outcome:
    """What came of one case: "identical", another strength, "untraceable" or "error"."""

    name: str
    verdict: str
    detail: str = ""


def _is_float(leaf: Any) -> bool:
    return (
        jnp.issubdtype(jnp.result_type(leaf), jnp.inexact) if _is_array(leaf) else False
    )


def _is_array(leaf: Any) -> bool:
    dtype = getattr(leaf, "dtype", None)
    return dtype is None or not jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def scalar_loss(program: Program) -> Callable[..., Any]:
    """Return a function of the float leaves that adds up all float results."""
    leaves, structure = jax.tree.flatten(program.args)
    positions = [i for i, leaf in enumerate(leaves) if _is_float(leaf)]

    def loss(*floats: Any) -> Any:
        full = list(leaves)
        for position, value in zip(positions, floats):
            full[position] = value
        results = program.function(*jax.tree.unflatten(structure, full))
        parts = [x for x in jax.tree.leaves(results) if _is_float(x)]
        return sum(jnp.sum(jnp.real(x) ** 2) for x in parts)

    loss.__name__ = "loss"
    return loss


def float_leaves(program: Program) -> list[Any]:
    """Return the arguments of `scalar_loss`."""
    return [leaf for leaf in jax.tree.leaves(program.args) if _is_float(leaf)]


def variants(program: Program) -> Iterator[Program]:
    """List a program and its derivatives and batches; JAX may refuse some of them."""
    yield program
    if not program.variants:
        return
    name, function, context = program.name, program.function, program.context
    loss, floats = scalar_loss(program), float_leaves(program)

    def made(kind: str, variant: Callable[..., Any], *args: Any) -> Program:
        return Program(f"{name}:{kind}", variant, args, context)

    stacked = jax.tree.map(lambda x: jnp.stack([jnp.asarray(x)] * 2), program.args)
    yield made("vmap", jax.vmap(lambda *args: function(*args)), *stacked)
    if not floats:
        return
    numbers = tuple(range(len(floats)))
    yield made("grad", jax.grad(loss, numbers), *floats)
    yield made("jit_grad", jax.jit(jax.grad(loss, numbers)), *floats)
    yield made("jvp", lambda *args: jax.jvp(loss, args, args), *floats)
    yield made("linearize", lambda *args: jax.linearize(loss, *args)[1](*args), *floats)
    yield made("remat_grad", jax.grad(jax.checkpoint(loss)), *floats)
    many = [jnp.stack([x] * 2) for x in floats]
    yield made("vmap_grad", jax.vmap(jax.grad(loss)), *many)
    if sum(np.size(x) for x in floats) <= MAX_HESSIAN:
        yield made("hessian", jax.hessian(loss), *floats)


def refused_by_jax(jaxpr: Any) -> bool:
    """Tell whether JAX traces a program but cannot run it.

    That is so for forward derivatives of `custom_vjp` functions and for constants that
    are tracers of another trace.
    """
    return (
        _has_leaked(jaxpr) or re.search(r" = custom_lin[\[ ]", str(jaxpr)) is not None
    )


def _has_leaked(jaxpr: Any) -> bool:
    body, consts = jaxapi.split_jaxpr(jaxpr)
    return any(isinstance(const, jaxapi.Tracer) for const in consts) or any(
        map(_has_leaked, jaxapi.sub_jaxprs_of(body.eqns))
    )


def run(program: Program, stable: bool = True, level: str = "lax") -> Outcome:
    """Recover one program; compare the text of a second recovery."""
    name = program.name
    with warnings.catch_warnings(), program.context():
        warnings.simplefilter("ignore")
        try:
            jaxpr = jax.make_jaxpr(program.function)(*program.args)
            if refused_by_jax(jaxpr):
                return Outcome(name, "untraceable", "traced, but JAX refuses to run it")
        except Exception as error:  # what JAX itself cannot trace is not ours
            return Outcome(
                name, "untraceable", f"{type(error).__name__}: {error}"[:200]
            )
        try:
            src = untrace.source(program.function, level=level)(*program.args)
            text = str(src)
            compile(text, name, "exec")
            if (
                stable
                and str(untrace.source(program.function, level=level)(*program.args))
                != text
            ):
                return Outcome(
                    name, "unstable", "the second recovery gives another text"
                )
        except Exception:
            return Outcome(name, "error", traceback.format_exc()[-1500:])
    verdict = src.report.strength
    notes = "; ".join(src.report.unproved)
    detail = notes if verdict == "identical" else str(src.report.difference)[:800]
    if level == "api":
        verdict += ORIGINS[origin(text)]
    return Outcome(name, verdict, detail)


GOOD = {
    "lax": ("identical", "untraceable"),
    "api": ("identical", "equivalent", "untraceable"),
}
"""Verdicts that a level has to reach."""


def is_known(name: str) -> bool:
    """Tell whether a case belongs to a program of `KNOWN`."""
    return name.partition(":")[0] in KNOWN


def chosen(
    only: str = "", kinds: str = "", step: int = 1, offset: int = 0
) -> list[Program]:
    """Choose cases whose name contains `only` and whose variant is among `kinds`."""
    wanted = set(kinds.split(",")) if kinds else None
    cases: list[Program] = []
    for program in PROGRAMS.values():
        if only not in program.name:
            continue
        for case in variants(program):
            kind = case.name.partition(":")[2] or "base"
            if wanted is None or kind in wanted:
                cases.append(case)
    return cases[offset::step]


def main() -> None:
    """Run the corpus and print verdicts per kind of variant."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("only", nargs="?", default="", help="part of a program's name")
    parser.add_argument(
        "--kinds", default="", help="base,grad,vmap,jvp,… (all by default)"
    )
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument(
        "--show", type=int, default=40, help="how many failures to print"
    )
    parser.add_argument("--once", action="store_true", help="do not check stability")
    parser.add_argument("--level", choices=("api", "lax"), default="lax")
    options = parser.parse_args()
    start = time.time()
    table: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    bad: list[Outcome] = []
    for position, case in enumerate(
        chosen(options.only, options.kinds, options.step, options.offset)
    ):
        outcome = run(case, not options.once, options.level)
        table[case.name.partition(":")[2] or "base"][outcome.verdict] += 1
        if not outcome.verdict.startswith(GOOD[options.level]):
            bad.append(outcome)
            print(f"- {outcome.verdict} {outcome.name}", file=sys.stderr, flush=True)
        if position % 400 == 399:
            jax.clear_caches()
    print(
        f"jax {jax.__version__}, {len(PROGRAMS)} programs, {time.time() - start:.0f} s"
    )
    for kind, counts in table.items():
        print(f"{kind:12}", dict(counts))
    for outcome in bad[: options.show]:
        print(f"- {outcome.verdict} {outcome.name}\n{outcome.detail}")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
