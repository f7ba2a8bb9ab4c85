"""Write large arrays to a safetensors file, and the code that reads it back.

The format: eight bytes of header length (little endian), a JSON header, the bytes of
the arrays. The reader is a few lines of NumPy in the generated module; it refuses a
file whose SHA-256 is not the one that the module was saved with. Nothing is pickled.
A text that is printed holds the same bytes as compressed text (`pack`). The readers
import what they need themselves: one is put in the place of the other.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from untrace.errors import SaveError
from untrace.lifting.spelling.base import Imports
from untrace.syntax.files import replace_file
from untrace.syntax.text import quote

ALIGNMENT_BYTES = 8

Array = np.ndarray[Any, np.dtype[Any]]

_LOADER = '''\
def load_arrays(filename, digest):
    """Read the arrays of the safetensors file that lies beside this one."""
    import hashlib
    import json
    import pathlib

    path = pathlib.Path(__file__).with_name(filename)
    if not path.is_file():
        raise FileNotFoundError(f"{{path}} is missing: it holds the constants")
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise ValueError(f"{{path}} was altered since this program was written")
'''

_UNPACKER = '''\
def load_arrays(text):
    """Read arrays from a safetensors file that is written as compressed text."""
    import base64
    import json
    import zlib

    content = zlib.decompress(base64.b85decode(text))
'''

_PARSER = """\
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = {{}}
    for name, entry in json.loads(content[8:start]).items():
        code, shape = entry["dtype"], entry["shape"]
        dtype = "?" if code == "BOOL" else f"<{{code[0].lower()}}{{int(code[1:]) // 8}}"
        first, last = (start + offset for offset in entry["data_offsets"])
        arrays[name] = {numpy}.frombuffer(content[first:last], dtype).reshape(shape)
    return arrays
"""

_CALL = "\n\nCONSTANTS = load_arrays({filename}, {digest})\n"

PACKED_COLS = 80
"""Characters of compressed text in a line."""


def sidecar_loader(filename: str, digest: str, imports: Imports) -> str:
    """Write the code that loads a sidecar into a dictionary of arrays.

    Args:
      filename: Name of the file, which lies beside the generated module.
      digest: What `write_sidecar` returned.
      imports: Receives the imports that the text needs.

    Returns:
      Statements: the function `load_arrays`, and the dictionary `CONSTANTS` made by it.
    """
    function = loader_function(imports.module("numpy"))
    return function + _CALL.format(filename=quote(filename), digest=quote(digest))


def loader_function(numpy: str) -> str:
    """Write the reader of a sidecar, given the name of NumPy."""
    return (_LOADER + _PARSER).format(numpy=numpy)


def unpacker_function(numpy: str) -> str:
    """Write the reader of what `pack` returns, given the name of NumPy."""
    return (_UNPACKER + _PARSER).format(numpy=numpy)


def pack(arrays: Mapping[str, Array]) -> str:
    """Write what a sidecar holds as text, compressed.

    Args:
      arrays: As `write_sidecar` takes them.

    Returns:
      Letters, digits and signs without quotes, backslashes and spaces (RFC 1924).
    """
    content = b"".join(_chunks(arrays))
    return base64.b85encode(zlib.compress(content)).decode("ascii")


def packed_lines(packed: str) -> list[str]:
    """Write what `pack` returned as literals that follow each other, one a line."""
    starts = range(0, len(packed), PACKED_COLS)
    return [quote(packed[start : start + PACKED_COLS]) for start in starts]


def sidecar_digest(arrays: Mapping[str, Array]) -> str:
    """The SHA-256 that the file of these arrays would have, in hexadecimal."""
    digest = hashlib.sha256()
    for chunk in _chunks(arrays):
        digest.update(chunk)
    return digest.hexdigest()


def write_sidecar(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> str:
    """Write a safetensors file; it appears complete or not at all.

    Args:
      path: Where the file goes; replaced if it exists.
      arrays: Booleans, integers and floats that NumPy has (see `storage_view`).

    Returns:
      The SHA-256 of the file, in hexadecimal.

    Raises:
      SaveError: If a dtype has no place in the format, or the file cannot be written.
    """
    target = Path(path)
    digest = hashlib.sha256()

    def chunks() -> Iterator[bytes]:
        for chunk in _chunks(arrays):
            digest.update(chunk)
            yield chunk

    try:
        replace_file(target, chunks())
    except OSError as error:
        raise SaveError(f"cannot write {target}: {error.strerror or error}") from error
    return digest.hexdigest()


def _chunks(arrays: Mapping[str, Array]) -> Iterator[bytes]:
    """Give the header, then the arrays; widest elements first keeps all aligned."""
    order = sorted(arrays, key=lambda name: (-arrays[name].dtype.itemsize, name))
    header: dict[str, Any] = {}
    offset = 0
    for name in order:
        array = arrays[name]
        header[name] = {
            "dtype": _dtype_code(name, array.dtype),
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNMENT_BYTES)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        array = arrays[name]
        yield np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()


def _dtype_code(name: str, dtype: np.dtype[Any]) -> str:
    if dtype.kind == "b":
        return "BOOL"
    if dtype.isbuiltin == 1 and dtype.kind in "iuf" and dtype.itemsize <= 8:
        return f"{dtype.kind.upper()}{dtype.itemsize * 8}"
    raise SaveError(
        f"cannot store array `{name}` of dtype {dtype} in a safetensors file. "
        "Store the view that `storage_view` gives."
    )
