"""Modules that look like those of an installed library."""

from __future__ import annotations

import functools
import operator
import types
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


def library(text: str) -> types.ModuleType:
    """Execute a text as a module `layers` in `site-packages`."""
    module = types.ModuleType("layers")
    module.__dict__.update(
        jax=jax,
        jnp=jnp,
        lax=jax.lax,
        np=np,
        operator=operator,
        functools=functools,
        NamedTuple=NamedTuple,
    )
    exec(compile(text, "/lib/site-packages/layers.py", "exec"), module.__dict__)
    return module
