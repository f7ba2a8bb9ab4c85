"""Tell where in native code a process crashes: modules, and offsets in their files.

A handler of the signal asks the C library for the frames, sends them and lets the signal
end the process. It needs Linux on a machine of which it knows where the address of the
instruction is saved; elsewhere nothing is told. Run by path; see `wire`.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import signal
import sys
from collections.abc import Callable, Sequence
from typing import Any

SIGNALS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""What a wrong instruction or address raises, in the thread that it stands in."""

_PC_OFFSETS = {"x86_64": 168, "aarch64": 440}
"""Where `ucontext_t` of the C library holds the address of the instruction, in bytes."""

MAX_FRAMES = 64
GENERATED = "generated code"
_SYSTEM = ("libc.", "libc-", "libm.", "libm-", "libpthread", "ld-linux", "libstdc++")
_SA_SIGINFO = 4
_Handler = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)


class _SigAction(ctypes.Structure):
    _fields_ = (
        ("handler", _Handler),
        ("mask", ctypes.c_ubyte * 128),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_kept: list[Any] = []
"""Handlers, which must live as long as the process."""


def tell_crashes(send: Callable[[list[str]], None]) -> None:
    """Have the frames of a crash sent before it ends the process.

    Args:
      send: Called with the top frames, innermost first, as "module+0xoffset".
    """
    offset = _PC_OFFSETS.get(platform.machine())
    if not sys.platform.startswith("linux") or offset is None:
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "backtrace"):
        return
    raise_signal = getattr(libc, "raise")  # a word of Python
    found = (ctypes.c_void_p * MAX_FRAMES)()
    libc.backtrace(found, MAX_FRAMES)  # loads what it needs, now

    def handle(number: int, _: int, context: int) -> None:
        with contextlib.suppress(Exception):
            at = ctypes.c_uint64.from_address(context + offset).value
            n = libc.backtrace(found, MAX_FRAMES)
            send(top_frames([address or 0 for address in found[:n]], at))
        libc.signal(number, 0)
        raise_signal(number)  # pending until this returns

    handler = _Handler(handle)
    action = _SigAction(handler=handler, flags=_SA_SIGINFO)
    _kept.extend((handler, action))
    for number in SIGNALS:
        libc.sigaction(int(number), ctypes.byref(action), None)


def top_frames(addresses: Sequence[int], at: int) -> list[str]:
    """Name the frames from the instruction that crashed to the first of no system library.

    Args:
      addresses: Those of the frames, innermost first, with those of the handler.
      at: The instruction that crashed.
    """
    start = addresses.index(at) if at in addresses else len(addresses)
    places = _modules()
    named: list[str] = []
    for address in (at, *addresses[start + 1 :]):
        name, offset = _place(address, places)
        named.append(f"{name}+{offset:#x}" if name else GENERATED)
        if not name.startswith(_SYSTEM):
            break
    return named


def _modules() -> list[tuple[int, int, int, str]]:
    """List the files that are mapped: first and last address, offset, name."""
    places: list[tuple[int, int, int, str]] = []
    with open("/proc/self/maps") as file:
        for line in file:
            fields = line.split(maxsplit=5)
            if len(fields) == 6 and fields[5].startswith("/"):
                low, _, high = fields[0].partition("-")
                name = fields[5].strip().rpartition("/")[2]
                places.append((int(low, 16), int(high, 16), int(fields[2], 16), name))
    return places


def _place(address: int, places: list[tuple[int, int, int, str]]) -> tuple[str, int]:
    for low, high, offset, name in places:
        if low <= address < high:
            return name, address - low + offset
    return "", 0
