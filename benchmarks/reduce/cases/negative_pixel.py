"""A lookup table crashes on the host for one value (planted).

`table_read` is a host callback that reads before its table if a value is negative: the
process ends with SIGSEGV while the compiled program runs. It corrects the gamma of
images in the first equations of a training step; subtracting the black level leaves a
negative pixel. Needs the value.
Fails on every version of JAX.
"""

from functools import partial

import numpy as np

from benchmarks.reduce import programs
from benchmarks.reduce.planted import table_read

ORIGIN = "planted"
KEEP = "crashes(signal='SIGSEGV')"
VERSIONS = ("0.10", "0.12")
MINIMAL = 1


def correct_gamma(images):
    return table_read(images * 0.8 - 0.01) ** 2


PROGRAM = programs.train_step(partial(programs.convnet_loss, augment=correct_gamma))


def arguments():
    params = programs.convnet_params((4, 4, 4, 4))
    return programs.adam_state(params), *programs.images()


def minimal(x):
    return table_read(x)


def minimal_arguments():
    return (np.float32(-1),)
