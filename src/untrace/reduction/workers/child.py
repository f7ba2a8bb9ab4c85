"""Run one job in this process and report every stage as it begins.

The process may crash at any point: whoever reads the reports knows where it stood. Run
by path, also by Python installations without this package; see `wire`.
"""

from __future__ import annotations

import contextlib
import linecache
import os
import re
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO, Any, NamedTuple

import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from ...interpreters.evaluate import Step
from ...interpreters.nans.by_equation import evaluated
from ...interpreters.nans.flagging import Stretch
from ...interpreters.sub_programs import split
from . import wire
from .blame import MAX_BYTES, blame, n_bytes, rows_of
from .stacks import tell_crashes

_FILENAME = "<reduced program>"
_COMPILATION = "/jax/core/compile/backend_compile_duration"
_MAX_COMPILED = 2_000
"""Equations of a program that is compiled in any case."""
_MAX_MESSAGE_CHARS = 8_000
_WIDE = re.compile(r"^@\w+\.enable_x64\(True\)(?:\n\S.*|\n +.*)*\Z", re.MULTILINE)
"""The decorator of a function that computes in 64 bits, before its `def`."""


class Unfit(Exception):
    """A program cannot be run in the way that was asked for."""


class _Report:
    """Sends the stage that begins, and keeps the time that each took."""

    plain: Callable[[], Any] | None = None
    """Traces the program without its transformation."""

    at: dict[str, Any]
    """The equation that is run by itself, if one is."""

    def __init__(self, stream: IO[bytes]) -> None:
        self.stream = stream
        self.at = {}
        self.stage = "load"
        self.seconds: dict[str, float] = {}
        self.cpu_seconds: dict[str, float] = {}
        self.began = time.perf_counter()
        self.began_cpu = time.process_time()

    def times(self) -> dict[str, dict[str, float]]:
        """Return the time that each stage took, with that of the one that runs."""
        now, cpu = time.perf_counter(), time.process_time()
        counts = (
            ("seconds", self.seconds, now - self.began),
            ("cpu_seconds", self.cpu_seconds, cpu - self.began_cpu),
        )
        return {
            name: {**known, self.stage: known.get(self.stage, 0.0) + spent}
            for name, known, spent in counts
        }

    def crash(self, stack: list[str]) -> None:
        """Tell where in native code the process is about to end."""
        wire.write_frame(
            self.stream,
            {"stage": self.stage, **self.times(), **self.at, "stack": stack},
        )

    def begin(self, stage: str, at: dict[str, Any] | None = None, **found: Any) -> None:
        """Begin a stage; with a status, this outcome holds if the process ends now.

        Args:
          stage: Its name.
          at: The equation that is run by itself.
          found: What is known.
        """
        times = self.times()
        self.seconds, self.cpu_seconds = times["seconds"], times["cpu_seconds"]
        self.at = at or {}
        found |= times | self.at
        self.stage = stage
        self.began, self.began_cpu = time.perf_counter(), time.process_time()
        found["stage"] = stage
        wire.write_frame(self.stream, found)


def perform(
    header: dict[str, Any], inputs: Sequence[wire.Encoded], stream: IO[bytes]
) -> None:
    """Run a job and write its stages and, at last, its outcome to `stream`."""
    report = _Report(stream)
    arrays: list[wire.Encoded] = []
    try:
        found = _run(header, inputs, report, arrays)
        found["status"] = "ok"
        if report.stage != "done":
            report.begin("done")
    except BaseException as error:  # a failing program is what we are here for
        found = _raised(error) | report.at | {"is_ours": _is_ours(error, report)}
    found |= {"stage": report.stage, "final": True, **report.times()}
    wire.write_frame(stream, found, arrays)


def _is_ours(error: BaseException, report: _Report) -> bool:
    """Whether an error is one of the text or of how it is run.

    The program was traced before it was written. What fails while it is traced again is
    its own only if it is the transformation that fails.
    """
    if isinstance(error, Unfit) or report.stage == "load":
        return True
    if report.stage != "trace":
        return False
    if report.plain is None:
        return True
    try:
        report.plain()
    except BaseException:  # as above
        return True
    return False


def _raised(error: BaseException) -> dict[str, Any]:
    bases = [c for c in type(error).__mro__ if c is not object]
    names = [f"{c.__module__}.{c.__qualname__}" for c in bases]
    try:
        message = str(error)[:_MAX_MESSAGE_CHARS]
    except Exception as second:  # a message may be computed
        message = f"(no message: {type(second).__name__})"
    found = {"status": "raised", "exception": names, "message": message}
    return found | _equation_at(error)


def _equation_at(error: BaseException) -> dict[str, Any]:
    """Tell which equation JAX had in hand when it raised, while it lowered or evaluated.

    The functions that go through a program call it `eqn`; the first is at the top level.
    """
    found: list[tuple[Any, Any]] = []
    with contextlib.suppress(Exception):
        for frame, _ in traceback.walk_tb(error.__traceback__):
            eqn = frame.f_locals.get("eqn")
            if hasattr(getattr(eqn, "primitive", None), "name"):
                found.append((eqn, frame.f_locals.get("jaxpr")))
        eqns = getattr(found[0][1], "eqns", [])
        rows = [i for i, eqn in enumerate(eqns) if eqn is found[0][0]]
        is_top = len(rows) == 1 and found[0][0] is found[-1][0]
        name = str(found[-1][0].primitive.name)
        return {"blame": name, "blame_row": rows[0] if is_top else None}
    return {}


def _run(
    header: dict[str, Any],
    inputs: Sequence[wire.Encoded],
    report: _Report,
    arrays: list[wire.Encoded],
) -> dict[str, Any]:
    wants = set(header["wants"])
    if "stack" in wants:
        tell_crashes(report.crash)
    if header["action"] == "verify":
        return _verified(header["text"])
    if header["float64"]:
        jax.config.update("jax_enable_x64", True)
    sidecar = None
    if header["has_sidecar"]:
        *inputs, sidecar = inputs
    function = _load(header["text"], header["name"], sidecar)
    args = [wire.decode_for_jax(item) for item in inputs]
    found = _about_inputs(args)
    plain = function
    if header["under"] is not None:
        report.plain = partial(jax.make_jaxpr(plain), *args)
    function = _transformed(plain, header["under"])
    ran: _Ran | None
    if header["action"] == "eager":
        report.begin("run")
        ran = _Ran(jax.block_until_ready(_op_by_op(function, args)))
    elif header["action"] == "call":
        report.begin("run")
        ran = _Ran(jax.block_until_ready(jax.tree.leaves(function(*args))))
    else:
        ran = _jitted(function, args, header["action"], wants, report, found)
    if ran is None:
        return found
    outputs = _floats(ran.outputs)
    found["outputs"] = [_about(x) for x in outputs]
    report.begin("done", status="ok", is_cut="blame" in wants, **found)
    if "blame" in wants and _bad(ran.outputs):
        found |= _blamed(function, args, ran)
        if header["under"] == "grad":
            made = _op_by_op(plain, args) if ran.by_equation else jax.jit(plain)(*args)
            found["has_finite_values"] = not _bad(jax.tree.leaves(made))
    if "evidence" in wants:
        found["evidence"] = _evidence(function, args)
    if "arrays" in wants:
        arrays += [wire.encode(x) for x in outputs]
    return found


class _Ran(NamedTuple):
    """What a program made, and how: equation by equation, if all values are known."""

    outputs: list[Any]
    jaxpr: Any = None
    by_equation: Stretch | None = None


def _jitted(
    function: Callable[..., Any],
    args: list[Any],
    action: str,
    wants: set[str],
    report: _Report,
    found: dict[str, Any],
) -> _Ran | None:
    """Compile a program and run it, as far as that is asked for.

    A large one, which takes long to compile, is first run equation by equation, if that
    may be enough: if it raises or ends the process, or if it makes what is looked for.
    """
    jitted = jax.jit(function)
    report.begin("trace")
    traced = jitted.trace(*args)
    jaxpr: Any = traced.jaxpr
    options: Any = jax.config.values
    is_watched = options["jax_debug_nans"] or options["jax_debug_infs"]
    may_do = wants & {"alone", "blame", "quick"} and not is_watched
    if may_do and _is_large(jaxpr) and n_bytes(jaxpr) <= MAX_BYTES:
        rows = rows_of(jaxpr)
        by_equation = evaluated(jaxpr, args, partial(_begin, report, rows))
        known: Any = by_equation.values
        outputs = [known[n] for n in by_equation.outputs]
        if "quick" in wants or ("blame" in wants and _bad(outputs)):
            return _Ran(outputs, jaxpr, by_equation)
    report.begin("lower")
    lowered = traced.lower()
    if action == "lower":
        return None
    report.begin("compile")
    compiled = lowered.compile()
    if "memory" in wants:
        found |= _planned_bytes(compiled)
    if action == "compile":
        return None
    report.begin("run")
    # What is compiled ahead of time does not look for the equation to blame.
    made = jax.block_until_ready((jitted if is_watched else compiled)(*args))
    if "recompiles" in wants:
        found["n_compiles"] = _count_compiles(jitted, args)
    return _Ran(jax.tree.leaves(made), jaxpr)


def _begin(report: _Report, rows: dict[int, int], step: Step, stage: str) -> None:
    """Tell of the stage at which one equation is."""
    row = None if step.path else rows[id(step.equation)]
    report.begin(stage, {"blame": step.name, "blame_row": row})


def _is_large(jaxpr: Any) -> bool:
    """Whether a program has more equations than are compiled in seconds."""
    count, todo = 0, [jaxpr]
    while todo and count <= _MAX_COMPILED:
        eqns = split(todo.pop())[0].eqns
        count += len(eqns)
        todo += [e.params["jaxpr"] for e in eqns if e.primitive.name in ("jit", "pjit")]
    return count > _MAX_COMPILED


def _floats(outputs: list[Any]) -> list[Any]:
    """Leave out the derivatives that integers do not have."""
    return [x for x in outputs if jnp.result_type(x) != jax.dtypes.float0]


def _bad(outputs: list[Any]) -> list[int]:
    """List the positions of outputs that have a NaN or an infinity."""
    return [i for i, x in enumerate(outputs) if any(_about(x)[2:])]


def _verified(path: str) -> dict[str, Any]:
    """Check a saved file, which needs the whole package."""
    import pathlib

    from untrace.saved import verify_file

    verdict = verify_file(pathlib.Path(path))
    return {"exit_status": 0 if verdict.is_verified else 1, "message": str(verdict)}


def _op_by_op(function: Callable[..., Any], args: Sequence[Any]) -> list[Any]:
    """Run the primitives of a program one by one; the bodies of loops are compiled."""
    jaxpr = jax.make_jaxpr(function)(*args)
    with jax.disable_jit():
        return list(jax.core.eval_jaxpr(*split(jaxpr), *args))


def _blamed(function: Callable[..., Any], args: list[Any], ran: _Ran) -> dict[str, Any]:
    """Ask for the primitive to blame; a program that resists keeps its verdict."""
    with contextlib.suppress(Exception):
        jaxpr = ran.jaxpr
        if jaxpr is None:
            jaxpr = jax.make_jaxpr(function)(*args)
        return blame(jaxpr, args, _bad(ran.outputs), ran.by_equation)
    return {}


def _evidence(function: Callable[..., Any], args: list[Any]) -> list[dict[str, Any]]:
    """Tell what speaks for classic traps, which needs the whole package."""
    with contextlib.suppress(Exception):
        from untrace.interpreters.nans.nan_origin import evidence_of
        from untrace.interpreters.nans.traps import to_facts

        return [to_facts(evidence) for evidence in evidence_of(function, args)]
    return []


def _load(text: str, name: str, sidecar: wire.Encoded | None) -> Callable[..., Any]:
    """Execute a module from memory and return a function of it.

    If the module loads arrays from a file beside it, there is one for that time.
    """
    module = types.ModuleType("_reduced_program")
    module.__file__ = _FILENAME
    with tempfile.TemporaryDirectory(prefix="untrace-") as folder:
        if sidecar is not None:
            module.__file__ = os.path.join(folder, f"{name}.py")
            with open(os.path.join(folder, f"{name}.safetensors"), "wb") as file:
                file.write(sidecar.data)
        _execute(text, module)
    function = getattr(module, name)
    if _WIDE.search(text.partition(f"\ndef {name}(")[0]):  # and so are its inputs
        jax.config.update("jax_enable_x64", True)
    context = getattr(module, "tracing_context", None)
    return function if context is None else _within(context, function)


def _within(
    context: Callable[[], contextlib.AbstractContextManager[Any]],
    function: Callable[..., Any],
) -> Callable[..., Any]:
    """Call a function in the context in which its program was traced."""

    def called(*args: Any) -> Any:
        with context():
            return function(*args)

    return called


def _execute(text: str, module: types.ModuleType) -> None:
    lines = text.splitlines(keepends=True)
    linecache.cache[_FILENAME] = (len(text), None, lines, _FILENAME)
    sys.modules[module.__name__] = module  # NamedTuples look their module up by name
    if text.count("\ndef ") >= 20:  # deep nests of functions are legal
        sys.setrecursionlimit(max(sys.getrecursionlimit(), 10_000))
    exec(compile(text, _FILENAME, "exec"), module.__dict__)


def _transformed(function: Callable[..., Any], under: str | None) -> Callable[..., Any]:
    """Apply the transformation of a run to a function of flat arguments."""
    if under is None:
        return function
    if under == "vmap":
        return lambda *args: jax.vmap(function)(*(jnp.stack([x, x]) for x in args))

    def transformed(*args: Any) -> Any:
        moved = [i for i, x in enumerate(args) if _is_inexact(x)]

        def of_moved(*values: Any) -> Any:
            given = list(args)
            for i, value in zip(moved, values):
                given[i] = value
            return function(*given)

        inputs = [jnp.asarray(args[i]) for i in moved]
        if not moved:
            raise Unfit(
                f"no input is a real or complex number: no jax.{under} is taken"
            )
        if under == "grad":
            every = tuple(range(len(moved)))
            return jax.grad(lambda *xs: _total(of_moved(*xs)), every)(*inputs)
        return jax.jvp(of_moved, inputs, [jnp.ones_like(x) for x in inputs])

    return transformed


def _total(outputs: Any) -> Any:
    total: Any = jnp.zeros(())
    for leaf in jax.tree.leaves(outputs):
        if _is_inexact(leaf):
            total = total + jnp.sum(jnp.real(leaf)).astype(float)
    return total


def _is_inexact(value: Any) -> bool:
    return bool(jnp.issubdtype(jnp.result_type(value), jnp.inexact))


def _about_inputs(args: list[Any]) -> dict[str, Any]:
    counted = [_about(x) for x in args if not isinstance(x, (bool, int))]
    n_nan, n_inf = sum(c[2] for c in counted), sum(c[3] for c in counted)
    return {"has_finite_inputs": not (n_nan or n_inf), "has_nan_inputs": n_nan > 0}


def _about(value: Any) -> tuple[list[int], str, int, int]:
    """Return shape, dtype, number of NaNs and of infinities."""
    dtype = jnp.result_type(value)
    shape = list(jnp.shape(value))
    if not jnp.issubdtype(dtype, jnp.inexact):
        return shape, str(dtype), 0, 0
    array = np.asarray(value)
    if array.dtype.kind not in "fc":  # the small types of ml_dtypes
        array = array.astype(np.float32)
    n_nan, n_inf = np.isnan(array).sum(), np.isinf(array).sum()
    return shape, str(dtype), int(n_nan), int(n_inf)


def _planned_bytes(compiled: Any) -> dict[str, int]:
    found = compiled.memory_analysis()
    if found is None:
        return {}
    arguments = int(found.argument_size_in_bytes)
    outputs = int(found.output_size_in_bytes - found.alias_size_in_bytes)
    return {
        "peak_bytes": arguments + outputs + int(found.temp_size_in_bytes),
        "argument_bytes": arguments,
        "output_bytes": outputs,
    }


def _count_compiles(jitted: Any, args: list[Any]) -> int:
    """Count the compilations of two calls, the second with outputs of the first."""
    outputs = jax.block_until_ready(jax.tree.leaves(jitted(*args)))
    again = list(args)
    free = set(range(len(args)))
    for output in outputs:
        fits = [i for i in sorted(free) if _same_type(again[i], output)]
        if fits:
            again[fits[0]] = output
            free.discard(fits[0])
    events: list[str] = []
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, *_, **__: events.append(event)
    )
    jax.block_until_ready(jitted(*again))
    return 1 + events.count(_COMPILATION)


def _same_type(one: Any, other: Any) -> bool:
    return jnp.shape(one) == jnp.shape(other) and jnp.result_type(
        one
    ) == jnp.result_type(other)
