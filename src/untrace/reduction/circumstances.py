"""The environment and configuration that a failure needs, so that a file can set them.

Workers inherit the environment of this process, and what was set by `jax.config.update`
if the failure does not show without it. Which of it is needed is found at the end, on
the reduced program, one variable or flag at a time.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace

from untrace import jaxapi
from untrace.reduction.keeping import Keep
from untrace.reduction.program import Program
from untrace.reduction.trials import Judge, prepare

_FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
_OTHERS = ("NVIDIA_TF32_OVERRIDE", "TF_ENABLE_ONEDNN_OPTS", "OMP_NUM_THREADS")
_IDLE = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_TRACEBACK", "JAX_LOG", "JAX_DUMP")
"""Where a program runs, which the header says, and what is said about it."""

Item = tuple[str, str]
"""A variable and its value, or one flag of it."""


def given_settings() -> list[Item]:
    """List what of the environment may change what a program does, flags one by one."""
    found: list[Item] = []
    for name, value in sorted(os.environ.items()):
        if name in _FLAGS:
            found += [(name, flag) for flag in value.split()]
        elif name in _OTHERS or _is_option(name):
            found.append((name, value))
    return found


def configured(keep: Keep) -> list[Keep]:
    """List predicates whose runs are configured as this process is, if they are not.

    Single settings come first, all together last.
    """
    settings = {
        name: value
        for name, value in jaxapi.environment_settings().items()
        if _is_option(name) and os.environ.get(name) != value
    }
    if not keep.runs:
        return []
    single = [keep.with_env((item,)) for item in settings.items()]
    together = [keep.with_env(tuple(settings.items()))] if len(settings) > 1 else []
    return [*single, *together]


def with_needed(program: Program, keep: Keep, judge: Judge) -> Keep:
    """Return a predicate that sets what of the environment the failure needs."""
    needed = given_settings()
    if not needed or not keep.runs or judge.executor is not None:
        return keep
    if _fails(program, keep, judge, ()):
        return keep
    for item in list(needed):
        rest = [other for other in needed if other != item]
        if rest and _fails(program, keep, judge, rest):
            needed = rest
    return keep.with_env(joined(needed))


def _is_option(name: str) -> bool:
    is_idle = name.startswith(_IDLE) or "CACHE" in name
    return name.startswith("JAX_") and not is_idle


def joined(items: Sequence[Item]) -> tuple[Item, ...]:
    """Put flags of one variable together again."""
    made: dict[str, str] = {}
    for name, value in items:
        made[name] = f"{made[name]} {value}" if name in made else value
    return tuple(made.items())


def _fails(program: Program, keep: Keep, judge: Judge, items: Sequence[Item]) -> bool:
    """Ask the predicate in an environment that has no other settings than these."""
    trial = prepare(program, keep)
    if trial is None:
        return False
    settings = {name for name, _ in given_settings()}
    base = {k: v for k, v in os.environ.items() if k not in settings}
    base |= dict(joined(items))
    runs = [
        replace(
            job.run, env=tuple({**base, **dict(job.run.env)}.items()), is_whole_env=True
        )
        for job in trial.jobs
    ]
    jobs = tuple(replace(job, run=run) for job, run in zip(trial.jobs, runs))
    return judge.judge(replace(trial, jobs=jobs, controls=())).is_interesting
