"""The functions that `jax.flatten_util.ravel_pytree` returns, which undo it."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax._src import flatten_util as _flatten_util
from jax._src import util as _util

HashablePartial = _util.HashablePartial


def raveled_tree(function: Any) -> Any:
    """Return a tree of zeros for which `ravel_pytree` returns this function.

    Returns:
      The tree, with NumPy arrays as leaves; None if there is none, or it has no leaves.
    """
    if function.f is not _flatten_util.unravel_pytree:
        return None
    treedef, of_leaves = function.args
    if not isinstance(of_leaves, HashablePartial):
        return None
    _, shapes, *typed = of_leaves.args
    dtypes = typed[0] if typed else [np.dtype(np.float32)] * len(shapes)
    leaves = [np.zeros(shape, dtype) for shape, dtype in zip(shapes, dtypes)]
    tree = jax.tree.unflatten(treedef, leaves)
    return tree if _flatten_util.ravel_pytree(tree)[1] == function else None
