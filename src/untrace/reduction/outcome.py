"""Runs, jobs and outcomes: what is asked of a worker process, and what it tells.

All of them are frozen and picklable, since jobs travel to other machines through any
`concurrent.futures.Executor`. An outcome is always a value, never an exception: a crash,
a hang and an exhausted memory are results like others.
"""

from __future__ import annotations

import signal as _signals
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the workers import this module
    from untrace.reduction.workers.wire import Encoded

TRANSFORMS = (None, "grad", "vmap", "jvp")
EARLY = ("trace", "lower", "compile")
"""Stages at which inputs are types only."""

STAGES = ("load", *EARLY, "run", "done")


@dataclass(frozen=True, slots=True)
class Run:
    """How a program is run.

    Attributes:
      action: "jit": trace, lower, compile, run. "call": called as it
        is, its own jits kept. "eager": op by op, without jit.
        "compile": as "jit", but stop after compiling. "lower": stop after lowering.
        "command": a shell command.
        "verify": compare the saved file at the path `Job.text` with its fingerprint;
        the exit status and the message of the outcome are those of `untrace verify`.
      under: Transformation that is applied first. "grad": the gradient of the sum of
        all inexact outputs with respect to all inexact inputs. "vmap": over two copies
        of the inputs. "jvp": tangents of ones for all inexact inputs.
      env: Environment variables, set before the interpreter starts.
      is_whole_env: There are no other environment variables than `env`.
      python: Another interpreter; the running one if None.
      float64: Enable 64-bit types first; the job's text is made for them.
      wants: What else to find out: "arrays" (the outputs), "blame" (which primitive
        makes the first NaN or inf; of a gradient, whether the function itself has any),
        "evidence" (what that primitive was given), "alone" (large programs first run equation by
        equation, as for "blame": what fails so is not compiled), "quick" (nor is what does not
        fail so), "memory", "recompiles", "stack" (where in
        native code it crashes).
      command: Shell command, with `{file}` for the path of the program.
      timeout_s: Wall time for everything, in seconds.
      memory_bytes: Largest resident memory of the process; no limit if None.
    """

    action: str = "jit"
    under: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    is_whole_env: bool = False
    python: str | None = None
    float64: bool = False
    wants: frozenset[str] = frozenset()
    command: str = ""
    timeout_s: float = 60.0
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A program and how to run it.

    Attributes:
      text: Source of a module.
      name: The function in it, called with `arrays` by position.
      arrays: Values of its flat inputs, made by `workers.wire.encode`.
      run: How to run it.
      file_text: For commands: the standalone file.
      sidecar: Arrays that the text loads from a file beside it.
    """

    text: str
    name: str
    arrays: tuple[Encoded, ...]
    run: Run
    file_text: str = ""
    sidecar: bytes = b""


@dataclass(frozen=True, slots=True)
class Output:
    """The type of an output, and how many of its elements are NaN or infinite."""

    shape: tuple[int, ...]
    dtype: str
    n_nan: int = 0
    n_inf: int = 0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What happened.

    Attributes:
      status: "ok", "raised" (an exception), "died" (the process ended), "timeout",
        "memory" (over the limit), or "lost": the machinery failed and not the program,
        which has to be run again.
      stage: Where it stood: "load", "trace", "lower", "compile", "run", "done".
      exception: Qualified names of the exception's type and of its bases.
      message: Message of the exception; for "lost", what failed.
      is_ours: What was raised is no failure of the program, which was traced before: its
        text cannot be loaded or traced here, or cannot be transformed as asked.
      signal: Number of the signal that ended the process.
      stack: Where in native code it was, innermost frame first, if that was asked for.
      exit_status: What the process ended with by itself.
      stderr: The last kilobytes of its stderr.
      seconds: Wall time of each stage that was entered.
      cpu_seconds: Processor time of each, of all threads; where it is known.
      peak_bytes: Arguments, outputs and temporaries, as XLA plans them.
      argument_bytes: Of those, arguments.
      output_bytes: Of those, outputs that do not take the place of arguments.
      outputs: Types of the outputs.
      has_finite_inputs: No input holds a NaN or an infinity.
      has_nan_inputs: An input holds a NaN.
      has_finite_values: No output of the function has a NaN or an infinity whose gradient
        has one; None where that was not asked.
      blame: The innermost primitive that first makes a NaN or an infinity, or that JAX
        had in hand when it raised.
      blame_row: Number of that equation, if it stands in no sub-program.
      is_cut: The time was over before all of that was found out.
      evidence: What speaks for classic traps; see `nan_origin.evidence_of`.
      n_compiles: Compilations in two calls.
      arrays: The outputs; PRNG keys as key data.
    """

    status: str
    stage: str = "load"
    exception: tuple[str, ...] = ()
    message: str = ""
    is_ours: bool = False
    signal: int | None = None
    stack: tuple[str, ...] = ()
    exit_status: int | None = None
    stderr: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    cpu_seconds: dict[str, float] = field(default_factory=dict)
    peak_bytes: int | None = None
    argument_bytes: int = 0
    output_bytes: int = 0
    outputs: tuple[Output, ...] = ()
    has_finite_inputs: bool = True
    has_nan_inputs: bool = False
    has_finite_values: bool | None = None
    blame: str | None = None
    blame_row: int | None = None
    is_cut: bool = False
    evidence: tuple[dict[str, Any], ...] = ()
    n_compiles: int | None = None
    arrays: tuple[Encoded, ...] = ()

    @property
    def signal_name(self) -> str:
        """Name of the signal that ended the process, such as "SIGABRT"; "" if none."""
        if self.signal is None:
            return ""
        try:
            return _signals.Signals(self.signal).name
        except ValueError:  # real-time signals have no names
            return f"signal {self.signal}"


def outcome_from(header: dict[str, Any], arrays: tuple[Encoded, ...]) -> Outcome:
    """Make an outcome from the frame that a worker sent; unknown fields are ignored."""
    known = {name: header[name] for name in Outcome.__slots__ if name in header}
    outputs = tuple(
        Output(tuple(shape), dtype, n_nan, n_inf)
        for shape, dtype, n_nan, n_inf in known.pop("outputs", ())
    )
    known["exception"] = tuple(known.get("exception", ()))
    known["evidence"] = tuple(known.get("evidence", ()))
    known["stack"] = tuple(known.get("stack", ()))
    known["arrays"] = arrays
    return Outcome(**known, outputs=outputs)
