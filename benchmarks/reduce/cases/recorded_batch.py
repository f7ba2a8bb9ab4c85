"""A host callback aborts the process for long arrays (planted).

`batch_stats` records batches on the host, and its buffer has room for 12 rows: longer
arrays end the process with SIGABRT while the compiled program runs. It is called in the
log-density of a sampler that is scanned, with 13 rows. Needs the size of the first axis.
Fails on every version of JAX.
"""

import numpy as np

from benchmarks.reduce import programs
from benchmarks.reduce.planted import batch_stats

ORIGIN = "planted"
KEEP = "crashes(signal='SIGABRT', message='rows <= 12')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1


def program(key, position, x, y, group):
    def log_density(q):
        rows = batch_stats(x * q["slope"])
        base = programs.hierarchical_log_density(q, x, y, group)
        return base - 0.01 * (rows.sum(-1) ** 2).sum()

    return programs.hmc(log_density, key, position, unrolled=False)


PROGRAM = program


def arguments():
    return np.array([0, 42], np.uint32), *programs.survey(rows=13)


def minimal(x):
    return batch_stats(x)


def minimal_arguments():
    return (np.ones(13, np.float32),)
