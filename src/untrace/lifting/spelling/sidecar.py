"""Write large arrays to a safetensors file, and the code that reads it back.

The format: eight bytes of header length (little endian), a JSON header, the bytes of
the arrays. The reader is a few lines of NumPy in the generated module; it refuses a
file whose SHA-256 is not the one that the module was saved with. Nothing is pickled.

Format: https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import hashlib
import json
import os
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
    path = {pathlib}.Path(__file__).with_name(filename)
    if not path.is_file():
        raise FileNotFoundError(f"{{path}} is missing: it holds the constants")
    content = path.read_bytes()
    if {hashlib}.sha256(content).hexdigest() != digest:
        raise ValueError(f"{{path}} was altered since this program was written")
    start = 8 + int.from_bytes(content[:8], "little")
    arrays = {{}}
    for name, entry in {json}.loads(content[8:start]).items():
        code, shape = entry["dtype"], entry["shape"]
        dtype = "?" if code == "BOOL" else f"<{{code[0].lower()}}{{int(code[1:]) // 8}}"
        first, last = (start + offset for offset in entry["data_offsets"])
        arrays[name] = {numpy}.frombuffer(content[first:last], dtype).reshape(shape)
    return arrays
'''

_CALL = "\n\n{constants} = load_arrays({filename}, {digest})\n"

LOADER_MODULES = ("pathlib", "hashlib", "json", "numpy")
"""What the reader needs to import."""


def sidecar_loader(
    filename: str, digest: str, imports: Imports, constants: str = "CONSTANTS"
) -> str:
    """Write the code that loads a sidecar into a dictionary of arrays.

    Args:
      filename: Name of the file, which lies beside the generated module.
      digest: What `write_sidecar` returned.
      imports: Receives the imports that the text needs.
      constants: Name of the module-level dictionary.

    Returns:
      Statements: the function `load_arrays`, and the dictionary made by it.
    """
    function = loader_function({name: imports.module(name) for name in LOADER_MODULES})
    return function + _CALL.format(
        constants=constants, filename=quote(filename), digest=quote(digest)
    )


def loader_function(names: Mapping[str, str]) -> str:
    """Write the reader of a sidecar, given the names of the modules that it imports."""
    return _LOADER.format(**{name: names.get(name, name) for name in LOADER_MODULES})


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
