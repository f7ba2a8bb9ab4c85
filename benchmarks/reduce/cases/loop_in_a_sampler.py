"""A check script decides: why is there a while loop in a program without loops?

`check_loop.sh` runs a file and looks for a `while` instruction in the HLO that XLA
compiled. The sampler below is unrolled and has no loop of its own; the loop is in the
expansion of JAX's random bits (Threefry) on the CPU. All versions.
"""

import sys
from pathlib import Path

import jax
import numpy as np

from benchmarks.reduce import programs

ORIGIN = "planted"
SCRIPT = Path(__file__).with_name("check_loop.sh")
KEEP = f"command('env PYTHON={sys.executable} {SCRIPT} {{file}}')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1


def program(key, position, x, y, group):
    def log_density(q):
        return programs.hierarchical_log_density(q, x, y, group)

    return programs.hmc(log_density, key, position, samples=1)


PROGRAM = program


def arguments():
    return np.array([0, 42], np.uint32), *programs.survey()


def minimal(key):
    return jax.random.bits(key)


def minimal_arguments():
    return (jax.random.key(0),)
