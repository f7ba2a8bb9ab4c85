"""A program that fails, recovered by untrace 0.1.0 on jax 0.10.2.

Not verified (verification was switched off).
"""

import jax
import jax.numpy as jnp
import numpy as np


def function(a):
    logarithm = jnp.log(a)
    return logarithm


def example_args():
    a = np.array([-0.13210486], dtype=np.float32)
    return dict(a=a)


if __name__ == "__main__":
    print(jax.jit(function)(**example_args()))
