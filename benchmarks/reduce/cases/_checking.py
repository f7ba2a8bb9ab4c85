"""Check cases without the reducer: does a form of a case fail as its `KEEP` says?

`check(name, form)` runs the form, "PROGRAM" or "minimal", in a fresh process, which
reports each stage it reaches as a line of JSON (so that a crash tells its stage), and
compares that with the predicate. It understands the predicates of the cases and no
more, and shares no code with `untrace.reduce`, so that each checks the other.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.reduce import cases

ROOT = Path(__file__).parent.parent.parent.parent
TIMEOUT_S = 120
STAGES = ("trace", "lower", "compile", "run")


@dataclass(frozen=True)
class Found:
    """What a run of a case came to."""

    facts: Mapping[str, Any]
    stage: str
    returncode: int | None  # None after a timeout
    stderr: str


def check(name: str, form: str) -> tuple[bool, Mapping[str, Any]]:
    """Run a form of a case; tell whether it fails as wanted, and what was found."""
    keep = ast.parse(cases.load(name).KEEP, mode="eval").body
    assert isinstance(keep, ast.Call) and isinstance(keep.func, ast.Name)
    given = [ast.literal_eval(argument) for argument in keep.args]
    named = {item.arg or "": ast.literal_eval(item.value) for item in keep.keywords}
    return VERDICTS[keep.func.id](name, form, *given, **named)


def _crashes(name: str, form: str, signal: str, message: str = "", stage: str = ""):
    found = _run(name, form)
    wanted = found.returncode == -getattr(_signals(), signal)
    is_there = message in found.stderr and stage in ("", found.stage)
    return wanted and is_there, found.facts | {"stage": found.stage}


def _raises(name: str, form: str, type="", message="", stage="", under=None):
    found = _run(name, form, under=under)
    error = found.facts.get("error", "")
    kept = error.startswith(type) and message in error and stage in ("", found.stage)
    return bool(error) and kept, found.facts | {"stage": found.stage}


def _nan(name: str, form: str, jit_only: bool = False, under: str | None = None):
    facts = _run(name, form, under=under).facts
    eager = _run(name, form, under=under, mode="eager").facts if jit_only else {}
    return bool(facts.get("nan")) and not eager.get("nan"), facts


def _inf(name: str, form: str):
    facts = _run(name, form).facts
    return bool(facts.get("inf")), facts


def _differs(name: str, form: str, a: str, b: str, rtol: float):
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{side}.npz") for side in "ab"]
        facts = [_side(name, form, side, path) for side, path in zip((a, b), paths)]
        for found in facts:
            if "nan" not in found:  # one side does not run
                return False, found
        ours, theirs = (list(np.load(path).values()) for path in paths)
    error = max(map(_relative_error, ours, theirs), default=0.0)
    return error > rtol, facts[0] | {"relative error": error}


def _slow_compile(name: str, form: str, seconds: float):
    facts = _run(name, form).facts
    return facts.get("compile", 0.0) > seconds, facts


def _memory(name: str, form: str, n_bytes: int):
    facts = _run(name, form, until="compile").facts
    return facts.get("bytes", 0) > n_bytes, facts


def _recompiles(name: str, form: str):
    facts = _run(name, form, mode="twice").facts
    return facts.get("compiled", 0) > 1, facts


def _hangs(name: str, form: str, timeout_s: float):
    found = _run(name, form, timeout_s=timeout_s + 5)
    return found.returncode is None and found.stage == "run", found.facts


def _contains(name: str, form: str, *primitives: str):
    facts = _run(name, form, until="trace").facts
    return set(primitives) <= set(facts["primitives"]), facts


def _command(name: str, form: str, command: str):
    facts = _run(name, form, until="trace").facts
    arguments = "minimal_arguments" if form == "minimal" else "arguments"
    text = (
        f"import jax\nfrom benchmarks.reduce.cases import {name} as case\n"
        f"jax.block_until_ready(jax.jit(case.{form})(*case.{arguments}()))\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file.py")
        path.write_text(text)
        done = subprocess.run(
            [*command.format(file=path).split()],
            cwd=ROOT,
            env=_environment({}),
            timeout=TIMEOUT_S,
        )
    return done.returncode == 0, facts


VERDICTS: Mapping[str, Callable[..., tuple[bool, Mapping[str, Any]]]] = {
    "crashes": _crashes,
    "raises": _raises,
    "nan": _nan,
    "inf": _inf,
    "differs": _differs,
    "slow_compile": _slow_compile,
    "memory": _memory,
    "recompiles": _recompiles,
    "hangs": _hangs,
    "contains": _contains,
    "command": _command,
}


def _signals() -> Any:
    return signal.Signals


def _relative_error(a: np.ndarray, b: np.ndarray) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    apart = np.abs(a - b)
    size = np.maximum(np.abs(a), np.abs(b))
    return float(np.max(apart / np.where(size > 0, size, 1.0), initial=0.0))


# --- Running a case in a fresh process ----------------------------------------------------


def _side(name: str, form: str, side: str, path: Path) -> Mapping[str, Any]:
    """Run one of the two sides that are compared."""
    if side.startswith("env:"):
        variable, _, value = side.removeprefix("env:").partition("=")
        return _run(name, form, save=path, environment={variable: value}).facts
    if side.startswith("python:"):
        return _run(name, form, save=path, python=side.removeprefix("python:")).facts
    return _run(name, form, save=path, mode=side).facts


def _run(
    name: str,
    form: str,
    *,
    mode: str = "jit",
    under: str | None = None,
    until: str = "run",
    save: Path | None = None,
    python: str = sys.executable,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Found:
    options = {"mode": mode, "under": under, "until": until, "save": save}
    given = [f"--{key}={value}" for key, value in options.items() if value]
    returncode: int | None = None
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        command = [python, "-m", __name__, name, form, *given]
        with contextlib.suppress(subprocess.TimeoutExpired):
            returncode = subprocess.run(
                command,
                cwd=ROOT,
                env=_environment(environment or {}),
                stdout=out,
                stderr=err,
                timeout=timeout_s,
            ).returncode
        out.seek(0)
        err.seek(0)
        facts: dict[str, Any] = {}
        for line in out:
            facts |= json.loads(line)
        return Found(facts, facts.get("stage", ""), returncode, err.read())


def _environment(more: Mapping[str, str]) -> dict[str, str]:
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    joined = os.pathsep.join(filter(None, paths))
    return {**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": joined, **more}


# --- In that process ----------------------------------------------------------------------


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("form", choices=("PROGRAM", "minimal"))
    parser.add_argument("--mode", default="jit")
    parser.add_argument("--under")
    parser.add_argument("--until", default="run", choices=STAGES)
    parser.add_argument("--save", type=Path)
    options = parser.parse_args()
    if options.mode == "float64":
        import jax

        jax.config.update("jax_enable_x64", True)
    case = cases.load(options.name)
    function = getattr(case, options.form)
    given = case.minimal_arguments if options.form == "minimal" else case.arguments
    _tell(program=n_equations(case.PROGRAM, *case.arguments()))
    try:
        _attempt(function, given(), options)
    except Exception as error:
        _tell(error=f"{type(error).__name__}: {error}")


def _attempt(function: Callable[..., Any], args: Any, options: Any) -> None:
    import jax

    _tell(stage="trace")
    if options.mode == "float64":
        args = jax.tree.map(_doubled, args)
    jaxpr = jax.make_jaxpr(function)(*args)
    primitives = sorted({eqn.primitive.name for eqn in equations(jaxpr)})
    _tell(equations=n_equations(function, *args), primitives=primitives)
    if options.under == "grad":
        function, args = _differentiated(function, args)
    if options.mode == "eager":
        return _report(_evaluated_alone(jaxpr, jax.tree.leaves(args)), options.save)
    if options.mode == "twice":
        return _call_again(function, args)
    if options.until == "trace":
        return None
    traced = jax.jit(function).trace(*args)
    _tell(stage="lower")
    lowered = traced.lower()
    _tell(stage="compile")
    began = time.perf_counter()
    compiled = lowered.compile()
    _tell(compile=time.perf_counter() - began)
    if memory := compiled.memory_analysis():
        _tell(bytes=memory.temp_size_in_bytes + memory.output_size_in_bytes)
    if options.until == "run":
        _tell(stage="run")
        _report(jax.block_until_ready(compiled(*args)), options.save)


def _tell(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def _doubled(leaf: Any) -> Any:
    is_single = getattr(leaf, "dtype", None) == np.float32
    return leaf.astype(np.float64) if is_single else leaf


def _evaluated_alone(jaxpr: Any, leaves: list[Any]) -> Any:
    """Evaluate equations one by one."""
    import jax
    from jax.extend.core import jaxpr_as_fun

    with jax.disable_jit():
        return jaxpr_as_fun(jaxpr)(*leaves)


def _differentiated(function: Callable[..., Any], args: Any) -> Any:
    """Make the gradient of the sum of all real outputs by all real inputs."""
    import jax
    import jax.numpy as jnp

    leaves, tree = jax.tree.flatten(args)
    is_real = [jnp.issubdtype(np.asarray(leaf).dtype, jnp.floating) for leaf in leaves]

    def total(*real: Any) -> Any:
        chosen = iter(real)
        both = [next(chosen) if r else leaf for r, leaf in zip(is_real, leaves)]
        outputs = jax.tree.leaves(function(*jax.tree.unflatten(tree, both)))
        kept = [o for o in outputs if jnp.issubdtype(o.dtype, jnp.floating)]
        return sum(jnp.sum(output.astype(jnp.float32)) for output in kept)

    real = tuple(leaf for leaf, r in zip(leaves, is_real) if r)
    return jax.grad(total, argnums=tuple(range(len(real)))), real


def _call_again(function: Callable[..., Any], args: Any) -> None:
    """Call a jitted function on what it returned, and count compilations."""
    import jax

    compiled = jax.jit(function)
    out = compiled(*args)
    compiled(out)  # cases that are called again map a state to a state
    _tell(compiled=compiled._cache_size())


def _report(outputs: Any, save: Path | None) -> None:
    import jax

    arrays = [_plain(leaf) for leaf in jax.tree.leaves(outputs)]
    _tell(
        nan=any(np.isnan(array).any() for array in arrays),
        inf=any(np.isinf(array).any() for array in arrays),
    )
    if save:
        np.savez(save, *arrays)


def _plain(leaf: Any) -> np.ndarray:
    import jax

    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    return np.asarray(leaf).astype(np.float64)


def equations(jaxpr: Any) -> Iterator[Any]:
    """List the equations of a jaxpr and of those in its params, as often as called."""
    for eqn in getattr(jaxpr, "jaxpr", jaxpr).eqns:
        yield eqn
        for param in eqn.params.values():
            for item in param if isinstance(param, (tuple, list)) else (param,):
                if hasattr(item, "eqns"):
                    yield from equations(item)


def n_equations(function: Callable[..., Any], *args: Any) -> int:
    """Count the equations of a function's jaxpr, nested ones included."""
    import jax

    return sum(1 for _ in equations(jax.make_jaxpr(function)(*args)))


if __name__ == "__main__":
    _main()
