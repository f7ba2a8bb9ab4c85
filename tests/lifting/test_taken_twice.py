"""A function that returns one array twice gives the part that the program takes."""

import jax.numpy as jnp

import untrace
from tests.lifting.installed import library


def block(weights, x):
    x = x + jnp.tanh(x @ weights)
    return x, x


def network(params, x):
    h = x
    for weights in params:
        h = block(weights, h)[0]
    return h + x


def test_the_part_that_the_program_takes_is_read():
    src = untrace.source(network)([jnp.eye(3)] * 3, jnp.ones((2, 3)))
    assert src.report.strength == "identical", str(src.report)
    assert "        h = block(weights, h)[0]\n    return h + x\n" in str(src)


def test_a_library_may_hand_it_on():
    module = library("""
class Module:
    def __call__(self, *args):
        out = self.forward(*args)
        return out
""").Module

    class Block(module):
        def __init__(self, weights):
            self.weights = weights

        def forward(self, x):
            return block(self.weights, x)

    def network(params, x):
        h = x
        for weights in params:
            h = Block(weights)(h)[0]
        return h + x

    src = untrace.source(network)([jnp.eye(3)] * 3, jnp.ones((2, 3)))
    assert src.report.strength == "identical", str(src.report)
    assert "        h = forward(weights, h)[0]\n    return h + x\n" in str(src)
