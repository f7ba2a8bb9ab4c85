"""Hand-written equivalents of the programs, in `jax` and `jax.numpy` only.

`program(*args)` of each file takes the arguments of the program of the same name and
returns the hand-written function with arguments of its own plain containers; the leaves
of its results are those of the original's, in the same order.
"""
