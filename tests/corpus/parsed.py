"""Reading the printed jaxprs of the corpora gives the jaxprs themselves.

    python -m tests.corpus.parsed --corpus harness --step 40
    python -m tests.corpus.parsed --corpus programs --verbose
    python -m tests.corpus.parsed --corpus packages --timeout 120

Verdicts are those of the verifier, on `parse(str(jaxpr))` and the jaxpr:

  identical          Constants, whose values are not printed, are arguments of both.
  inner constants    Constants of inner jaxprs are arguments, too, of one alone.
  same text          They differ, and JAX prints both alike, but for functions on the
                     host and batching rules: the text does not tell.
  not in the text    A `ParseError` says what is not printed.
  unprintable        JAX itself raises when it prints the jaxpr.
  untraceable        JAX itself cannot trace the case.
  not installed      The package of the case is not there, or it does not run.
  no time            It took longer than `--timeout`, on programs of packages.
  different, error   A fault of ours.
"""

from __future__ import annotations

import argparse
import collections
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np

from tests.corpus import harness, programs
from tests.corpus.interpreted import Outcome, said
from tests.corpus.packages import apart
from tests.corpus.packages.run import chosen
from untrace import jaxapi
from untrace.errors import ParseError
from untrace.readers.jaxprs import grammar, parse, syntax, tokens
from untrace.verification.compare import compare

FAULTS = ("different", "error")


def judged(name: str, trace: Callable[[], Any]) -> Outcome:
    """Trace a case, print it, read that, and compare."""
    try:
        jaxpr = trace()
    except Exception as error:  # what JAX itself cannot trace is not ours
        return Outcome(name, "untraceable", said(error))
    try:
        text = str(jaxpr)
    except Exception as error:  # jax 0.10 cannot print some
        return Outcome(name, "unprintable", said(error))
    return compared(name, jaxpr, text)


def compared(name: str, jaxpr: Any, text: str) -> Outcome:
    """Compare a jaxpr with what is read of how it is printed."""
    expected = with_constants_as_arguments(jaxpr)
    try:
        found = parse(text)
    except ParseError as error:
        message = str(error).split("\n")[0]
        is_told = "not printed" in message
        return Outcome(name, "not in the text" if is_told else "error", message)
    except Exception as error:
        return Outcome(name, "error", f"not a ParseError: {said(error)}")
    difference = compare(expected, found)
    if difference is None:
        return Outcome(name, "identical")
    inner = [_shown_type(jax.typeof(const)) for const in inner_constants(expected)]
    given = [[*map(_shown_type, each.in_avals)] for each in (found, expected)]
    more = collections.Counter(given[0]) - collections.Counter(given[1])
    # One of a jaxpr that several others call may be several arguments of its type.
    if inner and more.keys() <= {*inner} and more.total() >= len(inner):
        return Outcome(name, "inner constants", f"{len(inner)}")
    shown = " ".join(str(difference).split())[:300]
    if shape_of(str(found)) != shape_of(str(expected)):
        return Outcome(name, "different", shown)
    return Outcome(name, "same text", f"{unprinted(difference)}: {shown}")


def unprinted(difference: Any) -> str:
    """Say what it is of two jaxprs of one text that JAX does not print."""
    types = difference.reason.rpartition(": ")[2].removesuffix(")").replace("*", "")
    first, _, second = types.partition(" and ")
    path = difference.path.split("/")
    if second and first.removesuffix(")") == second.removesuffix(")"):
        return "weak types" if "*" in difference.reason else "scopes of sizes"
    if "derivative rule" in difference.reason or {"jvp", "fwd", "bwd"} & {*path}:
        return "derivative rules"
    if path[-1] == "error" and "custom_jvp_call" in path:
        return "derivative rules"
    if path[-1] == "rule":
        return "batching rules"
    return path[-1]


def _shown_type(aval: Any) -> str:
    return str(aval).lstrip("~")  # whether it is weak is not printed


def inner_constants(jaxpr: Any, seen: dict[int, Any] | None = None) -> list[Any]:
    """List the constants of the jaxprs in a jaxpr, each of them once."""
    seen = {} if seen is None else seen
    found: list[Any] = []
    for inner in jaxapi.sub_jaxprs_of(jaxapi.split_jaxpr(jaxpr)[0].eqns):
        body, consts = jaxapi.split_jaxpr(inner)
        if id(body) not in seen:
            seen[id(body)] = body
            found += [*consts, *inner_constants(inner, seen)]
    return found


def shape_of(text: str) -> Any:
    """Return what a text says, without the names of variables and what is shared."""
    tree, _ = grammar.read(tokens.split(text))
    return _plain(tree, tree.shared, {})


def _plain(value: Any, shared: dict[str, Any], names: dict[str, int]) -> Any:
    if isinstance(value, syntax.Printed):
        return _plain(value.block, value.shared, {})
    if isinstance(value, syntax.Block):
        inner: dict[str, int] = {}
        parts = value.constvars, value.invars, value.equations, value.outvars
        return [_plain(list(part), shared, inner) for part in parts]
    if isinstance(value, syntax.Binder):
        names[value.name] = len(names)
        return value.type
    if isinstance(value, syntax.Name) and value.text in names:
        return names[value.text]
    if isinstance(value, syntax.Name | syntax.Raw):
        text = _ADDRESS.sub("", value.text)
        return _plain(shared[text], shared, {}) if text in shared else text
    if isinstance(value, syntax.Equation):
        params = {  # variables and shared jaxprs may have the same names
            k: _plain(v, shared, {}) if _is_jaxpr(k) else _plain(v, {}, names)
            for k, v in value.params.items()
            if not k.startswith("ft_")  # how transformations group what they carry
            and k
            not in ("callback", "rule")  # functions, which are printed as addresses
        }
        operands = [_plain(v, shared, names) for v in value.operands]
        binders = [_plain(v, shared, names) for v in value.binders]
        return value.primitive, params, operands, binders
    if isinstance(value, syntax.Literal):
        return repr(value.value), value.type
    if isinstance(value, syntax.Call):
        kwargs = {k: _plain(v, shared, names) for k, v in value.kwargs.items()}
        return value.name, [_plain(v, shared, names) for v in value.args], kwargs
    if isinstance(value, tuple | list):
        fields = getattr(value, "_fields", ())  # all but where they stand in the text
        items = value[:-1] if fields[-1:] == ("at",) else value
        return [_plain(item, shared, names) for item in items]
    return repr(value)


def _is_jaxpr(param: str) -> bool:
    return param.endswith("jaxpr") or param in ("branches", "call", "jaxprs")


_ADDRESS = re.compile(r" at 0x\w+")


def with_constants_as_arguments(jaxpr: Any) -> Any:
    """Return a closed jaxpr whose constants are its first arguments."""
    body, consts = jaxapi.split_jaxpr(jaxpr)
    if not consts:
        return jaxpr
    return jaxapi.close_jaxpr(jaxapi.constvars_as_inputs(body))


def of_harness(step: int, offset: int, _: float) -> Iterator[Outcome]:
    """Judge every `step`-th case of JAX's harness."""
    for case in harness.sampled(step, offset):

        def trace(case: Any = case) -> Any:
            args = case.dyn_args_maker(np.random.RandomState(0))
            return jax.make_jaxpr(case.dyn_fun)(*args)

        yield judged(case.fullname, trace)


def of_programs(step: int, offset: int, _: float) -> Iterator[Outcome]:
    """Judge every `step`-th of the documented programs, their derivatives and batches."""
    for case in programs.chosen(kinds="", step=step, offset=offset):

        def trace(case: programs.Program = case) -> Any:
            return jax.make_jaxpr(case.function)(*case.args)

        with case.context():
            yield judged(case.name, trace)


def of_packages(step: int, offset: int, timeout_s: float) -> Iterator[Outcome]:
    """Judge every `step`-th program of the packages, each package in its own process."""
    command = ["-m", "tests.corpus.parsed"]
    for answer in apart.answers(command, chosen(step=step, offset=offset), timeout_s):
        yield Outcome(*answer)


def of_function(name: str, function: Any, args: tuple[Any, ...]) -> Outcome:
    """Judge a function of arrays."""
    return judged(name, lambda: jax.make_jaxpr(function)(*args))


CORPORA = {"harness": of_harness, "programs": of_programs, "packages": of_packages}


def outcomes(
    name: str, step: int, offset: int = 0, timeout_s: float = 300
) -> Iterator[Outcome]:
    """Judge every `step`-th case of a corpus; free compiled code from time to time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for position, outcome in enumerate(CORPORA[name](step, offset, timeout_s)):
            if position % 500 == 499:
                jax.clear_caches()
            yield outcome


def main() -> None:
    """Print what is not identical, and counts of verdicts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--corpus", choices=CORPORA, action="append")
    parser.add_argument("--step", type=int, default=1, help="take every STEP-th case")
    parser.add_argument("--offset", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=300, help="seconds a program")
    parser.add_argument("--verbose", action="store_true", help="print every case")
    parser.add_argument("--case", action="append", help="only this one of a package")
    options = parser.parse_args()
    del sys.argv[1:]  # some packages read the command line
    if options.case:
        apart.judged(options.case, of_function)
        return
    has_faults = False
    for name in options.corpus or ("harness", "programs"):
        counts: collections.Counter[str] = collections.Counter()
        for outcome in outcomes(name, options.step, options.offset, options.timeout):
            counts[outcome.verdict] += 1
            if outcome.verdict == "same text":
                counts[f"same text, {outcome.detail.partition(':')[0]}"] += 1
            if options.verbose or outcome.verdict not in ("identical", "untraceable"):
                print(*outcome, flush=True)
            has_faults |= outcome.verdict in FAULTS
        print(f"jax {jax.__version__}, {name}: {dict(counts)}", flush=True)
    sys.exit(has_faults)


if __name__ == "__main__":
    main()
