"""Attention by blocks in a scan over checkpointed layers: the gradient, in bfloat16."""

from examples import attention


def program():
    return attention.grad_fn, (attention.params, attention.x)
