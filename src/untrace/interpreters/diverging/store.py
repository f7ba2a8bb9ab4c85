"""Where the values of a run are kept: in memory, and in a file what is too much for it.

The file has no name, and is gone with the last value that is in it.
"""

from __future__ import annotations

import tempfile
from typing import Any

import numpy as np

from untrace.interpreters.diverging.distances import Array

MAX_BYTES = 1 << 30
"""Of the values of a run that are kept in memory."""


class Kept:
    """A value, wherever it is.

    Args:
      array: The value.
      file: The file that it is in, if it is not to stay in memory.
      offset: Where it begins there.
    """

    __slots__ = ("_array", "_file", "_offset", "dtype", "shape")

    def __init__(self, array: Array, file: Any = None, offset: int = 0) -> None:
        self.shape, self.dtype = array.shape, array.dtype
        self._array = array if file is None else None
        self._file, self._offset = file, offset

    @property
    def array(self) -> Array:
        """The value; one that is in a file is read where it is looked at."""
        file: Any = self._file
        if self._array is not None:
            return self._array
        size = int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize
        stored = np.memmap(file, np.uint8, "r", self._offset, (size,))
        return stored.view(np.ndarray).view(self.dtype).reshape(self.shape)


class Store:
    """Keeps values."""

    def __init__(self) -> None:
        self._n_bytes = 0
        self._file: Any = None

    def keep(self, array: Array) -> Kept:
        """Keep a value: in memory, until that is too much."""
        if self._n_bytes + array.nbytes <= MAX_BYTES or not array.nbytes:
            self._n_bytes += array.nbytes
            return Kept(array)
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115
        offset = self._file.tell()
        self._file.write(np.ascontiguousarray(array).tobytes())
        self._file.flush()
        return Kept(array, self._file, offset)


class Nowhere(Store):
    """Keeps nothing: for runs whose values are counted alone."""

    def keep(self, array: Array) -> Kept:
        """Forget a value."""
        return Kept(np.empty(0, array.dtype))
