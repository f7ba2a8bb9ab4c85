"""Where else a program fails: other flags, platforms, interpreters, versions of JAX.

The pinned predicate is asked, so that another failure is not taken for the same one. The
program is run in workers with one thing changed at a time.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from untrace.reduction.keeping.base import story
from untrace.reduction.program import Program
from untrace.reduction.trials import Judge, prepare
from untrace.reduction.workers.process import START_S

FAILS, FINE, OTHER, UNKNOWN = "fails", "is fine", "fails otherwise", "cannot be told"

FLAGS = (
    "--xla_backend_optimization_level=0",
    "--xla_disable_all_hlo_passes=true",
    "--xla_cpu_enable_fast_math=true",
    "--xla_allow_excess_precision=false",
    "--xla_cpu_use_thunk_runtime=false",
)
"""Switches of XLA that tell much of where a bug is."""

OPTIONS = (("JAX_ENABLE_X64", "1"),)


@dataclass(frozen=True)
class Finding:
    """What a program does in other circumstances.

    Attributes:
      where: What is different.
      verdict: "fails" (in the pinned way), "is fine", "fails otherwise", or "cannot be
        told" (such as where the flag does not exist).
      said: What happened instead, if it is another failure.
    """

    where: str
    verdict: str
    said: str = ""


@dataclass(frozen=True)
class Asking:
    """Asks the pinned predicate about one program in other circumstances."""

    program: Program
    judge: Judge

    def ask(
        self,
        where: str,
        env: Mapping[str, str] | None = None,
        python: str | None = None,
    ) -> Finding:
        """Run the program with other variables, or with another interpreter.

        Args:
          where: What to call that.
          env: Variables to set; flags of XLA are added to those that the failure needs.
          python: Path of an interpreter that has JAX.
        """
        keep = self.judge.keep
        trial = prepare(self.program, keep)
        if trial is None or not trial.jobs:
            return Finding(where, UNKNOWN, "nothing is run")
        jobs = tuple(
            replace(
                job,
                run=replace(
                    job.run,
                    env=_merged(job.run.env, env or {}),
                    python=python or job.run.python,
                ),
            )
            for job in trial.jobs
        )
        verdict = self.judge.judge(replace(trial, jobs=jobs, controls=()))
        if verdict.is_interesting:
            return Finding(where, FAILS)
        said = " ".join(dict.fromkeys(story(outcome) for outcome in verdict.outcomes))
        if verdict.is_lost or any(outcome.is_ours for outcome in verdict.outcomes):
            return Finding(where, UNKNOWN, said)
        if all(outcome.status == "ok" for outcome in verdict.outcomes):
            return Finding(where, FINE)
        return Finding(where, OTHER, said)


def _merged(
    env: Sequence[tuple[str, str]], others: Mapping[str, str]
) -> tuple[tuple[str, str], ...]:
    made = dict(env)
    for name, value in others.items():
        before = made.get(name, "") if name.endswith("_FLAGS") else ""
        made[name] = f"{before} {value}".strip()
    return tuple(made.items())


def usual_findings(asking: Asking, pythons: Iterable[str] = ()) -> list[Finding]:
    """Ask with the usual switches of XLA and JAX, and with other interpreters."""
    found = [asking.ask(flag, {"XLA_FLAGS": flag}) for flag in FLAGS]
    found += [asking.ask(f"{k}={v}", {k: v}) for k, v in OPTIONS]
    found += [asking.ask(installation(p), python=p) for p in pythons]
    return found


def installation(python: str) -> str:
    """Name the versions of another interpreter, whose path means nothing to others."""
    shown = (
        "from importlib.metadata import version; from platform import python_version; "
        "print(version('jax'), python_version())"
    )
    try:
        done = subprocess.run(
            [python, "-c", shown], capture_output=True, text=True, timeout=START_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return "another Python"
    words = done.stdout.split()
    return "jax {}, Python {}".format(*words) if len(words) == 2 else "another Python"
