"""Print how long the first verdict about a program of many equations takes.

python -m benchmarks.reduce.first_verdict [EQUATIONS ...]
"""

from __future__ import annotations

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from untrace.reduction.applying import program_from
from untrace.reduction.keeping.automatic import Auto
from untrace.reduction.program import Program
from untrace.reduction.trials import Judge, prepare

PER_STEP = 6


def program(n_equations: int) -> Program:
    """Make a program of about so many equations, the last of which makes a NaN."""

    def oscillator(x: Array, y: Array) -> Array:
        for i in range(n_equations // PER_STEP):
            x = jnp.sin(x) * 0.9 + y
            y = y * 0.5 - x / (i + 2.0)
        return jnp.log(x - x) * 0 + y

    values = (np.ones(8, np.float32),) * 2
    return program_from(
        jax.make_jaxpr(oscillator)(*values), values, ("x", "y"), "oscillator"
    )


def main() -> None:
    judge = Judge(Auto())
    judge.judge_program(program(PER_STEP))  # a worker is there
    for word in sys.argv[1:] or ("500", "1500", "5000", "10000"):
        large = program(int(word))
        started = time.monotonic()
        trial = prepare(large, judge.keep)
        assert trial is not None
        verdict = judge.judge(trial)
        seconds = time.monotonic() - started
        n = len(large.block.equations)
        print(
            f"{n:,} equations: {seconds:.1f} s, {verdict.outcomes[0].blame}", flush=True
        )


if __name__ == "__main__":
    main()
