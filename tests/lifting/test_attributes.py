"""Attributes of composites and foreign calls are compiled as what they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import untrace

X = np.ones(3, np.float32)
VALUES = [np.int32(1), np.int64(1), np.uint8(1), 1, True, np.bool_(True), np.float32(1)]


@pytest.mark.parametrize("level", ["lax", "api"])
@pytest.mark.parametrize("key", ["a", "a b", "class"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_attributes_keep_their_types(value, key, level):
    def composite(x):
        made = lax.composite(lambda x, **_: jnp.sin(x), "my.composite")
        return made(x, **{key: value, "other": np.array([1, 2], np.int32)})

    def foreign(x):
        made = jax.ffi.ffi_call("foreign", jax.ShapeDtypeStruct((3,), jnp.float32))
        return made(x, **{key: value, "other": 2})

    for function in (composite, foreign):
        src = untrace.source(function, level=level)(X)
        assert src.report.strength == "identical", str(src)
