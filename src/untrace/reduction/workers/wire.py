"""Frames and arrays as bytes: how jobs and outcomes travel between processes.

A frame is a JSON object and raw bytes, each preceded by its length. Arrays are described
in the object (dtype name, shape) and follow as bytes. Nothing is pickled or evaluated,
so a child that runs a broken program cannot run code in its parent.

This file and its neighbours `child`, `blame` and `server` are run by path, also by
Python installations without this package: they import the standard library, NumPy, JAX
and, relatively, each other and the loop and the search for NaNs of `interpreters`.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable
from typing import IO, Any, NamedTuple

import numpy as np

_LENGTHS = struct.Struct(">IQ")
MAX_HEADER_BYTES = 1 << 28

_PYTHON: dict[str, Callable[[str], Any]] = {
    "bool": lambda text: text == "True",
    "int": int,
    "float": float,
    "complex": complex,
}


class BrokenFrame(Exception):
    """The stream does not continue with a frame."""


class Encoded(NamedTuple):
    """An array, a typed PRNG key or a Python number, as bytes.

    `kind` is "array", "key" (then `impl` names its generator) or "python" (then `dtype`
    is "bool", "int", "float" or "complex"). `is_weak` tells whether its type is weak.
    """

    kind: str
    dtype: str
    shape: tuple[int, ...]
    data: bytes
    is_weak: bool = False
    impl: str = ""


def encode(value: Any, is_weak: bool = False) -> Encoded:
    """Encode an input or output of a program.

    Args:
      value: NumPy or JAX array, typed PRNG key array, or Python number.
      is_weak: Its type is weak; Python numbers and weak JAX arrays always are.

    Raises:
      TypeError: If the value is none of these.
    """
    if isinstance(value, (bool, int, float, complex)) and not isinstance(
        value, np.generic
    ):
        data = repr(value).encode()
        is_weak = not isinstance(value, bool)
        return Encoded("python", type(value).__name__, (), data, is_weak)
    if _is_key(value):
        import jax.random

        data = encode(np.asarray(jax.random.key_data(value)))
        return data._replace(kind="key", impl=str(jax.random.key_impl(value)))
    is_weak = is_weak or bool(getattr(value, "weak_type", False))
    array = np.asarray(value)
    name = "float0" if array.dtype == _float0() else array.dtype.name
    if array.dtype.kind in "OUSmM":
        raise TypeError(f"cannot send an array of dtype {array.dtype} to a worker")
    return Encoded("array", name, array.shape, array.tobytes(), is_weak)


def decode(encoded: Encoded) -> Any:
    """Return a NumPy array (for a key: of its key data), or a Python number."""
    if encoded.kind == "python":
        return _PYTHON[encoded.dtype](encoded.data.decode())
    dtype = _dtype(encoded.dtype)
    if not encoded.data:
        return np.empty(encoded.shape, dtype)
    return np.frombuffer(encoded.data, dtype).reshape(encoded.shape)


def decode_for_jax(encoded: Encoded) -> Any:
    """Return a JAX array, a key array or a Python number, weak if it was."""
    import jax
    import jax.numpy as jnp

    value = decode(encoded)
    if encoded.kind == "python":
        return value
    if encoded.kind == "key":
        return jax.random.wrap_key_data(value, impl=encoded.impl)
    if encoded.dtype == "float0":
        return value
    array = jnp.asarray(value)
    if not encoded.is_weak:
        return array
    plain = {"f": 0.0, "i": 0, "b": False, "c": 0j}[array.dtype.kind]
    empty = jax.lax.broadcast(jnp.asarray(plain), array.shape)
    if empty.dtype != array.dtype:  # such as a weak float16: JAX has no number for it
        return array
    return empty.at[...].set(array)


def write_frame(
    stream: IO[bytes], header: dict[str, Any], arrays: Iterable[Encoded] = ()
) -> None:
    """Write a frame and flush it."""
    arrays = list(arrays)
    described = [
        [a.kind, a.dtype, a.shape, a.is_weak, a.impl, len(a.data)] for a in arrays
    ]
    text = json.dumps({**header, "arrays": described}).encode()
    size = sum(len(a.data) for a in arrays)
    stream.write(_LENGTHS.pack(len(text), size) + text)
    for array in arrays:
        stream.write(array.data)
    stream.flush()


def read_frame(stream: IO[bytes]) -> tuple[dict[str, Any], tuple[Encoded, ...]] | None:
    """Read a frame; None at the end of the stream.

    Raises:
      BrokenFrame: If the stream ends within a frame or holds something else.
    """
    first = stream.read(1)
    if not first:
        return None
    lengths = first + _exactly(stream, _LENGTHS.size - 1)
    n_text, n_data = _LENGTHS.unpack(lengths)
    if n_text > MAX_HEADER_BYTES:
        raise BrokenFrame("this is not a frame")
    text, data = _exactly(stream, n_text), _exactly(stream, n_data)
    try:
        header: dict[str, Any] = json.loads(text)
        arrays: list[Encoded] = []
        start = 0
        for kind, dtype, shape, is_weak, impl, size in header.pop("arrays"):
            content = data[start : start + size]
            arrays.append(Encoded(kind, dtype, tuple(shape), content, is_weak, impl))
            start += size
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenFrame(f"this is not a frame: {error}") from error
    return header, tuple(arrays)


def frame_bytes(buffer: bytes | bytearray) -> int | None:
    """Return the size of the frame a buffer begins with; None if it is too short."""
    if len(buffer) < _LENGTHS.size:
        return None
    n_text, n_data = _LENGTHS.unpack(buffer[: _LENGTHS.size])
    return _LENGTHS.size + n_text + n_data


def _exactly(stream: IO[bytes], size: int) -> bytes:
    parts: list[bytes] = []
    while size:
        part = stream.read(min(size, 1 << 24))
        if not part:
            raise BrokenFrame("the stream ends within a frame")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _is_key(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    if dtype is None or isinstance(dtype, np.dtype):
        return False
    import jax
    import jax.numpy as jnp

    return bool(jnp.issubdtype(dtype, jax.dtypes.prng_key))


def _float0() -> np.dtype[Any]:
    return np.dtype([("float0", np.void, 0)])


def _dtype(name: str) -> np.dtype[Any]:
    if name == "float0":
        return _float0()
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes  # comes with JAX

        return np.dtype(getattr(ml_dtypes, name))
