"""What people use today to look for NaNs and recompilations, on the same cases.

    PYTHONPATH=. python benchmarks/peers_interpreters.py

The cases are the planted NaNs and the planted recompilations of the tests. Of each tool
are counted: the cases in which it says that there is a NaN, in which what it prints names
the user's line, and the turn of the loop (of the cases that have one), and in which it
says why. Then masked NaNs, which reach no result, that it reports all the same; and its
time over that of the jitted gradient without NaN, compilation left out. All in one
process.
"""

from __future__ import annotations

import argparse
import collections
import io
import logging
import os
import re
import statistics
import time
import traceback
from collections.abc import Callable
from typing import Any

os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=8")

import jax
import jax.numpy as jnp
from jax.experimental import checkify

import untrace
from benchmarks.nan_origin import LAYERS, SIZE, mlp, ratio, rnn
from tests.interpreters import planted, planted_recompilations

Tool = Callable[[Callable[..., Any], Any], str]
"""Takes a function and its argument; returns what it prints, or nothing."""


def untrace_nan_origin(function: Callable[..., Any], x: Any) -> str:
    found = untrace.nan_origin(function)(x)
    return "" if found is None else str(found)


def _raised(run: Callable[[], Any]) -> str:
    try:
        jax.block_until_ready(run())
    except FloatingPointError as error:
        return "".join(traceback.format_exception(error))
    return ""


def debug_nans(function: Callable[..., Any], x: Any) -> str:
    with jax.debug_nans(True):
        return _raised(lambda: jax.jit(function)(x))


def debug_nans_op_by_op(function: Callable[..., Any], x: Any) -> str:
    with jax.debug_nans(True), jax.disable_jit():
        return _raised(lambda: function(x))


def checkify_floats(function: Callable[..., Any], x: Any) -> str:
    checked = jax.jit(checkify.checkify(function, errors=checkify.nan_checks))
    error, _ = checked(x)
    try:
        error.throw()
    except Exception as raised:
        return "".join(traceback.format_exception(raised))
    return ""


TOOLS: dict[str, Tool] = {
    "`untrace.nan_origin`": untrace_nan_origin,
    "`jax_debug_nans` and `jax.jit`": debug_nans,
    "`jax_debug_nans` and `jax.disable_jit`": debug_nans_op_by_op,
    "`checkify` (`nan_checks`)": checkify_floats,
}
KINDS: dict[str, Callable[[planted.Case], bool]] = {
    "forward": lambda case: not case.is_backward,
    "backward": lambda case: case.is_backward,
    "scan": lambda case: planted.MODELS[case.model][1] not in ("", "while[{}]"),
    "while": lambda case: case.model is planted.while_loop,
    "cond": lambda case: case.model in (planted.branches, planted.cond_in_scan),
    "vmap": lambda case: case.is_batched,
    "remat": lambda case: "checkpointed" in case.model.__name__,
    "all": lambda case: True,
}


def says_turn(case: planted.Case, text: str) -> bool:
    """Whether what is printed names the turn of the loop that the NaN is in."""
    turn = planted.MODELS[case.model][1]
    if turn == "nested":
        return f"scan[{case.site // 3}] / scan[{case.site % 3}]" in text
    return turn.format(case.site) in text


def found_by(
    tool: Tool, cases: list[planted.Case]
) -> dict[str, collections.Counter[str]]:
    """Count what a tool says, by the kind of the case."""
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(
        collections.Counter
    )
    for case in cases:
        text = tool(case.function(), case.x)
        line = f"planted.py:{planted.line_of(case.plant)}"
        has_line = line in text.replace('planted.py", line ', "planted.py:")
        has_loop = bool(planted.MODELS[case.model][1])
        for kind, is_of in KINDS.items():
            if is_of(case):
                counts[kind]["cases"] += 1
                counts[kind]["found"] += bool(text)
                counts[kind]["line"] += has_line
                counts[kind]["loops"] += has_loop
                counts[kind]["turn"] += has_loop and says_turn(case, text)
                counts[kind]["why"] += "mend:" in text
    return counts


def masked(x: Any, _: Any) -> Any:
    """A NaN and an infinity that reach no result."""
    return jnp.where(x > 1e9, jnp.log(-jnp.abs(x)), x) + 0.0 * jnp.exp(-1e9 * x**2)


def n_false(tool: Tool) -> int:
    """Count the models with a masked NaN that a tool reports."""
    cases = [planted.Case(m, 0, "", masked, False, False) for m in planted.MODELS]
    return sum(bool(tool(case.function(), case.x)) for case in cases)


# ---- cost --------------------------------------------------------------------------------


def seconds(run: Callable[[], Any], repetitions: int = 5) -> float:
    """Return the median of processor times, the first run left out."""
    taken: list[float] = []
    for _ in range(repetitions + 1):
        start = time.process_time()
        jax.block_until_ready(run())
        taken.append(time.process_time() - start)
    return statistics.median(taken[1:])


def costs(loss: Callable[..., Any]) -> dict[str, float]:
    """Return the time of each tool over that of the jitted gradient, without NaN."""
    keys = jax.random.split(jax.random.key(0), LAYERS)
    weights = [jax.random.normal(k, (SIZE, SIZE)) * SIZE**-0.5 for k in keys]
    args = (weights, jnp.ones((SIZE, SIZE)), jnp.float32(1.0))
    gradient = jax.grad(loss)
    jitted = jax.jit(gradient)
    jaxpr = jax.make_jaxpr(gradient)(*args)
    checked = jax.jit(checkify.checkify(gradient, errors=checkify.nan_checks))
    leaves = jax.tree.leaves(args)
    plain = seconds(lambda: jitted(*args))
    names = iter(TOOLS)
    made = {next(names): ratio(loss, 1.0)}
    with jax.debug_nans(True):
        made[next(names)] = seconds(lambda: jitted(*args)) / plain
    with jax.debug_nans(True), jax.disable_jit():
        made[next(names)] = seconds(lambda: gradient(*args), 2) / plain
    made[next(names)] = seconds(lambda: checked(*args)) / plain
    made["`jax.core.eval_jaxpr`"] = (
        seconds(lambda: jax.core.eval_jaxpr(jaxpr.jaxpr, jaxpr.consts, *leaves)) / plain
    )
    return made


# ---- recompilations ----------------------------------------------------------------------

_DIFFERENCE = re.compile(r"now (.*) and before (.*)")


def logged_misses(planted: planted_recompilations.Planted) -> str:
    """Return what `jax_explain_cache_misses` logs at the second of two calls."""
    stream = io.StringIO()
    handler, logger = logging.StreamHandler(stream), logging.getLogger("jax")
    logger.addHandler(handler)
    function = planted.make()
    try:
        with jax.explain_cache_misses(True):
            for given, context in (
                (planted.first, planted.before),
                (planted.second, planted.after),
            ):
                stream.seek(0)
                stream.truncate()
                args, kwargs = given()
                with context():
                    function(*args, **kwargs)
    finally:
        logger.removeHandler(handler)
    return stream.getvalue()


def is_named_by_jax(planted: planted_recompilations.Planted) -> bool:
    """Whether the log of a recompilation says what differs, in some way."""
    text = logged_misses(planted)
    differences = _DIFFERENCE.findall(text)
    if planted.kind == "function":
        return "never seen function" in text
    return any(now.strip() != before.strip() for now, before in differences)


def is_named_by_untrace(planted: planted_recompilations.Planted) -> bool:
    """Whether `why_recompiled` names the kind of the cause, and where it is."""
    with planted.before():
        args, kwargs = planted.first()
        second = untrace.why_recompiled(planted.make())(*args, **kwargs)
    with planted.after():
        args, kwargs = planted.second()
        found = second(*args, **kwargs)
    all_found = getattr(found, "recompilations", (found,))
    causes = [(c.kind, c.where) for one in all_found for c in one.causes]
    return causes == [(planted.kind, planted.where)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--step", type=int, default=1, help="every STEP-th planted NaN")
    step = parser.parse_args().step
    cases = list(planted.cases())[::step]
    print(f"jax {jax.__version__}\n")
    print("| tool | " + " | ".join(KINDS) + " | line | turn | why | masked |")
    for name, tool in TOOLS.items():
        counts, false = found_by(tool, cases), n_false(tool)
        per_kind = [f"{counts[k]['found']}/{counts[k]['cases']}" for k in KINDS]
        n = counts["all"]
        rest = [n["line"], f"{n['turn']}/{n['loops']}", n["why"]]
        columns = [*per_kind, *rest, f"{false}/{len(planted.MODELS)}"]
        print(f"| {name} |", " | ".join(map(str, columns)), "|", flush=True)
        jax.clear_caches()
    print()
    for loss in (mlp, rnn):
        for name, times in costs(loss).items():
            print(f"gradient of {loss.__name__}, {name}: {times:.2f} x", flush=True)
    print()
    plants = planted_recompilations.PLANTED.values()
    for name, is_named in (
        ("`jax_explain_cache_misses`", is_named_by_jax),
        ("`untrace.why_recompiled`", is_named_by_untrace),
    ):
        named: collections.Counter[str] = collections.Counter()
        wanted: collections.Counter[str] = collections.Counter()
        for each in plants:
            if each.kind:
                wanted[each.kind] += 1
                named[each.kind] += is_named(each)
        missed = [f"{k} {named[k]}/{n}" for k, n in wanted.items() if named[k] < n]
        said = f"{sum(named.values())} of {sum(wanted.values())} causes"
        print(f"{name}: {said} {', '.join(missed)}", flush=True)


if __name__ == "__main__":
    main()
