"""Recovers one case and tries what comes out as its user would.

`python -m tests.corpus.packages.judge NAME --level L` prints a `Finding` as JSON.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.metadata
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import untrace
from tests.corpus.derivatives import difference
from tests.corpus.origins import origin
from tests.corpus.packages.cases import Call, Case, load_all
from tests.corpus.packages.finding import Finding
from untrace import jaxapi
from untrace.capture.trees import build
from untrace.optional import NOTE, NOTE_ABOUT_MORE
from untrace.verification.retrace import execute

PLAIN = {*sys.stdlib_module_names, "jax", "jaxlib", "numpy", "ml_dtypes"}
Flat = Callable[..., list[Any]]


def judge(case: Case, level: str) -> Finding:
    """Judge one case in this process."""
    found = Finding(case.name, case.package, level, jax.__version__)
    with warnings.catch_warnings(), jax.enable_x64(case.x64):
        warnings.simplefilter("ignore")
        missing = not_installed(case)
        if missing:
            found.outcome, found.detail = "not installed", ", ".join(missing)
            return found
        _judge(case, found)
    return found


def _judge(case: Case, found: Finding) -> None:
    try:
        call = case.make()
        original, leaves = flat(call, call.function)
        start = time.perf_counter()
        jaxpr = jax.make_jaxpr(original)(*leaves)
        found.trace_seconds = round(time.perf_counter() - start, 3)
        found.equations = _count(jaxpr)
        wanted = jax.block_until_ready(jax.jit(original)(*leaves))
    except Exception as error:  # a program that does not run here
        found.outcome, found.detail = "case fails", _said(error)
        return
    try:
        start = time.perf_counter()
        src = untrace.source(call.function, level=found.level)(
            *call.args, **call.kwargs
        )
        text = str(src)
        found.source_seconds = round(time.perf_counter() - start, 3)
    except Exception as error:  # the failure that is looked for
        found.outcome, found.detail = "raises", _said(error)
        found.frame = _innermost(error)
        return
    found.outcome = src.report.strength
    found.lines = text.count("\n")
    if not src.report.is_verified:
        found.detail = str(src.report)[:1500]
    if found.level == "api":
        found.origin = origin(text)
    found.left_out = _left_out(src.report.notes)
    found.imports = sorted(_imports(text) - PLAIN)
    judge_text(src, wanted, found)
    judge_load(src, call, wanted, found)


def _left_out(notes: Sequence[str]) -> list[str]:
    named = [note for note in notes if note.startswith((NOTE, NOTE_ABOUT_MORE))]
    return [name for note in named for name in note.split("`")[1::2]]


def judge_text(src: Any, wanted: Sequence[Any], found: Finding) -> None:
    """Save the text, import it, and compare its function under `jit`."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = src.save(Path(folder) / "recovered.py")
            module = execute(path.read_text(encoding="utf-8"), path=str(path))
            if hasattr(module, "example_args"):
                module.example_args()
            found.saved = "works"
        except Exception as error:  # the failure that is looked for
            found.saved = _raised(error)
            return
        try:
            classes = {k: getattr(module, n) for k, n in src.module.classes.items()}
            function = getattr(module, src.module.name)
            parameters = src.captured.parameters

            def run(*values: Any) -> list[Any]:
                given = [build(p.tree, values, classes) for p in parameters]
                named = {
                    p.name: value
                    for p, value in zip(parameters, given)
                    if p.kind is p.kind.KEYWORD_ONLY
                }
                result = function(*given[: len(given) - len(named)], **named)
                return _arrays(result)

            got = jax.jit(run)(*src.captured.values)
            if src.captured.convention.changed:  # behind the result stands their state
                got = got[: len(wanted)]
            if any(isinstance(v, float | complex) for v in src.captured.values):
                # They are inputs here, and constants of the program that gave `wanted`.
                wanted = jax.jit(_as_traced(src.captured))(*src.captured.values)
                wanted = wanted[: len(got)]
            found.values = bits(wanted, got)
        except Exception as error:  # the failure that is looked for
            found.values = _raised(error)


def _as_traced(captured: Any) -> Flat:
    body, consts = jaxapi.split_jaxpr(captured.jaxpr)
    return lambda *values: jaxapi.eval_jaxpr(body, consts, *values)


def judge_load(src: Any, call: Call, wanted: Sequence[Any], found: Finding) -> None:
    """Call the loaded function as the original is called, and transform it.

    Every call has arguments of its own: some functions change them, or donate arrays.
    """
    try:
        loaded = src.load()
    except Exception as error:  # the failure that is looked for
        found.load = _raised(error)
        return
    parts, structure = jax.tree.flatten((call.args, call.kwargs))

    def anew(function: Any) -> Call:
        return Call(function, *jax.tree.unflatten(structure, map(_copied, parts)))

    found.load = load_verdict(anew(call.function), anew(loaded))
    original, leaves = flat(call, call.function)
    recovered, _ = flat(call, loaded)
    try:
        got = jax.block_until_ready(jax.jit(recovered)(*leaves))
        found.jit = bits(wanted, got).replace("equal", "works")
    except Exception as error:  # the failure that is looked for
        found.jit = _raised(error)
    pairs = [jnp.stack([jnp.asarray(x)] * 2) for x in leaves]
    if pairs:
        found.vmap = transformed(jax.vmap(original), jax.vmap(recovered), pairs)
    floats = [i for i, leaf in enumerate(leaves) if _is_float(leaf)]
    if floats:
        made = [jax.grad(_loss(f, leaves, floats)) for f in (original, recovered)]
        found.grad = transformed(*made, [[leaves[i] for i in floats]])


def _copied(leaf: Any) -> Any:
    is_array = isinstance(leaf, jax.Array)
    return jax.device_put(leaf, may_alias=False) if is_array else leaf


def load_verdict(call: Call, ours: Call) -> str:
    """Compare the types of what two functions return, without `jit`.

    Their values are those of other compiled programs: `jit` compares these.
    """
    expected: Any = None
    refusal = ""
    try:
        expected = call.function(*call.args, **call.kwargs)
    except Exception as error:  # some programs only run under jit
        refusal = _said(error)
    try:
        got = jax.block_until_ready(ours.function(*ours.args, **ours.kwargs))
    except Exception as error:  # the failure that is looked for
        return "original refuses" if refusal else _raised(error)
    if refusal:
        return "works"
    a, b = _arrays(expected), _arrays(got)
    if len(a) != len(b):
        return f"differs: {len(b)} results, not {len(a)}"
    types = [[(x.dtype, x.shape) for x in arrays] for arrays in (a, b)]
    if types[0] != types[1]:
        return "differs: types of arrays"
    same = jax.tree.structure(expected) == jax.tree.structure(got)
    return "works" if same else "own types"


def transformed(wanted: Any, got: Any, args: Sequence[Any]) -> str:
    """Compare two transformed functions, up to rounding."""
    try:
        expected = jax.block_until_ready(jax.tree.leaves(jax.jit(wanted)(*args)))
    except Exception:  # what the original does not have, ours need not have
        return "original refuses"
    try:
        actual = jax.block_until_ready(jax.tree.leaves(jax.jit(got)(*args)))
    except Exception as error:  # the failure that is looked for
        return _raised(error)
    if len(expected) != len(actual):
        return f"differs: {len(actual)} results, not {len(expected)}"
    parts = list(filter(None, map(difference, expected, actual)))
    return f"differs: {parts[0]}" if parts else "works"


def flat(call: Call, function: Any) -> tuple[Flat, list[Any]]:
    """Return a function of the array leaves alone, and these; the rest is closed over."""
    leaves, structure = jax.tree.flatten((call.args, call.kwargs))
    positions = [i for i, leaf in enumerate(leaves) if _is_array(leaf)]

    def run(*arrays: Any) -> list[Any]:
        full = list(leaves)
        for position, array in zip(positions, arrays, strict=True):
            full[position] = array
        args, kwargs = jax.tree.unflatten(structure, full)
        return _arrays(function(*args, **kwargs))

    return run, [leaves[i] for i in positions]


def bits(wanted: Sequence[Any], got: Sequence[Any]) -> str:
    """Say "equal" if two lists of arrays have the same bits, all NaNs being one."""
    if len(wanted) != len(got):
        return f"differs: {len(got)} results, not {len(wanted)}"
    for a, b in zip(wanted, got):
        if jaxapi.is_key(a) and jaxapi.is_key(b):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        if jnp.asarray(a).dtype != jnp.asarray(b).dtype or np.shape(a) != np.shape(b):
            return f"differs: {difference(a, b)}"
        one, other = np.asarray(a), np.asarray(b)
        if one.tobytes() != other.tobytes() and not _same_bits(one, other):
            return f"differs: {difference(a, b) or 'by rounding'}"
    return "equal"


def _same_bits(a: Any, b: Any) -> bool:
    if not jnp.issubdtype(a.dtype, jnp.inexact):
        return False
    nan = np.isnan(a)
    if not np.array_equal(nan, np.isnan(b)):
        return False
    return a[~nan].tobytes() == b[~nan].tobytes()


def _loss(function: Flat, leaves: Sequence[Any], floats: Sequence[int]) -> Any:
    def loss(values: Any) -> Any:
        full = list(leaves)
        for position, value in zip(floats, values):
            full[position] = value
        results = filter(_is_float, function(*full))
        return sum((jnp.sum(jnp.abs(x) ** 2) for x in results), jnp.zeros(()))

    return loss


def _is_array(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.generic)) or (
        isinstance(leaf, np.ndarray) and leaf.dtype != object
    )


def _is_float(leaf: Any) -> bool:
    return not jaxapi.is_key(leaf) and jnp.issubdtype(leaf.dtype, jnp.floating)


def _arrays(result: Any) -> list[Any]:
    """Return the leaves of a result that are arrays, numbers among them."""
    kinds = (jax.Array, np.ndarray, np.generic, bool, int, float, complex)
    leaves = [leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, kinds)]
    return [jnp.asarray(leaf) for leaf in leaves]


def _count(jaxpr: Any) -> int:
    body, _ = jaxapi.split_jaxpr(jaxpr)
    return len(body.eqns) + sum(map(_count, jaxapi.sub_jaxprs_of(body.eqns)))


def _imports(text: str) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


def not_installed(case: Case) -> list[str]:
    """List the distributions of a case that are not there."""
    return [d for d in (case.package, *case.needs) if not _is_installed(d)]


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:800]


def _raised(error: BaseException) -> str:
    return f"raises: {_said(error)}"[:400]


def _innermost(error: BaseException) -> str:
    """Name the innermost frame of untrace."""
    ours = str(Path(untrace.__file__).parent)
    frames = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in frames if frame.filename.startswith(ours)]
    if not inside:
        return ""
    return f"{os.path.relpath(inside[-1].filename, ours)}:{inside[-1].name}"


def main() -> None:
    """Judge one case; print its finding as the last line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("name")
    parser.add_argument("--level", choices=("lax", "api"), required=True)
    options = parser.parse_args()
    del sys.argv[1:]  # some packages read flags of their own there
    with contextlib.redirect_stdout(sys.stderr):
        found = judge(load_all()[options.name], options.level)
    print("\n" + found.to_json(), flush=True)


if __name__ == "__main__":
    main()
