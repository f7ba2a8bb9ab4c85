"""PyTorch as this package sees it: untyped, and imported only when it is needed."""

from __future__ import annotations

import importlib
from typing import Any

import jax.numpy as jnp

torch: Any = importlib.import_module("torch")
functional: Any = torch.nn.functional

DTYPES: dict[Any, Any] = {
    torch.bool: jnp.bool_,
    torch.uint8: jnp.uint8,
    torch.int8: jnp.int8,
    torch.int16: jnp.int16,
    torch.int32: jnp.int32,
    torch.int64: jnp.int32,
    torch.float16: jnp.float16,
    torch.bfloat16: jnp.bfloat16,
    torch.float32: jnp.float32,
    torch.float64: jnp.float32,
    torch.complex64: jnp.complex64,
    torch.complex128: jnp.complex64,
}
"""What a dtype of torch is in JAX, which has no 64 bits unless it is told to."""

_WIDE = {
    torch.int64: jnp.int64,
    torch.float64: jnp.float64,
    torch.complex128: jnp.complex128,
}


def jax_dtype(dtype: Any) -> Any:
    """The dtype of JAX that stands for one of torch."""
    import jax

    if jax.config.read("jax_enable_x64") and dtype in _WIDE:
        return _WIDE[dtype]
    return DTYPES[dtype]


def torch_dtype(dtype: Any) -> Any:
    """The dtype of torch that stands for one of JAX: integers are those of 64 bits."""
    name = jnp.dtype(dtype).name
    return torch.int64 if name == "int32" else getattr(torch, name)
