"""A process that has imported JAX and forks a fresh child for every job.

It reads jobs from its standard input and writes outcomes to its standard output, as
frames (see `wire`). It never initialises a backend, so that its children may. It
enforces the limits of a job, ends everything that a job started, and tells how its
child ended. With `--once` (where there is no fork) it runs a single job in its own
process, and whoever started it watches it.

Run by path, also by Python installations without this package.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import io
import os
import select
import signal
import sys
import threading
import time
import types
import warnings
from typing import IO, Any, NoReturn

if __name__ == "__main__":
    # A package like ours but without what its modules import: this installation may not
    # have ours.
    _folder = os.path.dirname(os.path.abspath(__file__))
    __package__ = "_untrace.reduction.workers"
    for _name in ("_untrace.reduction.workers", "_untrace.reduction", "_untrace"):
        _package = types.ModuleType(_name)
        _package.__path__ = [_folder]
        sys.modules[_name] = _package
        _folder = os.path.dirname(_folder)
    sys.path.pop(0)  # the folder of this file, whose names are no one else's business

from . import child, wire

_TAIL_BYTES = 8_192
_MAX_READS = 64
_TICK_S = 0.05
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def main() -> None:
    """Serve jobs until the standard input closes."""
    stdin, stdout = _private_streams()
    found = wire.read_frame(stdin)
    if found is None:
        return
    sys.path[:] = _search_path(found[0]["path"])
    is_once = "--once" in sys.argv
    if not is_once:
        _prepare()
    hello = {"hello": True, "jax": importlib.metadata.version("jax")}
    wire.write_frame(stdout, hello)
    parent = os.getppid()
    while _is_asked(stdin, parent):
        found = wire.read_frame(stdin)
        if found is None:
            return
        if is_once:
            _perform_here(found, stdout)
        _serve(found, stdin, stdout)


def _private_streams() -> tuple[IO[bytes], IO[bytes]]:
    """Move the protocol away from the standard streams, which programs may use."""
    stdin = os.fdopen(os.dup(0), "rb", buffering=0)
    stdout = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
    return stdin, stdout


def _search_path(wanted: list[str]) -> list[str]:
    return [*sys.path, *(item for item in wanted if item not in sys.path)]


def _prepare() -> None:
    """Import and trace what every child needs, without touching a backend."""
    import gc

    import jax
    import jax.numpy as jnp
    import numpy as np

    for name in ("builtin", "mhlo"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"jaxlib.mlir.dialects.{name}")
    jax.make_jaxpr(lambda x: jnp.sin(x) + 1)(np.ones(3, np.float32))
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    gc.collect()
    gc.freeze()


def _is_asked(stdin: IO[bytes], parent: int) -> bool:
    """Wait for the next job; False if nobody can send one any more."""
    if not hasattr(select, "poll"):
        return True
    waiting = select.poll()
    waiting.register(stdin, select.POLLIN | select.POLLHUP)
    while not waiting.poll(2_000):
        if os.getppid() != parent:  # others may hold the pipe's other end
            return False
    return True


def _perform_here(found: tuple[dict[str, Any], Any], stdout: IO[bytes]) -> NoReturn:
    header, arrays = found
    sys.path[:] = _search_path(header["path"])
    if header["memory_bytes"]:
        watch = threading.Thread(
            target=_watch_own_memory, args=(header["memory_bytes"], stdout), daemon=True
        )
        watch.start()
    child.perform(header, arrays, stdout)
    os._exit(0)


def _watch_own_memory(limit: int, stdout: IO[bytes]) -> None:
    """Fallback where nobody can look from outside."""
    while _own_bytes() <= limit:
        time.sleep(_TICK_S)
    wire.write_frame(stdout, {"status": "memory", "final": True})
    os._exit(0)


def _own_bytes() -> int:
    """Return the memory that this process holds; where unknown, the most it held.

    Linux must not be asked for the most: a process inherits that of its parent.
    """
    if held := _resident_bytes(os.getpid()):
        return held
    try:
        import resource
    except ImportError:  # Windows has no limit
        return 0
    unit = 1 if sys.platform == "darwin" else 1_024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _serve(
    found: tuple[dict[str, Any], tuple[wire.Encoded, ...]],
    stdin: IO[bytes],
    stdout: IO[bytes],
) -> None:
    header, arrays = found
    reports, to_reports = os.pipe()
    errors, to_errors = os.pipe()
    with warnings.catch_warnings():  # JAX warns of forks; there is no backend yet
        warnings.simplefilter("ignore")
        pid = os.fork()
    if pid == 0:
        _become_child(to_errors)
        sys.path[:] = _search_path(header["path"])
        for stream in (stdin, stdout):
            stream.close()
        with os.fdopen(to_reports, "wb") as stream:
            child.perform(header, arrays, stream)
        os._exit(0)
    os.close(to_reports)
    os.close(to_errors)
    wire.write_frame(stdout, {"child": pid})
    watch = _Watch(pid, reports, errors, header, stdin)
    try:
        outcome, outputs = watch.outcome()
    finally:
        watch.close()
    wire.write_frame(stdout, outcome, outputs)


def _become_child(to_errors: int) -> None:
    """Leave the server's group, terminal and streams; die with it; leave no cores."""
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(to_errors, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    import resource

    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # if memory runs out, this process is to go first
    # With 1 instead of 0 the kernel does not start a core handler either.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))


class _Watch:
    """Follows a child to its end and tells what it came to."""

    def __init__(
        self, pid: int, reports: int, errors: int, header: dict[str, Any], stdin: Any
    ) -> None:
        self.pid, self.reports, self.errors = pid, reports, errors
        self.stdin = stdin
        self.deadline = time.monotonic() + header["timeout_s"]
        self.memory_bytes: int | None = header["memory_bytes"]
        self.tail = bytearray()
        self.buffer = bytearray()
        self.last: dict[str, Any] = {"stage": "load", "seconds": {}}
        self.began = time.monotonic()
        self.final: tuple[dict[str, Any], tuple[wire.Encoded, ...]] | None = None
        # Without a handle the end of the child is found at the next tick.
        self.handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
        os.set_blocking(reports, False)
        os.set_blocking(errors, False)

    def close(self) -> None:
        """Close the pipes."""
        for file in (self.reports, self.errors, self.handle):
            if file is not None:
                os.close(file)

    def outcome(self) -> tuple[dict[str, Any], tuple[wire.Encoded, ...]]:
        """Wait for the child, end what is left of it, return fields of an `Outcome`."""
        status = self._wait()
        cpu = _cpu_seconds(self.pid) if status else None
        ended = self._end()
        self._read()
        stderr = self.tail.decode(errors="replace")
        if self.final is not None:
            header, arrays = self.final
            return {**header, "stderr": stderr}, arrays
        seconds = dict(self.last["seconds"])
        stage = self.last["stage"]
        seconds[stage] = seconds.get(stage, 0.0) + time.monotonic() - self.began
        cpu_seconds = dict(self.last.get("cpu_seconds", {}))
        if cpu is not None:
            spent = sum(cpu_seconds.values())
            rest = max(0.0, cpu - spent)
            cpu_seconds[stage] = cpu_seconds.get(stage, 0.0) + rest
        header = {**self.last, "seconds": seconds, "cpu_seconds": cpu_seconds}
        header |= {"stderr": stderr, "final": True}
        if "status" in header:  # it had run, and ended while it looked for more
            return header, ()
        if status:
            return {**header, "status": status}, ()
        if os.WIFSIGNALED(ended):
            return {**header, "status": "died", "signal": os.WTERMSIG(ended)}, ()
        return {**header, "status": "died", "exit_status": os.WEXITSTATUS(ended)}, ()

    def _wait(self) -> str:
        """Wait until the child ends or reports its outcome; "" if it did by itself."""
        waiting = select.poll()
        waiting.register(self.reports, select.POLLIN)
        waiting.register(self.errors, select.POLLIN)
        waiting.register(self.stdin, 0)  # its closing alone
        if self.handle is not None:
            waiting.register(self.handle, select.POLLIN)
        while True:
            for file, event in waiting.poll(_TICK_S * 1_000):
                if file == self.stdin.fileno():
                    self._end()
                    os._exit(0)
                if file != self.handle and not event & select.POLLIN:
                    waiting.unregister(file)  # the child closed it
            self._read()
            if self.final is not None or self._has_ended():
                return ""
            if time.monotonic() > self.deadline:
                return "timeout"
            if self.memory_bytes and _resident_bytes(self.pid) > self.memory_bytes:
                return "memory"

    def _has_ended(self) -> bool:
        # WNOWAIT leaves it to `_end`; some grandchild may hold the pipes open.
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, flags) is not None

    def _read(self) -> None:
        """Take in what the pipes hold."""
        self.tail = (self.tail + _read_all(self.errors))[-_TAIL_BYTES:]
        self.buffer += _read_all(self.reports)
        for header, arrays in _frames(self.buffer):
            if header.get("final"):
                self.final = header, arrays
            else:
                self.last, self.began = header, time.monotonic()

    def _end(self) -> int:
        """Kill the child, its group and whatever else it left; return its status."""
        _kill_group(self.pid)  # not yet waited for: the number is still its own
        _, status = os.waitpid(self.pid, 0)
        _reap_others()
        return status


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def _reap_others() -> None:
    """Kill descendants that left the child's group: they are our children now."""
    for _ in range(100):
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            for orphan in _own_children():
                _kill_group(orphan)
            time.sleep(0.001)


def _own_children() -> list[int]:
    names = os.listdir("/proc") if os.path.isdir("/proc") else []
    return [int(n) for n in names if n.isdigit() and _parent_of(n) == os.getpid()]


def _parent_of(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return None


def _cpu_seconds(pid: int) -> float | None:
    """Return the processor time of a process; None where nobody tells."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return None


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def _read_all(pipe: int) -> bytes:
    """Return what a pipe holds now; some of it, where a program writes without end."""
    parts: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        while len(parts) < _MAX_READS and (part := os.read(pipe, 1 << 20)):
            parts.append(part)
    return b"".join(parts)


def _frames(buffer: bytearray) -> list[tuple[dict[str, Any], tuple[wire.Encoded, ...]]]:
    """Take the whole frames from the front of a buffer."""
    found: list[tuple[dict[str, Any], tuple[wire.Encoded, ...]]] = []
    while (size := wire.frame_bytes(buffer)) is not None and size <= len(buffer):
        with contextlib.suppress(wire.BrokenFrame):
            frame = wire.read_frame(io.BytesIO(bytes(buffer[:size])))
            if frame is not None:
                found.append(frame)
        del buffer[:size]
    return found


def _prctl(option: int, value: int) -> None:
    """Set a property of this process, where there is Linux."""
    if not sys.platform.startswith("linux"):
        return
    import ctypes

    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


if __name__ == "__main__":
    main()
