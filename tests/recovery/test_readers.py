"""Calls of JAX's own public functions are recorded, and of no others."""

import typing

import jax

from untrace import jaxapi


def test_functions_that_a_module_of_jax_imports_are_not_recorded():
    public = [
        (typing.cast, ("jax.experimental.pallas", "cast")),
        (jax.tree_util.tree_map, ("jax.tree_util", "tree_map")),
    ]
    readers = jaxapi.call_readers(iter(public))
    assert jax.tree_util.tree_map.__code__ in readers
    assert typing.cast.__code__ not in readers
